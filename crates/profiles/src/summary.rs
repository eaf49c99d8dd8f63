//! Numbers of a profile by operation and group.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::op::CollectiveOp;
use crate::profile::Profile;

/// Calls of one operation in one group.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct OpSummary {
    /// Operation.
    pub op: CollectiveOp,
    /// Name of the group.
    pub group: String,
    /// Ranks of the group, if that is known.
    pub group_size: Option<u32>,
    /// Calls, each counted once however many ranks have it.
    pub calls: u64,
    /// Bytes of all calls, as nccl-tests counts the size of a call: the larger of what a rank gives and gets, in the mean over ranks.
    pub bytes: u64,
    /// Calls whose bytes are not known.
    pub calls_without_bytes: u64,
    /// Mean time of the transfer of a call, in seconds.
    pub mean_s: f64,
    /// Bytes by time of the calls whose bytes are known, in bytes per second; none without such calls.
    pub algbw_bytes_per_s: Option<f64>,
}

/// Sums over calls by operation and group, in that order.
pub fn summarise(profile: &Profile) -> Vec<OpSummary> {
    // Every rank of a call has a row: rows are counted by the number of those, and divided by it.
    let mut rows: BTreeMap<_, Sums> = BTreeMap::new();
    for op in &profile.ops {
        // Sender and receiver are calls of their own.
        let share = if op.op.is_between_two() { 1 } else { op.ranks_seen.max(1) };
        rows.entry((op.op, op.group, share)).or_default().add(op.transfer_ns, op.bytes_in.max(op.bytes_out));
    }
    let mut sums: BTreeMap<_, Sums> = BTreeMap::new();
    for ((op, group, share), rows) in rows {
        sums.entry((op, group)).or_default().add_share(&rows, share);
    }
    let summary = sums.into_iter().map(|((op, group), sums)| OpSummary {
        op,
        group: profile.groups[group].name.clone(),
        group_size: profile.groups[group].size,
        calls: sums.calls,
        bytes: u64::try_from(sums.bytes).unwrap_or(u64::MAX),
        calls_without_bytes: sums.unsized_calls,
        mean_s: sums.time_ns as f64 / sums.calls.max(1) as f64 / 1e9,
        algbw_bytes_per_s: (sums.sized_ns > 0).then(|| sums.bytes as f64 * 1e9 / sums.sized_ns as f64),
    });
    summary.collect()
}

#[derive(Default)]
struct Sums {
    calls: u64,
    time_ns: i64,
    bytes: u128,
    sized_ns: i64,
    unsized_calls: u64,
}

impl Sums {
    fn add(&mut self, time_ns: i64, bytes: Option<u64>) {
        self.calls += 1;
        self.time_ns = self.time_ns.saturating_add(time_ns);
        match bytes {
            Some(bytes) => {
                self.bytes += u128::from(bytes);
                self.sized_ns = self.sized_ns.saturating_add(time_ns);
            }
            None => self.unsized_calls += 1,
        }
    }

    /// Adds rows of which so many are one call.
    fn add_share(&mut self, rows: &Self, share: u32) {
        self.calls += rows.calls / u64::from(share);
        self.time_ns += rows.time_ns / i64::from(share);
        self.bytes += rows.bytes / u128::from(share);
        self.sized_ns += rows.sized_ns / i64::from(share);
        self.unsized_calls += rows.unsized_calls / u64::from(share);
    }
}
