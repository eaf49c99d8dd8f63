//! Whether every checkpoint can be restored.

use std::collections::{BTreeMap, HashMap};

use crate::file::Watch;

use crate::store::forest::look_into;
use crate::store::manifest::Manifest;
use crate::store::restore::part_name;
use crate::store::store::is_absent;
use crate::store::{Address, Store, StoreError};

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
            if verified.objects.contains_key(&address) || count > crate::store::chain::LONGEST_CHAIN {
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
    let mut links: HashMap<Address, Option<Address>> = HashMap::new();
    let mut sound = HashMap::new();
    for part in manifests.iter().flat_map(|manifest| manifest.files.iter().flat_map(|file| &file.parts)) {
        let mut next = Some(part.object);
        while let Some(address) = next.filter(|address| !links.contains_key(address)) {
            let opened = store.open_object(address).and_then(|object| {
                let fits = object.header.bytes == part.bytes && object.header.dtype_name() == part.dtype;
                let wrong = || StoreError::object(address, "it has another type or length than its part");
                fits.then_some(object.header).ok_or_else(wrong)
            });
            next = match opened {
                Ok(header) => {
                    sound.insert(address, header.base);
                    header.base
                }
                Err(error) => {
                    verified.objects.insert(address, what_is_wrong(&error));
                    // Its bases may be sound, and then others still need them.
                    store.header(address).ok().and_then(|header| header.base)
                }
            };
            links.insert(address, next);
            verified.looked_at += 1;
        }
    }
    let found = look_into(store, &sound, deep, watch)?;
    verified.bytes = found.bytes;
    verified.objects.extend(found.damaged);
    Ok(links)
}

/// What is wrong with an object.
pub(crate) fn what_is_wrong(error: &StoreError) -> String {
    match error {
        StoreError::Object { what, .. } => what.clone(),
        error if is_absent(error) => "it is not there".to_owned(),
        error => error.to_string(),
    }
}
