//! The loop: what happens next, and what follows from it.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, VecDeque};
use std::sync::Arc;

use zipwire_cluster::Rank;
use zipwire_schedule::{Lane, SegmentId};
use zipwire_serving::{Computing, DecodeStep, Input, Machine, PrefillStep, Recorder, RequestId, Step};
use zipwire_timeline::{IterationTime, Timeline};

use super::moving::Transits;
use super::{Busy, Note, Served, SimServingSetup, Spans, Work, segment};
use crate::SimError;
use crate::network::{FlowId, Network};
use crate::queue::Ordered;

/// How many events pass between two questions whether to go on.
const EVENTS_PER_CHECK: u64 = 4096;

/// Event at a known time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Event {
    /// A prefill instance has computed a group of layers.
    Computed { instance: u32, version: u32 },
    /// A decode instance has ended its step.
    Stepped { instance: u32, version: u32 },
    /// The wait of a shard is over.
    Transit(u32),
}

pub(super) struct Driver<'a> {
    pub(super) setup: &'a SimServingSetup<'a>,
    pub(super) machine: Machine<'a>,
    pub(super) network: Network,
    pub(super) now_s: f64,
    queue: BinaryHeap<Reverse<(Ordered, u64, Event)>>,
    pushed: u64,
    next_arrival: usize,
    next_trouble: usize,
    pub(super) prefill: Vec<(Computing, Option<(PrefillStep, f64)>)>,
    pub(super) decode: Vec<(Computing, Option<(DecodeStep, f64)>)>,
    pub(super) transits: Transits,
    /// Shards that wait for the encoder or the decoder of each rank, where coding is not pipelined; the first one is coded.
    pub(super) coders: Vec<VecDeque<u32>>,
    pub(super) busy: Busy,
    recorder: Recorder,
    pub(super) spans: Spans,
    pub(super) tags: HashMap<(Rank, Rank), u32>,
    pub(super) flows: u32,
    /// When both ends of each request have agreed; nothing of it moves before.
    pub(super) agreed_s: Vec<f64>,
    pub(super) bytes_raw: u64,
    pub(super) bytes_wire: u64,
    pub(super) link_bytes: Vec<u64>,
    unanswered_at_last_arrival: u32,
    /// Scratch space.
    ended: Vec<FlowId>,
}

impl<'a> Driver<'a> {
    pub(super) fn new(setup: &'a SimServingSetup<'a>) -> Self {
        let SimServingSetup { config, topology, requests, shards, .. } = setup;
        let mut capacities = topology.capacities();
        let links = capacities.len();
        let ranks = shards.ranks(config.decode.instances);
        if let Some(coding) = setup.coding.filter(|coding| coding.is_pipelined) {
            // In bytes on the wire, which is what flows count.
            let first = config.prefill.instances * (shards.prefill_ranks(0).len() as u32);
            capacities.extend((0..ranks).map(|rank| {
                let raw = if rank < first {
                    coding.cost.encode_bytes_per_s
                } else {
                    coding.cost.decode_bytes_per_s
                };
                (raw * coding.size).min(f64::MAX / 1e6)
            }));
        }
        Self {
            machine: Machine::new(requests, *config),
            network: Network::with_model(&capacities, setup.model),
            now_s: 0.0,
            queue: BinaryHeap::new(),
            pushed: 0,
            next_arrival: 0,
            next_trouble: 0,
            prefill: vec![(Computing::default(), None); config.prefill.instances as usize],
            decode: vec![(Computing::default(), None); config.decode.instances as usize],
            transits: Transits::default(),
            coders: vec![VecDeque::new(); ranks as usize],
            busy: Busy::new(ranks),
            recorder: Recorder::new(requests.len(), config.decode.instances),
            spans: Spans::new(setup.span_limit),
            tags: HashMap::new(),
            flows: 0,
            agreed_s: vec![0.0; requests.len()],
            bytes_raw: 0,
            bytes_wire: 0,
            link_bytes: vec![0; links],
            unanswered_at_last_arrival: 0,
            ended: Vec::new(),
            setup,
        }
    }

    pub(super) fn run(
        mut self,
        proceed: &dyn Fn() -> bool,
        observe: &mut dyn FnMut(f64, &Machine<'_>),
    ) -> Result<Served, SimError> {
        let until_s = self.setup.until_s.unwrap_or(f64::INFINITY);
        for count in 0_u64.. {
            if count.is_multiple_of(EVENTS_PER_CHECK) && !proceed() {
                return Err(SimError::Cancelled);
            }
            if !self.go_to_next(until_s) {
                break;
            }
            observe(self.now_s, &self.machine);
        }
        if self.next_arrival < self.setup.requests.len() {
            // The run ended before.
            self.unanswered_at_last_arrival = self.machine.census().unanswered;
        }
        Ok(self.served())
    }

    /// Lets the time pass until something happens, and all happen that does then; whether there was anything before the end.
    fn go_to_next(&mut self, until_s: f64) -> bool {
        let flow_in_s = self.network.next_in_s();
        let flow_s = self.now_s + flow_in_s;
        let event_s = self.queue.peek().map_or(f64::INFINITY, |Reverse((time, ..))| time.0);
        let work_s = flow_s.min(event_s).min(self.next_arrival_s());
        let next_s = work_s.min(self.next_trouble_s());
        if work_s.is_infinite() {
            let left = self.machine.census().in_flight;
            assert_eq!(left, 0, "nothing happens any more, and {left} requests are not served");
            return false;
        }
        if next_s > until_s {
            self.now_s = until_s;
            return false;
        }
        self.network.advance(if flow_s == next_s { flow_in_s } else { next_s - self.now_s });
        self.now_s = next_s;
        let mut ended = std::mem::take(&mut self.ended);
        self.network.take_ended(&mut ended);
        for flow in ended.drain(..) {
            let index = self.transits.of_network(flow);
            self.moved(index);
            self.decide();
        }
        self.ended = ended;
        while let Some(&Reverse((Ordered(time_s), _, event))) = self.queue.peek() {
            if time_s > self.now_s {
                break;
            }
            self.queue.pop();
            self.happen(event);
            self.decide();
        }
        while self.next_arrival_s() <= self.now_s {
            self.machine.handle(Input::Arrived(RequestId(self.next_arrival as u32)));
            self.next_arrival += 1;
            self.decide();
            if self.next_arrival == self.setup.requests.len() {
                self.unanswered_at_last_arrival = self.machine.census().unanswered;
            }
        }
        while self.next_trouble_s() <= self.now_s {
            let trouble = self.setup.troubles[self.next_trouble];
            self.next_trouble += 1;
            self.machine.handle(trouble.what.input());
            self.decide();
        }
        true
    }

    /// When something goes wrong next.
    fn next_trouble_s(&self) -> f64 {
        self.setup.troubles.get(self.next_trouble).map_or(f64::INFINITY, |trouble| trouble.at_s)
    }

    fn next_arrival_s(&self) -> f64 {
        self.setup.requests.list().get(self.next_arrival).map_or(f64::INFINITY, |next| next.arrival_s)
    }

    fn served(self) -> Served {
        let end_s = self.now_s;
        // Most runs have far more requests than spans: what no span is of needs no name.
        let named = self.spans.list.iter().map(|span| span.segment.index()).max().unwrap_or(0);
        let names = (0..named).map(|request| Arc::from(format!("request {request}")));
        let segments = std::iter::once(Arc::from("steps")).chain(names).collect();
        let timeline = Timeline {
            spans: self.spans.list,
            rank_count: self.setup.topology.ranks(),
            segments,
            iterations: vec![IterationTime { begin_s: 0.0, length_s: end_s }],
            ..Timeline::default()
        };
        Served {
            recorder: self.recorder,
            timeline,
            spans_left_out: self.spans.left_out,
            times: self.busy.times(end_s),
            bytes_raw: self.bytes_raw,
            bytes_wire: self.bytes_wire,
            link_bytes: self.link_bytes,
            unanswered_at_last_arrival: self.unanswered_at_last_arrival,
            end_s,
        }
    }

    pub(super) fn push(&mut self, time_s: f64, event: Event) {
        self.queue.push(Reverse((Ordered(time_s), self.pushed, event)));
        self.pushed += 1;
    }

    /// Does what the machine says until it has nothing more to say.
    fn decide(&mut self) {
        while let Some(step) = self.machine.poll() {
            match step {
                Step::Prefill(step) => self.begin_prefill(step),
                Step::Decode(step) => self.begin_step(step),
                Step::Move(id, flow) => self.begin_flow(id, &flow),
                Step::Stop(id) => self.stop(id),
                Step::Tokens { instance, continuing } => {
                    self.recorder.step(self.now_s, instance, continuing);
                }
                Step::Note(request, moment) => self.recorder.note(self.now_s, request, moment),
            }
        }
    }

    fn happen(&mut self, event: Event) {
        match event {
            Event::Computed { instance, version } => self.computed(instance, version),
            Event::Stepped { instance, version } => self.stepped(instance, version),
            Event::Transit(index) => self.go_on(index),
        }
    }

    fn begin_prefill(&mut self, step: PrefillStep) {
        let SimServingSetup { compute, config, shards, host, .. } = self.setup;
        let seconds = compute.prefill.seconds(&step.tokens);
        let groups = config.layer_groups;
        let share = |group| shards.layers_of(group, groups).len() as f64 / f64::from(shards.layers());
        let parts = (0..groups).map(|group| seconds * share(group)).collect();
        let (instance, now_s) = (step.instance, self.now_s);
        let (computing, running) = &mut self.prefill[instance as usize];
        let (end_s, version) = computing.begin(now_s + host.launch_s, parts, &host.compute_slowdown);
        *running = Some((step, now_s));
        self.push(end_s, Event::Computed { instance, version });
        self.work(self.setup.shards.prefill_ranks(instance), true);
    }

    fn computed(&mut self, instance: u32, version: u32) {
        let (computing, running) = &mut self.prefill[instance as usize];
        if !computing.is_current(version) {
            return;
        }
        match computing.next(self.now_s, &self.setup.host.compute_slowdown) {
            Some((end_s, version)) => self.push(end_s, Event::Computed { instance, version }),
            None => {
                let (step, begin_s) = running.take().expect("who computes has begun");
                let ranks = self.setup.shards.prefill_ranks(instance);
                self.work(ranks.clone(), false);
                self.note_compute(ranks.start, segment(step.request), "prefill", begin_s);
            }
        }
        self.machine.handle(Input::Computed { instance });
    }

    fn begin_step(&mut self, step: DecodeStep) {
        let SimServingSetup { compute, host, .. } = self.setup;
        let seconds = compute.decode.seconds(step.sequences, step.context_tokens);
        let (instance, now_s) = (step.instance, self.now_s);
        let (computing, running) = &mut self.decode[instance as usize];
        let (end_s, version) = computing.begin(now_s + host.launch_s, vec![seconds], &host.compute_slowdown);
        *running = Some((step, now_s));
        self.push(end_s, Event::Stepped { instance, version });
        self.work(self.setup.shards.decode_ranks(instance), true);
    }

    fn stepped(&mut self, instance: u32, version: u32) {
        let (computing, running) = &mut self.decode[instance as usize];
        if !computing.is_current(version) {
            return;
        }
        let next = computing.next(self.now_s, &self.setup.host.compute_slowdown);
        debug_assert!(next.is_none(), "a step has one part");
        let (_, begin_s) = running.take().expect("who steps has begun");
        let ranks = self.setup.shards.decode_ranks(instance);
        self.work(ranks.clone(), false);
        self.note_compute(ranks.start, SegmentId(0), "decode step", begin_s);
        self.machine.handle(Input::Stepped { instance });
    }

    /// All ranks of an instance compute, or have ended.
    fn work(&mut self, ranks: std::ops::Range<u32>, begins: bool) {
        for rank in ranks {
            let (rank, now_s) = (rank as usize, self.now_s);
            if begins {
                self.busy.begin(now_s, rank, Work::Compute);
            } else {
                self.busy.end(now_s, rank, Work::Compute);
            }
        }
    }

    /// Ranks of an instance do the same: the first one has the span.
    fn note_compute(&mut self, rank: u32, segment: SegmentId, name: &'static str, begin_s: f64) {
        self.spans.push(&Note {
            rank: Rank(rank),
            lane: Lane::Compute,
            segment,
            op: 0,
            name,
            begin_s,
            end_s: self.now_s,
            bytes: 0,
            bytes_coded: None,
            transfer: None,
        });
    }
}

#[cfg(test)]
mod tests {
    use zipwire_cluster::{CodecCost, Fabric, HostCost, NetworkModel, Slowdown, Topology};
    use zipwire_serving::{
        ComputeTime, Config, DecodeTime, FirstToken, Move, Placement, Pool, PrefillTime, Request, Requests,
        Shards,
    };

    use super::*;
    use crate::serving::Coding;

    fn requests() -> Requests {
        let request = |index: u32| Request {
            arrival_s: f64::from(index) * 0.01,
            input_tokens: 100 + index * 37 % 300,
            output_tokens: 1 + index % 5,
            prefix: Vec::new(),
        };
        Requests::new((0..40).map(request).collect(), 512)
    }

    fn topology() -> Topology {
        Topology {
            nodes: 8,
            gpus_per_node: 1,
            nics_per_node: 1,
            gpu_bandwidth: 1e9,
            nic_bandwidth: 1e6,
            latency_intra_s: 1e-3,
            latency_inter_s: 5e-3,
            fabric: Fabric::Nodes,
            nodes_per_domain: 1,
            link_bandwidths: [].into(),
        }
    }

    /// Whatever a cancelled request's shards are doing, they let go of links, coders and stopwatches, and everybody else is served.
    #[test]
    fn who_is_cancelled_leaves_nothing_behind() {
        let (requests, topology) = (requests(), topology());
        let shards = Shards::grouped(8, 2, 20, 2, [2, 2]).unwrap();
        let cost = CodecCost { encode_bytes_per_s: 8e5, decode_bytes_per_s: 1.2e6, launch_s: 1e-3 };
        let coding = |is_pipelined| Coding { cost, size: 0.7, piece_tokens: 64, is_pipelined };
        for seed in 0..120_u64 {
            let pool = Pool { instances: 2, kv_tokens: 900, sequences: 4 };
            let setup = SimServingSetup {
                requests: &requests,
                config: Config {
                    prefill: pool,
                    decode: pool,
                    placement: Placement::ALL[(seed % 4) as usize],
                    moves: Move::ALL[(seed / 4 % 2) as usize],
                    first_token: FirstToken::Decode,
                    layer_groups: 4,
                    chunk_tokens: 150,
                    cached_blocks: 0,
                },
                compute: ComputeTime {
                    prefill: PrefillTime { step_s: 1e-3, token_s: 1e-4, ..PrefillTime::default() },
                    decode: DecodeTime { step_s: 5e-3, sequence_s: 1e-3, ..DecodeTime::default() },
                },
                shards: &shards,
                topology: &topology,
                model: NetworkModel::MaxMin,
                host: HostCost {
                    launch_s: 1e-4,
                    compute_slowdown: Slowdown { codec: 1.5, exchange: 1.2 },
                    ..HostCost::default()
                },
                handshake_s: 2e-3,
                coding: [None, Some(coding(true)), Some(coding(false))][(seed / 8 % 3) as usize],
                troubles: &[],
                until_s: None,
                span_limit: 0,
            };
            let mut driver = Driver::new(&setup);
            let mut state = seed;
            let mut cancelled = 0;
            while driver.go_to_next(f64::INFINITY) {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                if state >> 58 == 0 {
                    let request = RequestId((state >> 32) as u32 % requests.len() as u32);
                    driver.machine.handle(Input::Cancelled(request));
                    driver.decide();
                    cancelled += 1;
                }
            }
            assert!(cancelled > 0);
            let census = driver.machine.census();
            assert_eq!((census.finished + census.failed, census.in_flight), (40, 0), "seed {seed}");
            assert_eq!((driver.network.active(), driver.transits.open()), (0, 0), "seed {seed}");
            assert!(driver.coders.iter().all(VecDeque::is_empty), "seed {seed}");
            let times = driver.busy.times(driver.now_s);
            assert_eq!(times, driver.busy.times(driver.now_s + 1.0), "seed {seed}: a stopwatch runs on");
            assert_eq!(
                driver.machine.prefill_kv_tokens().chain(driver.machine.decode_kv_tokens()).sum::<u64>(),
                0
            );
        }
    }
}
