//! Calls of the library's own collectives: they begin when the last rank has issued them, take their declared time, and end on all
//! ranks at once. The network does not know of them.

use zipwire_schedule::{OpId, Rank, SizeId};
use zipwire_timeline::Span;

use super::Iteration;
use crate::queue::Event;

/// A call that all ranks have issued.
pub(super) struct Call {
    /// When the last rank issued it.
    begin_s: f64,
    /// Sizes that come with what it moves.
    pub(super) sizes: Vec<(SizeId, u64)>,
}

impl Iteration<'_> {
    /// A rank issues a call.
    pub(super) fn call(&mut self, rank: Rank, op: OpId) {
        let machine = &self.hosts[rank.index()].machine;
        let (library, ring_bytes) = (machine.library(op), machine.ring_bytes(op));
        let key = library.key(machine.op(op).segment);
        let seconds = self.setup.costs.call_s(library, ring_bytes);
        if ring_bytes == 0 {
            // All ranks know that: nobody calls.
            self.queue.push(self.now_s, Event::Ended { rank, op });
            return;
        }
        let rank_count = self.hosts.len();
        let issued = self.issued_calls.entry(key).or_default();
        issued.push((rank, op));
        if issued.len() < rank_count {
            return;
        }
        let issued = self.issued_calls.remove(&key).unwrap_or_default();
        let calls: Vec<Call> = issued
            .iter()
            .map(|&end| Call { begin_s: self.now_s, sizes: self.sizes_for(end, &issued) })
            .collect();
        for ((rank, op), call) in issued.into_iter().zip(calls) {
            let host = self.host(rank);
            host.calls.insert(op, call);
            host.moving += 1;
            self.queue.push(self.now_s + seconds, Event::Returns { rank, op });
            self.adapt_compute(rank);
        }
    }

    /// The sizes that a rank gets in a call, as those know them who give them.
    fn sizes_for(&self, (rank, op): (Rank, OpId), issued: &[(Rank, OpId)]) -> Vec<(SizeId, u64)> {
        let library = self.hosts[rank.index()].machine.library(op);
        let received =
            library.outputs.iter().filter_map(|share| Some((share.chunk, share.content.brings()?)));
        let sizes = received.filter_map(|(chunk, size)| {
            issued.iter().find_map(|&(origin, op)| {
                let machine = &self.hosts[origin.index()].machine;
                let given = machine.library(op).inputs.iter().find(|share| share.chunk == chunk)?;
                Some((size, machine.size(given.content.brings()?)?))
            })
        });
        sizes.collect()
    }

    /// The library has done what it was called for; the host knows of sizes later.
    pub(super) fn return_from_call(&mut self, rank: Rank, op: OpId) {
        let (now_s, index, sync_s) = (self.now_s, self.index, self.setup.costs.host.sync_s);
        let host = self.host(rank);
        host.moving -= 1;
        let call = &host.calls[&op];
        let known_s = if call.sizes.is_empty() { now_s } else { now_s + sync_s };
        let spans = Span::of_call(&host.machine, index, host.machine.op(op), call.begin_s, now_s);
        self.spans.extend(spans);
        self.queue.push(known_s, Event::Ended { rank, op });
        self.adapt_compute(rank);
    }
}
