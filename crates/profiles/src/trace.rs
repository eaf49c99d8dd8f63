//! One rank's part of a profile, before it is put together with others.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::intervals::Busy;
use crate::op::CollectiveOp;
use crate::profile::{Format, Timing};

/// One rank's communication and the times in which it computed, on its own clock.
#[derive(Debug)]
pub struct RankTrace {
    pub(crate) file: String,
    pub(crate) format: Format,
    /// Meaning of the times of its calls.
    pub(crate) timing: Timing,
    /// Whether the format has what the rank computes at all.
    pub(crate) is_compute_known: bool,
    /// GPU, as its driver names it.
    pub(crate) gpu: Option<String>,
    /// GPUs of the rank's node.
    pub(crate) gpus_per_node: Option<u32>,
    pub(crate) rank: Option<u32>,
    pub(crate) world_size: Option<u32>,
    pub(crate) groups: Vec<TraceGroup>,
    /// In order of their begin.
    pub(crate) ops: Vec<TraceOp>,
    pub(crate) compute: Busy,
    /// Nanoseconds to add to every time for those since 1970, 0 if they are that already.
    pub(crate) base_ns: i64,
    /// Counts by name of everything that could not be used.
    pub(crate) not_used: BTreeMap<String, u64>,
    /// Counts by name of everything that was read otherwise than it is written.
    pub(crate) repaired: BTreeMap<String, u64>,
    /// Kernels of all kinds.
    pub(crate) kernels: u64,
}

impl RankTrace {
    /// A trace of which nothing is known but where it comes from.
    pub(crate) fn new(file: &str, format: Format, timing: Timing) -> Self {
        Self {
            file: file.to_owned(),
            format,
            timing,
            is_compute_known: false,
            gpu: None,
            gpus_per_node: None,
            rank: None,
            world_size: None,
            groups: Vec::new(),
            ops: Vec::new(),
            compute: Busy::default(),
            base_ns: 0,
            not_used: BTreeMap::new(),
            repaired: BTreeMap::new(),
            kernels: 0,
        }
    }

    /// Name that it was read under.
    pub fn file(&self) -> &str {
        &self.file
    }

    /// Calls of collectives and transfers that it has.
    pub fn calls(&self) -> usize {
        self.ops.len()
    }
}

/// Group of ranks, by the names that a profile has for it.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct TraceGroup {
    pub(crate) name: String,
    /// Global ranks; empty if the profile has none, or not all.
    pub(crate) ranks: Vec<u32>,
    pub(crate) size: Option<u32>,
    pub(crate) description: String,
}

/// One call of one rank.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct TraceOp {
    /// Index among the groups of its trace.
    pub(crate) group: usize,
    /// Number that the library gave it.
    pub(crate) seq: Option<u64>,
    pub(crate) op: CollectiveOp,
    pub(crate) bytes_in: Option<u64>,
    pub(crate) bytes_out: Option<u64>,
    pub(crate) splits_in: Vec<u64>,
    pub(crate) splits_out: Vec<u64>,
    pub(crate) dtype: Arc<str>,
    pub(crate) src: Option<u32>,
    pub(crate) dst: Option<u32>,
    pub(crate) begin_ns: i64,
    pub(crate) end_ns: i64,
    pub(crate) stream: u64,
    /// Bytes of its values after compression over those before, if they were sampled.
    pub(crate) coded_share: Option<f64>,
}
