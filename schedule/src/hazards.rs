//! Dependencies of ops, derived from hazards: which of the earlier ops of its rank an op must wait for, as they read or write the same
//! bytes.

use std::collections::BTreeMap;

use crate::plan::{Effects, Exchange, Maximum, OpKind, Region};
use crate::{Channel, OpId, SizeId, Stage};

/// State of the memory, the sizes and the channels of a rank behind the ops so far.
///
/// An op depends on the last writers of what it reads, on the last writers and readers of what it writes, and on the definers of sizes that
/// it uses (of all operands, if such a size is a maximum). Lanes add order: an exchange or a call of a library waits for the previous one of
/// its channel, a compute phase for the previous phase, an exchange of an explicit flow that has steps for those of the step before. Sizes
/// are in no buffer: an exchange of sizes also depends on the last exclusive compute phase, so that a rank is in no collective of the main
/// channel during one.
#[derive(Debug, Default)]
pub(crate) struct Hazards {
    writers: Accesses,
    readers: Accesses,
    /// Compute phases that read. Each waits for the one before, so of those that read the same bytes the last one is enough.
    phases: Accesses,
    /// The ops that define each size; for a maximum, those that define its operands.
    definers: Vec<Vec<OpId>>,
    last_exchanges: BTreeMap<Channel, Exchanges>,
    steps: Steps,
    pub(crate) last_compute: Option<OpId>,
    last_exclusive: Option<OpId>,
}

impl Hazards {
    /// No op yet, and sizes that are all undefined.
    pub(crate) fn of_sizes(count: u32) -> Self {
        Self { definers: vec![Vec::new(); count as usize], ..Self::default() }
    }

    pub(crate) fn add_size(&mut self) {
        self.definers.push(Vec::new());
    }

    pub(crate) fn ends_with_call(&self, channel: Channel) -> bool {
        self.last_exchanges.get(&channel).is_some_and(|last| last.is_call)
    }

    /// Dependencies of the next op, which is then taken into account for those that follow.
    pub(crate) fn depend(
        &mut self,
        id: OpId,
        kind: &OpKind,
        effects: Effects,
        maxima: &[Maximum],
    ) -> Vec<OpId> {
        let Effects { reads, writes, defines, uses, .. } = effects;
        let (reads, writes) = (union(reads), union(writes));
        let mut deps: Vec<OpId> = Vec::new();
        self.writers.meet(&reads, &mut deps);
        self.writers.meet(&writes, &mut deps);
        self.readers.meet(&writes, &mut deps);
        self.phases.meet(&writes, &mut deps);
        deps.extend(uses.iter().flat_map(|size| &self.definers[size.index()]));
        match kind {
            OpKind::Exchange(exchange) => {
                let Exchange { channel, joins_previous, .. } = *exchange;
                let last = self.last_exchanges.entry(channel).or_default();
                deps.extend(last.follow(id, joins_previous, false));
                if let Some(step) = channel.flow().and_then(|flow| flow.step) {
                    deps.extend(self.steps.enter(step, id));
                }
                let waits = exchange.stage == Stage::Sizes && !exchange.channel.is_background();
                deps.extend(self.last_exclusive.filter(|_| waits));
            }
            OpKind::Compute(compute) => {
                deps.extend(self.last_compute.replace(id));
                if compute.is_exclusive {
                    self.last_exclusive = Some(id);
                }
            }
            OpKind::Library(library) => {
                let last = self.last_exchanges.entry(library.channel).or_default();
                deps.extend(last.follow(id, false, true));
            }
            OpKind::Local(_) => {}
        }
        deps.sort_unstable();
        deps.dedup();
        deps.shrink_to_fit();

        // A covering write supersedes what it covers: whoever comes next depends on it instead.
        for accesses in [&mut self.writers, &mut self.readers, &mut self.phases] {
            accesses.remove_covered(&writes);
        }
        self.writers.insert(id, &writes);
        if matches!(kind, OpKind::Compute(_)) {
            self.phases.remove_covered(&reads);
            self.phases.insert(id, &reads);
        } else {
            self.readers.insert(id, &reads);
        }
        self.define(id, &defines, maxima);
        deps
    }

    fn define(&mut self, op: OpId, sizes: &[SizeId], maxima: &[Maximum]) {
        sizes.iter().for_each(|size| self.definers[size.index()].push(op));
        if sizes.is_empty() {
            return;
        }
        for Maximum { size, of } in maxima {
            if of.iter().any(|operand| self.definers[operand.index()].last() == Some(&op)) {
                self.definers[size.index()].push(op);
            }
        }
    }
}

/// The exchanges of a channel that are open together at the end of a program, or the call of a library there.
#[derive(Debug, Default)]
struct Exchanges {
    together: Vec<OpId>,
    /// Exchanges that the group before had open together.
    before: Vec<OpId>,
    is_call: bool,
}

impl Exchanges {
    /// Adds an exchange or a call, and returns those that must have completed before it is opened.
    fn follow(&mut self, id: OpId, joins_previous: bool, is_call: bool) -> &[OpId] {
        self.is_call = is_call;
        if !joins_previous {
            self.before = std::mem::take(&mut self.together);
        }
        self.together.push(id);
        &self.before
    }
}

/// Exchanges of explicit flows in the last step, and in the step before it.
#[derive(Debug, Default)]
struct Steps {
    last: Option<u32>,
    of_last: Vec<OpId>,
    before: Vec<OpId>,
}

impl Steps {
    /// Adds an exchange of a step, and returns those that must have completed before it is opened.
    fn enter(&mut self, step: u32, id: OpId) -> &[OpId] {
        if self.last.replace(step) != Some(step) {
            self.before = std::mem::take(&mut self.of_last);
        }
        self.of_last.push(id);
        &self.before
    }
}

/// Ops that read, or that write, indexed by buffer and offset, so that programs of many ops are built in reasonable time.
#[derive(Debug, Default)]
pub(crate) struct Accesses {
    buffers: Vec<Places>,
}

/// Accesses to one buffer, ordered by offset, then by op; they may overlap.
#[derive(Debug, Default)]
struct Places {
    all: Vec<Access>,
    /// Bytes of the longest access ever inserted.
    longest: u64,
}

#[derive(Clone, Copy, Debug)]
struct Access {
    offset: u64,
    len: u64,
    op: OpId,
}

impl Accesses {
    /// Adds the accesses of an op; `regions` are as [`union`] returns them.
    pub(crate) fn insert(&mut self, op: OpId, regions: &[Region]) {
        for regions in of_one_buffer(regions) {
            let buffer = regions[0].buffer.index();
            if self.buffers.len() <= buffer {
                self.buffers.resize_with(buffer + 1, Places::default);
            }
            self.buffers[buffer].insert(op, regions);
        }
    }

    /// Appends the ops that share a byte with one of `regions`, as [`union`] gives them, in any order and number.
    pub(crate) fn meet(&self, regions: &[Region], ops: &mut Vec<OpId>) {
        for regions in of_one_buffer(regions) {
            if let Some(places) = self.buffers.get(regions[0].buffer.index()) {
                places.meet(regions, ops);
            }
        }
    }

    /// Removes every access that one of `regions`, as [`union`] gives them, covers.
    pub(crate) fn remove_covered(&mut self, regions: &[Region]) {
        for regions in of_one_buffer(regions) {
            if let Some(places) = self.buffers.get_mut(regions[0].buffer.index()) {
                places.remove_covered(regions);
            }
        }
    }
}

impl Places {
    fn insert(&mut self, op: OpId, regions: &[Region]) {
        self.longest = regions.iter().map(|region| region.len).fold(self.longest, u64::max);
        let access = |region: &Region| Access { offset: region.offset, len: region.len, op };
        let place = |access: &Access| (access.offset, access.op);
        let is_behind = self.all.last().is_none_or(|last| place(last) < (regions[0].offset, op));
        match regions {
            [region] if !is_behind => {
                let index = self.all.partition_point(|known| place(known) < (region.offset, op));
                self.all.insert(index, access(region));
            }
            _ => {
                self.all.extend(regions.iter().map(access));
                // Two runs in order, which a stable sort merges.
                if !is_behind {
                    self.all.sort_by_key(place);
                }
            }
        }
    }

    fn meet(&self, regions: &[Region], ops: &mut Vec<OpId>) {
        // What begins before the end of a region and reaches a later one meets both: it is known by then.
        let mut begin = 0;
        for region in regions {
            // What begins earlier ends before the region.
            let first = (region.offset + 1).saturating_sub(self.longest);
            begin += self.all[begin..].partition_point(|access| access.offset < first);
            while let Some(access) = self.all.get(begin).filter(|access| access.offset < region.end()) {
                // Neighbours are often of one op.
                if access.offset + access.len > region.offset && ops.last() != Some(&access.op) {
                    ops.push(access.op);
                }
                begin += 1;
            }
        }
    }

    fn remove_covered(&mut self, regions: &[Region]) {
        let (Some(first), Some(last)) = (regions.first(), regions.last()) else { return };
        let begin = self.all.partition_point(|access| access.offset < first.offset);
        let mut regions = regions.iter().peekable();
        let mut end = begin;
        let mut kept = begin;
        while let Some(&access) = self.all.get(end).filter(|access| access.offset < last.end()) {
            // Regions are disjoint and in order, as the accesses are: those that end before this one begins cover none of the others.
            while regions.next_if(|region| region.end() <= access.offset).is_some() {}
            let covers = |region: &&Region| {
                region.offset <= access.offset && access.offset + access.len <= region.end()
            };
            if !regions.peek().is_some_and(covers) {
                self.all[kept] = access;
                kept += 1;
            }
            end += 1;
        }
        self.all.drain(kept..end);
    }
}

/// The same bytes as disjoint regions in order, none of them empty.
pub(crate) fn union(mut regions: Vec<Region>) -> Vec<Region> {
    regions.retain(|region| region.len > 0);
    regions.sort_unstable_by_key(|region| (region.buffer, region.offset));
    let mut merged: Vec<Region> = Vec::with_capacity(regions.len());
    for region in regions {
        match merged.last_mut() {
            Some(last) if last.overlaps(&region) => last.len = last.end().max(region.end()) - last.offset,
            _ => merged.push(region),
        }
    }
    merged
}

/// The regions of each buffer, which follow one another.
fn of_one_buffer(regions: &[Region]) -> impl Iterator<Item = &[Region]> {
    regions.chunk_by(|first, second| first.buffer == second.buffer)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::BufferId;

    #[test]
    fn accesses_meet_where_a_pair_of_regions_overlaps() {
        let region = |buffer, offset, len| Region { buffer: BufferId(buffer), offset, len };
        // All pairs of short regions in two buffers, two of them known at a time, against the definition.
        let all: Vec<Region> = (0..2)
            .flat_map(|b| (0..5).flat_map(move |o| (1..4).map(move |l| region(b, 2 * o, 2 * l - 1))))
            .collect();
        let step = if cfg!(miri) { 7 } else { 1 };
        for (i, &a) in all.iter().enumerate().step_by(step) {
            for (j, &b) in all.iter().enumerate().step_by(step) {
                let mut accesses = Accesses::default();
                accesses.insert(OpId(0), &[a]);
                accesses.insert(OpId(1), &[b]);
                let query = union(vec![all[(i * 7 + 3) % all.len()], all[(j * 5 + 1) % all.len()]]);
                let ops = |accesses: &Accesses| {
                    let mut ops = Vec::new();
                    accesses.meet(&query, &mut ops);
                    BTreeSet::from_iter(ops)
                };
                let overlaps = |(_, x): &(OpId, Region)| query.iter().any(|y| x.overlaps(y));
                let known = [(OpId(0), a), (OpId(1), b)];
                let expected: BTreeSet<OpId> = known.into_iter().filter(overlaps).map(|(op, _)| op).collect();
                assert_eq!(ops(&accesses), expected, "{a:?} {b:?} {query:?}");
                accesses.remove_covered(&query);
                let is_left = |(_, x): &(OpId, Region)| !query.iter().any(|y| y.covers(x));
                let left: BTreeSet<OpId> =
                    known.into_iter().filter(|x| overlaps(x) && is_left(x)).map(|(op, _)| op).collect();
                assert_eq!(ops(&accesses), left, "{a:?} {b:?} {query:?}");
            }
        }
    }
}
