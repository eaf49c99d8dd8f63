//! Objects, coded by several threads and written in the order of their pieces.
//!
//! A thread reads a piece, compares it with its hash, codes it, waits until all pieces before it know how long they are, which says where it goes,
//! and then writes it while others go on ([`Watch::in_turn`]).

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use zipwire_codec::{
    Base, Codec, ContainerBuilder, ContainerError, DEFAULT_CHUNK_VALUES, DType, EncodeError, Layout, Spec,
};

use crate::file::plan::{against, alternatives, for_bytes, supports, width};
use crate::file::{FileError, Frames, LEAST_BYTES, LEAST_SAVING, Watch, at};
use crate::store::add::Item;
use crate::store::address::{
    NO_DTYPE, PIECE, PieceHash, dtype_bytes, hash_of_piece, hash_of_pieces, pieces_of,
};
use crate::store::object::{Chain, HEADER_BYTES, OTHER_HASH, ObjectHeader, Scratch, chunk_len, frame_dtype};
use crate::store::{Address, Store, StoreError};

/// The values of an item, wherever they are.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Origin<'a> {
    /// A file, from its byte `at` on.
    File { path: &'a Path, at: u64 },
    /// An object that is there already, with what it is differences from.
    Object(&'a Chain),
}

impl Origin<'_> {
    /// Fills `out` with whole chunks from byte `at` of the values on.
    fn read(&self, at: u64, out: &mut [u8], scratch: &mut Scratch) -> Result<(), StoreError> {
        match self {
            Self::File { path, at: start } => read_source(path, start + at, out),
            Self::Object(chain) => chain.read(at, out, scratch),
        }
    }

    /// The values are not those that were hashed.
    fn changed(&self) -> StoreError {
        match self {
            Self::File { path, .. } => StoreError::Changed { path: (*path).to_owned() },
            Self::Object(chain) => StoreError::object(chain.header().address, OTHER_HASH),
        }
    }

    fn unfit(&self, error: EncodeError) -> StoreError {
        match self {
            Self::File { path, .. } => FileError::Encode { path: (*path).to_owned(), source: error }.into(),
            Self::Object(chain) => StoreError::object(chain.header().address, error.to_string()),
        }
    }
}

/// An object that is to be made.
#[derive(Debug)]
pub(crate) struct Job<'a> {
    pub(crate) origin: Origin<'a>,
    pub(crate) item: &'a Item,
    pub(crate) address: Address,
    pub(crate) hashes: &'a [PieceHash],
    pub(crate) plan: Plan,
}

/// A file that is being written, by as many threads as have pieces of it.
struct Staged {
    file: File,
    path: PathBuf,
    /// Pieces that are not written yet.
    left: AtomicU64,
}

/// The object whose next piece it is.
struct Building {
    staged: Arc<Staged>,
    at: u64,
    builder: Option<ContainerBuilder>,
    hashes: Vec<PieceHash>,
}

#[derive(Default)]
struct Turn {
    building: Option<Building>,
    stored: Vec<u64>,
}

/// Buffers of one thread.
#[derive(Default)]
struct Piece {
    raw: Vec<u8>,
    frames: Frames,
    hash: PieceHash,
    scratch: Scratch,
}

/// Place of a piece in its object's file, with the container's header and index where it is the first or last.
struct Taken {
    staged: Arc<Staged>,
    at: u64,
    front: Vec<u8>,
    back: Vec<u8>,
    header: Option<[u8; HEADER_BYTES]>,
}

/// A piece of an object.
#[derive(Clone, Copy)]
struct Place<'a> {
    /// Number of its object.
    index: usize,
    job: &'a Job<'a>,
    /// Its number in the object.
    within: u64,
    is_last: bool,
}

/// Writes objects into `folder`, where each is called by its number, and puts them on the disk. Gives the length of each.
pub(crate) fn write_objects(
    store: &Store,
    jobs: &[Job<'_>],
    folder: &Path,
    watch: &Watch<'_>,
) -> Result<Vec<u64>, StoreError> {
    let mut firsts = vec![0];
    firsts.extend(jobs.iter().scan(0, |sum, job| {
        *sum += pieces_of(job.item.bytes);
        Some(*sum)
    }));
    let place = |number: u64| {
        let index = firsts.partition_point(|first| *first <= number) - 1;
        let (job, within) = (&jobs[index], number - firsts[index]);
        Place { index, job, within, is_last: number + 1 == firsts[index + 1] }
    };
    let chains: Vec<Mutex<Option<Arc<Chain>>>> = jobs.iter().map(|_| Mutex::new(None)).collect();
    let prepare = |number, piece: &mut Piece| -> Result<(), StoreError> {
        let Place { index, job, within, is_last } = place(number);
        piece.read(job, within)?;
        if job.plan.coding.is_some() {
            let chain = chain_of(store, job, &chains[index])?;
            piece.encode(job, within, chain.as_deref())?;
        }
        piece.hash = hash_of_piece(piece.body(job));
        if is_last {
            lock(&chains[index]).take();
        }
        Ok(())
    };
    let take = |number, piece: &Piece, turn: &mut Turn| {
        let place = place(number);
        Ok((turn.take(place, piece, folder)?, place.job))
    };
    let write = |piece: &Piece, (taken, job): (Taken, &Job<'_>)| {
        taken.write(piece.body(job))?;
        (watch.done)(piece.raw.len() as u64);
        Ok(())
    };
    Ok(watch.in_turn(firsts[jobs.len()], Turn::default(), prepare, take, write)?.stored)
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // A thread that panics ends them all: who has started it passes it on.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The chain of the base, opened once for all pieces of an object.
fn chain_of(
    store: &Store,
    job: &Job<'_>,
    known: &Mutex<Option<Arc<Chain>>>,
) -> Result<Option<Arc<Chain>>, StoreError> {
    let Some(base) = job.plan.base else { return Ok(None) };
    let mut known = lock(known);
    if known.is_none() {
        *known = Some(Arc::new(Chain::open(store, base)?));
    }
    Ok(known.clone())
}

impl Piece {
    fn read(&mut self, job: &Job<'_>, within: u64) -> Result<(), StoreError> {
        let start = within * PIECE;
        self.raw.resize(PIECE.min(job.item.bytes - start) as usize, 0);
        job.origin.read(start, &mut self.raw, &mut self.scratch)?;
        if hash_of_piece(&self.raw) != job.hashes[within as usize] {
            return Err(job.origin.changed());
        }
        Ok(())
    }

    /// Makes the frames of its chunks.
    fn encode(&mut self, job: &Job<'_>, within: u64, chain: Option<&Chain>) -> Result<(), StoreError> {
        self.frames.clear();
        let Some((spec, dtype)) = &job.plan.coding else { return Ok(()) };
        let chunk_len = chunk_len(*dtype);
        let first = within * PIECE / chunk_len;
        for (chunk, values) in (first..).zip(self.raw.chunks(chunk_len as usize)) {
            let spec = match chain {
                Some(chain) => {
                    let base = chain.read_chunk(chunk, &mut self.scratch)?.to_vec();
                    spec.clone().against(zipwire_codec::Base::new(*dtype, base))
                }
                None => spec.clone(),
            };
            let pushed = self.frames.push(&*spec.codec(), *dtype, values);
            pushed.map_err(|error| job.origin.unfit(error))?;
        }
        Ok(())
    }

    /// The bytes that are written for the piece: as they are, or its frames.
    fn body(&self, job: &Job<'_>) -> &[u8] {
        match job.plan.coding {
            None => &self.raw,
            Some(_) => self.frames.bytes(),
        }
    }
}

impl Turn {
    /// Adds the next piece to the object that is being written, and reserves its place.
    fn take(
        &mut self,
        Place { index, job, within, is_last }: Place<'_>,
        piece: &Piece,
        folder: &Path,
    ) -> Result<Taken, StoreError> {
        let unfit = |error: ContainerError| StoreError::object(job.address, error.to_string());
        let mut front = Vec::new();
        if within == 0 {
            let path = staged_path(folder, index);
            let file = File::create_new(&path).map_err(FileError::io("create", &path))?;
            let left = AtomicU64::new(pieces_of(job.item.bytes));
            let mut builder = None;
            if let Some((_, dtype)) = job.plan.coding {
                let made = ContainerBuilder::new(dtype, DEFAULT_CHUNK_VALUES).map_err(unfit)?;
                front.extend(made.header());
                builder = Some(made);
            }
            let staged = Arc::new(Staged { file, path, left });
            self.building = Some(Building { staged, at: HEADER_BYTES as u64, builder, hashes: Vec::new() });
        }
        let building = self.building.as_mut().expect("the first piece of the object has made it");
        building.hashes.push(piece.hash);
        let mut back = Vec::new();
        if let Some(builder) = &mut building.builder {
            piece.frames.iter().try_for_each(|frame| builder.push(frame)).map_err(unfit)?;
            if is_last {
                let builder = building.builder.take().expect("it is there until the last piece");
                back = builder.finish(&[]).map_err(unfit)?;
            }
        }
        let at = building.at;
        building.at += (front.len() + piece.body(job).len() + back.len()) as u64;
        let mut taken = Taken { staged: building.staged.clone(), at, front, back, header: None };
        if is_last {
            let building = self.building.take().expect("it was there a moment ago");
            let header = ObjectHeader {
                address: job.address,
                dtype: dtype_bytes(&job.item.dtype),
                bytes: job.item.bytes,
                stored: building.at - HEADER_BYTES as u64,
                is_coded: job.plan.coding.is_some(),
                base: job.plan.base,
                hash: hash_of_pieces(&building.hashes),
            };
            taken.header = Some(header.to_bytes());
            self.stored.push(building.at);
        }
        Ok(taken)
    }
}

impl Taken {
    /// Writes a piece, and puts the object on the disk if it was the last one that was not written.
    fn write(self, body: &[u8]) -> Result<(), StoreError> {
        let Staged { file, path, left } = &*self.staged;
        let write = FileError::io("write", path);
        let mut at = self.at;
        for bytes in [&self.front[..], body, &self.back] {
            at::write_all(file, bytes, at).map_err(&write)?;
            at += bytes.len() as u64;
        }
        if let Some(header) = self.header {
            at::write_all(file, &header, 0).map_err(&write)?;
        }
        if left.fetch_sub(1, Ordering::AcqRel) == 1 {
            file.sync_all().map_err(&write)?;
        }
        Ok(())
    }
}

/// Where an object is before it is in its place.
pub(crate) fn staged_path(folder: &Path, index: usize) -> PathBuf {
    folder.join(index.to_string())
}

/// Reads bytes of a file that is to be stored. One that is shorter by now has changed.
pub(crate) fn read_source(path: &Path, at: u64, out: &mut [u8]) -> Result<(), StoreError> {
    let file = File::open(path).map_err(FileError::io("read", path))?;
    at::read_exact(&file, out, at).map_err(|error| match error.kind() {
        std::io::ErrorKind::UnexpectedEof => StoreError::Changed { path: path.to_owned() },
        _ => FileError::io("read", path)(error).into(),
    })
}

/// Chunks of a sample at the most.
const SAMPLES: u64 = 4;
/// Bytes beside the frames of a container.
const AROUND: usize = 48;

/// Codecs of a store.
#[derive(Clone, Debug)]
pub(crate) struct Codecs {
    /// For whole values: a sample says which.
    plain: Vec<Spec>,
    /// For differences.
    delta: Spec,
}

/// The codecs for an item, of which a sample chooses.
struct Ways {
    dtype: DType,
    plain: Vec<Spec>,
    delta: Spec,
}

impl Codecs {
    /// The codecs for whole values and for differences that a spec stands for, with or without `delta+` in front. What has no differences takes
    /// those of `rans`.
    pub(crate) fn new(spec: &Spec) -> Result<Self, StoreError> {
        const DELTA: &str = "delta+";
        const FOR_DELTAS: &str = "delta+rans";
        let text = spec.to_string();
        let unfit = |source| StoreError::Codec { spec: text.clone(), source };
        let plain: Spec = text.strip_prefix(DELTA).unwrap_or(&text).parse().map_err(unfit)?;
        plain.clone().for_rows(1).complete().map_err(unfit)?;
        let plain = alternatives(&plain);
        let delta = against(&plain[0]).or_else(|_| FOR_DELTAS.parse()).expect("this codec has differences");
        Ok(Self { plain, delta })
    }

    /// The ways in which an item may be kept beside as it is; none if that is as short.
    fn of(&self, item: &Item) -> Option<Ways> {
        let dtype = DType::from_name(&item.dtype).filter(|_| item.dtype != NO_DTYPE);
        if let Some(dtype) = dtype {
            let fits = |plain: &&Spec| supports(plain, dtype);
            let mut plain: Vec<Spec> = self.plain.iter().filter(fits).cloned().collect();
            if plain.is_empty() {
                plain.push("rans".parse().expect("it is a codec"));
            }
            plain.iter_mut().for_each(|spec| *spec = spec.clone().for_rows(item.row));
            return Some(Ways { dtype, plain, delta: self.delta.clone() });
        }
        let bytes = for_bytes(width(&item.dtype));
        let delta = against(&bytes).expect("differences of bytes are coded");
        let ways = Ways { dtype: frame_dtype(&item.dtype), plain: vec![bytes], delta };
        (item.bytes >= LEAST_BYTES).then_some(ways)
    }
}

/// How the values of an item are kept.
#[derive(Clone, Debug, Default)]
pub(crate) struct Plan {
    /// Codec and type of the frames; `None` if the values are stored as they are.
    pub(crate) coding: Option<(Spec, DType)>,
    /// The object that they are differences from, if they are.
    pub(crate) base: Option<Address>,
}

pub(crate) fn encode(
    spec: &Spec,
    dtype: DType,
    values: &[u8],
    base: Option<Vec<u8>>,
) -> Result<Vec<u8>, EncodeError> {
    let codec = match base {
        Some(base) => spec.clone().against(Base::new(dtype, base)).codec(),
        None => spec.codec(),
    };
    codec.encode_to_vec(Layout::Compact, dtype, values)
}

/// Objects that differences may be taken from: those of a chain, from the one that is by itself on.
pub(crate) struct Bases<'a> {
    pub(crate) links: Vec<Address>,
    /// Gives the values of a chunk of the links, with their numbers: of those that [`Bases::is_wanted`] names, or of more.
    #[expect(clippy::type_complexity, reason = "a function that calls one for each link")]
    pub(crate) visit:
        Box<dyn Fn(u64, &mut Scratch, &mut dyn FnMut(usize, &[u8])) -> Result<(), StoreError> + 'a>,
}

impl Bases<'_> {
    /// Whether differences from a link are measured: from the last one, or, if the chain takes no more behind it, from all.
    pub(crate) fn is_wanted(link: usize, len: usize, longest: usize) -> bool {
        link + 1 == len || (len >= longest && link + 1 < longest)
    }
}

/// A plan, and what a sample says of it.
#[derive(Debug)]
pub(crate) struct Choice {
    pub(crate) plan: Plan,
    /// Bytes that the object will take, its header included, if the rest is like the sample.
    pub(crate) estimate: u64,
    /// Why no differences are taken, if the bases are damaged.
    pub(crate) trouble: Option<StoreError>,
}

/// Chooses the plan that takes the fewest bytes on a sample of an item's chunks, in a chain of `longest` objects at the most.
///
/// # Errors
/// If the values cannot be read. Bases that are damaged are none; then their error is given beside.
pub(crate) fn choose(
    origin: Origin<'_>,
    item: &Item,
    mut bases: Option<Bases<'_>>,
    codecs: &Codecs,
    longest: usize,
) -> Result<Choice, StoreError> {
    let whole = item.bytes + HEADER_BYTES as u64;
    let as_it_is = |trouble| Choice { plan: Plan::default(), estimate: whole, trouble };
    let Some(Ways { dtype, plain, delta }) = codecs.of(item).filter(|_| item.bytes > 0) else {
        return Ok(as_it_is(None));
    };
    let (mut scratch, mut base_scratch, mut trouble) = (Scratch::default(), Scratch::default(), None);
    let chunk_len = chunk_len(dtype);
    let chunks = item.bytes.div_ceil(chunk_len);
    let count = SAMPLES.min(chunks);
    let (mut raw, mut full) = (0, vec![AROUND; plain.len()]);
    let len = bases.as_ref().map_or(0, |bases| bases.links.len());
    // By the number of the link that differences are taken from.
    let mut differing = vec![None; len];
    for number in 0..count {
        let chunk = (2 * number + 1) * chunks / (2 * count);
        let start = chunk * chunk_len;
        let mut values = vec![0; chunk_len.min(item.bytes - start) as usize];
        origin.read(start, &mut values, &mut scratch)?;
        raw += values.len();
        for (spec, full) in plain.iter().zip(&mut full) {
            *full += encode(spec, dtype, &values, None).map_err(|error| origin.unfit(error))?.len();
        }
        let Some(open) = &bases else { continue };
        let mut failed = None;
        let visited = (open.visit)(chunk, &mut base_scratch, &mut |link, base| {
            if Bases::is_wanted(link, len, longest) {
                match encode(&delta, dtype, &values, Some(base.to_vec())) {
                    Ok(frame) => *differing[link].get_or_insert(AROUND) += frame.len(),
                    Err(error) => failed = Some(error),
                }
            }
        });
        if let Some(error) = failed {
            return Err(origin.unfit(error));
        }
        if let Err(error) = visited {
            trouble = Some(error);
            bases = None;
        }
    }
    let (full, plain) = full.into_iter().zip(plain).min_by_key(|(len, _)| *len).expect("there is a codec");
    let base = bases.and_then(|bases| {
        // Links that are not given are no choice.
        let differing: Vec<usize> = differing.iter().map(|size| size.unwrap_or(usize::MAX)).collect();
        pick(full, &differing, longest).map(|link| (bases.links[link], differing[link]))
    });
    let (base, taken) = base.map_or((None, full), |(base, taken)| (Some(base), taken));
    if taken as f64 > (1.0 - LEAST_SAVING) * raw as f64 {
        return Ok(as_it_is(trouble));
    }
    let spec = if base.is_some() { delta } else { plain };
    let estimate = HEADER_BYTES as u64 + (taken as f64 / raw as f64 * item.bytes as f64) as u64;
    Ok(Choice { plan: Plan { coding: Some((spec, dtype)), base }, estimate, trouble })
}

/// Which link of a chain to take differences from, if any: `full` is the size without, and `differing` that of the differences from each link.
///
/// While the chain has room, that is its last link or none. A chain that is full is left at a link before: one near the end costs
/// little now and leaves little room, so what counts is the mean over the checkpoints until the chain is full again, if their
/// differences are like those from the last link.
fn pick(full: usize, differing: &[usize], longest: usize) -> Option<usize> {
    let last = differing.len().checked_sub(1)?;
    let usual = differing[last] as f64;
    if differing.len() < longest {
        return (differing[last] < full).then_some(last);
    }
    // With `links` of them in front, as many more fit behind it.
    let mean = |size: usize, links: usize| {
        let more = (longest - links - 1) as f64;
        (size as f64 + more * usual) / (1.0 + more)
    };
    let links = 0..last.min(longest.saturating_sub(1));
    let best = links.map(|link| (mean(differing[link], link + 1), link)).min_by(|a, b| a.0.total_cmp(&b.0));
    best.filter(|(size, link)| *size < mean(full, 0) && differing[*link] < full).map(|(_, link)| link)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chain_grows_until_it_is_full() {
        assert_eq!(pick(66, &[], 8), None);
        assert_eq!(pick(66, &[15], 8), Some(0));
        assert_eq!(pick(66, &[70], 8), None);
        assert_eq!(pick(66, &[40, 30, 20, 15], 5), Some(3));
        // Full: from the first one, behind which as many fit as behind a full one but one.
        assert_eq!(pick(66, &[30, 28, 26, 24, 22, 20, 18, 15], 8), Some(0));
        // If values have run away, a new chain begins.
        assert_eq!(pick(66, &[65, 64, 64, 63, 63, 62, 60, 15], 8), None);
        // Little grows with distance: one in the middle is as good as any, and none is better than the first.
        assert_eq!(pick(66, &[15; 8], 8), Some(0));
        assert_eq!(pick(66, &[15], 1), None);
        assert_eq!(pick(66, &[15, 15], 1), None);
    }
}
