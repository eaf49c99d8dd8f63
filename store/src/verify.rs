//! Whether every checkpoint can be restored.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Mutex, PoisonError};

use zipwire_files::{FileError, Watch};

use crate::chain::Chain;
use crate::manifest::Manifest;
use crate::restore::part_name;
use crate::store::is_absent;
use crate::{Address, Store, StoreError};

/// What was found.
#[derive(Debug, Default)]
pub struct Verified {
    /// Each checkpoint, oldest first.
    pub checkpoints: Vec<Verdict>,
    /// What is damaged, and what is wrong with it.
    pub objects: BTreeMap<Address, String>,
    /// Objects that were looked at.
    pub looked_at: usize,
    /// Their bytes.
    pub bytes: u64,
    /// Objects that no checkpoint needs: left over of a writer that was interrupted.
    pub unneeded: usize,
}

/// Whether a checkpoint can be restored.
#[derive(Debug)]
pub struct Verdict {
    /// Its name.
    pub id: String,
    /// What is wrong with its manifest.
    pub manifest: Option<StoreError>,
    /// What cannot be restored of it.
    pub lost: Vec<Lost>,
}

/// A part of a checkpoint that cannot be restored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lost {
    /// The file that it is in.
    pub file: String,
    /// Name of the tensor, or `the header`, or `the file`.
    pub tensor: String,
    /// The damaged object that it needs.
    pub object: Address,
}

impl Verdict {
    /// Whether all of it can be restored.
    pub fn restores(&self) -> bool {
        self.manifest.is_none() && self.lost.is_empty()
    }
}

impl Verified {
    /// Whether all of all can be restored.
    pub fn is_sound(&self) -> bool {
        self.checkpoints.iter().all(Verdict::restores)
    }
}

/// Reads all objects that checkpoints need, and compares what they are kept as with its hash; if it is `deep`, decodes them and compares the values
/// with their address. Nothing is changed, and writers are not kept waiting.
///
/// # Errors
/// If something cannot be read now, or `watch` says to stop. Damage is no error here: it is what is found.
pub fn verify(store: &Store, deep: bool, watch: &Watch<'_>) -> Result<Verified, StoreError> {
    let mut verified = Verified::default();
    let mut manifests = Vec::new();
    for id in store.ids()? {
        match store.manifest(&id) {
            Ok(manifest) => manifests.push(manifest),
            Err(StoreError::NoCheckpoint { .. }) => {}
            Err(error @ (StoreError::Manifest { .. } | StoreError::Version { .. })) => {
                verified.checkpoints.push(Verdict { id, manifest: Some(error), lost: Vec::new() });
            }
            Err(error) => return Err(error),
        }
    }
    manifests.sort_by(|a, b| (a.sequence, &a.id).cmp(&(b.sequence, &b.id)));
    let links = look_at_all(store, &manifests, deep, watch, &mut verified)?;
    // What differences are taken from is needed as well.
    let broken = |object: Address| -> Option<Address> {
        let (mut next, mut count) = (Some(object), 0);
        while let Some(address) = next {
            count += 1;
            if verified.objects.contains_key(&address) || count > crate::chain::LONGEST_CHAIN {
                return Some(address);
            }
            next = links.get(&address).copied().flatten();
        }
        None
    };
    let mut verdicts = Vec::new();
    for manifest in &manifests {
        // One that was removed meanwhile is not asked for any more.
        if !store.has(&manifest.id) {
            continue;
        }
        let mut lost = Vec::new();
        for file in &manifest.files {
            for part in &file.parts {
                lost.extend(broken(part.object).map(|object| Lost {
                    file: file.path.clone(),
                    tensor: part_name(file, part),
                    object,
                }));
            }
        }
        verdicts.push(Verdict { id: manifest.id.clone(), manifest: None, lost });
    }
    verified.unneeded = store.addresses()?.iter().filter(|address| !links.contains_key(address)).count();
    verified.checkpoints.splice(0..0, verdicts);
    Ok(verified)
}

/// Looks at all objects that checkpoints need. Gives the base of each.
fn look_at_all(
    store: &Store,
    manifests: &[Manifest],
    deep: bool,
    watch: &Watch<'_>,
    verified: &mut Verified,
) -> Result<HashMap<Address, Option<Address>>, StoreError> {
    let mut links = HashMap::new();
    // With the type and length that parts say, where parts say one: bases have those of what differs from them.
    let mut next: BTreeSet<(Address, &str, u64)> = manifests
        .iter()
        .flat_map(|manifest| manifest.files.iter().flat_map(|file| &file.parts))
        .map(|part| (part.object, part.dtype.as_str(), part.bytes))
        .collect();
    while !next.is_empty() {
        let now: Vec<(Address, &str, u64)> = std::mem::take(&mut next).into_iter().collect();
        let found = Mutex::new(Vec::new());
        watch.for_each(now.len(), |number, _| {
            let (address, dtype, bytes) = now[number];
            let result = look_at(store, address, (dtype, bytes), deep);
            if let Err(StoreError::File(error)) = &result {
                if matches!(error, FileError::Cancelled) {
                    return Err(FileError::Cancelled);
                }
            }
            let looked = result.as_ref().map_or(0, |(_, len)| *len);
            found.lock().unwrap_or_else(PoisonError::into_inner).push((number, result));
            (watch.done)(looked);
            Ok(())
        })?;
        let mut found = found.into_inner().unwrap_or_else(PoisonError::into_inner);
        found.sort_by_key(|(number, _)| *number);
        for (number, result) in found {
            let (address, dtype, bytes) = now[number];
            verified.looked_at += 1;
            let base = match result {
                Ok((base, len)) => {
                    verified.bytes += len;
                    base
                }
                Err(error) => {
                    let what = match &error {
                        StoreError::Object { what, .. } => what.clone(),
                        error if is_absent(error) => "it is not there".to_owned(),
                        error => error.to_string(),
                    };
                    verified.objects.entry(address).or_insert(what);
                    // Its bases may be sound, and then others still need them.
                    store.header(address).ok().and_then(|header| header.base)
                }
            };
            links.insert(address, base);
            next.extend(base.map(|base| (base, dtype, bytes)));
        }
        next.retain(|(base, _, _)| !links.contains_key(base));
    }
    Ok(links)
}

/// Looks at one object. Gives its base, and the bytes that were looked at.
fn look_at(
    store: &Store,
    address: Address,
    (dtype, bytes): (&str, u64),
    deep: bool,
) -> Result<(Option<Address>, u64), StoreError> {
    let object = store.open_object(address)?;
    let fits = object.header.bytes == bytes && object.header.dtype == crate::address::dtype_bytes(dtype);
    if !fits {
        return Err(StoreError::object(address, "it has another type or length than its part"));
    }
    object.check_stored()?;
    if deep {
        match Chain::open(store, address) {
            Ok(chain) => chain.check_values(dtype)?,
            // Another object of the chain is damaged, which is found where that one is looked at.
            Err(StoreError::Object { address: other, .. }) if other != address => {}
            Err(error) if is_absent(&error) => {}
            Err(error) => return Err(error),
        }
    }
    Ok((object.header.base, object.header.stored))
}
