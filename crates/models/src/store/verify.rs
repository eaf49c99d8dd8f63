//! Whether every checkpoint can be restored.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, OnceLock};

use crate::file::Watch;

use crate::store::address::{PieceHash, address_of, hash_of_piece, hash_of_pieces, pieces_of};
use crate::store::layout::is_absent;
use crate::store::manifest::Manifest;
use crate::store::object::{LONGEST_CHAIN, Object, Values};
use crate::store::restore::part_name;
use crate::store::{Address, Store, StoreError};

/// Findings of [`verify`].
#[derive(Debug, Default)]
pub struct Verified {
    /// Each checkpoint, oldest first.
    pub checkpoints: Vec<Verdict>,
    /// Damaged objects, each with what is wrong.
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
    /// The error of its manifest, if that is damaged.
    pub manifest: Option<StoreError>,
    /// Parts of it that cannot be restored.
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
    /// Whether every checkpoint can be restored.
    pub fn is_sound(&self) -> bool {
        self.checkpoints.iter().all(Verdict::restores)
    }
}

/// Reads all objects that checkpoints need, and compares what they are kept as with its hash; if it is `deep`, decodes them and compares the values
/// with their address. Nothing is changed, and writers are not kept waiting.
///
/// # Errors
/// If something cannot be read now, or `watch` says to stop. Damage is a finding, not an error.
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
            if verified.objects.contains_key(&address) || count > LONGEST_CHAIN {
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

/// The error of an object in words, without its address.
fn what_is_wrong(error: &StoreError) -> String {
    match error {
        StoreError::Object { what, .. } => what.clone(),
        error if is_absent(error) => "it is not there".to_owned(),
        error => error.to_string(),
    }
}

/// Objects that are open at once, at the most, beside those that these are differences from: systems open a thousand files by default.
const AT_ONCE: usize = 128;

/// Findings of [`look_into`].
#[derive(Debug, Default)]
struct Found {
    bytes: u64,
    /// Objects that are not what was written.
    damaged: Vec<(Address, String)>,
}

/// An object that is looked into.
struct Node {
    object: Object,
    children: Vec<usize>,
    /// Whether it is looked into in this turn, and not only there for others.
    is_asked: bool,
    /// Hashes of its pieces as stored, and of their values.
    kept: Vec<OnceLock<PieceHash>>,
    values: Vec<OnceLock<PieceHash>>,
    trouble: OnceLock<String>,
}

/// Reads objects, given with their bases, and compares what they are kept as with its hash; if it is `deep`, decodes them, and compares the
/// values with the address.
fn look_into(
    store: &Store,
    bases: &HashMap<Address, Option<Address>>,
    deep: bool,
    watch: &Watch<'_>,
) -> Result<Found, StoreError> {
    let mut found = Found::default();
    for asked in in_order(bases).chunks(AT_ONCE) {
        let mut nodes: Vec<Node> = Vec::new();
        let mut numbers = HashMap::new();
        for address in asked {
            open_with_bases(store, *address, bases, deep, &mut nodes, &mut numbers, &mut found);
            if let Some(number) = numbers.get(address) {
                nodes[*number].is_asked = true;
            }
        }
        look_at_nodes(&nodes, deep, watch, &mut found)?;
    }
    Ok(found)
}

/// All objects, bases in front of what differs from them, and these close behind. Those of chains that readers refuse are left out, and so are circles.
fn in_order(bases: &HashMap<Address, Option<Address>>) -> Vec<Address> {
    let mut children: HashMap<Option<Address>, Vec<Address>> = HashMap::new();
    for (address, base) in bases {
        // A base that is damaged is not among them.
        children.entry(base.filter(|base| bases.contains_key(base))).or_default().push(*address);
    }
    children.values_mut().for_each(|list| list.sort());
    let mut order = Vec::new();
    let roots = children.remove(&None).unwrap_or_default();
    let mut open: Vec<(Address, usize)> = roots.into_iter().map(|root| (root, 1)).collect();
    while let Some((address, len)) = open.pop() {
        order.push(address);
        let behind = children.remove(&Some(address)).filter(|_| len < LONGEST_CHAIN);
        open.extend(behind.unwrap_or_default().into_iter().map(|child| (child, len + 1)));
    }
    order
}

/// Opens an object, and its bases if `deep`. Damaged objects are left out and reported in `found`.
fn open_with_bases(
    store: &Store,
    address: Address,
    bases: &HashMap<Address, Option<Address>>,
    deep: bool,
    nodes: &mut Vec<Node>,
    numbers: &mut HashMap<Address, usize>,
    found: &mut Found,
) {
    let mut child = None;
    let mut next = Some(address);
    while let Some(address) = next {
        if let Some(number) = numbers.get(&address) {
            nodes[*number].children.extend(child);
            return;
        }
        let object = match store.open_object(address) {
            Ok(object) => object,
            Err(error) => {
                found.damaged.push((address, what_is_wrong(&error)));
                return;
            }
        };
        let pieces = pieces_of(object.header.bytes);
        let hashes = |count: u64| (0..count).map(|_| OnceLock::new()).collect();
        nodes.push(Node {
            children: child.into_iter().collect(),
            is_asked: false,
            kept: hashes(pieces),
            values: hashes(if deep { pieces } else { 0 }),
            trouble: OnceLock::new(),
            object,
        });
        let number = nodes.len() - 1;
        numbers.insert(address, number);
        child = Some(number);
        next = bases.get(&address).copied().flatten().filter(|_| deep);
    }
}

fn look_at_nodes(nodes: &[Node], deep: bool, watch: &Watch<'_>, found: &mut Found) -> Result<(), StoreError> {
    let pieces = |number: usize| (0..nodes[number].kept.len() as u64).map(move |piece| (number, piece));
    let asked: Vec<usize> = (0..nodes.len()).filter(|number| nodes[*number].is_asked).collect();
    let kept: Vec<(usize, u64)> = asked.iter().flat_map(|number| pieces(*number)).collect();
    watch.for_each(kept.len(), |task, buffer| {
        let (number, piece) = kept[task];
        let node = &nodes[number];
        match node.object.read_piece(piece, buffer) {
            Ok(()) => drop(node.kept[piece as usize].set(hash_of_piece(buffer))),
            Err(error) => drop(node.trouble.set(what_is_wrong(&error))),
        }
        (watch.done)(buffer.len() as u64);
        Ok::<_, StoreError>(())
    })?;
    if deep {
        let is_child: std::collections::HashSet<usize> =
            nodes.iter().flat_map(|node| node.children.iter().copied()).collect();
        let roots = (0..nodes.len()).filter(|number| !is_child.contains(number));
        let decoded: Vec<(usize, u64)> = roots.flat_map(pieces).collect();
        watch.for_each(decoded.len(), |task, frame| {
            let (number, piece) = decoded[task];
            if nodes[number].object.header.base.is_none() {
                decode(nodes, number, piece, None, frame);
            }
            Ok::<_, StoreError>(())
        })?;
    }
    for number in asked {
        let Node { object, kept, values, trouble, .. } = &nodes[number];
        let header = &object.header;
        found.bytes += header.stored;
        let all = |hashes: &[OnceLock<PieceHash>]| -> Option<Vec<PieceHash>> {
            hashes.iter().map(|hash| hash.get().copied()).collect()
        };
        let is_kept = all(kept).is_some_and(|hashes| hash_of_pieces(&hashes) == header.hash);
        // Where the base is damaged there are no values, and that is said of the base.
        let is_right = !deep
            || all(values).is_none_or(|hashes| {
                address_of(header.dtype_name(), header.bytes, &hashes) == header.address
            });
        let what = match trouble.get() {
            Some(what) => what.clone(),
            None if !is_kept => "it is not what was written".to_owned(),
            None if !is_right => "its values have another hash".to_owned(),
            None => continue,
        };
        found.damaged.push((header.address, what));
    }
    Ok(())
}

/// Decodes a piece of an object and of all that are differences from it.
fn decode(nodes: &[Node], number: usize, piece: u64, base: Option<&[Values]>, frame: &mut Vec<u8>) {
    let node = &nodes[number];
    let mut chunks = Vec::new();
    let mut hasher = blake3::Hasher::new();
    for (index, chunk) in node.object.header.chunks_of(piece).enumerate() {
        let mut out = vec![0; node.object.header.chunk_bytes(chunk)];
        let before = base.and_then(|base| base.get(index).cloned());
        if let Err(error) = node.object.decode_chunk(chunk, before, frame, &mut out) {
            // What differs from it is lost with it.
            let _ = node.trouble.set(what_is_wrong(&error));
            return;
        }
        hasher.update(&out);
        chunks.push(Values(Arc::new(out)));
    }
    let _ = node.values[piece as usize].set(*hasher.finalize().as_bytes());
    for child in &node.children {
        decode(nodes, *child, piece, Some(&chunks), frame);
    }
}
