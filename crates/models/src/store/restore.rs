//! Restoring the files of a checkpoint.

use std::fs::{self, File, OpenOptions};
use std::path::Path;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use crate::file::{FileError, OutputFolder, Watch, at, folder};

use crate::store::address::{PIECE, PieceHash, address_of, hash_of_piece, pieces_of};
use crate::store::manifest::{Manifest, Part, StoredFile};
use crate::store::object::{Chain, Scratch};
use crate::store::{Store, StoreError};

/// Writes the files of a checkpoint into the folder `out`, byte for byte, and compares what is written with its addresses. The folder appears when all
/// of it is on the disk, or not at all.
///
/// # Errors
/// [`FileError::Exists`] if there is such a folder, and `force` does not let it be replaced; [`StoreError::NoCheckpoint`];
/// [`StoreError::Damaged`]; [`StoreError::Removed`] if another process removes it meanwhile; if the system refuses something, or `watch` says to stop.
pub fn restore(
    store: &Store,
    id: &str,
    out: &Path,
    force: bool,
    watch: &Watch<'_>,
) -> Result<Manifest, StoreError> {
    let manifest = store.manifest(id)?;
    let staged = OutputFolder::begin(out, force)?;
    let root = staged.root();
    for file in &manifest.files {
        let path = root.join(&file.path);
        fs::create_dir_all(folder(&path)).map_err(FileError::io("create", out))?;
        let made = File::create_new(&path).and_then(|made| made.set_len(file.bytes));
        made.map_err(FileError::io("write", &out.join(&file.path)))?;
    }
    decode_all(store, &manifest, watch, |file, at, values| {
        let shown = out.join(&file.path);
        let write = FileError::io("write", &shown);
        let opened = OpenOptions::new().write(true).open(root.join(&file.path)).map_err(&write)?;
        Ok(at::write_all(&opened, values, at).map_err(&write)?)
    })?;
    watch.for_each(manifest.files.len(), |number, _| {
        let path = root.join(&manifest.files[number].path);
        let synced = OpenOptions::new().write(true).open(&path).and_then(|file| file.sync_all());
        Ok::<_, StoreError>(synced.map_err(FileError::io("write", &out.join(&manifest.files[number].path)))?)
    })?;
    staged.finish()?;
    Ok(manifest)
}

/// Decodes all of a checkpoint and compares it with its addresses.
///
/// # Errors
/// Errors of [`restore`].
pub fn check(store: &Store, id: &str, watch: &Watch<'_>) -> Result<(), StoreError> {
    decode_all(store, &store.manifest(id)?, watch, |_, _, _| Ok(()))
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

/// Gives all values with the file and the place in it, in pieces and in no order.
fn decode_all(
    store: &Store,
    manifest: &Manifest,
    watch: &Watch<'_>,
    take: impl Fn(&StoredFile, u64, &[u8]) -> Result<(), StoreError> + Sync,
) -> Result<(), StoreError> {
    let mut parts = Vec::new();
    let mut pieces = Vec::new();
    for file in &manifest.files {
        let mut at = 0;
        for part in &file.parts {
            let object =
                store.open_object(part.object).map_err(|error| named(store, manifest, file, part, error))?;
            // What a manifest says is not believed before there is an object with as many chunks.
            if object.header.bytes != part.bytes {
                let error = StoreError::object(part.object, "it has not the length of its part");
                return Err(named(store, manifest, file, part, error));
            }
            let count = pieces_of(part.bytes);
            pieces.extend((0..count).map(|piece| (parts.len(), piece)));
            let hashes = (0..count).map(|_| OnceLock::new()).collect();
            parts.push(Decoding { file, part, at, chain: Mutex::new(None), hashes });
            at += part.bytes;
        }
    }
    watch.for_each(pieces.len(), |number, values| {
        let (part, piece) = pieces[number];
        let decoding = &parts[part];
        let decode = || -> Result<Vec<u8>, StoreError> {
            let chain = decoding.chain(store)?;
            let mut out = std::mem::take(&mut *values);
            chain.read_piece(piece, &mut out, &mut Scratch::default())?;
            Ok(out)
        };
        let decoded =
            { decode }().map_err(|error| named(store, manifest, decoding.file, decoding.part, error))?;
        *values = decoded;
        decoding.hashes[piece as usize].get_or_init(|| hash_of_piece(values));
        take(decoding.file, decoding.at + piece * PIECE, values)?;
        // The files are closed as soon as nobody needs them.
        if decoding.hashes.iter().all(|hash| hash.get().is_some()) {
            decoding.chain.lock().unwrap_or_else(PoisonError::into_inner).take();
        }
        (watch.done)(values.len() as u64);
        Ok::<_, StoreError>(())
    })?;
    for Decoding { file, part, hashes, .. } in parts {
        let hashes: Vec<PieceHash> =
            hashes.into_iter().map(|hash| hash.into_inner().expect("all pieces were decoded")).collect();
        if address_of(&part.dtype, part.bytes, &hashes) != part.object {
            let error = StoreError::object(part.object, "its values have another hash");
            return Err(named(store, manifest, file, part, error));
        }
    }
    Ok(())
}

impl Decoding<'_> {
    fn chain(&self, store: &Store) -> Result<Arc<Chain>, StoreError> {
        let mut chain = self.chain.lock().unwrap_or_else(PoisonError::into_inner);
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
        error if crate::store::layout::is_absent(&error) => {
            StoreError::object(part.object, "it is not there, or what it is differences from")
        }
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
