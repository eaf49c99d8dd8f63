//! Lists the checkpoints of a store, with the bytes that each takes.

use std::collections::HashSet;

use crate::store::object::HEADER_BYTES;
use crate::store::writer::{Headers, needed};
use crate::store::{Store, StoreError};

/// A checkpoint and what it takes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    /// Its name.
    pub id: String,
    /// The checkpoint that differences were taken from when it was added.
    pub parent: Option<String>,
    /// When it was added, in seconds since 1970.
    pub created_unix_s: u64,
    /// Bytes of its files.
    pub bytes_raw: u64,
    /// Bytes of its manifest, and of the objects that it needs and no older checkpoint does.
    pub bytes_stored: u64,
    /// The most objects that are read for one of its tensors; none if one is damaged.
    pub chain: Option<usize>,
}

/// Totals of a store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Checkpoints.
    pub checkpoints: usize,
    /// Objects that are values as they are.
    pub raw: usize,
    /// Objects that are coded by themselves.
    pub full: usize,
    /// Objects that are differences.
    pub delta: usize,
    /// Objects that are not what they should be, or not there.
    pub damaged: usize,
    /// Objects that checkpoints have only because others are differences from them.
    pub bases_only: usize,
    /// Bytes of the files of all checkpoints.
    pub bytes_raw: u64,
    /// Bytes of all objects that checkpoints need, and of all manifests.
    pub bytes_stored: u64,
    /// Bytes of objects that none needs.
    pub bytes_unneeded: u64,
    /// The longest chain.
    pub chain: usize,
}

/// Lists all checkpoints, oldest first.
///
/// # Errors
/// If a manifest is damaged, or something cannot be read.
pub fn list(store: &Store) -> Result<Vec<Listed>, StoreError> {
    let (mut headers, mut seen) = (Headers::new(store), HashSet::new());
    let mut rows = Vec::new();
    for manifest in store.manifests()? {
        let mut bytes_stored = manifest.to_text().len() as u64;
        let mut chain = Some(0);
        let objects: HashSet<_> = manifest.objects().collect();
        for address in objects {
            for link in headers.chain(address, &mut seen)? {
                let header = headers.get(link)?;
                bytes_stored += header.map_or(0, |header| header.stored + HEADER_BYTES as u64);
            }
            chain = chain.zip(headers.chain_len(address)?).map(|(longest, len)| longest.max(len));
        }
        rows.push(Listed {
            bytes_raw: manifest.bytes_raw(),
            id: manifest.id,
            parent: manifest.parent,
            created_unix_s: manifest.created_unix_s,
            bytes_stored,
            chain,
        });
    }
    Ok(rows)
}

/// Counts checkpoints, objects and their bytes.
///
/// # Errors
/// Errors of [`list`].
pub fn stats(store: &Store) -> Result<Stats, StoreError> {
    let manifests = store.manifests()?;
    let mut headers = Headers::new(store);
    let needed = needed(&manifests, &mut headers)?;
    let named: HashSet<_> = manifests.iter().flat_map(crate::store::Manifest::objects).collect();
    let mut stats = Stats { checkpoints: manifests.len(), ..Stats::default() };
    for manifest in &manifests {
        stats.bytes_raw = stats.bytes_raw.saturating_add(manifest.bytes_raw());
        stats.bytes_stored += manifest.to_text().len() as u64;
    }
    for address in &needed {
        stats.bases_only += usize::from(!named.contains(address));
        let Some(header) = headers.get(*address)? else {
            stats.damaged += 1;
            continue;
        };
        let count = match (header.is_coded, header.base) {
            (false, _) => &mut stats.raw,
            (true, None) => &mut stats.full,
            (true, Some(_)) => &mut stats.delta,
        };
        *count += 1;
        stats.bytes_stored += header.stored + HEADER_BYTES as u64;
        stats.chain = stats.chain.max(headers.chain_len(*address)?.unwrap_or(0));
    }
    for address in store.addresses()?.into_iter().filter(|address| !needed.contains(address)) {
        let len = store.object_path(address).symlink_metadata().map_or(0, |metadata| metadata.len());
        stats.bytes_unneeded += len;
    }
    Ok(stats)
}
