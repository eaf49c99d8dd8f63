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
    /// One entry per communication segment of a job, in order.
    pub fn of(job: &Job, ranks_per_node: u32) -> Vec<Self> {
        let of_segment = |segment: &Segment| {
            let traffic = Self::of_work(&segment.name, &segment.work, job.rank_count)?;
            let tokens = segment.work.tokens();
            let between_nodes = tokens.map(|tokens| BetweenNodes::of(tokens, ranks_per_node));
            Some(Self { between_nodes, ..traffic })
        };
        job.segments.iter().filter_map(of_segment).collect()
    }

    fn of_work(segment: &Arc<str>, work: &Work, ranks: u32) -> Option<Self> {
        let zeros = vec![0; ranks as usize];
        let mut traffic = Self {
            segment: Arc::clone(segment),
            sent: zeros.clone(),
            received: zeros.clone(),
            transfers: 0,
            between_nodes: None,
        };
        match work {
            Work::Compute { .. } => return None,
            Work::Call { kind: CallKind::AllToAll { bytes, .. }, .. } => {
                for ((src, dst), &bytes) in bytes.indexed_iter() {
                    if src != dst {
                        traffic.add(src, dst, bytes);
                    }
                }
            }
            Work::Call { kind: CallKind::AllGather { bytes }, .. } => {
                bytes.iter().enumerate().for_each(|(src, &bytes)| traffic.add_to_all(src, bytes));
            }
            &Work::Call { kind: CallKind::Broadcast { bytes, root, to }, .. } => {
                let receivers = to.iter().filter(|rank| *rank != root);
                receivers.for_each(|dst| traffic.add(root.index(), dst.index(), bytes));
            }
            Work::Call {
                kind: kind @ (CallKind::ReduceScatter { .. } | CallKind::AllReduce { .. }), ..
            } => {
                for (shard, &bytes) in work.shards(ranks).iter().enumerate() {
                    (0..zeros.len())
                        .filter(|&src| src != shard)
                        .for_each(|src| traffic.add(src, shard, bytes));
                    if matches!(kind, CallKind::AllReduce { .. }) {
                        traffic.add_to_all(shard, bytes);
                    }
                }
            }
            Work::Transfers { flows, .. } => {
                for flow in flows {
                    traffic.add(flow.src.index(), flow.dst.index(), flow.bytes);
                }
            }
        }
        Some(traffic)
    }

    fn add_to_all(&mut self, src: usize, bytes: u64) {
        (0..self.sent.len()).filter(|&dst| dst != src).for_each(|dst| self.add(src, dst, bytes));
    }

    fn add(&mut self, src: usize, dst: usize, bytes: u64) {
        self.sent[src] += bytes;
        self.received[dst] += bytes;
        self.transfers += u64::from(bytes > 0);
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
