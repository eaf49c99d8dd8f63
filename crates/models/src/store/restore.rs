//! Restoring the files of a checkpoint.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use crate::file::{FileError, OutputFolder, Watch, at, folder};

use crate::store::address::{PIECE, PieceHash, address_of, hash_of_piece, pieces_of};
use crate::store::layout::is_absent;
use crate::store::manifest::{Manifest, Part, StoredFile};
use crate::store::object::{Chain, NOT_THERE, OTHER_HASH, Scratch};
use crate::store::{Store, StoreError, rounded};

/// Writes the files of a checkpoint into the folder `out`, byte for byte, and compares what is written with its addresses. A new folder appears when all
/// of it is on the disk, or not at all; in one that is there, with `force`, files of the same names are replaced ([`OutputFolder::finish`]).
///
/// # Errors
/// Errors of [`OutputFolder::begin`]: a store is no output; [`StoreError::NoCheckpoint`];
/// [`StoreError::Damaged`]; [`StoreError::Removed`] if another process removes it meanwhile; if the system refuses something, or `watch` says to stop.
pub fn restore(
    store: &Store,
    id: &str,
    out: &Path,
    force: bool,
    watch: &Watch<'_>,
) -> Result<Manifest, StoreError> {
    Ok(write_files(store, id, out, force, watch, &None)?.manifest)
}

/// A checkpoint as far as it came back.
#[derive(Debug)]
pub struct Salvaged {
    /// The checkpoint.
    pub manifest: Manifest,
    /// Parts that are zeros, in the order of the files.
    pub missing: Vec<Missing>,
}

/// A part of a file that is zeros, as what is kept of it is damaged.
#[derive(Debug)]
pub struct Missing {
    /// The file.
    pub file: String,
    /// Name of the tensor, or `the header`, or `the file`.
    pub tensor: String,
    /// Where it begins in the file.
    pub at: u64,
    /// Bytes of it.
    pub bytes: u64,
    /// The damage: [`StoreError::Damaged`].
    pub error: StoreError,
}

/// Writes the files of a checkpoint as [`restore`] does, but with zeros for what is damaged.
///
/// # Errors
/// Errors of [`restore`], without [`StoreError::Damaged`].
pub fn salvage(
    store: &Store,
    id: &str,
    out: &Path,
    force: bool,
    watch: &Watch<'_>,
) -> Result<Salvaged, StoreError> {
    write_files(store, id, out, force, watch, &Some(Mutex::default()))
}

/// Parts that are damaged, by number. None where the first one ends it all.
type Damage = Option<Mutex<BTreeMap<usize, StoreError>>>;

fn write_files(
    store: &Store,
    id: &str,
    out: &Path,
    force: bool,
    watch: &Watch<'_>,
    damage: &Damage,
) -> Result<Salvaged, StoreError> {
    let manifest = store.manifest(id)?;
    let staged = OutputFolder::begin(out, force)?;
    let names: Vec<PathBuf> = manifest.files.iter().map(|file| PathBuf::from(&file.path)).collect();
    OutputFolder::refuse_names(out, &names)?;
    let root = staged.root();
    for file in &manifest.files {
        let path = root.join(&file.path);
        fs::create_dir_all(folder(&path)).map_err(FileError::io("create", out))?;
        let made = File::create_new(&path).and_then(|made| made.set_len(file.bytes));
        made.map_err(FileError::io("write", &out.join(&file.path)))?;
    }
    let write = |file: &StoredFile, at, values: &[u8]| -> Result<(), StoreError> {
        let shown = out.join(&file.path);
        let write = FileError::io("write", &shown);
        let opened = OpenOptions::new().write(true).open(root.join(&file.path)).map_err(&write)?;
        Ok(at::write_all(&opened, values, at).map_err(&write)?)
    };
    let missing = decode_all(store, &manifest, watch, damage, write)?;
    watch.for_each(manifest.files.len(), |number, _| {
        let path = root.join(&manifest.files[number].path);
        let synced = OpenOptions::new().write(true).open(&path).and_then(|file| file.sync_all());
        Ok::<_, StoreError>(synced.map_err(FileError::io("write", &out.join(&manifest.files[number].path)))?)
    })?;
    staged.finish()?;
    Ok(Salvaged { manifest, missing })
}

/// Decodes all of a checkpoint and compares it with its addresses.
///
/// # Errors
/// Errors of [`restore`].
pub fn check(store: &Store, id: &str, watch: &Watch<'_>) -> Result<(), StoreError> {
    decode_all(store, &store.manifest(id)?, watch, &None, |_, _, _| Ok(())).map(drop)
}

/// State of a part while its pieces are decoded.
struct Decoding<'a> {
    file: &'a StoredFile,
    part: &'a Part,
    /// Where it begins in its file.
    at: u64,
    chain: Mutex<Option<Arc<Chain>>>,
    hashes: Vec<OnceLock<PieceHash>>,
}

/// Gives all values with the file and the place in it, in pieces and in no order. Parts that are damaged are given as zeros, as far as anything of
/// them was given, and named in the result; without `damage` the first one is an error.
fn decode_all(
    store: &Store,
    manifest: &Manifest,
    watch: &Watch<'_>,
    damage: &Damage,
    take: impl Fn(&StoredFile, u64, &[u8]) -> Result<(), StoreError> + Sync,
) -> Result<Vec<Missing>, StoreError> {
    let work = Work { store, manifest, damage };
    let parts = work.parts()?;
    let pieces: Vec<(usize, u64)> = parts
        .iter()
        .enumerate()
        .flat_map(|(number, part)| (0..part.hashes.len() as u64).map(move |piece| (number, piece)))
        .collect();
    watch.for_each(pieces.len(), |number, values| {
        let (number, piece) = pieces[number];
        let decoding = &parts[number];
        let chain = decoding.chain(store);
        match chain.and_then(|chain| chain.read_piece(piece, values, &mut Scratch::default())) {
            Ok(()) => {
                decoding.hashes[piece as usize].get_or_init(|| hash_of_piece(values));
                if decoding.part.rounded_from.is_some() {
                    let from = std::mem::take(values);
                    rounded::round(&from, values);
                }
                take(decoding.file, decoding.place(piece).start, values)?;
            }
            Err(error) => {
                lock(&decoding.chain).take();
                work.give_up(number, decoding.file, decoding.part, error)?;
            }
        }
        // The files are closed as soon as nobody needs them.
        if decoding.hashes.iter().all(|hash| hash.get().is_some()) {
            lock(&decoding.chain).take();
        }
        (watch.done)(values.len() as u64);
        Ok::<_, StoreError>(())
    })?;
    for (number, Decoding { file, part, hashes, .. }) in parts.iter().enumerate() {
        let hashes: Option<Vec<PieceHash>> = hashes.iter().map(|hash| hash.get().copied()).collect();
        let (dtype, bytes) = part.of_object();
        if hashes.is_some_and(|hashes| address_of(dtype, bytes, &hashes) != part.object) {
            work.give_up(number, file, part, StoreError::object(part.object, OTHER_HASH))?;
        }
    }
    let damaged = damage.as_ref().map(|damage| std::mem::take(&mut *lock(damage)));
    let missing = |(number, error): (usize, StoreError)| {
        let Decoding { file, part, at, hashes, .. } = &parts[number];
        for (piece, _) in (0..).zip(hashes).filter(|(_, hash)| hash.get().is_some()) {
            let place = parts[number].place(piece);
            take(file, place.start, &vec![0; (place.end - place.start) as usize])?;
        }
        let (file, tensor) = (file.path.clone(), part_name(file, part));
        Ok(Missing { file, tensor, at: *at, bytes: part.bytes, error })
    };
    damaged.unwrap_or_default().into_iter().map(missing).collect()
}

/// A checkpoint that is decoded.
struct Work<'a> {
    store: &'a Store,
    manifest: &'a Manifest,
    damage: &'a Damage,
}

impl<'a> Work<'a> {
    /// All parts, each with a place for the hashes of its pieces; for none, if it is given up.
    fn parts(&self) -> Result<Vec<Decoding<'a>>, StoreError> {
        let mut parts = Vec::new();
        for file in &self.manifest.files {
            let mut at = 0;
            for part in &file.parts {
                // What a manifest says is not believed before there is an object with as many chunks.
                let found =
                    self.store.open_object(part.object).and_then(|object| match object.header.bytes {
                        bytes if bytes == part.of_object().1 => Ok(pieces_of(bytes)),
                        _ => Err(StoreError::object(part.object, "it has not the length of its part")),
                    });
                let count = match found {
                    Ok(count) => count,
                    Err(error) => self.give_up(parts.len(), file, part, error).map(|()| 0)?,
                };
                let hashes = (0..count).map(|_| OnceLock::new()).collect();
                parts.push(Decoding { file, part, at, chain: Mutex::new(None), hashes });
                at += part.bytes;
            }
        }
        Ok(parts)
    }

    /// Gives up the part with this number if it is damaged and all goes on without.
    fn give_up(
        &self,
        number: usize,
        file: &StoredFile,
        part: &Part,
        error: StoreError,
    ) -> Result<(), StoreError> {
        let is_damage = error.is_damage() || is_absent(&error);
        match (named(self.store, self.manifest, file, part, error), self.damage) {
            (error @ StoreError::Damaged { .. }, Some(damage)) if is_damage => {
                lock(damage).entry(number).or_insert(error);
                Ok(())
            }
            (error, _) => Err(error),
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // A thread that panics ends them all: who has started it passes it on.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Decoding<'_> {
    /// Bytes of the file that a piece of the object is.
    fn place(&self, piece: u64) -> Range<u64> {
        let (begin, end) = (piece * PIECE, self.part.of_object().1.min((piece + 1) * PIECE));
        self.at + begin / self.part.shrinks()..self.at + end / self.part.shrinks()
    }

    fn chain(&self, store: &Store) -> Result<Arc<Chain>, StoreError> {
        let mut chain = lock(&self.chain);
        if let Some(chain) = &*chain {
            return Ok(chain.clone());
        }
        let opened = Arc::new(Chain::open(store, self.part.object)?);
        *chain = Some(opened.clone());
        Ok(opened)
    }
}

/// Says what a damaged object is needed for, or that the checkpoint is not there any more.
fn named(
    store: &Store,
    manifest: &Manifest,
    file: &StoredFile,
    part: &Part,
    error: StoreError,
) -> StoreError {
    let id = manifest.id.clone();
    if !store.has(&id) {
        return StoreError::Removed { id };
    }
    let error = match error {
        error if is_absent(&error) => StoreError::object(part.object, NOT_THERE),
        error => error,
    };
    let tensor = part_name(file, part);
    StoreError::Damaged { id, file: file.path.clone(), tensor, source: Box::new(error) }
}

pub(crate) fn part_name(file: &StoredFile, part: &Part) -> String {
    match &part.tensor {
        Some(name) => name.clone(),
        None if file.parts.len() > 1 => "the header".to_owned(),
        None => "the file".to_owned(),
    }
}
