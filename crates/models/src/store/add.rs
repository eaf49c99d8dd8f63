//! Adding files, cut into parts, to a store as a checkpoint.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::fs::File;
use std::ops::Range;
use std::path::{Component, Path, PathBuf};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use zipwire_codec::Spec;

use crate::file::archive::{Member, members, type_of_values};
use crate::file::{FileError, Foreign, Header, HeaderError, TensorInfo, Watch, files_below, open_input};
use crate::store::address::{DTYPE_BYTES, NO_DTYPE, PIECE, PieceHash, address_of, hash_of_piece, pieces_of};
use crate::store::encode::{
    Bases, Codecs, Job, Origin, Plan, choose, read_source, staged_path, write_objects,
};
use crate::store::manifest::{Manifest, Part, StoredFile, WITH_ROUNDED, folder_that_is_a_file, is_within};
use crate::store::object::{Chain, LONGEST_WRITTEN};
use crate::store::writer::Headers;
use crate::store::{Address, FORMAT_VERSION, Store, StoreError, Writer, check_id, rounded};

/// Objects of a chain at the most, unless something else is asked for.
pub const DEFAULT_CHAIN: usize = 8;
/// How many checkpoints are looked at for one that has the same tensors.
const LOOKED_AT: usize = 16;

/// The checkpoint that a new one's differences are taken from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Parent {
    /// The newest checkpoint of which at least half of the tensors are the same by name, type and length.
    #[default]
    Auto,
    /// Nothing: all tensors that are not there yet are coded by themselves.
    None,
    /// This checkpoint.
    Id(String),
}

/// How a checkpoint is added.
#[derive(Clone, Debug)]
pub struct Addition {
    /// Its name.
    pub id: String,
    /// The checkpoint that differences are taken from.
    pub parent: Parent,
    /// The codec of whole values; differences are coded with `delta+` in front of it, or by `delta+rans` if it has none.
    pub spec: Spec,
    /// Objects of a chain at the most: so many are decoded to restore a tensor.
    pub chain: usize,
    /// Whether files may be left out that an index of shards names.
    pub allow_missing: bool,
    /// Whether bytes behind the last tensor of a safetensors file are stored; without, such a file is refused.
    pub keep_trailing: bool,
}

/// Result of adding a checkpoint.
#[derive(Debug)]
pub struct Added {
    /// The manifest that was written.
    pub manifest: Manifest,
    /// Bytes of new objects and of the manifest.
    pub bytes_stored: u64,
    /// Tensors and other parts that were there already, and that are kept as differences, and by themselves.
    pub parts: Parts,
    /// The longest chain of an object.
    pub chain: usize,
    /// Files that are not what their names say, and why tensors are kept by themselves that could be differences if their parent were
    /// not damaged.
    pub troubles: Vec<StoreError>,
}

/// How parts of a checkpoint are kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Parts {
    /// Parts whose values the store had already, or that this checkpoint has twice.
    pub same: usize,
    /// BF16 tensors that are the rounding of F32 ones of the checkpoint, and take nothing.
    pub rounded: usize,
    /// Parts that are kept as differences.
    pub delta: usize,
    /// Parts that are coded by themselves.
    pub full: usize,
}

/// Adds a checkpoint. Memory is a few MiB for each thread, whatever the files have, and what is said of their tensors.
///
/// `watch` is told of all bytes twice: when they have been looked at and when they are stored.
///
/// # Errors
/// [`StoreError::IdTaken`], [`StoreError::NoCheckpoint`] for a parent that is not there, [`StoreError::MissingShard`],
/// [`StoreError::Changed`] if a file is being written; if a file cannot be read or is damaged, the system refuses something, or `watch` says to stop. Then the checkpoint is not there.
pub fn add(
    writer: &Writer<'_>,
    inputs: &[PathBuf],
    addition: &Addition,
    watch: &Watch<'_>,
) -> Result<Added, StoreError> {
    let store = writer.store();
    check_id(&addition.id)?;
    if !(1..=LONGEST_WRITTEN).contains(&addition.chain) {
        return Err(StoreError::Chain { found: addition.chain, most: LONGEST_WRITTEN });
    }
    if store.has(&addition.id) {
        return Err(StoreError::IdTaken { id: addition.id.clone() });
    }
    let codecs = Codecs::new(&addition.spec)?;
    let Gathered { sources, items, mut troubles } = gather(inputs, addition.keep_trailing, watch)?;
    if !addition.allow_missing {
        sources.iter().try_for_each(|source| check_index(source, &sources))?;
    }
    let (sequence, parent) = find_parent(writer, &addition.parent, &items)?;
    let before = parent.as_ref().map(Before::of).unwrap_or_default();
    let hashes = hash_all(&sources, &items, watch)?;
    let addresses: Vec<Address> =
        items.iter().zip(&hashes).map(|(item, hashes)| address_of(&item.dtype, item.bytes, hashes)).collect();
    let rounded = rounded::find(&sources, &items, &hashes, watch)?;
    let new = new_objects(store, &items, &addresses, &rounded, watch);
    let (plans, damaged) =
        plan_all(writer, &sources, &items, &addresses, &new, &before, &codecs, addition, watch)?;
    troubles.extend(damaged);
    let job = |(&number, plan): (&usize, Plan)| {
        let (item, address) = (&items[number], addresses[number]);
        let origin = sources[item.source].origin(item);
        Job { origin, item, address, hashes: &hashes[number], plan }
    };
    let jobs: Vec<Job<'_>> = new.iter().zip(plans).map(job).collect();
    let staged = writer.stage()?;
    let stored = write_objects(store, &jobs, staged.path(), watch)?;
    let manifest = Manifest {
        version: if rounded.iter().any(Option::is_some) { WITH_ROUNDED } else { FORMAT_VERSION },
        id: addition.id.clone(),
        sequence,
        created_unix_s: SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs()),
        parent: parent.map(|parent| parent.id),
        files: stored_files(&sources, &items, &addresses, &rounded),
    };
    watch.go_on()?;
    writer.set_unswept(true)?;
    let placed =
        jobs.iter().enumerate().map(|(number, job)| (job.address, staged_path(staged.path(), number)));
    writer.place(&placed.collect::<Vec<_>>())?;
    let delta = jobs.iter().filter(|job| job.plan.base.is_some()).count();
    let rounded = rounded.iter().flatten().count();
    let same = items.len() - jobs.len() - rounded;
    let parts = Parts { same, rounded, delta, full: jobs.len() - delta };
    let mut headers = Headers::new(store);
    let mut chain = 0;
    for address in manifest.objects() {
        chain = chain.max(headers.chain_len(address)?.unwrap_or(0));
    }
    let bytes_stored = stored.iter().sum::<u64>() + manifest.to_text().len() as u64;
    // A pin of a checkpoint that had this name and is gone is not this one's.
    writer.set_pinned(&manifest.id, false)?;
    writer.publish(&staged, &manifest)?;
    // The checkpoint is there. Where the mark stays, the next writer looks once in vain.
    let _ = writer.set_unswept(false);
    Ok(Added { manifest, bytes_stored, parts, chain, troubles })
}

/// Indices of the items whose objects are to be made: each object once, and not those that are there, with all that they are differences from,
/// as far as their headers and lengths tell. The bytes of all others count as done.
fn new_objects(
    store: &Store,
    items: &[Item],
    addresses: &[Address],
    rounded: &[Option<usize>],
    watch: &Watch<'_>,
) -> Vec<usize> {
    let mut seen = HashSet::new();
    let mut new = Vec::new();
    for (number, (item, address)) in items.iter().zip(addresses).enumerate() {
        if rounded[number].is_none() && seen.insert(*address) && Chain::open(store, *address).is_err() {
            new.push(number);
        } else {
            (watch.done)(item.bytes);
        }
    }
    new
}

/// The number of the next checkpoint, and the one that differences are taken from.
fn find_parent(
    writer: &Writer<'_>,
    parent: &Parent,
    items: &[Item],
) -> Result<(u64, Option<Manifest>), StoreError> {
    let store = writer.store();
    let mut manifests = Vec::new();
    for id in store.ids()? {
        match store.manifest(&id) {
            Ok(manifest) => manifests.push(manifest),
            // What is damaged is no reason to add nothing more: `verify` names it.
            Err(StoreError::Manifest { .. } | StoreError::Version { .. }) => {}
            Err(error) => return Err(error),
        }
    }
    manifests.sort_by_key(|manifest| std::cmp::Reverse(manifest.sequence));
    let sequence = manifests.first().map_or(0, |newest| newest.sequence.saturating_add(1));
    let parent = match parent {
        Parent::None => None,
        Parent::Id(id) => Some(store.manifest(id)?),
        Parent::Auto => {
            let wanted: HashSet<(&str, &str, u64)> = items
                .iter()
                .filter_map(|item| Some((item.tensor.as_deref()?, item.dtype.as_str(), item.bytes)))
                .collect();
            manifests.into_iter().take(LOOKED_AT).find(|manifest| {
                let parts = manifest.files.iter().flat_map(|file| &file.parts);
                let found: HashSet<(&str, &str, u64)> = parts
                    .filter_map(|part| Some((part.tensor.as_deref()?, part.dtype.as_str(), part.bytes)))
                    .filter(|part| wanted.contains(part))
                    .collect();
                !found.is_empty() && 2 * found.len() >= wanted.len()
            })
        }
    };
    Ok((sequence, parent))
}

/// Tensors of a checkpoint that differences are taken from.
#[derive(Default)]
pub(crate) struct Before<'a> {
    /// By file and name; of files that were cut in another way, by name.
    of_file: HashMap<(&'a str, &'a str), &'a Part>,
    anywhere: HashMap<&'a str, Vec<&'a Part>>,
}

impl<'a> Before<'a> {
    pub(crate) fn of(manifest: &'a Manifest) -> Self {
        let mut before = Self::default();
        for file in &manifest.files {
            for part in file.parts.iter().filter(|part| part.rounded_from.is_none()) {
                let Some(name) = part.tensor.as_deref() else { continue };
                before.of_file.insert((&file.path, name), part);
                before.anywhere.entry(name).or_default().push(part);
            }
        }
        before
    }

    /// The object for a tensor of the same name, type and length: in the file of the same path, or anywhere.
    pub(crate) fn find(&self, path: &str, tensor: Option<&str>, dtype: &str, bytes: u64) -> Option<Address> {
        let name = tensor?;
        let fits = |part: &&&Part| part.dtype == dtype && part.bytes == bytes;
        let found = self.of_file.get(&(path, name)).filter(fits);
        found.or_else(|| self.anywhere.get(name)?.iter().find(fits)).map(|part| part.object)
    }
}

fn hash_all(
    sources: &[Source],
    items: &[Item],
    watch: &Watch<'_>,
) -> Result<Vec<Vec<PieceHash>>, StoreError> {
    let pieces: Vec<(usize, u64)> = items
        .iter()
        .enumerate()
        .flat_map(|(number, item)| (0..pieces_of(item.bytes)).map(move |piece| (number, piece)))
        .collect();
    let hashes: Vec<OnceLock<PieceHash>> = pieces.iter().map(|_| OnceLock::new()).collect();
    watch.for_each(pieces.len(), |number, values| {
        let (item, piece) = pieces[number];
        let item = &items[item];
        values.resize(PIECE.min(item.bytes - piece * PIECE) as usize, 0);
        read_source(&sources[item.source].path, item.at + piece * PIECE, values)?;
        hashes[number].get_or_init(|| hash_of_piece(values));
        (watch.done)(values.len() as u64);
        Ok::<_, StoreError>(())
    })?;
    let mut hashes = hashes.into_iter().map(|hash| hash.into_inner().expect("all of them were made"));
    Ok(items.iter().map(|item| hashes.by_ref().take(pieces_of(item.bytes) as usize).collect()).collect())
}

/// How each of the new objects is kept.
#[expect(clippy::too_many_arguments, reason = "what is known of them")]
fn plan_all(
    writer: &Writer<'_>,
    sources: &[Source],
    items: &[Item],
    addresses: &[Address],
    new: &[usize],
    before: &Before<'_>,
    codecs: &Codecs,
    addition: &Addition,
    watch: &Watch<'_>,
) -> Result<(Vec<Plan>, Vec<StoreError>), StoreError> {
    let plans: Vec<OnceLock<Plan>> = new.iter().map(|_| OnceLock::new()).collect();
    let troubles = Mutex::new(Vec::new());
    watch.for_each(new.len(), |number, _| {
        let item = &items[new[number]];
        let source = &sources[item.source];
        // One that is damaged is replaced by one that is by itself: others may be differences from it.
        let is_damaged = writer.store().object_path(addresses[new[number]]).exists();
        let parent = before.find(&source.name, item.tensor.as_deref(), &item.dtype, item.bytes);
        let parent = parent.filter(|_| !is_damaged);
        let (chain, trouble) = match parent.map(|parent| Chain::open(writer.store(), parent)).transpose() {
            Ok(chain) => (chain, None),
            Err(error) => (None, Some(error)),
        };
        let bases = chain.as_ref().map(|chain| Bases {
            links: chain.addresses().collect(),
            visit: Box::new(|chunk, scratch, visit| chain.visit_chunk(chunk, scratch, visit)),
        });
        let choice = choose(source.origin(item), item, bases, codecs, addition.chain)?;
        plans[number].get_or_init(|| choice.plan);
        let found = [trouble, choice.trouble].into_iter().flatten();
        troubles.lock().unwrap_or_else(PoisonError::into_inner).extend(found);
        Ok::<_, StoreError>(())
    })?;
    let plans = plans.into_iter().map(|plan| plan.into_inner().expect("all of them were made"));
    Ok((plans.collect(), troubles.into_inner().unwrap_or_else(PoisonError::into_inner)))
}

/// The files of a manifest, with their parts.
fn stored_files(
    sources: &[Source],
    items: &[Item],
    addresses: &[Address],
    rounded: &[Option<usize>],
) -> Vec<StoredFile> {
    let mut rest = items.iter().enumerate().peekable();
    let file = |(number, source): (usize, &Source)| {
        let mut parts = Vec::new();
        while let Some((part, item)) = rest.next_if(|(_, item)| item.source == number) {
            parts.push(Part {
                tensor: item.tensor.clone(),
                dtype: item.dtype.clone(),
                bytes: item.bytes,
                object: addresses[rounded[part].unwrap_or(part)],
                rounded_from: rounded[part].map(|_| rounded::FROM.to_owned()),
            });
        }
        StoredFile { path: source.name.clone(), bytes: source.bytes, parts }
    };
    sources.iter().enumerate().map(file).collect()
}

/// Ending of the names of files with tensors.
pub(crate) const SAFETENSORS: &str = ".safetensors";
/// Ending of the names of files that say which shard has which tensor.
const INDEX: &str = ".index.json";
/// Longest index that is read: those of models with a million tensors have less.
const LONGEST_INDEX: u64 = 256 << 20;

#[derive(Debug)]
pub(crate) struct Source {
    pub(crate) path: PathBuf,
    name: String,
    bytes: u64,
}

impl Source {
    fn origin(&self, item: &Item) -> Origin<'_> {
        Origin::File { path: &self.path, at: item.at }
    }
}

/// Refuses an index that names a file beside it which is not among those that are stored. What is no index by its content names none.
fn check_index(index: &Source, sources: &[Source]) -> Result<(), StoreError> {
    #[derive(serde::Deserialize)]
    struct Index {
        weight_map: HashMap<String, String>,
    }
    if !index.name.ends_with(INDEX) || index.bytes > LONGEST_INDEX {
        return Ok(());
    }
    let text = std::fs::read(&index.path).map_err(FileError::io("read", &index.path))?;
    let Ok(Index { weight_map }) = serde_json::from_slice(&text) else { return Ok(()) };
    let folder = index.name.rsplit_once('/').map_or(String::new(), |(folder, _)| format!("{folder}/"));
    let known: HashSet<&str> =
        sources.iter().filter_map(|source| source.name.strip_prefix(&folder)).collect();
    let named: BTreeSet<&str> = weight_map.values().map(String::as_str).collect();
    let mut missing = named.into_iter().filter(|shard| !known.contains(shard));
    match missing.next() {
        Some(shard) => Err(StoreError::MissingShard {
            index: index.path.clone(),
            shard: shard.to_owned(),
            more: missing.count(),
        }),
        None => Ok(()),
    }
}

/// Successive bytes of a file.
#[derive(Debug)]
pub(crate) struct Item {
    /// Number of its file.
    pub(crate) source: usize,
    /// Name of the tensor, if it is one, or of the first and the last one of several.
    pub(crate) tensor: Option<String>,
    pub(crate) dtype: String,
    pub(crate) row: usize,
    /// Where it begins in the file.
    pub(crate) at: u64,
    pub(crate) bytes: u64,
}

/// Files that are to be stored, and their parts.
struct Gathered {
    sources: Vec<Source>,
    items: Vec<Item>,
    /// Files that are not what their names say.
    troubles: Vec<StoreError>,
}

/// All files, ordered by their names, and their parts. A folder is stored as the files below it, with the names that they have in it.
///
/// # Errors
/// If a file cannot be read or is a safetensors file that is cut or damaged, two have the same name, or there are none; if `watch` says to stop.
fn gather(inputs: &[PathBuf], keep_trailing: bool, watch: &Watch<'_>) -> Result<Gathered, StoreError> {
    let mut named = Vec::new();
    for input in inputs {
        if input.is_dir() {
            for file in files_below(input)? {
                let name = name_of(file.strip_prefix(input).unwrap_or(&file), &file)?;
                named.push((name, file));
            }
        } else {
            let name = input.file_name().map_or(Path::new(""), Path::new);
            named.push((name_of(name, input)?, input.clone()));
        }
    }
    named.sort();
    if named.is_empty() {
        return Err(StoreError::NoFiles);
    }
    if let Some(pair) = named.windows(2).find(|pair| pair[0].0 == pair[1].0) {
        return Err(StoreError::SamePath { path: pair[0].0.clone() });
    }
    if let Some(path) =
        folder_that_is_a_file(&named.iter().map(|(name, _)| name.as_str()).collect::<BTreeSet<_>>())
    {
        return Err(StoreError::SamePath { path: path.to_owned() });
    }
    let (mut sources, mut items, mut troubles) = (Vec::new(), Vec::new(), Vec::new());
    for (number, (name, path)) in named.into_iter().enumerate() {
        watch.go_on()?;
        let bytes = cut((number, &name, &path), keep_trailing, &mut items, &mut troubles, watch)?;
        sources.push(Source { path, name, bytes });
    }
    Ok(Gathered { sources, items, troubles })
}

/// The name in a checkpoint.
fn name_of(within: &Path, path: &Path) -> Result<String, StoreError> {
    let bad = |why| StoreError::BadPath { path: path.to_owned(), why };
    let mut names = Vec::new();
    for component in within.components() {
        let Component::Normal(name) = component else { return Err(bad("it has no name")) };
        names.push(name.to_str().ok_or_else(|| bad("its name is not UTF-8"))?);
    }
    let name = names.join("/");
    if is_within(&name) { Ok(name) } else { Err(bad("it has no name")) }
}

/// Adds the parts of a file, and gives its length. A file of another format, under the name of one with tensors, is one part and a trouble.
fn cut(
    (source, name, path): (usize, &str, &Path),
    keep_trailing: bool,
    items: &mut Vec<Item>,
    troubles: &mut Vec<StoreError>,
    watch: &Watch<'_>,
) -> Result<u64, StoreError> {
    let read = FileError::io("read", path);
    let file = open_input(path).map_err(&read)?;
    let no_tensor =
        |bytes: u64| Item { source, tensor: None, dtype: NO_DTYPE.to_owned(), row: 1, at: 0, bytes };
    let len = file.metadata().map_err(&read)?.len();
    if !name.ends_with(SAFETENSORS) {
        match Foreign::of(&file).filter(|format| format.has_parts()) {
            Some(format) => cut_archive((source, len), (&file, path), format, items, watch)?,
            None => items.push(no_tensor(len)),
        }
        return Ok(len);
    }
    let read = if keep_trailing { Header::read_with_trailing } else { Header::read };
    let header = match (read(&file), Foreign::of(&file)) {
        (Ok(header), _) => header,
        (Err(error), foreign) => {
            match (error, foreign) {
                // One that is compressed already is kept as it is.
                (HeaderError::Compressed, _) => {}
                (_, Some(format)) => {
                    troubles.push(FileError::Foreign { path: path.to_owned(), format }.into());
                }
                (source, None) => return Err(FileError::Header { path: path.to_owned(), source }.into()),
            }
            items.push(no_tensor(len));
            return Ok(len);
        }
    };
    let values_at = header.bytes().len() as u64;
    items.push(no_tensor(values_at));
    let tensors = header.tensors();
    let end = tensors.last().map_or(0, |tensor| tensor.range.end);
    let is_small = |tensor: &TensorInfo| tensor.bytes() < SMALL;
    for alike in tensors.chunk_by(|a, b| is_small(a) && is_small(b) && a.dtype == b.dtype) {
        let together = if alike.len() < LEAST_RUN { 1 } else { LONGEST_RUN };
        items.extend(alike.chunks(together).map(|run| item_of(source, values_at, run)));
    }
    Ok(values_at + end)
}

/// Members of archives from so many bytes on are parts of their own; the archive has some hundred bytes between two of them.
const LEAST_MEMBER: u64 = 64 << 10;

/// Adds the parts of an archive of tensors: members that have values, and the bytes between them. What only begins as an archive is one part.
fn cut_archive(
    (source, len): (usize, u64),
    (file, path): (&File, &Path),
    format: Foreign,
    items: &mut Vec<Item>,
    watch: &Watch<'_>,
) -> Result<(), StoreError> {
    let members = match members(file, path, format) {
        Err(FileError::Archive { .. }) => Vec::new(),
        members => members?,
    };
    let (mut seen, mut end) = (0, 0);
    let mut add = |tensor: Option<String>, dtype: &str, range: Range<u64>| {
        if !range.is_empty() {
            let (at, bytes, dtype) = (range.start, range.end - range.start, dtype.to_owned());
            items.push(Item { source, tensor, dtype, row: 1, at, bytes });
        }
    };
    for Member { name, range, dtype } in members {
        if range.start < seen || range.end - range.start < LEAST_MEMBER {
            continue;
        }
        seen = range.end;
        watch.go_on()?;
        let sampled = || type_of_values(file, &range).map_err(FileError::io("read", path));
        let Some(dtype) = dtype.map_or_else(sampled, |dtype| Ok(Some(dtype)))? else { continue };
        add(None, NO_DTYPE, end..range.start);
        end = range.end - (range.end - range.start) % dtype.width() as u64;
        add(Some(name), dtype.name(), range.start..end);
    }
    add(None, NO_DTYPE, end..len);
    Ok(())
}

/// Bytes of a tensor that is not small: what is below has less than its object takes on a disk.
const SMALL: u64 = 4096;
/// Successive small tensors of one type that are stored together, at the least and at the most.
const LEAST_RUN: usize = 16;
const LONGEST_RUN: usize = 4096;

/// The part of successive tensors, called by the first one and the last one.
fn item_of(source: usize, values_at: u64, run: &[TensorInfo]) -> Item {
    let (first, last) = (&run[0], &run[run.len() - 1]);
    let (name, row) = match run {
        [one] => (one.name.clone(), one.shape.last().copied().unwrap_or(1)),
        _ => (format!("{} to {}", first.name, last.name), 1),
    };
    Item {
        source,
        at: values_at + first.range.start,
        bytes: last.range.end - first.range.start,
        row,
        tensor: Some(name),
        dtype: if is_storable(&first.dtype) { &first.dtype } else { NO_DTYPE }.to_owned(),
    }
}

/// Whether objects and manifests have room for the name of a type; others are stored as bytes, and are as the header says when they are restored.
fn is_storable(dtype: &str) -> bool {
    (1..=DTYPE_BYTES).contains(&dtype.len()) && dtype.bytes().all(|byte| byte.is_ascii_graphic())
}
