//! How much a job moves, and how unevenly: what a report says about a workload before anything runs.

use std::sync::Arc;

use zipwire_schedule::{CallKind, Job, Rank, Segment, TokenMap, Work};
use zipwire_timeline::Imbalance;

/// Raw bytes of one communication segment, self-chunks excluded. What a rank hands on counts for the rank that
/// contributes it: every path has the same traffic.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Traffic {
    /// Name of the segment.
    pub segment: Arc<str>,
    /// Bytes that each rank sends to others.
    pub sent: Vec<u64>,
    /// Bytes that each rank receives from others.
    pub received: Vec<u64>,
    /// Pairs of ranks, and explicit flows, of which the first has something for the second.
    pub transfers: u64,
    /// Bytes that cross from node to node, where it is known which tokens they are.
    pub between_nodes: Option<BetweenNodes>,
}

/// Bytes between nodes if every copy of a token crosses, and if only one copy per destination node does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BetweenNodes {
    /// Bytes of all copies.
    pub copies: u64,
    /// Bytes of each token once for each node.
    pub distinct: u64,
}

impl BetweenNodes {
    fn of(tokens: &TokenMap, ranks_per_node: u32) -> Self {
        let mut rows = Self::default();
        let nodes = tokens.rank_count() / ranks_per_node;
        for src in (0..tokens.rank_count()).map(Rank) {
            for node in (0..nodes).filter(|node| src.0 / ranks_per_node != *node) {
                let ranks = node * ranks_per_node..(node + 1) * ranks_per_node;
                rows.copies += tokens.copies(src, &ranks);
                rows.distinct += tokens.distinct(src, &ranks);
            }
        }
        let bytes = tokens.row_bytes();
        Self { copies: rows.copies * bytes, distinct: rows.distinct * bytes }
    }

    /// Bytes of all copies over those of each token once; 1 if nothing crosses.
    pub fn factor(&self) -> f64 {
        if self.distinct == 0 { 1.0 } else { self.copies as f64 / self.distinct as f64 }
    }
}

impl Traffic {
    /// One entry per communication segment of a job, in order; of those of groups, one for each dimension and collective.
    pub fn of(job: &Job, ranks_per_node: u32) -> Vec<Self> {
        let of_segment = |segment: &Segment| {
            let traffic = Self::of_work(segment, job.rank_count)?;
            let tokens = segment.work.tokens();
            let between_nodes = tokens.map(|tokens| BetweenNodes::of(tokens, ranks_per_node));
            Some(Self { between_nodes, ..traffic })
        };
        let alone = job.segments.iter().filter(|segment| segment.dimension.is_none());
        let alone = alone.filter_map(of_segment);
        alone.chain(Self::along_dimensions(job)).collect()
    }

    /// Segments of groups are many and alike: each that is like another is counted once, times their number.
    fn along_dimensions(job: &Job) -> Vec<Self> {
        let mut alike: Vec<(&Segment, u64)> = Vec::new();
        for segment in job.segments.iter().filter(|segment| segment.dimension.is_some()) {
            let is_like = |other: &Segment| {
                (other.among, &other.dimension) == (segment.among, &segment.dimension)
                    && other.work.call() == segment.work.call()
            };
            match alike.iter_mut().find(|(other, _)| is_like(other)) {
                Some((_, count)) => *count += 1,
                None => alike.push((segment, 1)),
            }
        }
        let mut all: Vec<Self> = Vec::new();
        for (segment, count) in alike {
            let Some(own) = Self::of_work(segment, job.rank_count) else { continue };
            let dimension = segment.dimension.as_deref().unwrap_or_default();
            let name = format!("{dimension} {}", segment.work.collective_name().unwrap_or("transfers"));
            let index = all.iter().position(|traffic| *traffic.segment == *name).unwrap_or_else(|| {
                let zeros = vec![0; job.rank_count as usize];
                let (segment, sent) = (name.as_str().into(), zeros.clone());
                all.push(Self { segment, sent, received: zeros, transfers: 0, between_nodes: None });
                all.len() - 1
            });
            let traffic = &mut all[index];
            traffic.transfers += count * own.transfers;
            traffic.sent.iter_mut().zip(own.sent).for_each(|(sum, bytes)| *sum += count * bytes);
            traffic.received.iter_mut().zip(own.received).for_each(|(sum, bytes)| *sum += count * bytes);
        }
        all
    }

    fn of_work(segment: &Segment, rank_count: u32) -> Option<Self> {
        let zeros = vec![0; rank_count as usize];
        let mut traffic = Self {
            segment: Arc::clone(&segment.name),
            sent: zeros.clone(),
            received: zeros,
            transfers: 0,
            between_nodes: None,
        };
        match &segment.work {
            Work::Compute { .. } => return None,
            Work::Call { kind, .. } => {
                let groups = segment.groups(rank_count);
                let (of_position, transfers) = Ends::of_call(&segment.work, kind, groups.size());
                traffic.transfers = transfers * u64::from(groups.count());
                for group in groups.all() {
                    for (rank, Ends { sent, received }) in group.ranks().zip(&of_position) {
                        traffic.sent[rank.index()] += sent;
                        traffic.received[rank.index()] += received;
                    }
                }
            }
            Work::Transfers { flows, .. } => {
                for flow in flows {
                    traffic.sent[flow.src.index()] += flow.bytes;
                    traffic.received[flow.dst.index()] += flow.bytes;
                    traffic.transfers += u64::from(flow.bytes > 0);
                }
            }
        }
        Some(traffic)
    }

    /// Bytes summed over all ranks.
    pub fn total(&self) -> u64 {
        self.sent.iter().sum()
    }

    /// How uneven the bytes are that ranks send; `None` if nothing is sent.
    pub fn sent_imbalance(&self) -> Option<Imbalance> {
        Imbalance::of_counts(&self.sent)
    }

    /// How uneven the bytes are that ranks receive; `None` if nothing is.
    pub fn received_imbalance(&self) -> Option<Imbalance> {
        Imbalance::of_counts(&self.received)
    }
}

/// Bytes of one rank.
#[derive(Clone, Copy, Default)]
struct Ends {
    sent: u64,
    received: u64,
}

impl Ends {
    /// Bytes of each rank of a group, and how many pairs of its ranks have something for one another.
    fn of_call(work: &Work, kind: &CallKind, ranks: u32) -> (Vec<Self>, u64) {
        let mut all = vec![Self::default(); ranks as usize];
        let mut transfers = 0;
        let others = u64::from(ranks) - 1;
        // What a rank has for every other one, or, in reductions, gets of every other one.
        let mut to_all = |all: &mut Vec<Self>, bytes: &[u64], is_scattered: bool| {
            let total: u64 = bytes.iter().sum();
            transfers += bytes.iter().filter(|&&bytes| bytes > 0).count() as u64 * others;
            for (ends, &own) in all.iter_mut().zip(bytes) {
                let (to, from) = (own * others, total - own);
                let (sent, received) = if is_scattered { (from, to) } else { (to, from) };
                (ends.sent, ends.received) = (ends.sent + sent, ends.received + received);
            }
        };
        match kind {
            CallKind::AllToAll { bytes, .. } => {
                for ((src, dst), &bytes) in bytes.indexed_iter().filter(|((src, dst), _)| src != dst) {
                    all[src].sent += bytes;
                    all[dst].received += bytes;
                    transfers += u64::from(bytes > 0);
                }
            }
            CallKind::AllGather { bytes } => to_all(&mut all, bytes, false),
            CallKind::ReduceScatter { .. } => to_all(&mut all, &work.shards(ranks), true),
            CallKind::AllReduce { .. } => {
                let shards = work.shards(ranks);
                to_all(&mut all, &shards, true);
                to_all(&mut all, &shards, false);
            }
            &CallKind::Broadcast { bytes, root, to } => {
                for dst in to.iter().filter(|rank| *rank != root) {
                    all[root.index()].sent += bytes;
                    all[dst.index()].received += bytes;
                    transfers += u64::from(bytes > 0);
                }
            }
            &CallKind::Send { bytes, from } => {
                all[from.index()].sent = bytes;
                all[1 - from.index()].received = bytes;
                transfers = u64::from(bytes > 0);
            }
        }
        (all, transfers)
    }
}
