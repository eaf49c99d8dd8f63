//! Checks every invariant of a plan that executors rely on, before anything runs.

use std::collections::BTreeMap;

use petgraph::graph::{DiGraph, NodeIndex};

use crate::plan::{Content, Exchange, Op, OpKind, Plan, Program, Region, Transfer};
use crate::{OpId, Rank, SegmentId, SizeId, Stage};

/// Cross-rank checks hold the whole plan in a graph; above this rank count only per-rank checks run.
const WHOLE_PLAN_RANKS: u32 = 256;

/// Why a plan cannot be executed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PlanError {
    /// A region reaches beyond its buffer.
    #[error("op `{op}` of rank {rank} uses `{region}` beyond the end of its buffer")]
    OutOfBuffer {
        /// Where.
        rank: Rank,
        /// The op.
        op: OpId,
        /// The region, as text.
        region: String,
    },
    /// An op depends on itself or on a later one.
    #[error("op `{op}` of rank {rank} depends on `{dep}`, which is not earlier")]
    DependencyNotEarlier {
        /// Where.
        rank: Rank,
        /// The op.
        op: OpId,
        /// Its dependency.
        dep: OpId,
    },
    /// A size is read before an op defines it.
    #[error("op `{op}` of rank {rank} reads size `{size}` before its definition")]
    SizeNotDefined {
        /// Where.
        rank: Rank,
        /// The op.
        op: OpId,
        /// The size.
        size: SizeId,
    },
    /// A size has no definition or several.
    #[error("size `{size}` of rank {rank} has {definitions} definitions, expected 1")]
    SizeNotDefinedOnce {
        /// Where.
        rank: Rank,
        /// The size.
        size: SizeId,
        /// How many definitions it has.
        definitions: usize,
    },
    /// A rank sends to itself or to a rank that does not exist.
    #[error("op `{op}` of rank {rank} names peer {peer}, which is not another rank of the plan")]
    BadPeer {
        /// Where.
        rank: Rank,
        /// The op.
        op: OpId,
        /// The peer.
        peer: Rank,
    },
    /// A window that admits nothing.
    #[error("exchange `{op}` of rank {rank} has a window of zero")]
    EmptyWindow {
        /// Where.
        rank: Rank,
        /// The exchange.
        op: OpId,
    },
    /// Both ends of a transfer disagree, or one is missing.
    #[error(
        "{stage} transfer {tag} of segment {segment} from rank {src} to rank {dst}: {sends} sends and {receives} \
         receives, expected one each of the same capacity", segment = .segment.0, stage = .stage.name()
    )]
    Unmatched {
        /// The segment.
        segment: SegmentId,
        /// What it carries.
        stage: Stage,
        /// Sender.
        src: Rank,
        /// Receiver.
        dst: Rank,
        /// Its tag.
        tag: u32,
        /// Sends found.
        sends: usize,
        /// Receives found.
        receives: usize,
    },
    /// Ranks wait for one another in a circle.
    #[error("ranks wait for one another for ever: op `{op}` of rank {rank} is part of a cycle")]
    Deadlock {
        /// A rank in the circle.
        rank: Rank,
        /// Its op.
        op: OpId,
    },
}

impl Plan {
    /// Checks the plan: regions, dependencies, sizes, peers, windows; and, up to 256 ranks, that every send
    /// has its receive and that no ranks wait for one another in a circle.
    pub fn validate(&self) -> Result<(), PlanError> {
        self.programs.iter().try_for_each(|program| validate_program(program, self.rank_count()))?;
        if self.rank_count() <= WHOLE_PLAN_RANKS {
            let transfers = match_transfers(self)?;
            check_progress(self, &transfers)?;
        }
        Ok(())
    }
}

fn validate_program(program: &Program, rank_count: u32) -> Result<(), PlanError> {
    let rank = program.rank;
    let mut definitions = vec![0; program.size_count as usize];
    for op in &program.ops {
        for region in op.kind.reads().iter().chain(&op.kind.writes()) {
            let inside =
                program.buffers.get(region.buffer.index()).is_some_and(|b| region.end() <= b.capacity);
            if !inside {
                return Err(PlanError::OutOfBuffer { rank, op: op.id, region: region.to_string() });
            }
        }
        if let Some(&dep) = op.deps.iter().find(|&&dep| dep >= op.id) {
            return Err(PlanError::DependencyNotEarlier { rank, op: op.id, dep });
        }
        if let Some(&size) = op.kind.uses().iter().find(|size| definitions[size.index()] == 0) {
            return Err(PlanError::SizeNotDefined { rank, op: op.id, size });
        }
        for size in op.kind.defines() {
            definitions[size.index()] += 1;
        }
        if let Some(peer) = peers(&op.kind).find(|&peer| peer == rank || peer.0 >= rank_count) {
            return Err(PlanError::BadPeer { rank, op: op.id, peer });
        }
        if let OpKind::Exchange(Exchange { window, .. }) = &op.kind
            && (window.sends == 0 || window.receives == 0)
        {
            return Err(PlanError::EmptyWindow { rank, op: op.id });
        }
    }
    match definitions.iter().position(|&count| count != 1) {
        None => Ok(()),
        Some(index) => Err(PlanError::SizeNotDefinedOnce {
            rank,
            size: SizeId(u32::try_from(index).expect("sizes are counted in 32 bits")),
            definitions: definitions[index],
        }),
    }
}

fn peers(kind: &OpKind) -> Box<dyn Iterator<Item = Rank> + '_> {
    match kind {
        OpKind::Compute(_) => Box::new(std::iter::empty()),
        OpKind::Encode(batch) | OpKind::Decode(batch) => {
            Box::new(batch.blocks.iter().map(|block| block.peer))
        }
        OpKind::Exchange(exchange) => {
            Box::new(exchange.sends.iter().chain(&exchange.receives).map(|transfer| transfer.peer))
        }
    }
}

/// What both ends of a transfer agree on.
type Key = (SegmentId, Stage, Rank, Rank, u32);

/// The ends of one transfer found so far, with the capacity that each planned.
#[derive(Default)]
struct Ends {
    sends: Vec<(OpId, Option<u64>)>,
    receives: Vec<(OpId, Option<u64>)>,
}

fn match_transfers(plan: &Plan) -> Result<BTreeMap<Key, Ends>, PlanError> {
    let mut found: BTreeMap<Key, Ends> = BTreeMap::new();
    for (rank, op, exchange) in exchanges(plan) {
        let capacity = |transfer: &Transfer| match transfer.content {
            Content::Whole(Region { len, .. }) | Content::Prefix(Region { len, .. }, _) => Some(len),
            Content::Size(_) => None,
        };
        for t in &exchange.sends {
            let ends = found.entry((op.segment, exchange.stage, rank, t.peer, t.tag)).or_default();
            ends.sends.push((op.id, capacity(t)));
        }
        for t in &exchange.receives {
            let ends = found.entry((op.segment, exchange.stage, t.peer, rank, t.tag)).or_default();
            ends.receives.push((op.id, capacity(t)));
        }
    }
    let matched = |ends: &Ends| match (&ends.sends[..], &ends.receives[..]) {
        ([send], [receive]) => send.1 == receive.1,
        _ => false,
    };
    match found.iter().find(|(_, ends)| !matched(ends)) {
        None => Ok(found),
        Some((&(segment, stage, src, dst, tag), ends)) => {
            let (sends, receives) = (ends.sends.len(), ends.receives.len());
            Err(PlanError::Unmatched { segment, stage, src, dst, tag, sends, receives })
        }
    }
}

fn exchanges(plan: &Plan) -> impl Iterator<Item = (Rank, &Op, &Exchange)> {
    plan.programs.iter().flat_map(|program| {
        program.ops.iter().filter_map(|op| match &op.kind {
            OpKind::Exchange(exchange) => Some((program.rank, op, exchange)),
            OpKind::Compute(_) | OpKind::Encode(_) | OpKind::Decode(_) => None,
        })
    })
}

/// Every op begins after its dependencies have ended, and an exchange ends after it and the exchanges of its
/// peers have begun. A cycle among these events would never end.
fn check_progress(plan: &Plan, transfers: &BTreeMap<Key, Ends>) -> Result<(), PlanError> {
    let mut graph: DiGraph<(Rank, OpId), ()> = DiGraph::new();
    let mut begins: Vec<Vec<NodeIndex>> = Vec::new();
    let mut ends: Vec<Vec<NodeIndex>> = Vec::new();
    for program in &plan.programs {
        let mut nodes = || program.ops.iter().map(|op| graph.add_node((program.rank, op.id))).collect();
        begins.push(nodes());
        ends.push(nodes());
        let (begins, ends) = (&begins[program.rank.index()], &ends[program.rank.index()]);
        for op in &program.ops {
            graph.add_edge(begins[op.id.index()], ends[op.id.index()], ());
            for dep in &op.deps {
                graph.add_edge(ends[dep.index()], begins[op.id.index()], ());
            }
        }
    }
    for ((_, _, src, dst, _), found) in transfers {
        let (send, receive) = (found.sends[0].0, found.receives[0].0);
        graph.add_edge(begins[src.index()][send.index()], ends[dst.index()][receive.index()], ());
        graph.add_edge(begins[dst.index()][receive.index()], ends[src.index()][send.index()], ());
    }
    match petgraph::algo::toposort(&graph, None) {
        Ok(_) => Ok(()),
        Err(cycle) => {
            let (rank, op) = graph[cycle.node_id()];
            Err(PlanError::Deadlock { rank, op })
        }
    }
}
