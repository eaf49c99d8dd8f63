//! Removal of checkpoints, and of the objects that no other one needs.
//!
//! Manifests go first, then objects, which needs no write, so that a disk that is full has room again. Then objects that are
//! differences from what no checkpoint has any more are written anew ([`crate::store::rebase`]), and each one frees what it needed.

use std::collections::HashSet;
use std::fmt;
use std::fs;
use std::num::NonZero;

use crate::file::{FileError, Watch};

use crate::store::layout::Manifests;
use crate::store::manifest::Manifest;
use crate::store::rebase::{Rebase, carry_out, plan_rebases};
use crate::store::writer::{Headers, Swept, needed, sweep, sync};
use crate::store::{Store, StoreError, Writer};

/// Which checkpoints stay. Those that are pinned do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Keep {
    /// How many of the newest are kept.
    pub newest: NonZero<usize>,
    /// Keeps, of the others, the oldest one and every n-th that was added after it; `None` keeps no others.
    pub every: Option<NonZero<usize>>,
}

/// Which checkpoints go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Selection {
    /// All checkpoints but these.
    AllBut(Keep),
    /// Checkpoints with these names.
    Ids(Vec<String>),
}

impl From<Keep> for Selection {
    fn from(keep: Keep) -> Self {
        Self::AllBut(keep)
    }
}

/// Checkpoints and objects that were removed, and those that stay.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pruned {
    /// Names of checkpoints, oldest first.
    pub removed: Vec<String>,
    /// Names of those that are left, oldest first.
    pub kept: Vec<String>,
    /// Names of those that are left and pinned.
    pub pinned: Vec<String>,
    /// Objects that were written anew, as what they were differences from is gone.
    pub rebased: usize,
    /// Objects that are still to be written anew, where that was interrupted.
    pub left: usize,
    /// Bytes that the smallest of these will take, by a sample.
    pub room: u64,
    /// Objects that none of these needs.
    pub swept: Swept,
    /// Bytes of all objects before.
    pub bytes_before: u64,
    /// Bytes of all objects now.
    pub bytes_after: u64,
}

impl fmt::Display for Pruned {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { removed, swept, rebased, left, room, .. } = self;
        let (checkpoints, Swept { objects, bytes, .. }) = (removed.len(), swept);
        write!(
            f,
            "{checkpoints} checkpoints and {objects} objects of {bytes} bytes were removed, {rebased} objects written anew, "
        )?;
        match left {
            0 => write!(f, "and what else they leave is still to be removed"),
            _ => write!(
                f,
                "and {left} more have to be before what they need can go: the smallest takes {room} bytes"
            ),
        }
    }
}

impl Keep {
    /// Whether a checkpoint stays, by its number among so many, and by how far its sequence number is from the oldest one's.
    fn keeps(self, number: usize, count: usize, distance: u64) -> bool {
        number + self.newest.get() >= count
            || self.every.is_some_and(|every| distance.is_multiple_of(every.get() as u64))
    }
}

/// Removes checkpoints, and then the objects that no other checkpoint needs. What is kept as differences from them is written anew where that takes
/// less than what it needs; else what it needs stays, too.
///
/// A process that reads one of them meanwhile gets [`StoreError::Removed`], unless it has all files that it needs open already.
///
/// # Errors
/// If a manifest is damaged that is not to go, and then nothing is removed; [`StoreError::NoCheckpoint`] and [`StoreError::Pinned`] for names, the
/// same; if the system refuses something, or `watch` says to stop. [`StoreError::Unfinished`] says what has been done by then. All checkpoints that
/// are left are whole wherever it ends, and the same call goes on from there.
pub fn prune(
    writer: &Writer<'_>,
    selection: impl Into<Selection>,
    watch: &Watch<'_>,
) -> Result<Pruned, StoreError> {
    let Plan { going, kept, rebases, mut pruned } = Plan::of(writer.store(), &selection.into(), watch)?;
    (pruned.removed, pruned.rebased, pruned.swept) = Default::default();
    pruned.bytes_after = pruned.bytes_before;
    let run = || -> Result<Option<StoreError>, StoreError> {
        remove(writer, going, &mut pruned)?;
        let stopped = carry_out(writer, &kept, rebases, watch, &mut pruned)?;
        writer.set_unswept(false)?;
        Ok(stopped)
    };
    match run() {
        Ok(None) => Ok(pruned),
        Ok(Some(source)) | Err(source) => {
            Err(StoreError::Unfinished { done: Box::new(pruned), source: Box::new(source) })
        }
    }
}

/// Says what [`prune`] would do. Bytes of objects that would be written anew are estimates by samples.
///
/// # Errors
/// Errors of [`prune`] before anything is removed.
pub fn plan_prune(
    store: &Store,
    selection: impl Into<Selection>,
    watch: &Watch<'_>,
) -> Result<Pruned, StoreError> {
    Ok(Plan::of(store, &selection.into(), watch)?.pruned)
}

/// Pins a checkpoint, so that nothing removes it, or lets it go.
///
/// # Errors
/// [`StoreError::NoCheckpoint`], and if the system refuses something.
pub fn set_pinned(writer: &Writer<'_>, id: &str, is_pinned: bool) -> Result<(), StoreError> {
    if !writer.store().has(id) {
        writer.store().manifest(id)?;
    }
    writer.set_pinned(id, is_pinned)
}

struct Plan {
    going: Vec<String>,
    kept: Vec<Manifest>,
    rebases: Vec<Rebase>,
    /// Counts, if all of it is carried out.
    pruned: Pruned,
}

impl Plan {
    fn of(store: &Store, selection: &Selection, watch: &Watch<'_>) -> Result<Self, StoreError> {
        let Manifests { sound: all, damaged } = store.all_manifests()?;
        let is_going: HashSet<String> = going(store, selection, &all)?.into_iter().collect();
        let mut going = Vec::new();
        for (id, source) in damaged {
            if !is_going.contains(&id) {
                return Err(StoreError::Blocked { source: Box::new(source) });
            }
            going.push(id);
        }
        let (leaving, kept): (Vec<Manifest>, Vec<Manifest>) =
            all.into_iter().partition(|manifest| is_going.contains(&manifest.id));
        going.extend(leaving.iter().map(|manifest| manifest.id.clone()));
        let rebases = plan_rebases(store, &leaving, &kept, watch)?;
        let names = || kept.iter().map(|manifest| manifest.id.clone());
        let mut pruned = Pruned {
            removed: going.clone(),
            kept: names().collect(),
            pinned: names().filter(|id| store.is_pinned(id)).collect(),
            rebased: rebases.rebases.len(),
            ..Pruned::default()
        };
        let needed = needed(&kept, &mut Headers::new(store))?;
        for address in store.addresses()? {
            let len = store.object_path(address).symlink_metadata().map_or(0, |metadata| metadata.len());
            pruned.bytes_before += len;
            if !needed.contains(&address) || rebases.freed.contains(&address) {
                pruned.swept.add(Swept { objects: 1, bytes: len, staged: 0 });
            }
        }
        pruned.bytes_after = (pruned.bytes_before - pruned.swept.bytes).saturating_add_signed(rebases.growth);
        Ok(Self { going, kept, rebases: rebases.rebases, pruned })
    }
}

/// Names of the checkpoints that are to go.
fn going(store: &Store, selection: &Selection, all: &[Manifest]) -> Result<Vec<String>, StoreError> {
    match selection {
        Selection::AllBut(keep) => {
            let first = all.first().map_or(0, |manifest| manifest.sequence);
            let goes = |(number, manifest): &(usize, &Manifest)| {
                let keeps = keep.keeps(*number, all.len(), manifest.sequence - first);
                !keeps && !store.is_pinned(&manifest.id)
            };
            Ok(all.iter().enumerate().filter(goes).map(|(_, manifest)| manifest.id.clone()).collect())
        }
        Selection::Ids(ids) => {
            for id in ids {
                if !store.has(id) {
                    // The error names those that are alike.
                    store.manifest(id)?;
                }
                if store.is_pinned(id) {
                    return Err(StoreError::Pinned { id: id.clone() });
                }
            }
            Ok(ids.clone())
        }
    }
}

/// Removes manifests, and then what none of the others needs. The mark is there before; if the disk has no room for it, the first manifest makes some.
fn remove(writer: &Writer<'_>, going: Vec<String>, pruned: &mut Pruned) -> Result<(), StoreError> {
    let store = writer.store();
    let mut marked = writer.set_unswept(true);
    if matches!(&marked, Err(error) if !error.is_full()) {
        return marked;
    }
    for id in going {
        let path = store.manifest_path(&id);
        fs::remove_file(&path).map_err(FileError::io("remove", &path))?;
        pruned.removed.push(id);
        if marked.is_err() {
            marked = writer.set_unswept(true);
        }
    }
    sync(&store.checkpoints())?;
    let swept = sweep(store)?;
    pruned.swept.add(swept);
    pruned.bytes_after -= swept.bytes;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_stay_and_every_so_many() {
        let kept = |newest, every, sequences: &[u64]| -> Vec<u64> {
            let keep = Keep { newest: NonZero::new(newest).unwrap(), every: NonZero::new(every) };
            let count = sequences.len();
            let keeps =
                |(number, sequence): &(usize, u64)| keep.keeps(*number, count, sequence - sequences[0]);
            sequences.iter().copied().enumerate().filter(keeps).map(|(_, sequence)| sequence).collect()
        };
        assert_eq!(kept(2, 0, &[0, 1, 2, 3, 4]), [3, 4]);
        assert_eq!(kept(1, 2, &[0, 1, 2, 3, 4, 5]), [0, 2, 4, 5]);
        assert_eq!(kept(9, 0, &[0, 1, 2]), [0, 1, 2]);
        assert_eq!(kept(1, 10, &[7]), [7]);
        // A store that is pruned after each checkpoint keeps the same as one that is pruned once.
        let (mut rolling, all) = (Vec::new(), Vec::from_iter(0..40));
        for sequence in &all {
            rolling.push(*sequence);
            rolling = kept(3, 10, &rolling);
        }
        assert_eq!(rolling, kept(3, 10, &all));
        assert_eq!(rolling, [0, 10, 20, 30, 37, 38, 39]);
    }
}
