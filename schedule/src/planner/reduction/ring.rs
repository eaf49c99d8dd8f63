//! A reduction around rings: partial sums are handed on, and every rank adds what it contributes.

use super::super::call::Phase;
use super::super::rings::{Around, Rings};
use super::{Scatter, exchange_in_kernel, reduce, reduce_in_kernel};
use crate::DType;
use crate::plan::{Addition, Chunk, Region, Term};
use crate::planner::Choice;

impl Scatter<'_> {
    /// Step k, from 1 on, hands the sum of k contributions to the shard of the rank k steps before to the next rank. Each channel has a
    /// ring and a part of every shard. With slices, one is added up while the next travels.
    pub(super) fn ring(&mut self, choice: &Choice) -> Vec<Phase> {
        let Self { rank, rank_count, .. } = *self;
        let rings = Rings::new(choice.channels, choice.ranks_per_node, rank_count);
        let (slices, parts) = (choice.slices, rings.count() * choice.slices);
        let around: Vec<Around> = (0..parts).map(|part| rings.around(rank, part / slices)).collect();
        let sums_in = self.operands.sums;
        let mut phases = Vec::new();
        // What is handed on next, by part.
        let mut handed: Vec<Term> = (0..parts)
            .map(|part| self.contribution_part(around[part as usize].previous, part, parts))
            .collect();
        if self.operands.dtype != sums_in {
            // Partial sums are wider from the first step on: values are widened where they come from.
            let widened: Vec<Addition> = handed.iter().map(|&term| self.widened(term)).collect();
            handed = widened.iter().map(Addition::as_term).collect();
            phases.extend(reduce(widened));
        }
        // The first step in which the rank takes part launches the kernel.
        let mut is_running = false;
        for step in 1..rank_count {
            for slice in 0..slices {
                let of_slice = (0..rings.count()).map(|channel| channel * slices + slice);
                let (mut sends, mut receives, mut additions) = (Vec::new(), Vec::new(), Vec::new());
                for part in of_slice {
                    let ring = around[part as usize];
                    let (shard, position) = (ring.back(step + 1), ring.position_back(step + 1));
                    let partial = |count| self.operands.partial_around(ring.order, position, count);
                    let own = self.contribution_part(shard, part, parts);
                    let offset = self.operands.len_in(sums_in, own.chunk.offset);
                    let of_sum = |sum, dtype: DType| {
                        let offset = self.operands.len_in(dtype, own.chunk.offset);
                        Chunk { offset, ..own.chunk }.with_sum(sum)
                    };
                    let (before, after) = (partial(step).as_dtype(sums_in), partial(step + 1));
                    let is_last = step + 1 == rank_count;
                    let last = of_sum(after.as_dtype(self.sum_dtype), self.sum_dtype);
                    let next = of_sum(after.as_dtype(sums_in), sums_in);
                    let len = self.operands.len_in(sums_in, own.values.len);
                    let chunk = Chunk { origin: ring.previous, offset, ..own.chunk }.with_sum(before);
                    let received = Term { chunk, values: self.reserve(len) };
                    sends.push((ring.next, handed[part as usize]));
                    receives.push((ring.previous, received));
                    let sum = if is_last {
                        let (begin, len) =
                            (last.offset, self.operands.len_in(self.sum_dtype, own.values.len));
                        let values = Region { offset: self.output.offset + begin, len, ..self.output };
                        Term { chunk: last, values }
                    } else {
                        Term { chunk: next, values: received.values }
                    };
                    additions.push(Addition {
                        terms: vec![received, own],
                        chunk: sum.chunk,
                        values: sum.values,
                    });
                    handed[part as usize] = sum;
                }
                let call = exchange_in_kernel(sums_in, &sends, &receives, is_running);
                is_running |= !call.pieces.is_empty();
                phases.push(Phase::Call(call, Vec::new()));
                phases.extend(reduce_in_kernel(additions));
            }
        }
        phases
    }
}
