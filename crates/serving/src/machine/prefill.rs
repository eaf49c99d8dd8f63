//! Prompts: which instance computes them, in which chunks, and what leaves it.

use std::collections::{BTreeMap, HashMap, VecDeque};

use super::{Flow, Machine, Place, PrefillStep, Step};
use crate::{FailReason, FirstToken, Moment, Move, Placement, RequestId};

#[derive(Clone, Debug)]
pub(super) struct PrefillInstance {
    pub(super) queue: VecDeque<RequestId>,
    pub(super) running: Option<Running>,
    /// Tokens whose caches it holds, or is computing.
    pub(super) kv_tokens: u64,
    /// Tokens of prompts that wait here or are computed.
    pub(super) load: u64,
    pub(super) cache: PrefixCache,
    pub(super) is_lost: bool,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Running {
    pub(super) request: RequestId,
    /// The first token whose cache leaves with this chunk.
    sent_from: u32,
    end: u32,
    /// Groups of layers that are computed.
    groups: u32,
}

impl PrefillInstance {
    pub(super) fn new(cached_blocks: u64) -> Self {
        Self {
            queue: VecDeque::new(),
            running: None,
            kv_tokens: 0,
            load: 0,
            cache: PrefixCache::new(cached_blocks),
            is_lost: false,
        }
    }
}

impl Machine<'_> {
    pub(super) fn want_prefill(&mut self, request: RequestId) {
        self.states[request.index()].place = Place::PrefillQueue;
        if self.prefill.iter().all(|instance| instance.is_lost) {
            self.release_decode(request);
            return self.fail(request, FailReason::NoInstance);
        }
        if self.is_shared() {
            self.shared.push_back(request);
            return self.start_shared();
        }
        let (instance, load) = self.choose_prefill(request);
        let state = &mut self.states[request.index()];
        (state.prefill, state.load) = (Some(instance), load);
        let chosen = &mut self.prefill[instance as usize];
        chosen.load += u64::from(load);
        chosen.queue.push_back(request);
        self.begin_next(instance);
    }

    /// The instance for a request, and the tokens that it would have to compute there.
    fn choose_prefill(&mut self, request: RequestId) -> (u32, u32) {
        let input = self.requests.get(request).input_tokens;
        let mut alive = (0..self.config.prefill.instances).filter(|&i| !self.prefill[i as usize].is_lost);
        match self.config.placement {
            Placement::RoundRobin => {
                let count = self.config.prefill.instances;
                let turns = (0..count).map(|turn| (self.next_prefill + turn) % count);
                let instance = turns.into_iter().find(|&i| !self.prefill[i as usize].is_lost);
                let instance = instance.expect("some instance is left");
                self.next_prefill = (instance + 1) % count;
                (instance, input)
            }
            Placement::PrefixAware => {
                let load = |instance: u32| input - self.cached_tokens(instance, request);
                let cost = |&instance: &u32| self.prefill[instance as usize].load + u64::from(load(instance));
                let instance = alive.min_by_key(cost).expect("some instance is left");
                (instance, load(instance))
            }
            Placement::LeastLoaded | Placement::SharedQueue => {
                let load = |&instance: &u32| self.prefill[instance as usize].load;
                (alive.by_ref().min_by_key(load).expect("some instance is left"), input)
            }
        }
    }

    /// Tokens of a prompt that an instance has from earlier ones. The last token is always computed: it makes the first answer.
    fn cached_tokens(&self, instance: u32, request: RequestId) -> u32 {
        let request = self.requests.get(request);
        let blocks = self.prefill[instance as usize].cache.matching(&request.prefix) as u64;
        let tokens = blocks * u64::from(self.requests.block_tokens());
        tokens.min(u64::from(request.input_tokens) - 1) as u32
    }

    /// An instance may have become idle, or have room, or another request at the head of its queue.
    pub(super) fn start_prefill(&mut self, index: u32) {
        self.begin_next(index);
        if self.is_shared() {
            self.start_shared();
        }
    }

    /// Lets idle instances take requests of the queue that they share, in their order. Who takes the first may leave one behind that fits
    /// an instance that the first did not fit.
    pub(super) fn start_shared(&mut self) {
        while !self.shared.is_empty() {
            if !(0..self.config.prefill.instances).any(|instance| self.begin_next(instance)) {
                return;
            }
        }
    }

    /// Lets an idle instance begin with the next request, if there is room for its cache; whether it has begun.
    fn begin_next(&mut self, index: u32) -> bool {
        let capacity = self.config.prefill.kv_tokens;
        let instance = &self.prefill[index as usize];
        if instance.running.is_some() || instance.is_lost {
            return false;
        }
        let is_shared = self.is_shared();
        let Some(request) = self.next_in_queue(index) else { return false };
        let input = self.requests.get(request).input_tokens;
        if self.prefill[index as usize].kv_tokens + u64::from(input) > capacity {
            return false;
        }
        if is_shared {
            self.shared.pop_front()
        } else {
            self.prefill[index as usize].queue.pop_front()
        };
        let cached = self.cached_tokens(index, request);
        self.prefill[index as usize].kv_tokens += u64::from(input);
        let state = &mut self.states[request.index()];
        (state.place, state.prefill, state.holds_prefill) = (Place::Prefilling, Some(index), true);
        state.computed = cached;
        self.note(request, Moment::PrefillBegun { instance: index, cached_tokens: cached });
        self.begin_chunk(index, request, 0);
        true
    }

    /// The request at the head of an instance's queue, behind those that have ended meanwhile.
    fn next_in_queue(&mut self, index: u32) -> Option<RequestId> {
        let is_shared = self.is_shared();
        let queue = if is_shared { &mut self.shared } else { &mut self.prefill[index as usize].queue };
        while let Some(&request) = queue.front() {
            if self.states[request.index()].place == Place::PrefillQueue {
                return Some(request);
            }
            queue.pop_front();
        }
        None
    }

    fn begin_chunk(&mut self, instance: u32, request: RequestId, sent_from: u32) {
        let begin = self.states[request.index()].computed;
        let input = self.requests.get(request).input_tokens;
        let end = input.min(begin.saturating_add(self.config.chunk_tokens));
        let running = Running { request, sent_from, end, groups: 0 };
        self.prefill[instance as usize].running = Some(running);
        self.steps.push_back(Step::Prefill(PrefillStep { instance, request, tokens: begin..end }));
    }

    /// An instance has computed the next group of layers of its chunk.
    pub(super) fn computed(&mut self, index: u32) {
        let instance = &mut self.prefill[index as usize];
        if instance.is_lost {
            return;
        }
        let running = instance.running.as_mut().expect("an instance that computes has a chunk");
        let group = running.groups;
        running.groups += 1;
        let Running { request, sent_from, end, groups } = *running;
        let is_wanted = self.place(request) == Place::Prefilling;
        if is_wanted && self.config.moves == Move::Push && self.decodes(request) {
            self.send(request, sent_from..end, group);
        }
        if groups < self.config.layer_groups {
            return;
        }
        self.states[request.index()].computed = end;
        if !is_wanted {
            self.prefill[index as usize].running = None;
            return self.start_prefill(index);
        }
        if end < self.requests.get(request).input_tokens {
            return self.begin_chunk(index, request, end);
        }
        self.prefill[index as usize].running = None;
        self.prefilled(request);
        self.start_prefill(index);
    }

    fn prefilled(&mut self, request: RequestId) {
        self.note(request, Moment::Prefilled);
        self.unload(request);
        let instance = self.states[request.index()].prefill.expect("it was computed somewhere");
        let prefix = &self.requests.get(request).prefix;
        self.prefill[instance as usize].cache.insert(prefix);
        if self.config.first_token == FirstToken::Prefill {
            self.note(request, Moment::Token);
        }
        if !self.decodes(request) {
            self.release_prefill(request);
            return self.finish(request);
        }
        match self.config.moves {
            Move::Push => {
                let state = &mut self.states[request.index()];
                state.place = Place::Moving;
                if state.open_flows == 0 {
                    self.moved(request);
                }
            }
            Move::Pull => self.want_decode(request),
        }
    }

    /// A group of layers of some tokens leaves its instance.
    pub(super) fn send(&mut self, request: RequestId, tokens: std::ops::Range<u32>, group: u32) {
        let state = self.states[request.index()];
        let (Some(prefill), Some(decode)) = (state.prefill, state.decode) else {
            unreachable!("what is sent has two ends");
        };
        let is_first = tokens.start == 0 && group == 0;
        self.open_flow(request, Flow { request, prefill, decode, tokens, group, is_first });
    }

    /// A request is no load of its prefill instance any more.
    pub(super) fn unload(&mut self, request: RequestId) {
        let state = &mut self.states[request.index()];
        let load = std::mem::take(&mut state.load);
        if let Some(instance) = state.prefill {
            self.prefill[instance as usize].load -= u64::from(load);
        }
    }

    /// The prefill instance forgets a cache, which makes room for the next one.
    pub(super) fn release_prefill(&mut self, request: RequestId) {
        let state = &mut self.states[request.index()];
        if !std::mem::take(&mut state.holds_prefill) {
            return;
        }
        let instance = state.prefill.expect("who holds a cache is known");
        let tokens = self.requests.get(request).input_tokens;
        self.prefill[instance as usize].kv_tokens -= u64::from(tokens);
        self.start_prefill(instance);
    }
}

/// Blocks of prompts; the one that was not used for longest goes first.
#[derive(Clone, Debug)]
pub(crate) struct PrefixCache {
    capacity: u64,
    /// When each block was last used, in uses so far.
    used: HashMap<u64, u64>,
    /// The same, by time.
    oldest: BTreeMap<u64, u64>,
    uses: u64,
}

impl PrefixCache {
    pub(crate) fn new(capacity: u64) -> Self {
        Self { capacity, used: HashMap::new(), oldest: BTreeMap::new(), uses: 0 }
    }

    /// Number of leading blocks that are here without a gap.
    pub(crate) fn matching(&self, prefix: &[u64]) -> usize {
        prefix.iter().take_while(|block| self.used.contains_key(block)).count()
    }

    /// Uses or adds the blocks of a prompt. The last ones count as used first, so what other prompts may share stays longest.
    pub(crate) fn insert(&mut self, prefix: &[u64]) {
        if self.capacity == 0 {
            return;
        }
        for &block in prefix.iter().rev() {
            self.uses += 1;
            if let Some(before) = self.used.insert(block, self.uses) {
                self.oldest.remove(&before);
            }
            self.oldest.insert(self.uses, block);
        }
        while self.used.len() as u64 > self.capacity {
            let (_, block) = self.oldest.pop_first().expect("every block has a time");
            self.used.remove(&block);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_not_used_for_longest_goes_and_the_end_of_a_prompt_before_its_beginning() {
        let mut cache = PrefixCache::new(4);
        cache.insert(&[1, 2, 3]);
        assert_eq!(cache.matching(&[1, 2, 9]), 2);
        assert_eq!(cache.matching(&[2]), 1);
        cache.insert(&[1, 4, 5]);
        assert_eq!(cache.matching(&[1, 2, 3]), 2, "3 was the end of the older prompt");
        assert_eq!(cache.matching(&[1, 4, 5]), 3);
        cache.insert(&[6, 7]);
        assert_eq!(cache.matching(&[1, 4, 5]), 2);
        assert_eq!(cache.used.len(), 4);
    }

    #[test]
    fn without_room_nothing_stays() {
        let mut cache = PrefixCache::new(0);
        cache.insert(&[1]);
        assert_eq!(cache.matching(&[1]), 0);
    }
}
