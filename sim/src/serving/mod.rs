//! Open-loop serving in virtual time: requests arrive, caches move over the network, tokens come out.
//!
//! It drives the [`Machine`] that decides for real ranks, too. There are no iterations: the run ends when all requests have ended, or at
//! [`SimServingSetup::until_s`]. Each shard of each [`Flow`](zipwire_serving::Flow) is one flow of the network. What codes is a link, too: a rank encodes at one
//! rate and shares it among its flows, so a coded flow that is *pipelined* moves at the least of what links, encoder and decoder give it, with the first
//! piece's encoding before it and the last piece's decoding behind it.

mod busy;
mod driver;
mod moving;
mod spans;

use zipwire_cluster::{CodecCost, HostCost, NetworkModel, Topology};
use zipwire_serving::{ComputeTime, Config, Machine, Recorder, Requests, Shards, Trouble};
use zipwire_timeline::Timeline;

use crate::SimError;

pub use busy::RankTimes;

/// All that a simulation of serving depends on.
#[derive(Debug)]
pub struct SimServingSetup<'a> {
    /// The requests.
    pub requests: &'a Requests,
    /// Pools and rules.
    pub config: Config,
    /// Durations of prefill and decode.
    pub compute: ComputeTime,
    /// Who sends what to whom.
    pub shards: &'a Shards,
    /// Links and routes, of as many ranks as the pools have or more.
    pub topology: &'a Topology,
    /// How rates follow from routes.
    pub model: NetworkModel,
    /// Launches, and what compute loses to codecs and transfers.
    pub host: HostCost,
    /// Seconds from the first flow of each request on, in which both ends agree and nothing of it moves.
    pub handshake_s: f64,
    /// How caches are coded; `None` moves them as they are.
    pub coding: Option<Coding>,
    /// Troubles, in the order of time.
    pub troubles: &'a [Trouble],
    /// Time at which the run is cut, even if requests are still being served; `None` ends it with the last request.
    pub until_s: Option<f64>,
    /// Spans that are kept at the most.
    pub span_limit: usize,
}

/// How caches are coded.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Coding {
    /// Cost of coding for a rank. Its launch is paid once for each flow and end: a launch codes many pieces.
    pub cost: CodecCost,
    /// Coded bytes over raw ones.
    pub size: f64,
    /// Tokens that a piece of one layer has, which is coded by itself.
    pub piece_tokens: u32,
    /// Whether pieces move while others are coded; otherwise a flow is encoded, moved and decoded one after the other.
    pub is_pipelined: bool,
}

/// Result of a run.
#[derive(Debug)]
pub struct Served {
    /// When things happened to requests.
    pub recorder: Recorder,
    /// Timeline of the ranks.
    pub timeline: Timeline,
    /// Spans that are not in it.
    pub spans_left_out: u64,
    /// Busy times of ranks: exact, whatever was left out.
    pub times: RankTimes,
    /// Bytes of caches that have moved, before coding.
    pub bytes_raw: u64,
    /// The same on the wire.
    pub bytes_wire: u64,
    /// Bytes that each link of the topology has carried, of shards that are there.
    pub link_bytes: Vec<u64>,
    /// Requests whose answer had not begun when the last one had arrived, or when the run ended before.
    pub unanswered_at_last_arrival: u32,
    /// When the run ended.
    pub end_s: f64,
}

/// Simulates serving. `proceed` is asked now and then; `false` ends the run.
///
/// # Errors
/// [`SimError::Cancelled`] if the caller asked to stop.
///
/// # Panics
/// If the topology has fewer ranks than the pools, the shards are of another number of instances, or there are fewer layers than groups of them.
pub fn run(setup: &SimServingSetup<'_>, proceed: &dyn Fn() -> bool) -> Result<Served, SimError> {
    run_observed(setup, proceed, &mut |_, _| {})
}

/// Simulates like [`run`]; `observe` sees the time and the machine after everything that has happened.
///
/// # Errors
/// As [`run`].
///
/// # Panics
/// As [`run`].
pub fn run_observed(
    setup: &SimServingSetup<'_>,
    proceed: &dyn Fn() -> bool,
    observe: &mut dyn FnMut(f64, &Machine<'_>),
) -> Result<Served, SimError> {
    let _span = tracing::info_span!("simulate serving", requests = setup.requests.len()).entered();
    let Config { prefill, layer_groups, .. } = setup.config;
    assert_eq!(setup.shards.prefill_instances(), prefill.instances, "shards are of the pools");
    assert!(layer_groups <= setup.shards.layers(), "every group has a layer");
    let ranks = setup.shards.ranks(setup.config.decode.instances);
    assert!(ranks <= setup.topology.ranks(), "{ranks} ranks serve on {}", setup.topology.ranks());
    driver::Driver::new(setup).run(proceed, observe)
}
