//! How much memory a run takes, and how much it may take.

use std::fmt;

use zipwire_scenarios::{Experiment, Variant};
use zipwire_schedule::plan::{Block, OpKind, Plan, Transfer};
use zipwire_schedule::{Protocol, TokenMap, Work};

use crate::Executor;

/// Bytes that a span takes until it is written, with what a simulation keeps of its transfer: an All-to-All of 1024 ranks peaks at
/// 195 for each beside the plan, in one burst, and at 110 in rounds.
const SPAN_BYTES: u64 = 200;

/// Bytes that a run may take.
#[derive(Clone, Copy, Debug)]
pub(crate) enum MemoryLimit {
    /// Stated by the user.
    Stated(u64),
    /// What the system could give when somebody looked.
    Available(u64),
    /// The system does not say.
    Unknown,
}

impl MemoryLimit {
    /// The stated limit, or what the system could give now.
    pub(crate) fn new(stated: Option<u64>) -> Self {
        match (stated, available()) {
            (Some(bytes), _) => Self::Stated(bytes),
            (None, Some(bytes)) => Self::Available(bytes),
            (None, None) => Self::Unknown,
        }
    }

    /// Bytes, if there is a limit.
    pub(crate) fn bytes(self) -> Option<u64> {
        match self {
            Self::Stated(bytes) | Self::Available(bytes) => Some(bytes),
            Self::Unknown => None,
        }
    }

    /// Whether a run of so many bytes stays within it.
    pub(crate) fn allows(self, bytes: u64) -> bool {
        self.bytes().is_none_or(|limit| bytes <= limit)
    }
}

impl fmt::Display for MemoryLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Stated(bytes) => write!(f, "`--memory` allows {}", gigabytes(bytes)),
            Self::Available(bytes) => write!(f, "{} are available", gigabytes(bytes)),
            Self::Unknown => write!(f, "it is not known how much is available"),
        }
    }
}

pub(crate) fn gigabytes(bytes: u64) -> String {
    format!("{:.2} GB", bytes as f64 / 1e9)
}

/// What a variant takes, before it is planned. At the least: what else there is depends on the number of ranks only.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Footprint {
    /// Bytes of its plan.
    pub(crate) plan: u64,
    /// Bytes of the timeline of all iterations.
    pub(crate) timeline: u64,
}

impl Footprint {
    /// That of one variant of an experiment.
    pub(crate) fn of(experiment: &Experiment, variant: &Variant) -> Self {
        if variant.is_adaptive() {
            let arms = variant.arms.iter().map(|arm| Self::of(experiment, arm));
            return arms.fold(Self::default(), |most, of| Self {
                plan: most.plan.max(of.plan),
                timeline: most.timeline.max(of.timeline),
            });
        }
        let stages = match variant.protocol {
            Protocol::Native => 1,
            Protocol::SizeFirst | Protocol::InBand | Protocol::Speculative => 2,
            Protocol::StaticFirst | Protocol::OverlapSizes => 3,
        };
        let ranks = u64::from(experiment.job.rank_count);
        let (mut ends, mut blocks) = (0, 0);
        for segment in &experiment.job.segments {
            if let (Some(ranks_per_node), Some(tokens)) = (variant.dedup, segment.work.tokens()) {
                let (first, second) = legs(tokens, ranks_per_node);
                ends += 2 * (first * stages + second);
                blocks += if stages > 1 { first } else { 0 };
                continue;
            }
            let (transfers, stages) = match &segment.work {
                Work::Compute { .. } => (0, 1),
                Work::AllToAll { bytes, .. } => {
                    let moves = |&((src, dst), bytes): &((usize, usize), &u64)| src != dst && *bytes > 0;
                    (bytes.indexed_iter().filter(moves).count() as u64, stages)
                }
                Work::AllGather { .. } => (ranks * (ranks - 1), stages),
                Work::Broadcast { .. } => (ranks - 1, stages),
                // Each rank has something for each other; of an All-Reduce, twice.
                Work::ReduceScatter { .. } => (ranks * (ranks - 1), stages),
                Work::AllReduce { .. } => (2 * ranks * (ranks - 1), stages),
                Work::Transfers { flows, .. } => (flows.len() as u64, 1),
            };
            ends += 2 * transfers * stages;
            blocks += if stages > 1 { transfers } else { 0 };
        }
        Self {
            plan: ends * size_of::<Transfer>() as u64 + blocks * size_of::<Block>() as u64,
            timeline: ends * u64::from(experiment.iterations) * SPAN_BYTES,
        }
    }
}

/// Transfers of each leg where gateways hand on what several ranks of a node want.
fn legs(tokens: &TokenMap, ranks_per_node: u32) -> (u64, u64) {
    let ranks = tokens.rank_count();
    let node = |rank: u32| rank / ranks_per_node;
    let bytes = tokens.bytes();
    let (mut first, mut second) = (0, 0);
    for src in 0..ranks {
        let wants = |dst: &u32| bytes[[src as usize, *dst as usize]] > 0;
        let near = (0..ranks).filter(|&dst| dst != src && node(dst) == node(src)).filter(wants);
        first += near.count() as u64;
        let other = (0..ranks / ranks_per_node).filter(|&other| other != node(src));
        for ranks_of_node in other.map(|node| node * ranks_per_node..(node + 1) * ranks_per_node) {
            let gateway = ranks_of_node.start + src % ranks_per_node;
            first += u64::from(ranks_of_node.clone().any(|dst| wants(&dst)));
            second += ranks_of_node.filter(|&dst| dst != gateway).filter(wants).count() as u64;
        }
    }
    (first, second)
}

/// Bytes that running `plan` takes at the least: the buffers of all ranks where they are here, and all spans.
pub(crate) fn needed(plan: &Plan, iterations: u32, executor: Executor) -> u64 {
    let spans = |kind: &OpKind| match kind {
        OpKind::Exchange(exchange) => 1 + exchange.sends.len() as u64 + exchange.receives.len() as u64,
        OpKind::Compute(_) | OpKind::Encode(_) | OpKind::Decode(_) | OpKind::Reduce(_) | OpKind::Copy(_) => 1,
    };
    let ops = plan.programs.iter().flat_map(|program| &program.ops);
    let timeline = ops.map(|op| spans(&op.kind)).sum::<u64>() * u64::from(iterations) * SPAN_BYTES;
    match executor {
        // Those of GPUs are in memory of their own.
        Executor::Sim | Executor::Cuda | Executor::Nccl => timeline,
        Executor::Threads | Executor::Mpi => timeline + plan.buffer_bytes(),
    }
}

/// Bytes that the system could give, if it says so.
fn available() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find(|line| line.starts_with("MemAvailable:"))?;
    let kibibytes: u64 = line.split_whitespace().nth(1)?.parse().ok()?;
    Some(kibibytes * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is promised before a plan is made holds for the plan that is made.
    #[test]
    fn a_plan_takes_no_less_than_was_said() {
        let text = include_str!("../scenarios/smoke/moe-dirichlet-2x2.toml");
        let source = zipwire_scenarios::Source::from_text("moe.toml", text, "scenarios/smoke");
        let experiment = zipwire_scenarios::load(&source, &[], None).unwrap();
        let prepared = crate::Prepared::new(&experiment, &crate::Cancel::default()).unwrap();
        for (variant, planned) in prepared.variants() {
            let Footprint { plan, timeline } = Footprint::of(&experiment, variant);
            let (mut ends, mut blocks) = (0, 0);
            for op in planned.plan.programs.iter().flat_map(|program| &program.ops) {
                match &op.kind {
                    OpKind::Exchange(exchange) => ends += exchange.sends.len() + exchange.receives.len(),
                    OpKind::Encode(batch) => blocks += batch.blocks.len(),
                    OpKind::Compute(_) | OpKind::Decode(_) | OpKind::Reduce(_) | OpKind::Copy(_) => {}
                }
            }
            assert_eq!(plan as usize, ends * size_of::<Transfer>() + blocks * size_of::<Block>());
            assert!(timeline > 0);
            assert!(timeline <= needed(&planned.plan, experiment.iterations, Executor::Sim));
        }
    }
}
