//! Invariants, kept beside the machine from what it says alone.

use std::collections::{BTreeMap, BTreeSet};

use zipwire_serving::{
    Config, FirstToken, Flow, FlowId, Moment, Move, PrefillStep, RequestId, Requests, Step,
};

/// One request, as its notes and flows tell it.
#[derive(Default)]
struct Followed {
    prefill: Option<u32>,
    decode: Option<u32>,
    is_moved: bool,
    has_ended: bool,
    has_arrived: bool,
    tokens: u32,
    /// Computed so far, by the steps of prefill.
    computed: u32,
    /// Tokens sent of each group of layers.
    sent: Vec<u32>,
    open_flows: u32,
}

/// A batch, of which the machine only says how large it is.
#[derive(Default)]
pub(crate) struct Batch {
    joining: Vec<RequestId>,
    /// Each with the tokens that it has.
    running: BTreeMap<RequestId, u64>,
    pub(crate) is_stepping: bool,
    pub(crate) is_lost: bool,
    /// Tokens that were announced for the step that has just ended.
    continuing: Option<u32>,
}

/// Step that an instance computes, and how many groups of layers of it are done.
pub(crate) type Computing = (PrefillStep, u32);

pub(crate) struct Follower<'a> {
    config: Config,
    requests: &'a Requests,
    followed: Vec<Followed>,
    pub(crate) flows: BTreeMap<FlowId, Flow>,
    pub(crate) computing: Vec<Option<Computing>>,
    pub(crate) prefill_lost: BTreeSet<u32>,
    pub(crate) batches: Vec<Batch>,
}

impl<'a> Follower<'a> {
    pub(crate) fn new(config: Config, requests: &'a Requests) -> Self {
        let groups = config.layer_groups as usize;
        let followed = || Followed { sent: vec![0; groups], ..Followed::default() };
        Self {
            config,
            requests,
            followed: requests.ids().map(|_| followed()).collect(),
            flows: BTreeMap::new(),
            computing: vec![None; config.prefill.instances as usize],
            prefill_lost: BTreeSet::new(),
            batches: (0..config.decode.instances).map(|_| Batch::default()).collect(),
        }
    }

    /// A step of a batch has ended: all who are in it have one token more.
    pub(crate) fn stepped(&mut self, instance: u32) {
        let batch = &mut self.batches[instance as usize];
        batch.is_stepping = false;
        let before = u32::from(self.config.first_token == FirstToken::Prefill);
        let mut continuing = 0;
        for (request, context) in &mut batch.running {
            let followed = &mut self.followed[request.index()];
            continuing += u32::from(!followed.has_ended && followed.tokens > before);
            *context += 1;
            followed.tokens += u32::from(!followed.has_ended);
        }
        batch.continuing = Some(continuing);
        let followed = &self.followed;
        batch.running.retain(|request, _| !followed[request.index()].has_ended);
    }

    pub(crate) fn flow_moved(&mut self, id: FlowId) {
        let flow = self.flows.remove(&id).unwrap();
        self.followed[flow.request.index()].open_flows -= 1;
    }

    pub(crate) fn lose_decode(&mut self, instance: u32) {
        self.batches[instance as usize] = Batch { is_lost: true, ..Batch::default() };
    }

    pub(crate) fn lose_prefill(&mut self, instance: u32) {
        self.computing[instance as usize] = None;
        self.prefill_lost.insert(instance);
    }

    pub(crate) fn step(&mut self, step: Step) {
        match step {
            Step::Prefill(step) => self.prefill(step),
            Step::Move(id, flow) => self.moves(id, flow),
            Step::Stop(id) => {
                let flow = self.flows.remove(&id).expect("only what moves is stopped");
                self.followed[flow.request.index()].open_flows -= 1;
            }
            Step::Decode(step) => {
                let batch = &mut self.batches[step.instance as usize];
                assert!(!batch.is_stepping && !batch.is_lost);
                assert_eq!(batch.continuing, None, "a step that ended gave tokens");
                let followed = &self.followed;
                let joining = batch.joining.drain(..).filter(|id| !followed[id.index()].has_ended);
                let context = |id: &RequestId| {
                    u64::from(self.requests.get(*id).input_tokens) + u64::from(followed[id.index()].tokens)
                };
                batch.running.extend(joining.map(|id| (id, context(&id))));
                batch.is_stepping = true;
                assert_eq!(step.sequences as usize, batch.running.len());
                assert_eq!(step.context_tokens, batch.running.values().sum::<u64>());
                assert!(step.sequences <= self.config.decode.sequences, "the batch has a limit");
            }
            Step::Tokens { instance, continuing } => {
                assert_eq!(self.batches[instance as usize].continuing.take(), Some(continuing));
            }
            Step::Note(request, moment) => self.note(request, moment),
        }
    }

    fn prefill(&mut self, step: PrefillStep) {
        let followed = &mut self.followed[step.request.index()];
        assert!(!self.prefill_lost.contains(&step.instance));
        assert_eq!(followed.prefill, Some(step.instance));
        assert_eq!(followed.computed, step.tokens.start, "chunks come one behind the other");
        assert!(!followed.has_ended && step.tokens.start < step.tokens.end);
        assert!(step.tokens.end - step.tokens.start <= self.config.chunk_tokens);
        followed.computed = step.tokens.end;
        let before = self.computing[step.instance as usize].replace((step, 0));
        assert!(before.is_none(), "an instance computes one thing at a time");
    }

    fn moves(&mut self, id: FlowId, flow: Flow) {
        let followed = &mut self.followed[flow.request.index()];
        assert_eq!((followed.prefill, followed.decode), (Some(flow.prefill), Some(flow.decode)));
        assert!(!followed.has_ended && !followed.is_moved);
        assert!(!self.prefill_lost.contains(&flow.prefill) && !self.batches[flow.decode as usize].is_lost);
        assert_eq!(flow.is_first, followed.sent.iter().all(|&sent| sent == 0));
        let sent = &mut followed.sent[flow.group as usize];
        assert_eq!(*sent, flow.tokens.start, "a token of a group is sent once, one behind the other");
        assert!(flow.tokens.end > flow.tokens.start && flow.tokens.end <= followed.computed);
        *sent = flow.tokens.end;
        followed.open_flows += 1;
        assert!(self.flows.insert(id, flow).is_none(), "two open flows have the id {id:?}");
    }

    fn note(&mut self, id: RequestId, moment: Moment) {
        let request = self.requests.get(id);
        let followed = &mut self.followed[id.index()];
        assert!(!followed.has_ended, "{id} has ended, then {moment:?}");
        match moment {
            Moment::Arrived => assert!(!std::mem::replace(&mut followed.has_arrived, true)),
            Moment::PrefillBegun { instance, cached_tokens } => {
                assert!(cached_tokens < request.input_tokens, "one token is always computed");
                assert!(self.config.cached_blocks > 0 || cached_tokens == 0);
                assert!(
                    self.config.moves == Move::Pull
                        || followed.decode.is_some()
                        || request.output_tokens == 1
                );
                (followed.prefill, followed.computed) = (Some(instance), cached_tokens);
            }
            Moment::Prefilled => assert_eq!(followed.computed, request.input_tokens),
            Moment::Admitted { instance } => {
                assert!(!self.batches[instance as usize].is_lost);
                followed.decode = Some(instance);
            }
            Moment::Moved => {
                assert!(
                    followed.sent.iter().all(|&sent| sent == request.input_tokens),
                    "all of a cache moves"
                );
                assert_eq!(followed.open_flows, 0, "all of a cache has arrived");
                followed.is_moved = true;
                self.batches[followed.decode.unwrap() as usize].joining.push(id);
            }
            Moment::Token => {
                let by_prefill = self.config.first_token == FirstToken::Prefill && !followed.is_moved;
                if by_prefill {
                    assert_eq!((followed.tokens, followed.computed), (0, request.input_tokens));
                    followed.tokens = 1;
                } else {
                    let before = u32::from(self.config.first_token == FirstToken::Prefill);
                    assert_eq!(followed.tokens, before + 1, "the first token of decoding is announced");
                }
            }
            Moment::Finished => {
                assert_eq!(followed.tokens, request.output_tokens, "all tokens are there, and no other");
                assert_eq!(followed.open_flows, 0);
                followed.has_ended = true;
                if let Some(decode) = followed.decode {
                    self.batches[decode as usize].running.remove(&id);
                }
            }
            Moment::Failed(_) => followed.has_ended = true,
        }
    }

    pub(crate) fn ended(&self) -> u32 {
        self.followed.iter().filter(|followed| followed.has_ended).count() as u32
    }
}
