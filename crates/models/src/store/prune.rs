//! Removal of old checkpoints. Objects that are differences from what no checkpoint has any more are written anew where that takes less.

use std::collections::{HashMap, HashSet};
use std::fs::{self, File};
use std::num::NonZero;

use crate::file::{FileError, Watch, at, sync_folder};

use crate::store::add::{Item, Source};
use crate::store::address::{PIECE, PieceHash, address_of, hash_of_piece, pieces_of};
use crate::store::encode::{Codecs, Job, choose, staged_path, write_objects};
use crate::store::manifest::Manifest;
use crate::store::object::{Chain, HEADER_BYTES, LONGEST_WRITTEN, Scratch};
use crate::store::writer::{Headers, Swept, sweep};
use crate::store::{Address, StoreError, Writer};

/// Which checkpoints stay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Keep {
    /// How many of the newest are kept.
    pub newest: NonZero<usize>,
    /// Keeps, of the others, the oldest one and every n-th after it; `None` keeps no others.
    pub every: Option<NonZero<usize>>,
}

/// Checkpoints and objects that were removed, and those that stay.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pruned {
    /// Names of checkpoints, oldest first.
    pub removed: Vec<String>,
    /// Names of those that are left, oldest first.
    pub kept: Vec<String>,
    /// Objects that were written anew, as what they were differences from is gone.
    pub rebased: usize,
    /// Objects that none of these needs.
    pub swept: Swept,
}

impl Keep {
    /// Whether the checkpoint with this number, of so many, stays.
    fn keeps(self, number: usize, count: usize) -> bool {
        number + self.newest.get() >= count
            || self.every.is_some_and(|every| number.is_multiple_of(every.get()))
    }
}

/// Removes checkpoints, and then the objects that no other checkpoint needs. What is kept as differences from them is written anew where that takes
/// less than what it needs; else what it needs stays, too.
///
/// A process that reads one of them meanwhile gets [`StoreError::Removed`], unless it has all files that it needs open already.
///
/// # Errors
/// If a manifest is damaged, and then nothing is removed; if the system refuses something, or `watch` says to stop. What has been removed by then is gone; the next writer
/// removes the objects.
pub fn prune(writer: &Writer<'_>, keep: Keep, watch: &Watch<'_>) -> Result<Pruned, StoreError> {
    let store = writer.store();
    let manifests = store.manifests().map_err(|error| match error {
        error @ (StoreError::Manifest { .. } | StoreError::Version { .. }) => {
            StoreError::Blocked { source: Box::new(error) }
        }
        error => error,
    })?;
    let mut pruned = Pruned::default();
    for (number, manifest) in manifests.iter().enumerate() {
        let list = if keep.keeps(number, manifests.len()) { &mut pruned.kept } else { &mut pruned.removed };
        list.push(manifest.id.clone());
    }
    writer.set_unswept(true)?;
    for id in &pruned.removed {
        let path = store.manifest_path(id);
        fs::remove_file(&path).map_err(FileError::io("remove", &path))?;
    }
    let folder = store.checkpoints();
    sync_folder(&folder).map_err(FileError::io("write", &folder))?;
    pruned.rebased = rebase(writer, &store.manifests()?, watch)?;
    pruned.swept = sweep(store)?;
    writer.set_unswept(false)?;
    Ok(pruned)
}

/// An object that would be written anew.
struct Candidate {
    address: Address,
    /// The next of its bases that a checkpoint has.
    base: Option<Address>,
    /// Bytes of the object, and of those that nobody needs once it does not need them.
    bytes: u64,
}

/// Writes objects anew, by themselves or as differences from what a checkpoint has, where that takes less than what is kept only for them. Their values
/// stay, and so do their addresses; what is differences from them does not notice. Gives how many it has written.
///
/// # Errors
/// If something cannot be read or written now, or `watch` says to stop. What is damaged stays as it is.
fn rebase(writer: &Writer<'_>, manifests: &[Manifest], watch: &Watch<'_>) -> Result<usize, StoreError> {
    let named: HashSet<Address> = manifests.iter().flat_map(Manifest::objects).collect();
    let mut count = 0;
    for candidate in candidates(writer, &named)? {
        if (watch.cancelled)() {
            return Err(FileError::Cancelled.into());
        }
        match write_anew(writer, &candidate, watch) {
            Ok(is_written) => count += usize::from(is_written),
            Err(StoreError::Object { .. }) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(count)
}

/// Objects that checkpoints have, and whose base none has.
fn candidates(writer: &Writer<'_>, named: &HashSet<Address>) -> Result<Vec<Candidate>, StoreError> {
    let mut headers = Headers::new(writer.store());
    // How many objects that are needed are differences from each one that no checkpoint has.
    let mut users: HashMap<Address, usize> = HashMap::new();
    let mut seen = HashSet::new();
    let mut objects: Vec<Address> = named.iter().copied().collect();
    objects.sort();
    for address in &objects {
        for link in headers.chain(*address, &mut seen)? {
            if let Some(base) = headers.get(link)?.and_then(|header| header.base) {
                *users.entry(base).or_default() += 1;
            }
        }
    }
    let mut candidates = Vec::new();
    for address in objects {
        let Some(header) = headers.get(address)? else { continue };
        let (mut bytes, mut next, mut is_alone) = (header.stored, header.base, true);
        let mut links = 0;
        while let Some(base) = next.filter(|base| !named.contains(base) && links < LONGEST_WRITTEN) {
            let Some(header) = headers.get(base)? else { break };
            is_alone &= users.get(&base) == Some(&1);
            bytes += if is_alone { header.stored + HEADER_BYTES as u64 } else { 0 };
            next = header.base;
            links += 1;
        }
        if links > 0 && is_alone {
            candidates.push(Candidate { address, base: next, bytes });
        }
    }
    Ok(candidates)
}

/// Gives whether it takes less, and is in its place.
fn write_anew(writer: &Writer<'_>, candidate: &Candidate, watch: &Watch<'_>) -> Result<bool, StoreError> {
    let store = writer.store();
    let chain = Chain::open(store, candidate.address)?;
    let header = chain.header().clone();
    let dtype = header.dtype_name().to_owned();
    let staged = writer.stage()?;
    let path = staged.path().join("values");
    let write = FileError::io("write", &path);
    let file = File::create(&path).map_err(&write)?;
    let (mut values, mut scratch, mut hashes) = (Vec::new(), Scratch::default(), Vec::<PieceHash>::new());
    for piece in 0..pieces_of(header.bytes) {
        if (watch.cancelled)() {
            return Err(FileError::Cancelled.into());
        }
        chain.read_piece(piece, &mut values, &mut scratch)?;
        hashes.push(hash_of_piece(&values));
        at::write_all(&file, &values, piece * PIECE).map_err(&write)?;
    }
    drop((chain, file));
    if address_of(&dtype, header.bytes, &hashes) != candidate.address {
        return Err(StoreError::object(candidate.address, "its values have another hash"));
    }
    let codecs = Codecs::new(&"rans".parse().expect("it is a codec"))?;
    let source = Source { path: path.clone(), name: String::new(), bytes: header.bytes };
    let item = Item { source: 0, tensor: None, dtype, row: 1, at: 0, bytes: header.bytes };
    // The base is one of the chain, so the new chain is shorter.
    let (plan, _) = choose(store, (&source, &item), candidate.base, &codecs, LONGEST_WRITTEN)?;
    let (source, item) = (&source, &item);
    let job = Job { source, item, address: candidate.address, hashes: &hashes, plan };
    let stored = write_objects(store, std::slice::from_ref(&job), staged.path(), watch)?;
    if stored[0] >= candidate.bytes + HEADER_BYTES as u64 {
        return Ok(false);
    }
    writer.place(&[(candidate.address, staged_path(staged.path(), 0))])?;
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_stay_and_every_so_many() {
        let kept = |newest, every, count| -> Vec<usize> {
            let keep = Keep { newest: NonZero::new(newest).unwrap(), every: NonZero::new(every) };
            (0..count).filter(|number| keep.keeps(*number, count)).collect()
        };
        assert_eq!(kept(2, 0, 5), [3, 4]);
        assert_eq!(kept(1, 2, 6), [0, 2, 4, 5]);
        assert_eq!(kept(9, 0, 3), [0, 1, 2]);
        assert_eq!(kept(1, 10, 1), [0]);
    }
}
