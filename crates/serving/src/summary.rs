//! What a variant of serving came to: what users saw, and what it took.

use crate::Metrics;

/// Metrics of the requests, and of caches, links and instances.
#[derive(Clone, Copy, Debug, Default, PartialEq, serde::Serialize)]
pub struct Summary {
    /// Requests.
    #[serde(flatten)]
    pub metrics: Metrics,
    /// Bytes of caches that have moved, before coding.
    pub kv_bytes_raw: u64,
    /// The same on the wire.
    pub kv_bytes_wire: u64,
    /// Share of the tokens of prompts that a prefill instance had from earlier ones.
    pub cached_tokens: f64,
    /// Share of the run in which prefill instances computed, mean of them.
    pub prefill_busy: f64,
    /// The same of decode instances.
    pub decode_busy: f64,
    /// Share of its capacity that the busiest link carried over the run; `None` where links are not known.
    pub busiest_link: Option<f64>,
}
