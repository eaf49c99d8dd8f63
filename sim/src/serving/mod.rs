//! Open-loop serving in virtual time: requests arrive, caches move over the network, tokens come out.
//!
//! It drives the [`Machine`] that decides for real ranks, too. There are no iterations: the run ends when all requests have ended, or at
//! [`SimServingSetup::until_s`]. Each shard of each [`Flow`](zipwire_serving::Flow) is one flow of the network. What codes is a link, too: a rank encodes at one
//! rate and shares it among its flows, so a coded flow that is *pipelined* moves at the least of what links, encoder and decoder give it, with the first
//! piece's encoding before it and the last piece's decoding behind it.

mod driver;
mod moving;

use zipwire_cluster::{CodecCost, HostCost, NetworkModel, Topology};
use zipwire_schedule::{Lane, OpId, Rank, SegmentId, Stage};
use zipwire_serving::{ComputeTime, Config, Machine, Recorder, RequestId, Requests, Shards, Trouble};
use zipwire_timeline::{Span, Timeline};

use crate::SimError;

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
/// Errors of [`run`].
///
/// # Panics
/// Where [`run`] does.
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

/// Seconds of a run by rank: each a union of intervals, so what overlaps counts once.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RankTimes {
    /// Seconds in which the rank computes.
    pub compute_s: Vec<f64>,
    /// Seconds in which it encodes or decodes.
    pub codec_s: Vec<f64>,
    /// Seconds in which a transfer of the rank is in latency or moving.
    pub comm_s: Vec<f64>,
    /// Seconds in which it does any of these.
    pub busy_s: Vec<f64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Work {
    Compute,
    Codec,
    Comm,
}

/// A stopwatch that runs while something is open.
#[derive(Clone, Copy, Debug, Default)]
struct Watch {
    open: u32,
    since_s: f64,
    total_s: f64,
}

impl Watch {
    fn begin(&mut self, now_s: f64) {
        if self.open == 0 {
            self.since_s = now_s;
        }
        self.open += 1;
    }

    fn end(&mut self, now_s: f64) {
        self.open -= 1;
        if self.open == 0 {
            self.total_s += now_s - self.since_s;
        }
    }

    fn total_s(&self, now_s: f64) -> f64 {
        self.total_s + if self.open > 0 { now_s - self.since_s } else { 0.0 }
    }
}

/// The stopwatches of all ranks: compute, codec, communication, and any of them.
struct Busy {
    ranks: Vec<[Watch; 4]>,
}

impl Busy {
    fn new(ranks: u32) -> Self {
        Self { ranks: vec![<[Watch; 4]>::default(); ranks as usize] }
    }

    fn begin(&mut self, now_s: f64, rank: usize, work: Work) {
        let watches = &mut self.ranks[rank];
        watches[work as usize].begin(now_s);
        watches[3].begin(now_s);
    }

    fn end(&mut self, now_s: f64, rank: usize, work: Work) {
        let watches = &mut self.ranks[rank];
        watches[work as usize].end(now_s);
        watches[3].end(now_s);
    }

    fn times(&self, now_s: f64) -> RankTimes {
        let of = |index: usize| self.ranks.iter().map(|watches| watches[index].total_s(now_s)).collect();
        RankTimes { compute_s: of(0), codec_s: of(1), comm_s: of(2), busy_s: of(3) }
    }
}

/// Spans in the order in which they end, up to a limit.
struct Spans {
    limit: usize,
    list: Vec<Span>,
    left_out: u64,
}

struct Note {
    rank: Rank,
    lane: Lane,
    segment: SegmentId,
    op: u32,
    name: &'static str,
    begin_s: f64,
    end_s: f64,
    bytes: u64,
    bytes_coded: Option<u64>,
    /// Other end, number and stage of a transfer.
    transfer: Option<(Rank, u32, Stage)>,
}

/// The segment of a request: the first one is for what no request has alone.
fn segment(request: RequestId) -> SegmentId {
    SegmentId(request.0 + 1)
}

impl Spans {
    fn new(limit: usize) -> Self {
        Self { limit, list: Vec::new(), left_out: 0 }
    }

    fn push(&mut self, note: &Note) {
        if self.list.len() >= self.limit {
            self.left_out += 1;
            return;
        }
        let &Note { rank, lane, segment, op, name, begin_s, end_s, bytes, bytes_coded, transfer } = note;
        let (peer, tag) = transfer.map_or((None, 0), |(peer, tag, _)| (Some(peer), tag));
        self.list.push(Span {
            iteration: 0,
            segment,
            rank,
            lane,
            op: OpId(op),
            stage: transfer.map(|(_, _, stage)| stage),
            peer,
            tag,
            name,
            begin_s,
            end_s,
            bytes,
            bytes_coded,
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_overlaps_counts_once() {
        let mut busy = Busy::new(1);
        busy.begin(1.0, 0, Work::Codec);
        busy.begin(2.0, 0, Work::Codec);
        busy.begin(2.0, 0, Work::Comm);
        busy.end(3.0, 0, Work::Codec);
        busy.end(5.0, 0, Work::Codec);
        busy.end(6.0, 0, Work::Comm);
        busy.begin(9.0, 0, Work::Compute);
        let times = busy.times(10.0);
        assert_eq!(
            (times.codec_s[0], times.comm_s[0], times.compute_s[0], times.busy_s[0]),
            (4.0, 4.0, 1.0, 6.0)
        );
    }
}
