//! Tokens: which instance has room for a request, and the steps of its batch.

use std::collections::BTreeMap;

use super::{DecodeStep, Machine, Place, Step};
use crate::{FailReason, FirstToken, Moment, Move, Placement, RequestId};

#[derive(Clone, Debug, Default)]
pub(super) struct DecodeInstance {
    /// Tokens for which room is reserved.
    pub(super) reserved: u64,
    /// Requests that have room reserved.
    pub(super) requests: u32,
    /// Requests whose caches are here and that wait for the next step.
    pub(super) joining: Vec<RequestId>,
    /// Requests that get their first token of this instance in the step that runs.
    joined: Vec<RequestId>,
    /// Requests that get their last token, by step.
    pub(super) leaving: BTreeMap<u64, Vec<RequestId>>,
    /// Requests that leave the batch with the step that runs, and the step in which the last token would have come. Until then the
    /// step writes to their caches, so their room is not free.
    dropped: Vec<(RequestId, u64)>,
    sequences: u32,
    context_tokens: u64,
    /// Steps that have begun.
    steps: u64,
    is_stepping: bool,
    pub(super) is_lost: bool,
}

impl Machine<'_> {
    /// A request may take room of a decode instance.
    pub(super) fn want_decode(&mut self, request: RequestId) {
        self.states[request.index()].place = Place::DecodeQueue;
        self.admission.push_back(request);
        self.admit();
    }

    pub(super) fn admit(&mut self) {
        while let Some(&request) = self.admission.front() {
            if self.place(request) != Place::DecodeQueue {
                self.admission.pop_front();
                continue;
            }
            if self.decode.iter().all(|instance| instance.is_lost) {
                self.admission.pop_front();
                self.release_prefill(request);
                self.fail(request, FailReason::NoInstance);
                continue;
            }
            let Some(instance) = self.choose_decode(request) else { return };
            self.admission.pop_front();
            self.reserve(request, instance);
        }
    }

    /// An instance with room; of round robin, the next one only.
    fn choose_decode(&mut self, request: RequestId) -> Option<u32> {
        let needed = self.decode_tokens(request);
        let pool = self.config.decode;
        let is_alive = |&index: &u32| !self.decode[index as usize].is_lost;
        let has_room = |&index: &u32| {
            let instance = &self.decode[index as usize];
            instance.reserved + needed <= pool.kv_tokens && instance.requests < pool.sequences
        };
        match self.config.placement {
            Placement::RoundRobin => {
                let turns = (0..pool.instances).map(|turn| (self.next_decode + turn) % pool.instances);
                let instance = turns.into_iter().find(is_alive).filter(has_room)?;
                self.next_decode = (instance + 1) % pool.instances;
                Some(instance)
            }
            Placement::LeastLoaded | Placement::PrefixAware | Placement::SharedQueue => (0..pool.instances)
                .filter(|index| is_alive(index) && has_room(index))
                .min_by_key(|&index| self.decode[index as usize].reserved),
        }
    }

    fn reserve(&mut self, request: RequestId, index: u32) {
        let tokens = self.decode_tokens(request);
        let instance = &mut self.decode[index as usize];
        instance.reserved += tokens;
        instance.requests += 1;
        let state = &mut self.states[request.index()];
        (state.decode, state.holds_decode) = (Some(index), true);
        self.note(request, Moment::Admitted { instance: index });
        match self.config.moves {
            Move::Push => self.want_prefill(request),
            Move::Pull => {
                self.states[request.index()].place = Place::Moving;
                let tokens = 0..self.requests.get(request).input_tokens;
                (0..self.config.layer_groups).for_each(|group| self.send(request, tokens.clone(), group));
            }
        }
    }

    /// A cache is here: the request is part of the next step.
    pub(super) fn join(&mut self, request: RequestId) {
        let index = self.states[request.index()].decode.expect("its cache has moved to an instance");
        self.decode[index as usize].joining.push(request);
        self.step(index);
    }

    pub(super) fn step(&mut self, index: u32) {
        let (requests, first_token) = (self.requests, self.config.first_token);
        let states = &self.states;
        let instance = &mut self.decode[index as usize];
        if instance.is_stepping || instance.is_lost {
            return;
        }
        instance.joining.retain(|request| states[request.index()].place == Place::Decoding);
        instance.joined = std::mem::take(&mut instance.joining);
        let before = u32::from(first_token == FirstToken::Prefill);
        for &id in &instance.joined {
            let request = requests.get(id);
            instance.sequences += 1;
            instance.context_tokens += u64::from(request.input_tokens) + u64::from(before);
            let last = instance.steps + u64::from(request.output_tokens - before);
            instance.leaving.entry(last).or_default().push(id);
        }
        if instance.sequences == 0 {
            return;
        }
        instance.steps += 1;
        instance.is_stepping = true;
        let (sequences, context_tokens) = (instance.sequences, instance.context_tokens);
        self.steps.push_back(Step::Decode(DecodeStep { instance: index, sequences, context_tokens }));
    }

    pub(super) fn stepped(&mut self, index: u32) {
        let instance = &mut self.decode[index as usize];
        if instance.is_lost {
            return;
        }
        instance.is_stepping = false;
        instance.context_tokens += u64::from(instance.sequences);
        let joined = std::mem::take(&mut instance.joined);
        let leaving = instance.leaving.remove(&instance.steps).unwrap_or_default();
        let dropped = std::mem::take(&mut instance.dropped);
        let wanted = instance.sequences - dropped.len() as u32;
        let first = joined.iter().filter(|request| self.place(**request) == Place::Decoding).count() as u32;
        self.steps.push_back(Step::Tokens { instance: index, continuing: wanted - first });
        for request in joined {
            if self.place(request) == Place::Decoding {
                self.note(request, Moment::Token);
            }
        }
        for &(request, last) in &dropped {
            self.leave_batch(request, index, last);
            self.release_decode(request);
        }
        let last = self.decode[index as usize].steps;
        for &request in &leaving {
            self.leave_batch(request, index, last);
            self.release_decode(request);
            self.finish(request);
        }
        if !leaving.is_empty() || !dropped.is_empty() {
            self.admit();
        }
        self.step(index);
    }

    /// A sequence that would get its last token in step `last` is no part of the batch any more.
    fn leave_batch(&mut self, id: RequestId, index: u32, last: u64) {
        let request = self.requests.get(id);
        let instance = &mut self.decode[index as usize];
        instance.sequences -= 1;
        let to_come = last - instance.steps;
        instance.context_tokens -=
            u64::from(request.input_tokens) + u64::from(request.output_tokens) - to_come;
    }

    /// A request is not to be decoded any further: it leaves the batch with the step that runs. Whether it was in the batch.
    pub(super) fn drop_sequence(&mut self, request: RequestId) -> bool {
        let Some(index) = self.states[request.index()].decode else { return false };
        let instance = &mut self.decode[index as usize];
        let found = instance.leaving.iter_mut().find_map(|(&last, requests)| {
            let position = requests.iter().position(|other| *other == request)?;
            requests.remove(position);
            Some(last)
        });
        if let Some(last) = found {
            instance.dropped.push((request, last));
            instance.leaving.retain(|_, requests| !requests.is_empty());
        }
        found.is_some()
    }

    /// An instance has no batch any more.
    pub(super) fn drop_batch(&mut self, index: u32) {
        let instance = &mut self.decode[index as usize];
        let DecodeInstance { reserved, requests, is_lost, .. } = *instance;
        *instance = DecodeInstance { reserved, requests, is_lost, ..DecodeInstance::default() };
    }

    pub(super) fn release_decode(&mut self, request: RequestId) {
        let tokens = self.decode_tokens(request);
        let state = &mut self.states[request.index()];
        if !std::mem::take(&mut state.holds_decode) {
            return;
        }
        let instance = &mut self.decode[state.decode.expect("who has room is known") as usize];
        instance.reserved -= tokens;
        instance.requests -= 1;
    }
}
