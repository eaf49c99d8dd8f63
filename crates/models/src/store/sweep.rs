//! Objects that a checkpoint needs, and the removal of all others.

use std::collections::{HashMap, HashSet};
use std::fs;

use crate::file::FileError;

use crate::store::layout::is_absent;
use crate::store::manifest::Manifest;
use crate::store::object::ObjectHeader;
use crate::store::{Address, Store, StoreError};

/// Counts of what was removed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Swept {
    /// Objects.
    pub objects: u64,
    /// Bytes of these objects.
    pub bytes: u64,
    /// Files and folders that were not complete.
    pub staged: u64,
}

impl Swept {
    pub(crate) fn add(&mut self, other: Self) {
        self.objects += other.objects;
        self.bytes += other.bytes;
        self.staged += other.staged;
    }

    /// Whether there was nothing to remove.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// Cache of object headers, each read once.
#[derive(Debug)]
pub(crate) struct Headers<'a> {
    store: &'a Store,
    known: HashMap<Address, Option<ObjectHeader>>,
}

impl<'a> Headers<'a> {
    pub(crate) fn new(store: &'a Store) -> Self {
        Self { store, known: HashMap::new() }
    }

    /// Header of an object; `None` if the object is damaged or gone.
    ///
    /// # Errors
    /// If it cannot be read now, or is of another version.
    pub(crate) fn get(&mut self, address: Address) -> Result<Option<&ObjectHeader>, StoreError> {
        if !self.known.contains_key(&address) {
            let header = match self.store.header(address) {
                Ok(header) => Some(header),
                Err(StoreError::Object { .. }) => None,
                Err(error) if is_absent(&error) => None,
                Err(error) => return Err(error),
            };
            self.known.insert(address, header);
        }
        Ok(self.known[&address].as_ref())
    }

    /// The object and all that it is differences from, as far as they can be read; those in `seen` and what they need are left out.
    pub(crate) fn chain(
        &mut self,
        address: Address,
        seen: &mut HashSet<Address>,
    ) -> Result<Vec<Address>, StoreError> {
        let (mut chain, mut next) = (Vec::new(), Some(address));
        while let Some(address) = next.filter(|address| seen.insert(*address)) {
            chain.push(address);
            next = self.get(address)?.and_then(|header| header.base);
        }
        Ok(chain)
    }

    /// How many objects are read for this one; none if one of them cannot be.
    pub(crate) fn chain_len(&mut self, address: Address) -> Result<Option<usize>, StoreError> {
        let (mut len, mut next) = (0, Some(address));
        while let Some(address) = next {
            len += 1;
            match self.get(address)? {
                Some(header) if len <= crate::store::chain::LONGEST_CHAIN => next = header.base,
                _ => return Ok(None),
            }
        }
        Ok(Some(len))
    }
}

/// All objects that these checkpoints need.
pub(crate) fn needed(
    manifests: &[Manifest],
    headers: &mut Headers<'_>,
) -> Result<HashSet<Address>, StoreError> {
    let mut needed = HashSet::new();
    for address in manifests.iter().flat_map(Manifest::objects) {
        headers.chain(address, &mut needed)?;
    }
    Ok(needed)
}

/// Removes the objects that no checkpoint needs.
///
/// # Errors
/// [`StoreError::Blocked`] if a manifest cannot be read, so that it is not known what is needed; then nothing is removed. If the system
/// refuses something.
pub(crate) fn sweep(store: &Store) -> Result<Swept, StoreError> {
    let blocked = |error: StoreError| match error {
        StoreError::Manifest { .. } | StoreError::Version { .. } => {
            StoreError::Blocked { source: Box::new(error) }
        }
        error => error,
    };
    let manifests = store.manifests().map_err(blocked)?;
    let needed = needed(&manifests, &mut Headers::new(store)).map_err(blocked)?;
    let mut swept = Swept::default();
    for address in store.addresses()?.into_iter().filter(|address| !needed.contains(address)) {
        let path = store.object_path(address);
        let remove = FileError::io("remove", &path);
        swept.bytes += fs::symlink_metadata(&path).map_err(&remove)?.len();
        fs::remove_file(&path).map_err(&remove)?;
        swept.objects += 1;
    }
    Ok(swept)
}
