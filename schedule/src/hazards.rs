//! Dependencies of ops, derived from hazards: which of the earlier ops of its rank an op must wait for.

use std::collections::BTreeMap;

use crate::accesses::{Accesses, union};
use crate::plan::{Effects, Exchange, Maximum, OpKind};
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
    /// The ops that define each size; for a maximum, those that define its operands.
    definers: Vec<Vec<OpId>>,
    last_exchanges: BTreeMap<Channel, Exchanges>,
    steps: Steps,
    pub(crate) last_compute: Option<OpId>,
    /// The last exclusive compute phase.
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

    /// Whether the last op of a channel is a call of a library.
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
        for accesses in [&mut self.writers, &mut self.readers] {
            accesses.remove_covered(&writes);
        }
        self.writers.insert(id, &writes);
        self.readers.insert(id, &reads);
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
