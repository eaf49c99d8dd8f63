//! Requests that nobody wants any more, and instances that are gone.

use super::{Machine, Place, Step};
use crate::{FailReason, FlowId, RequestId};

impl Machine<'_> {
    /// A user does not want an answer: all that the request holds is free, its part of a batch with the end of the step that runs. Nothing
    /// happens if it has ended.
    pub(super) fn cancel(&mut self, request: RequestId) {
        if !matches!(self.place(request), Place::Ended | Place::Expected) {
            self.abandon(request, FailReason::Cancelled);
            self.admit();
            self.start_all();
        }
    }

    /// Requests whose caches were on a prefill instance fail, and those that waited there go elsewhere.
    pub(super) fn lose_prefill(&mut self, index: u32) {
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
    pub(super) fn lose_decode(&mut self, index: u32) {
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
