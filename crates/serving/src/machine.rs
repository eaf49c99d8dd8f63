//! Decides where requests go, what instances do next, and when caches move.
//!
//! Requests pass through it as through a pipeline: a queue in front of prefill, one in front of decode's memory, and the batch of a decode
//! instance. [`Move`] says which of the first two comes first. All that waits is served in the order of arrival; what does
//! not fit blocks what is behind it, so nobody is passed by for ever.

mod decode;
mod interface;
mod prefill;

use std::collections::{BTreeSet, VecDeque};

use decode::DecodeInstance;
use prefill::PrefillInstance;

use crate::{Config, FailReason, FirstToken, Moment, Move, Placement, RequestId, Requests};

pub use interface::{DecodeStep, Flow, FlowId, Input, Loss, PrefillStep, Step, Trouble};

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
enum Place {
    #[default]
    Expected,
    PrefillQueue,
    Prefilling,
    /// In front of the memory of decode instances.
    DecodeQueue,
    /// Computed; its cache is on its way.
    Moving,
    Decoding,
    Ended,
}

#[derive(Clone, Copy, Debug, Default)]
struct State {
    place: Place,
    prefill: Option<u32>,
    decode: Option<u32>,
    /// Whether the prefill instance holds its cache.
    holds_prefill: bool,
    /// Whether the decode instance has room reserved.
    holds_decode: bool,
    /// Tokens that are computed, those of the cache among them.
    computed: u32,
    /// Tokens that it adds to the load of its prefill instance while it waits or is computed.
    load: u32,
    /// Flows that have not arrived.
    open_flows: u32,
}

/// Requests by what has become of them. `in_flight` is not the difference of the others: it is counted where requests are kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Census {
    /// Requests that have arrived.
    pub arrived: u32,
    /// Requests that were served.
    pub finished: u32,
    /// Requests that were not.
    pub failed: u32,
    /// Requests in a queue, on an instance or on their way.
    pub in_flight: u32,
    /// Requests in flight whose answer has not begun: they wait, are computed, or their caches are on their way.
    pub unanswered: u32,
}

/// The one that decides where requests go, what instances do next and when caches move.
///
/// A driver [handles](Self::handle) what happens, in the order in which it does, and then [polls](Self::poll) and does what it is told until there is
/// no more. Requests pass a queue in front of prefill, one in front of decode's memory, and the batch of a decode instance;
/// [`Move`] says which of the first two comes first. All that waits is served in the order of arrival.
#[derive(Clone, Debug)]
pub struct Machine<'a> {
    requests: &'a Requests,
    config: Config,
    states: Vec<State>,
    prefill: Vec<PrefillInstance>,
    decode: Vec<DecodeInstance>,
    /// Requests that any prefill instance may take.
    shared: VecDeque<RequestId>,
    /// Requests that wait for the memory of a decode instance.
    admission: VecDeque<RequestId>,
    next_prefill: u32,
    next_decode: u32,
    /// Flows that have not arrived, by id; ids are used again.
    flows: Vec<Option<RequestId>>,
    free_flows: Vec<u32>,
    steps: VecDeque<Step>,
    arrived: u32,
    finished: u32,
    failed: u32,
}

impl<'a> Machine<'a> {
    /// For these requests, none of which has arrived.
    ///
    /// # Panics
    /// If a number of the configuration is zero that must not be.
    pub fn new(requests: &'a Requests, config: Config) -> Self {
        let Config { prefill, decode, layer_groups, chunk_tokens, .. } = config;
        assert!(prefill.instances > 0 && decode.instances > 0, "there are instances");
        assert!(layer_groups > 0 && chunk_tokens > 0 && decode.sequences > 0, "work has a size");
        Self {
            requests,
            config,
            states: vec![State::default(); requests.len()],
            prefill: vec![PrefillInstance::new(config.cached_blocks); prefill.instances as usize],
            decode: vec![DecodeInstance::default(); decode.instances as usize],
            shared: VecDeque::new(),
            admission: VecDeque::new(),
            next_prefill: 0,
            next_decode: 0,
            flows: Vec::new(),
            free_flows: Vec::new(),
            steps: VecDeque::new(),
            arrived: 0,
            finished: 0,
            failed: 0,
        }
    }

    /// The configuration.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Next step; `None` until something has happened.
    pub fn poll(&mut self) -> Option<Step> {
        let step = self.steps.pop_front();
        if let Some(Step::Stop(flow)) = step {
            // Not before: a driver that has heard of this flow's end by now and tells it must not end another one.
            self.free_flows.push(flow.0);
        }
        step
    }

    /// Something has happened.
    pub fn handle(&mut self, input: Input) {
        match input {
            Input::Arrived(request) => self.arrive(request),
            Input::Computed { instance } => self.computed(instance),
            Input::Moved(flow) => self.flow_moved(flow),
            Input::Stepped { instance } => self.stepped(instance),
            Input::Cancelled(request) => self.cancel(request),
            Input::PrefillLost { instance } => self.lose_prefill(instance),
            Input::DecodeLost { instance } => self.lose_decode(instance),
        }
    }

    fn arrive(&mut self, request: RequestId) {
        self.arrived += 1;
        self.note(request, Moment::Arrived);
        let input = u64::from(self.requests.get(request).input_tokens);
        let needed = self.decode_tokens(request);
        let fits_decode = !self.decodes(request) || needed <= self.config.decode.kv_tokens;
        if input > self.config.prefill.kv_tokens || !fits_decode {
            return self.fail(request, FailReason::TooLarge);
        }
        if self.config.moves == Move::Push && self.decodes(request) {
            self.want_decode(request);
        } else {
            self.want_prefill(request);
        }
    }

    fn decodes(&self, request: RequestId) -> bool {
        self.config.first_token == FirstToken::Decode || self.requests.get(request).output_tokens > 1
    }

    /// Tokens for which a decode instance reserves room.
    fn decode_tokens(&self, request: RequestId) -> u64 {
        let request = self.requests.get(request);
        u64::from(request.input_tokens) + u64::from(request.output_tokens)
    }

    fn open_flow(&mut self, request: RequestId, flow: Flow) {
        let id = self.free_flows.pop().unwrap_or_else(|| {
            self.flows.push(None);
            self.flows.len() as u32 - 1
        });
        self.flows[id as usize] = Some(request);
        self.states[request.index()].open_flows += 1;
        self.steps.push_back(Step::Move(FlowId(id), flow));
    }

    fn flow_moved(&mut self, flow: FlowId) {
        let Some(request) = self.flows[flow.index()].take() else {
            // It had arrived before anybody heard that it was stopped.
            return;
        };
        self.free_flows.push(flow.0);
        let state = &mut self.states[request.index()];
        state.open_flows -= 1;
        if state.place == Place::Moving && state.open_flows == 0 {
            self.moved(request);
        }
    }

    /// All of a cache is where it is decoded.
    fn moved(&mut self, request: RequestId) {
        self.note(request, Moment::Moved);
        self.states[request.index()].place = Place::Decoding;
        self.release_prefill(request);
        self.join(request);
    }

    fn finish(&mut self, request: RequestId) {
        self.finished += 1;
        self.states[request.index()].place = Place::Ended;
        self.note(request, Moment::Finished);
    }

    /// A request is not served, wherever it is.
    fn fail(&mut self, request: RequestId, reason: FailReason) {
        self.failed += 1;
        self.states[request.index()].place = Place::Ended;
        self.note(request, Moment::Failed(reason));
    }

    fn note(&mut self, request: RequestId, moment: Moment) {
        self.steps.push_back(Step::Note(request, moment));
    }

    fn place(&self, request: RequestId) -> Place {
        self.states[request.index()].place
    }

    fn is_shared(&self) -> bool {
        self.config.placement == Placement::SharedQueue
    }

    /// Counts all requests. It walks through all queues and instances.
    pub fn census(&self) -> Census {
        let mut unanswered: BTreeSet<&RequestId> = BTreeSet::new();
        let mut answered: BTreeSet<&RequestId> = BTreeSet::new();
        let queues = self.prefill.iter().map(|instance| &instance.queue).chain([&self.shared]);
        unanswered.extend(queues.flatten().filter(|request| self.is_at(**request, Place::PrefillQueue)));
        unanswered.extend(self.admission.iter().filter(|request| self.is_at(**request, Place::DecodeQueue)));
        let running = self.prefill.iter().filter_map(|instance| instance.running.as_ref());
        let running = running.map(|running| &running.request);
        unanswered.extend(running.filter(|request| self.is_at(**request, Place::Prefilling)));
        unanswered.extend(self.flows.iter().flatten().filter(|request| self.is_at(**request, Place::Moving)));
        for instance in &self.decode {
            let batch = instance.leaving.values().flatten().chain(&instance.joining);
            answered.extend(batch.filter(|request| self.is_at(**request, Place::Decoding)));
        }
        Census {
            arrived: self.arrived,
            finished: self.finished,
            failed: self.failed,
            in_flight: (unanswered.len() + answered.len()) as u32,
            unanswered: unanswered.len() as u32,
        }
    }

    /// Tokens whose caches each prefill instance holds, at most those of its [`Pool`](crate::Pool).
    pub fn prefill_kv_tokens(&self) -> impl Iterator<Item = u64> {
        self.prefill.iter().map(|instance| instance.kv_tokens)
    }

    /// Tokens that each decode instance has room reserved for, at most those of its [`Pool`](crate::Pool).
    pub fn decode_kv_tokens(&self) -> impl Iterator<Item = u64> {
        self.decode.iter().map(|instance| instance.reserved)
    }

    fn is_at(&self, request: RequestId, place: Place) -> bool {
        self.place(request) == place
    }
}

impl Machine<'_> {
    /// A user does not want an answer: all that the request holds is free, its part of a batch with the end of the step that runs. Nothing
    /// happens if it has ended.
    fn cancel(&mut self, request: RequestId) {
        if !matches!(self.place(request), Place::Ended | Place::Expected) {
            self.abandon(request, FailReason::Cancelled);
            self.admit();
            self.start_all();
        }
    }

    /// Requests whose caches were on a prefill instance fail, and those that waited there go elsewhere.
    fn lose_prefill(&mut self, index: u32) {
        let instance = &mut self.prefill[index as usize];
        if std::mem::replace(&mut instance.is_lost, true) {
            return;
        }
        instance.running = None;
        let waiting = std::mem::take(&mut instance.queue);
        for request in self.requests.ids() {
            let state = self.states[request.index()];
            if state.prefill == Some(index) && state.holds_prefill && state.place != Place::Ended {
                self.abandon(request, FailReason::InstanceLost);
            }
        }
        for request in waiting {
            if self.place(request) == Place::PrefillQueue {
                self.unload(request);
                self.want_prefill(request);
            }
        }
        if self.prefill.iter().all(|instance| instance.is_lost) {
            for request in std::mem::take(&mut self.shared) {
                if self.place(request) == Place::PrefillQueue {
                    self.abandon(request, FailReason::NoInstance);
                }
            }
        }
        self.admit();
    }

    /// Requests whose caches were on a decode instance, or on their way to it, fail; for those that had only room there, room is sought elsewhere.
    fn lose_decode(&mut self, index: u32) {
        if std::mem::replace(&mut self.decode[index as usize].is_lost, true) {
            return;
        }
        self.drop_batch(index);
        for request in self.requests.ids() {
            let state = self.states[request.index()];
            if state.decode != Some(index) || !state.holds_decode {
                continue;
            }
            if state.place == Place::Ended {
                self.release_decode(request);
                continue;
            }
            if state.place != Place::PrefillQueue {
                self.abandon(request, FailReason::InstanceLost);
                continue;
            }
            self.unload(request);
            self.leave_queues(request);
            self.release_decode(request);
            self.want_decode(request);
        }
        self.admit();
        self.start_all();
    }

    /// Who was at the head of a queue, and did not fit, may be gone.
    fn start_all(&mut self) {
        (0..self.config.prefill.instances).for_each(|instance| self.start_prefill(instance));
    }

    /// Ends a request wherever it is, and frees all that it holds.
    fn abandon(&mut self, request: RequestId, reason: FailReason) {
        let place = self.place(request);
        if matches!(place, Place::PrefillQueue | Place::Prefilling) {
            self.unload(request);
        }
        let is_in_batch = place == Place::Decoding && self.drop_sequence(request);
        for index in 0..self.flows.len() {
            if self.flows[index] == Some(request) {
                self.flows[index] = None;
                self.steps.push_back(Step::Stop(FlowId(index as u32)));
            }
        }
        self.states[request.index()].open_flows = 0;
        self.fail(request, reason);
        if !is_in_batch {
            self.release_decode(request);
        }
        self.release_prefill(request);
    }

    fn leave_queues(&mut self, request: RequestId) {
        self.shared.retain(|other| *other != request);
        for instance in &mut self.prefill {
            instance.queue.retain(|other| *other != request);
        }
    }
}
