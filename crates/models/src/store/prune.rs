//! Old checkpoints out of a store.

use std::fs;
use std::num::NonZero;

use crate::file::{FileError, Watch, sync_folder};

use crate::store::rebase::rebase;
use crate::store::sweep::{Swept, sweep};
use crate::store::{StoreError, Writer};

/// Which checkpoints stay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Keep {
    /// So many of the newest ones.
    pub newest: NonZero<usize>,
    /// Of the others, the oldest one and each one so many behind it; if there is none, no others.
    pub every: Option<NonZero<usize>>,
}

/// What was removed.
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
/// Who reads one of them meanwhile gets [`StoreError::Removed`], or has what it needs open already and reads on.
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
