//! Lists the checkpoints of a store, with the bytes that each takes.

use std::collections::HashSet;

use crate::store::layout::Manifests;
use crate::store::object::HEADER_BYTES;
use crate::store::writer::{Headers, needed};
use crate::store::{Store, StoreError};

/// Checkpoints of a store.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Listing {
    /// Checkpoints whose manifest is sound, oldest first.
    pub checkpoints: Vec<Listed>,
    /// The others, by name.
    pub unread: Vec<Unread>,
}

/// A checkpoint whose manifest is damaged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unread {
    /// Its name.
    pub id: String,
    /// The error of its manifest.
    pub error: String,
}

/// A checkpoint and what it takes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    /// Its name.
    pub id: String,
    /// The checkpoint that differences were taken from when it was added.
    pub parent: Option<String>,
    /// When it was added, in seconds since 1970.
    pub created_unix_s: u64,
    /// Whether it is pinned.
    pub is_pinned: bool,
    /// Bytes of its files.
    pub bytes_raw: u64,
    /// Bytes of its manifest, and of the objects that it needs and no older checkpoint does.
    pub bytes_stored: u64,
    /// The most objects that are read for one of its tensors; none if one is damaged.
    pub chain: Option<usize>,
}

impl Listing {
    /// Whether nothing is damaged, as far as manifests, and headers and lengths of objects tell.
    pub fn is_sound(&self) -> bool {
        self.unread.is_empty() && self.checkpoints.iter().all(|listed| listed.chain.is_some())
    }
}

/// Totals of a store.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Checkpoints whose manifest is sound; what follows is of these.
    pub checkpoints: usize,
    /// The others, by name.
    pub unread: Vec<Unread>,
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
    /// Bytes of objects that none needs; not known where a manifest is damaged.
    pub bytes_unneeded: Option<u64>,
    /// The longest chain.
    pub chain: usize,
}

impl Stats {
    /// Whether nothing is damaged, as far as manifests, and headers and lengths of objects tell.
    pub fn is_sound(&self) -> bool {
        self.unread.is_empty() && self.damaged == 0
    }
}

fn unread(damaged: Vec<(String, StoreError)>) -> Vec<Unread> {
    damaged.into_iter().map(|(id, error)| Unread { id, error: error.to_string() }).collect()
}

/// Lists all checkpoints. Damage is a finding, not an error.
///
/// # Errors
/// If something cannot be read now.
pub fn list(store: &Store) -> Result<Listing, StoreError> {
    let (mut headers, mut seen) = (Headers::new(store), HashSet::new());
    let Manifests { sound, damaged } = store.all_manifests()?;
    let mut rows = Vec::new();
    for manifest in sound {
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
            is_pinned: store.is_pinned(&manifest.id),
            bytes_raw: manifest.bytes_raw(),
            id: manifest.id,
            parent: manifest.parent,
            created_unix_s: manifest.created_unix_s,
            bytes_stored,
            chain,
        });
    }
    Ok(Listing { checkpoints: rows, unread: unread(damaged) })
}

/// Counts checkpoints, objects and their bytes.
///
/// # Errors
/// Errors of [`list`].
pub fn stats(store: &Store) -> Result<Stats, StoreError> {
    let Manifests { sound: manifests, damaged } = store.all_manifests()?;
    let mut headers = Headers::new(store);
    let needed = needed(&manifests, &mut headers)?;
    let named: HashSet<_> = manifests.iter().flat_map(crate::store::Manifest::objects).collect();
    let mut stats = Stats { checkpoints: manifests.len(), unread: unread(damaged), ..Stats::default() };
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
    if stats.unread.is_empty() {
        let unneeded = store.addresses()?.into_iter().filter(|address| !needed.contains(address));
        let len =
            |address| store.object_path(address).symlink_metadata().map_or(0, |metadata| metadata.len());
        stats.bytes_unneeded = Some(unneeded.map(len).sum());
    }
    Ok(stats)
}
