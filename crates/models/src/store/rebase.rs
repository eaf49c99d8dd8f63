//! Objects that are written anew when checkpoints go, so that what stays does not keep what is gone.
//!
//! *Which.* An object of a checkpoint that stays may be differences from one that no checkpoint has any more. All such objects above the same one go
//! together: only then is it free. They are written anew if that takes less than what it frees.
//!
//! *From what.* The values decide how far two objects differ, not how these are kept. So each object takes its differences from the same tensor of
//! the nearest checkpoint that stays, as if nothing else had ever been added, and in chains no longer than those that were there.
//!
//! Nothing that is read changes: values stay, and so do addresses. What is differences from an object does not notice that it was written anew.

use std::collections::{HashMap, HashSet, VecDeque};
use std::fs;
use std::sync::{Mutex, PoisonError};

use tempfile::TempDir;

use crate::file::header::{LENGTH_BYTES, LIMIT};
use crate::file::{FileError, Header, Watch};
use crate::store::add::{Before, Item, SAFETENSORS};
use crate::store::address::{PieceHash, address_of, hash_of_piece, pieces_of};
use crate::store::encode::{Bases, Choice, Codecs, Job, Origin, choose, staged_path, write_objects};
use crate::store::manifest::{Manifest, Part, StoredFile};
use crate::store::object::{Chain, HEADER_BYTES, LONGEST_CHAIN, LONGEST_WRITTEN, OTHER_HASH, Scratch};
use crate::store::writer::{Headers, Swept};
use crate::store::{Address, Pruned, Store, StoreError, Writer};

/// An object that is to be written anew.
#[derive(Debug)]
pub(crate) struct Rebase {
    address: Address,
    item: Item,
    /// The chain that differences may be taken from, from the object that is by itself on.
    links: Vec<Address>,
    choice: Choice,
    reason: Reason,
}

/// Why an object is looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reason {
    /// Its base belongs to no checkpoint.
    Tied,
    /// A nearer one than its base has become its neighbour.
    Far,
    /// Its chain has become too long.
    Long,
}

/// Objects that are to be written anew, and what comes of it.
#[derive(Debug, Default)]
pub(crate) struct Rebases {
    /// In the order of the checkpoints that have them.
    pub(crate) rebases: Vec<Rebase>,
    /// Objects that nobody needs then.
    pub(crate) freed: HashSet<Address>,
    /// Bytes that those written anew take more than before; an estimate.
    pub(crate) growth: i64,
}

/// Plans what is written anew when some checkpoints leave and the others, oldest first, are kept.
///
/// # Errors
/// If something cannot be read now, or `watch` says to stop. What is damaged stays as it is.
pub(crate) fn plan_rebases(
    store: &Store,
    leaving: &[Manifest],
    kept: &[Manifest],
    watch: &Watch<'_>,
) -> Result<Rebases, StoreError> {
    let mut planner = Planner::new(store, leaving, kept)?;
    let (mut candidates, mut seen) = (Vec::new(), HashSet::new());
    for (number, manifest) in kept.iter().enumerate() {
        let before = neighbour(manifest, leaving, &kept[..number]).map(Before::of).unwrap_or_default();
        let has_lost = leaving.iter().any(|left| Some(&left.id) == manifest.parent.as_ref());
        let mut asked = Vec::new();
        for file in &manifest.files {
            let first = asked.len();
            let own = file.parts.iter().filter(|part| part.rounded_from.is_none());
            for part in own.filter(|part| seen.insert(part.object)) {
                let near = before.find(&file.path, part.tensor.as_deref(), &part.dtype, part.bytes);
                asked.extend(planner.ask(part, near, has_lost)?);
            }
            set_rows(store, file, &mut asked[first..]);
        }
        candidates.extend(planner.decide(asked, watch)?);
    }
    planner.worthwhile(candidates, &seen)
}

/// The nearest checkpoint before this one that stays: of those that it goes back to by its parents, or by its place.
fn neighbour<'a>(manifest: &Manifest, leaving: &[Manifest], before: &'a [Manifest]) -> Option<&'a Manifest> {
    let mut last = manifest;
    while let Some(parent) = &last.parent {
        if let Some(found) = before.iter().find(|kept| kept.id == *parent && kept.sequence < last.sequence) {
            return Some(found);
        }
        let older = |left: &&Manifest| left.id == *parent && left.sequence < last.sequence;
        let Some(left) = leaving.iter().find(older) else { break };
        last = left;
    }
    before.last()
}

/// An object that may be written anew.
struct Asked {
    address: Address,
    item: Item,
    links: Vec<Address>,
    reason: Reason,
}

struct Planner<'a> {
    store: &'a Store,
    headers: Headers<'a>,
    /// Objects that checkpoints have.
    named: HashSet<Address>,
    /// Chains of objects that have been decided on, from the one that is by itself on, with the object.
    chains: HashMap<Address, Vec<Address>>,
    longest: usize,
    codecs: Codecs,
}

impl<'a> Planner<'a> {
    fn new(store: &'a Store, leaving: &[Manifest], kept: &[Manifest]) -> Result<Self, StoreError> {
        let mut headers = Headers::new(store);
        let mut longest = 1;
        for address in leaving.iter().chain(kept).flat_map(Manifest::objects) {
            longest = longest.max(headers.chain_len(address)?.unwrap_or(0));
        }
        Ok(Self {
            store,
            headers,
            named: kept.iter().flat_map(Manifest::objects).collect(),
            chains: HashMap::new(),
            longest: longest.min(LONGEST_WRITTEN),
            codecs: codecs()?,
        })
    }

    /// The chain that an object will have, by what has been decided; none if it cannot be read.
    fn chain(&mut self, address: Address) -> Result<Option<Vec<Address>>, StoreError> {
        let (mut behind, mut next) = (Vec::new(), Some(address));
        while let Some(address) = next {
            if let Some(chain) = self.chains.get(&address) {
                return Ok(Some(chain.iter().copied().chain(behind.into_iter().rev()).collect()));
            }
            behind.push(address);
            match self.headers.get(address)? {
                Some(header) if behind.len() <= LONGEST_CHAIN => next = header.base,
                _ => return Ok(None),
            }
        }
        behind.reverse();
        Ok(Some(behind))
    }

    /// The objects that no checkpoint has, from the base of this one on to one that a checkpoint has.
    fn run(&mut self, address: Address) -> Result<Vec<Address>, StoreError> {
        let mut run = Vec::new();
        let mut next = self.headers.get(address)?.and_then(|header| header.base);
        while let Some(base) = next.filter(|base| !self.named.contains(base) && run.len() < LONGEST_CHAIN) {
            run.push(base);
            next = self.headers.get(base)?.and_then(|header| header.base);
        }
        Ok(run)
    }

    /// Whether an object is to be looked at. If not, its chain is decided on. `near` has the same tensor of the neighbour, and `has_lost` says whether
    /// the checkpoint's parent leaves.
    fn ask(
        &mut self,
        part: &Part,
        near: Option<Address>,
        has_lost: bool,
    ) -> Result<Option<Asked>, StoreError> {
        let address = part.object;
        let Some(base) = self.headers.get(address)?.map(|header| header.base) else { return Ok(None) };
        let Some(chain) = self.chain(address)? else { return Ok(None) };
        let ancestor = match self.run(address)?.last() {
            Some(last) => self.headers.get(*last)?.and_then(|header| header.base),
            None => base,
        };
        let mut links = Vec::new();
        for candidate in [near, ancestor].into_iter().flatten() {
            // Never from what is differences from itself.
            links = self.chain(candidate)?.filter(|links| !links.contains(&address)).unwrap_or_default();
            if !links.is_empty() {
                break;
            }
        }
        let reason = if chain.len() > self.longest {
            Reason::Long
        } else if base.is_some_and(|base| !self.named.contains(&base)) {
            Reason::Tied
        } else if has_lost && !links.is_empty() && links.last() != base.as_ref() {
            Reason::Far
        } else {
            self.chains.insert(address, chain);
            return Ok(None);
        };
        let (tensor, dtype, bytes) = (part.tensor.clone(), part.dtype.clone(), part.bytes);
        let item = Item { source: 0, tensor, dtype, row: 1, at: 0, bytes };
        Ok(Some(Asked { address, item, links, reason }))
    }

    /// Chooses what each of these is to be kept as.
    fn decide(&mut self, asked: Vec<Asked>, watch: &Watch<'_>) -> Result<Vec<Rebase>, StoreError> {
        let choices = Mutex::new(HashMap::new());
        watch.for_each(asked.len(), |number, _| {
            let Asked { address, item, links, .. } = &asked[number];
            match self.choose(*address, item, links) {
                Ok(choice) => {
                    drop(choices.lock().unwrap_or_else(PoisonError::into_inner).insert(number, choice));
                }
                Err(error) if error.is_damage() => {}
                Err(error) => return Err(error),
            }
            Ok::<_, StoreError>(())
        })?;
        let mut choices = choices.into_inner().unwrap_or_else(PoisonError::into_inner);
        let mut rebases = Vec::new();
        for (number, Asked { address, item, links, reason }) in asked.into_iter().enumerate() {
            let Some(choice) = choices.remove(&number) else { continue };
            if self.headers.get(address)?.and_then(|header| header.base) == choice.plan.base {
                continue;
            }
            let base = choice.plan.base.and_then(|base| links.iter().position(|link| *link == base));
            let mut chain = base.map_or_else(Vec::new, |base| links[..=base].to_vec());
            chain.push(address);
            self.chains.insert(address, chain);
            rebases.push(Rebase { address, item, links, choice, reason });
        }
        Ok(rebases)
    }

    fn choose(&self, address: Address, item: &Item, links: &[Address]) -> Result<Choice, StoreError> {
        choose_again(self.store, address, item, links, &self.named, &self.codecs, self.longest)
    }

    /// Candidates that save something. `seen` are all objects of checkpoints.
    fn worthwhile(mut self, candidates: Vec<Rebase>, seen: &HashSet<Address>) -> Result<Rebases, StoreError> {
        let anew: HashSet<Address> = candidates.iter().map(|rebase| rebase.address).collect();
        let mut held = HashSet::new();
        for address in seen.iter().filter(|address| !anew.contains(address)) {
            held.extend(self.run(*address)?);
        }
        // By the last object that nobody has: the groups that go together.
        let mut gains: HashMap<Address, i64> = HashMap::new();
        let (mut growths, mut runs) = (HashMap::new(), HashMap::new());
        let mut counted = HashSet::new();
        for Rebase { address, choice, .. } in &candidates {
            let growth = choice.estimate as i64 - self.stored(*address)?;
            let run = self.run(*address)?;
            if let Some(last) = run.last() {
                let gain = gains.entry(*last).or_default();
                *gain -= growth;
                for link in run.iter().filter(|link| !held.contains(link)) {
                    *gain += if counted.insert(*link) { self.stored(*link)? } else { 0 };
                }
            }
            growths.insert(*address, growth);
            runs.insert(*address, run);
        }
        let mut rebases = Rebases::default();
        for rebase in candidates {
            let (growth, run) = (growths[&rebase.address], &runs[&rebase.address]);
            let gain = run.last().map_or(-growth, |last| gains[last]);
            let is_worth = match rebase.reason {
                Reason::Long => true,
                Reason::Tied => gain > 0,
                // A tenth of what is written, at the least.
                Reason::Far => -10 * growth >= rebase.choice.estimate as i64,
            };
            if is_worth {
                rebases.growth += growth;
                rebases.freed.extend(run.iter().filter(|link| !held.contains(link)));
                rebases.rebases.push(rebase);
            }
        }
        Ok(rebases)
    }

    /// Bytes of an object.
    fn stored(&mut self, address: Address) -> Result<i64, StoreError> {
        let header = self.headers.get(address)?;
        Ok(header.map_or(0, |header| (header.stored + HEADER_BYTES as u64) as i64))
    }
}

/// Gives tensors of a safetensors file their rows, as its header has them. Where that is damaged, they stay without.
fn set_rows(store: &Store, file: &StoredFile, asked: &mut [Asked]) {
    let is_header = |part: &&Part| {
        part.tensor.is_none() && part.bytes <= LENGTH_BYTES + LIMIT && file.path.ends_with(SAFETENSORS)
    };
    let Some(part) = file.parts.first().filter(is_header).filter(|_| !asked.is_empty()) else { return };
    let Ok(chain) = Chain::open(store, part.object) else { return };
    let mut bytes = vec![0; chain.header().bytes.min(part.bytes) as usize];
    if chain.read(0, &mut bytes, &mut Scratch::default()).is_err() {
        return;
    }
    let Ok(header) = Header::parse(bytes) else { return };
    for item in asked.iter_mut().map(|asked| &mut asked.item) {
        let number = item.tensor.as_deref().and_then(|name| header.number(name));
        item.row = number.and_then(|number| header.tensors()[number].shape.last().copied()).unwrap_or(1);
    }
}

/// The codecs of objects that are written anew.
fn codecs() -> Result<Codecs, StoreError> {
    Codecs::new(&"auto".parse().expect("it is a codec"))
}

/// Chooses what an object that is there is to be kept as: by itself, or as differences from one of the links that checkpoints have.
fn choose_again(
    store: &Store,
    address: Address,
    item: &Item,
    links: &[Address],
    named: &HashSet<Address>,
    codecs: &Codecs,
    longest: usize,
) -> Result<Choice, StoreError> {
    let own = Chain::open(store, address)?;
    let mut chains = Vec::new();
    for (number, link) in links.iter().enumerate() {
        if named.contains(link) && Bases::is_wanted(number, links.len(), longest) {
            // What is damaged is no base.
            chains.extend(Chain::open(store, *link).ok().map(|chain| (number, chain)));
        }
    }
    let bases = Bases {
        links: links.to_vec(),
        visit: Box::new(|chunk, scratch, visit| {
            for (number, chain) in &chains {
                visit(*number, chain.read_chunk(chunk, scratch)?);
            }
            Ok(())
        }),
    };
    choose(Origin::Object(&own), item, Some(bases), codecs, longest)
}

/// Bytes of values of objects that are written and put into their places together, and their number, at the most.
const BATCH_BYTES: u64 = 16 << 20;
const BATCH: usize = 16;

/// Writes objects anew as planned, and removes what they alone needed. Where the disk is full, those come first for which there is room. Gives
/// the error that has stopped it before its end, if there is nothing that nobody needs: no room is left, or `watch` says to stop. `pruned` says
/// what was done.
///
/// # Errors
/// If the system refuses anything else. What is damaged stays as it is.
pub(crate) fn carry_out(
    writer: &Writer<'_>,
    kept: &[Manifest],
    rebases: Vec<Rebase>,
    watch: &Watch<'_>,
    pruned: &mut Pruned,
) -> Result<Option<StoreError>, StoreError> {
    let mut work = Work::new(writer, kept)?;
    let (mut waiting, mut refused) = (VecDeque::from(rebases), VecDeque::<Rebase>::new());
    let (mut most, mut before) = (BATCH, 0);
    pruned.left = waiting.len();
    loop {
        let mut full = None;
        while let Some(batch) = work.next_batch(&mut waiting, most)? {
            let is_one = batch.len() == 1;
            match work.write(&batch, watch) {
                Ok(staged) => {
                    work.put(staged, &batch, pruned)?;
                    pruned.rebased += batch.len();
                    pruned.left -= batch.len();
                }
                Err(error) if error.is_full() && is_one => {
                    refused.extend(batch);
                    full = Some(error);
                }
                Err(error) if error.is_damage() && is_one => pruned.left -= 1,
                Err(error) if error.is_full() || error.is_damage() => {
                    most = 1;
                    batch.into_iter().rev().for_each(|rebase| waiting.push_front(rebase));
                }
                Err(error @ StoreError::File(FileError::Cancelled)) => return Ok(Some(error)),
                Err(error) => return Err(error),
            }
        }
        match full {
            Some(error) if pruned.rebased == before => {
                pruned.room = refused.iter().map(|rebase| rebase.choice.estimate).min().unwrap_or(0);
                return Ok(Some(error));
            }
            // What was written has freed something.
            Some(_) => (waiting, before) = (std::mem::take(&mut refused), pruned.rebased),
            None => return Ok(None),
        }
    }
}

/// A store whose objects are written anew, with what needs what.
struct Work<'a, 'b> {
    writer: &'a Writer<'b>,
    headers: Headers<'b>,
    named: HashSet<Address>,
    /// Objects that are needed, by the one that they are differences from.
    children: HashMap<Address, HashSet<Address>>,
    longest: usize,
    codecs: Codecs,
}

impl<'a, 'b> Work<'a, 'b> {
    fn new(writer: &'a Writer<'b>, kept: &[Manifest]) -> Result<Self, StoreError> {
        let mut headers = Headers::new(writer.store());
        let named: HashSet<Address> = kept.iter().flat_map(Manifest::objects).collect();
        let mut children: HashMap<Address, HashSet<Address>> = HashMap::new();
        let (mut seen, mut longest) = (HashSet::new(), 1);
        for address in &named {
            longest = longest.max(headers.chain_len(*address)?.unwrap_or(0));
            for link in headers.chain(*address, &mut seen)? {
                if let Some(base) = headers.get(link)?.and_then(|header| header.base) {
                    children.entry(base).or_default().insert(link);
                }
            }
        }
        let longest = longest.min(LONGEST_WRITTEN);
        Ok(Self { writer, headers, named, children, longest, codecs: codecs()? })
    }

    /// The next objects, none of which is differences from another one of them.
    fn next_batch(
        &mut self,
        waiting: &mut VecDeque<Rebase>,
        most: usize,
    ) -> Result<Option<Vec<Rebase>>, StoreError> {
        let (mut batch, mut bytes) = (Vec::<Rebase>::new(), 0);
        while let Some(mut rebase) = waiting.pop_front() {
            bytes += rebase.item.bytes;
            let links = self.links(&rebase)?;
            let is_within = batch.iter().any(|other| links.contains(&other.address));
            let has_room = batch.len() < most && bytes <= BATCH_BYTES;
            if !batch.is_empty() && (is_within || !has_room) {
                waiting.push_front(rebase);
                break;
            }
            if links != rebase.links {
                let (store, item) = (self.writer.store(), &rebase.item);
                let again = choose_again(
                    store,
                    rebase.address,
                    item,
                    &links,
                    &self.named,
                    &self.codecs,
                    self.longest,
                );
                match again {
                    Ok(choice) => rebase = Rebase { choice, links, ..rebase },
                    // It is found damaged once more when it is written.
                    Err(error) if error.is_damage() => {}
                    Err(error) => return Err(error),
                }
            }
            batch.push(rebase);
        }
        Ok(Some(batch).filter(|batch| !batch.is_empty()))
    }

    /// The chain that differences of an object may be taken from, as it is now: none if it has the object itself, or those behind the object would
    /// be in chains that readers refuse.
    fn links(&mut self, rebase: &Rebase) -> Result<Vec<Address>, StoreError> {
        let Some(near) = rebase.links.last() else { return Ok(Vec::new()) };
        let (mut links, mut next) = (Vec::new(), Some(*near));
        while let Some(address) = next {
            links.push(address);
            match self.headers.get(address)? {
                Some(header) if links.len() <= LONGEST_CHAIN && address != rebase.address => {
                    next = header.base;
                }
                _ => return Ok(Vec::new()),
            }
        }
        links.reverse();
        let is_fit = links.len() + self.depth(rebase.address) <= LONGEST_CHAIN;
        Ok(if is_fit { links } else { Vec::new() })
    }

    /// Objects of the longest chain from this one on.
    fn depth(&self, address: Address) -> usize {
        let (mut depth, mut row) = (0, vec![address]);
        while !row.is_empty() && depth <= LONGEST_CHAIN {
            depth += 1;
            row = row.iter().filter_map(|address| self.children.get(address)).flatten().copied().collect();
        }
        depth
    }

    /// Writes objects, which are not in their places yet.
    fn write(&self, batch: &[Rebase], watch: &Watch<'_>) -> Result<TempDir, StoreError> {
        let store = self.writer.store();
        let chains = batch.iter().map(|rebase| Chain::open(store, rebase.address));
        let chains = chains.collect::<Result<Vec<Chain>, StoreError>>()?;
        let hashes = chains.iter().map(|chain| hash_values(chain, watch));
        let hashes = hashes.collect::<Result<Vec<Vec<PieceHash>>, StoreError>>()?;
        let job = |((rebase, chain), hashes)| {
            let Rebase { address, item, choice, .. }: &Rebase = rebase;
            Job { origin: Origin::Object(chain), item, address: *address, hashes, plan: choice.plan.clone() }
        };
        let jobs: Vec<Job<'_>> =
            batch.iter().zip(&chains).zip(hashes.iter().map(Vec::as_slice)).map(job).collect();
        let staged = self.writer.stage()?;
        write_objects(store, &jobs, staged.path(), watch)?;
        Ok(staged)
    }

    /// Puts them into their places, and removes what they alone needed.
    fn put(&mut self, staged: TempDir, batch: &[Rebase], pruned: &mut Pruned) -> Result<(), StoreError> {
        let mut before = Vec::new();
        for rebase in batch {
            before.push(self.headers.get(rebase.address)?.cloned());
        }
        let places = batch.iter().enumerate();
        let places = places.map(|(number, rebase)| (rebase.address, staged_path(staged.path(), number)));
        self.writer.place(&places.collect::<Vec<_>>())?;
        drop(staged);
        for (Rebase { address, .. }, before) in batch.iter().zip(before) {
            self.headers.forget(*address);
            let header = self.headers.get(*address)?;
            let (base, stored) = header.map_or((None, 0), |header| (header.base, header.stored));
            pruned.bytes_after += stored;
            pruned.bytes_after -= before.as_ref().map_or(0, |header| header.stored);
            if let Some(base) = base {
                self.children.entry(base).or_default().insert(*address);
            }
            if let Some(old) = before.and_then(|header| header.base).filter(|old| Some(*old) != base) {
                self.release(old, *address, pruned)?;
            }
        }
        Ok(())
    }

    /// Removes a base, and what it needs, if the child that goes was the last that needs it.
    fn release(&mut self, base: Address, child: Address, pruned: &mut Pruned) -> Result<(), StoreError> {
        let (mut child, mut next) = (child, Some(base));
        while let Some(base) = next {
            let children = self.children.entry(base).or_default();
            children.remove(&child);
            if !children.is_empty() || self.named.contains(&base) {
                break;
            }
            next = self.headers.get(base)?.and_then(|header| header.base);
            let path = self.writer.store().object_path(base);
            let remove = FileError::io("remove", &path);
            let bytes = fs::symlink_metadata(&path).map_err(&remove)?.len();
            fs::remove_file(&path).map_err(&remove)?;
            pruned.swept.add(Swept { objects: 1, bytes, staged: 0 });
            pruned.bytes_after -= bytes;
            child = base;
        }
        Ok(())
    }
}

/// Decodes an object and compares its values with its address.
fn hash_values(chain: &Chain, watch: &Watch<'_>) -> Result<Vec<PieceHash>, StoreError> {
    let header = chain.header();
    let count = pieces_of(header.bytes) as usize;
    let hashes = Mutex::new(vec![PieceHash::default(); count]);
    watch.for_each(count, |piece, values| {
        chain.read_piece(piece as u64, values, &mut Scratch::default())?;
        hashes.lock().unwrap_or_else(PoisonError::into_inner)[piece] = hash_of_piece(values);
        Ok::<_, StoreError>(())
    })?;
    let hashes = hashes.into_inner().unwrap_or_else(PoisonError::into_inner);
    if address_of(header.dtype_name(), header.bytes, &hashes) != header.address {
        return Err(StoreError::object(header.address, OTHER_HASH));
    }
    Ok(hashes)
}
