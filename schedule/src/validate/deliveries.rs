//! Deliveries: the plan brings each rank exactly the bytes that its job says, whatever the way.

use crate::members::Members;
use crate::plan::{Effects, PlanError, Program, Region};
use crate::{CallKind, Flow, Job, Rank, Segment, Work};

/// Bytes that the ranks of a job wait for.
pub(super) struct Deliveries<'a> {
    job: &'a Job,
    /// Flows that each rank gets, by segment; none for collectives.
    flows: Vec<Vec<Vec<(Rank, u64)>>>,
}

impl<'a> Deliveries<'a> {
    pub(super) fn new(job: &'a Job) -> Self {
        let by_rank = |segment: &Segment| {
            let Work::Transfers { flows, .. } = &segment.work else { return Vec::new() };
            let mut by_rank = vec![Vec::new(); job.rank_count as usize];
            flows.iter().for_each(|&Flow { src, dst, bytes, .. }| by_rank[dst.index()].push((src, bytes)));
            by_rank
        };
        Self { job, flows: job.segments.iter().map(by_rank).collect() }
    }

    /// Checks that a program fills, of each output, as many bytes as the job wants, each of the rank that has them; a
    /// reduction, with sums of what all ranks contribute. `effects` are those of its ops.
    pub(super) fn check(&self, program: &Program, effects: &[Effects]) -> Result<(), PlanError> {
        let segments = &self.job.segments;
        let mut brought: Vec<Vec<(Rank, Region)>> = vec![Vec::new(); segments.len()];
        for (op, Effects { delivers, sums, .. }) in program.ops.iter().zip(effects) {
            let Some(Segment { work, .. }) = segments.get(op.segment.index()) else { continue };
            let Some([_, output]) = work.slots() else { continue };
            let values = delivers.iter().chain(sums).filter(|(chunk, region)| {
                region.buffer.index() == output.index() && chunk.is_delivered(program.rank)
            });
            let brought = &mut brought[op.segment.index()];
            if work.is_reduction() {
                // Partial sums are on their way.
                let in_full = |count: usize| count == self.job.rank_count as usize;
                let totals = values.filter_map(|&(chunk, region)| Some((chunk.shard(), chunk.sum?, region)));
                let totals = totals.filter(|(_, sum, _)| in_full(sum.count()));
                // Sums may be wider than what is added up.
                let dtype = work.dtype().expect("reductions have values");
                brought.extend(totals.map(|(shard, sum, Region { buffer, offset, len })| {
                    let as_given = |bytes: u64| bytes / sum.dtype().width() as u64 * dtype.width() as u64;
                    (shard, Region { buffer, offset: as_given(offset), len: as_given(len) })
                }));
            } else {
                brought.extend(values.map(|(chunk, region)| (chunk.origin, *region)));
            }
        }
        for (index, (segment, brought)) in segments.iter().zip(brought).enumerate() {
            self.compare(program.rank, index, segment, brought)?;
        }
        Ok(())
    }

    fn compare(
        &self,
        rank: Rank,
        index: usize,
        segment: &Segment,
        brought: Vec<(Rank, Region)>,
    ) -> Result<(), PlanError> {
        let (expected, found) = (self.expected(rank, index), bytes_by_rank(brought, self.job.rank_count));
        match (0..).map(Rank).zip(expected.into_iter().zip(found)).find(|(_, (e, f))| e != f) {
            None => Ok(()),
            Some((of, (expected, found))) => {
                let segment = segment.name.to_string();
                Err(PlanError::Undelivered { rank, segment, of, expected, found })
            }
        }
    }

    /// Bytes that a rank waits for in a segment, by the rank that has them or, in reductions, whose shard they are.
    fn expected(&self, rank: Rank, segment: usize) -> Vec<u64> {
        let job = self.job;
        let mut expected = vec![0; job.rank_count as usize];
        let work = &job.segments[segment].work;
        let Some(call) = work.call() else {
            let flows = self.flows[segment].get(rank.index()).into_iter().flatten();
            flows.for_each(|&(src, bytes)| expected[src.index()] += bytes);
            return expected;
        };
        match call {
            CallKind::AllToAll { bytes, .. } => {
                expected.iter_mut().zip(bytes.column(rank.index())).for_each(|(all, &bytes)| *all = bytes);
                expected[rank.index()] = 0;
            }
            CallKind::AllGather { bytes } => {
                expected.copy_from_slice(bytes);
                expected[rank.index()] = 0;
            }
            CallKind::Broadcast { bytes, root, to } => {
                expected[root.index()] = if Members::new(*root, *to).gets(rank) { *bytes } else { 0 };
            }
            CallKind::ReduceScatter { bytes } => expected[rank.index()] = bytes[rank.index()],
            CallKind::AllReduce { .. } => expected = work.shards(job.rank_count),
        }
        expected
    }
}

/// Bytes of each rank's regions; those that it has several times count once.
fn bytes_by_rank(mut regions: Vec<(Rank, Region)>, rank_count: u32) -> Vec<u64> {
    regions.sort_unstable_by_key(|(rank, region)| (*rank, region.offset));
    let mut bytes = vec![0; rank_count as usize];
    for of_one in regions.chunk_by(|(first, _), (second, _)| first == second) {
        let mut end = 0;
        for (rank, region) in of_one {
            bytes[rank.index()] += region.end().saturating_sub(end.max(region.offset));
            end = end.max(region.end());
        }
    }
    bytes
}
