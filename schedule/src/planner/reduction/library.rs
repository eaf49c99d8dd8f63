//! A reduction as one call of a library.

use super::super::call::Phase;
use super::{Scatter, reduce};
use crate::builder::ProgramBuilder;
use crate::plan::{Addition, Chunk, Content, Library, Region, Share, Term};
use crate::{Channel, Collective, Rank, Stage};

impl Scatter<'_> {
    /// A Reduce-Scatter. A library adds up what it is given and gives sums of the same type, so what is summed up in FP32 is
    /// widened before.
    pub(super) fn by_library(&mut self, builder: &mut ProgramBuilder) -> Vec<Phase> {
        let mut contributions = self.contributions();
        let mut phases = Vec::new();
        if self.operands.dtype != self.operands.sums {
            let additions: Vec<Addition> = contributions.iter().map(|&term| self.widened(term)).collect();
            contributions = additions.iter().map(Addition::as_term).collect();
            phases.extend(reduce(additions));
            builder.reserve(self.operands.summands, self.end);
        }
        let total = self.operands.total().as_dtype(self.operands.sums);
        let chunk = Chunk::between(self.rank, self.rank).with_sum(total);
        let sum = Term { chunk, values: self.output };
        phases.push(library(Collective::ReduceScatter, self.rank_count, &contributions, &[sum]));
        phases
    }

    /// An All-Reduce whose sums lie at `sums`, by shard.
    pub(super) fn all_by_library(&self, sums: &[Region]) -> Phase {
        let total = self.operands.total().as_dtype(self.operands.dtype);
        let sum = |(shard, &values): (u32, &Region)| Term {
            chunk: Chunk::for_all(Rank(shard)).with_sum(total),
            values,
        };
        let sums: Vec<Term> = (0..).zip(sums).map(sum).collect();
        library(Collective::AllReduce, self.rank_count, &self.contributions(), &sums)
    }
}

/// One call that adds up what ranks contribute; empty shards are left out.
fn library(collective: Collective, ranks: u32, contributions: &[Term], sums: &[Term]) -> Phase {
    let shares = |terms: &[Term]| -> Vec<Share> {
        let moving = terms.iter().filter(|term| term.values.len > 0);
        moving.map(|term| Share { chunk: term.chunk, content: Content::Values(term.values) }).collect()
    };
    let (inputs, outputs) = (shares(contributions), shares(sums));
    let (channel, stage) = (Channel::Main, Stage::Raw);
    Phase::Library(Library { collective, ranks, channel, stage, part: 0, inputs, outputs })
}
