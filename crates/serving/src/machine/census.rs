//! Where all requests are, counted.

use std::collections::BTreeSet;

use super::{Machine, Place};
use crate::RequestId;

/// Requests by what has become of them. `in_flight` is not the difference of the others: it is counted where requests are kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Census {
    /// Those that have arrived.
    pub arrived: u32,
    /// Those that were served.
    pub finished: u32,
    /// Those that were not.
    pub failed: u32,
    /// Those that are in a queue, on an instance or on their way.
    pub in_flight: u32,
    /// Of these, those whose answer has not begun: they wait, are computed, or their caches are on their way.
    pub unanswered: u32,
}

impl Machine<'_> {
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
