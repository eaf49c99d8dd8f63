//! Whether every checkpoint can be restored.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, OnceLock};

use crate::file::Watch;

use crate::store::address::{PieceHash, address_of, hash_of_piece, hash_of_pieces, pieces_of};
use crate::store::layout::{Manifests, is_absent};
use crate::store::manifest::Manifest;
use crate::store::object::{ATTEMPTS, LONGEST_CHAIN, OTHER_HASH, Object, Values};
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

/// Looks at a store at the most, where each one finds something else.
const LOOKS: usize = 16;

/// Reads all objects that checkpoints need, and compares what they are kept as with its hash; if it is `deep`, decodes them and compares the values
/// with their address. Nothing is changed, and writers are not kept waiting.
///
/// # Errors
/// If something cannot be read now, or `watch` says to stop. Damage is a finding, not an error.
pub fn verify(store: &Store, deep: bool, watch: &Watch<'_>) -> Result<Verified, StoreError> {
    let mut verified = look(store, deep, watch, None)?;
    // What was replaced or removed while it was looked at is not damaged: what is found twice in a row is.
    for _ in 1..LOOKS {
        let suspects: BTreeSet<Address> = verified.objects.keys().copied().collect();
        if suspects.is_empty() {
            break;
        }
        let (looked_at, bytes) = (verified.looked_at, verified.bytes);
        verified = Verified { looked_at, bytes, ..look(store, deep, watch, Some(&suspects))? };
        if suspects.iter().eq(verified.objects.keys()) {
            break;
        }
    }
    Ok(verified)
}

/// Looks at a store as it is now. Of objects that are not among the suspects, if there are any, only headers are read.
fn look(
    store: &Store,
    deep: bool,
    watch: &Watch<'_>,
    suspects: Option<&BTreeSet<Address>>,
) -> Result<Verified, StoreError> {
    let Manifests { sound: manifests, damaged } = store.all_manifests()?;
    let unread = |(id, error)| Verdict { id, manifest: Some(error), lost: Vec::new() };
    let mut verified =
        Verified { checkpoints: damaged.into_iter().map(unread).collect(), ..Verified::default() };
    let links = look_at_all(store, &manifests, deep, watch, suspects, &mut verified)?;
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
    suspects: Option<&BTreeSet<Address>>,
    verified: &mut Verified,
) -> Result<HashMap<Address, Option<Address>>, StoreError> {
    let mut links: HashMap<Address, Option<Address>> = HashMap::new();
    let mut sound = HashMap::new();
    for part in manifests.iter().flat_map(|manifest| manifest.files.iter().flat_map(|file| &file.parts)) {
        let mut next = Some(part.object);
        while let Some(address) = next.filter(|address| !links.contains_key(address)) {
            let opened = store.open_object(address).and_then(|object| {
                let fits = (object.header.dtype_name(), object.header.bytes) == part.of_object();
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
    let mut order = in_order(&sound);
    order.retain(|address| suspects.is_none_or(|suspects| suspects.contains(address)));
    let found = look_into(store, &order, deep, watch)?;
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

/// Reads objects and compares what they are kept as with its hash; if it is `deep`, decodes them, and compares the values with the address.
fn look_into(store: &Store, order: &[Address], deep: bool, watch: &Watch<'_>) -> Result<Found, StoreError> {
    let mut found = Found::default();
    for asked in order.chunks(AT_ONCE) {
        let mut nodes = Nodes::default();
        for address in asked {
            match nodes.open(store, *address, deep, 1, &mut found) {
                Ok(number) => nodes.all[number].is_asked = true,
                Err(error) => found.damaged.push((*address, what_is_wrong(&error))),
            }
        }
        look_at_nodes(&nodes.all, deep, watch, &mut found)?;
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

/// Objects that are open, by their addresses.
#[derive(Default)]
struct Nodes {
    all: Vec<Node>,
    numbers: HashMap<Address, usize>,
}

impl Nodes {
    /// Opens an object, and its bases if `deep`, and gives its number. Bases are those of the file that is open: where another process replaces it
    /// and removes what it needed, it is opened again. Bases that are damaged are reported in `found`.
    fn open(
        &mut self,
        store: &Store,
        address: Address,
        deep: bool,
        len: usize,
        found: &mut Found,
    ) -> Result<usize, StoreError> {
        if let Some(number) = self.numbers.get(&address) {
            return Ok(*number);
        }
        let mut attempt = 1;
        let (object, base) = loop {
            let object = store.open_object(address)?;
            let Some(base) = object.header.base.filter(|_| deep && len < LONGEST_CHAIN) else {
                break (object, None);
            };
            match self.open(store, base, deep, len + 1, found) {
                Ok(number) => break (object, Some(number)),
                Err(error) if attempt < ATTEMPTS && is_absent(&error) => attempt += 1,
                Err(error) => {
                    found.damaged.push((base, what_is_wrong(&error)));
                    break (object, None);
                }
            }
        };
        let pieces = pieces_of(object.header.bytes);
        let hashes = |count: u64| (0..count).map(|_| OnceLock::new()).collect();
        let (kept, values) = (hashes(pieces), hashes(if deep { pieces } else { 0 }));
        let number = self.all.len();
        let (children, trouble) = (Vec::new(), OnceLock::new());
        self.all.push(Node { object, children, is_asked: false, kept, values, trouble });
        self.numbers.insert(address, number);
        if let Some(base) = base {
            self.all[base].children.push(number);
        }
        Ok(number)
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
            None if !is_right => OTHER_HASH.to_owned(),
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
