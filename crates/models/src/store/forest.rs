//! Objects and all that are differences from them, each decoded once.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

use crate::file::Watch;

use crate::store::address::{PieceHash, address_of, hash_of_piece, hash_of_pieces, pieces_of};
use crate::store::chain::LONGEST_CHAIN;
use crate::store::object::{Object, Values};
use crate::store::verify::what_is_wrong;
use crate::store::{Address, Store, StoreError};

/// Objects that are open at once, at the most, beside those that these are differences from: systems open a thousand files by default.
const AT_ONCE: usize = 128;

/// What was found in objects.
#[derive(Debug, Default)]
pub(crate) struct Found {
    /// Bytes that were read.
    pub(crate) bytes: u64,
    /// Objects that are not what was written.
    pub(crate) damaged: Vec<(Address, String)>,
}

/// An object that is looked into.
struct Node {
    object: Object,
    children: Vec<usize>,
    /// Whether it is looked into in this turn, and not only there for others.
    is_asked: bool,
    /// Hashes of what its pieces are kept as, and of their values.
    kept: Vec<OnceLock<PieceHash>>,
    values: Vec<OnceLock<PieceHash>>,
    trouble: OnceLock<String>,
}

/// Reads objects, given with their bases, and compares what they are kept as with its hash; if it is `deep`, decodes them, and compares the
/// values with the address.
///
/// # Errors
/// If `watch` says to stop.
pub(crate) fn look_into(
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

/// Opens an object, and what it is differences from if that is needed. An object that is damaged is none.
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
