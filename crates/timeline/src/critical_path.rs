//! What an iteration is bound by.

use std::collections::BTreeMap;

/// The chain of ops and transfers that leads from the start of an iteration to its end without a gap, as seconds of a mean iteration. The
/// names are those of the keys of `summary.json`.
#[derive(Clone, Debug, Default, PartialEq, serde::Serialize)]
pub struct CriticalPath {
    /// What the seconds go to: `compute` (as far as a phase takes no longer than the mean of all ranks), `skew` (the rest of it), `codec`,
    /// `sums`, `links` (moving bytes), `latency` (of transfers), `host` (launches, and sizes on their way to the host), `library` (its calls),
    /// `start` (waiting for the given time of an explicit flow) and `other` (delays of faults). What takes no time is absent. Their sum is
    /// the mean iteration.
    pub critical_path_s: BTreeMap<&'static str, f64>,
    /// The link to which most of `links` goes; its key is absent where none does.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub busiest_link: Option<BusiestLink>,
}

impl CriticalPath {
    /// What seconds can go to, in the order of tables.
    pub const NAMES: [&str; 10] =
        ["compute", "skew", "links", "latency", "codec", "sums", "host", "library", "start", "other"];
}

/// A link, and the seconds of a mean iteration for which the chain waits for its bytes.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct BusiestLink {
    /// Its name: `nic 1 down`.
    pub name: String,
    /// Seconds.
    pub seconds: f64,
}
