//! Times of events of each request.

use crate::RequestId;
use crate::metrics::LatencyHistogram;

/// Something that happens to a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[allow(missing_docs, reason = "fields are named by the docs of their variants")]
pub enum Moment {
    /// It has arrived.
    Arrived,
    /// A prefill instance begins with it.
    PrefillBegun {
        instance: u32,
        /// Tokens of the prompt that are in its cache already.
        cached_tokens: u32,
    },
    /// The whole prompt has been computed.
    Prefilled,
    /// A decode instance has reserved room.
    Admitted { instance: u32 },
    /// All of its cache is at the decode instance.
    Moved,
    /// The user sees a token, and has seen none before in the same phase: the first of all, or the first of the decode instance.
    Token,
    /// The last token is there.
    Finished,
    /// It will not be served.
    Failed(FailReason),
}

/// Why a request was not served.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum FailReason {
    /// No instance has so much memory.
    TooLarge,
    /// An instance that had its cache is gone.
    InstanceLost,
    /// There is no instance left.
    NoInstance,
    /// The user does not want it any more.
    Cancelled,
}

impl FailReason {
    /// In words.
    pub fn name(self) -> &'static str {
        match self {
            Self::TooLarge => "too large",
            Self::InstanceLost => "instance lost",
            Self::NoInstance => "no instance left",
            Self::Cancelled => "cancelled",
        }
    }
}

/// Outcome of a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Outcome {
    /// It has not arrived.
    #[default]
    Expected,
    /// It is being served.
    InFlight,
    /// It was served.
    Finished,
    /// It was not.
    Failed(FailReason),
}

/// One request: seconds of the run, where something has happened.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Record {
    /// Outcome.
    pub outcome: Outcome,
    /// It arrived.
    pub arrival_s: f64,
    /// Its prefill instance, and the tokens that were in its cache.
    pub prefill: Option<(u32, u32)>,
    /// Its decode instance.
    pub decode: Option<u32>,
    /// Prefill began.
    pub prefill_begin_s: Option<f64>,
    /// Prefill ended.
    pub prefilled_s: Option<f64>,
    /// A decode instance had room.
    pub admitted_s: Option<f64>,
    /// The cache was there.
    pub moved_s: Option<f64>,
    /// The first token.
    pub first_token_s: Option<f64>,
    /// It finished, or failed.
    pub end_s: Option<f64>,
}

impl Record {
    /// Seconds to the first token.
    pub fn ttft_s(&self) -> Option<f64> {
        Some(self.first_token_s? - self.arrival_s)
    }

    /// Seconds to the last token, of a request that was served.
    pub fn e2e_s(&self) -> Option<f64> {
        let end_s = self.end_s.filter(|_| self.outcome == Outcome::Finished)?;
        Some(end_s - self.arrival_s)
    }

    /// Mean seconds between tokens of a request that was served and has several.
    pub fn tpot_s(&self, output_tokens: u32) -> Option<f64> {
        if output_tokens < 2 {
            return None;
        }
        let latency_s = self.e2e_s()? - self.ttft_s()?;
        Some(latency_s / f64::from(output_tokens - 1))
    }

    /// Seconds from the end of prefill until the cache was at the decode instance: what moving it, and waiting for room, adds to what the user waits.
    pub fn kv_wait_s(&self) -> Option<f64> {
        Some((self.moved_s? - self.prefilled_s?).max(0.0))
    }
}

/// Keeps records, and the times between tokens.
#[derive(Clone, Debug, Default)]
pub struct Recorder {
    records: Vec<Record>,
    inter_token: LatencyHistogram,
    /// When each decode instance ended its last step.
    stepped_s: Vec<f64>,
}

impl Recorder {
    /// A recorder of so many requests and decode instances.
    pub fn new(requests: usize, decode_instances: u32) -> Self {
        let stepped_s = vec![f64::NAN; decode_instances as usize];
        Self {
            records: vec![Record::default(); requests],
            inter_token: LatencyHistogram::default(),
            stepped_s,
        }
    }

    /// Something has happened to a request.
    pub fn note(&mut self, now_s: f64, request: RequestId, moment: Moment) {
        let record = &mut self.records[request.index()];
        match moment {
            Moment::Arrived => (record.outcome, record.arrival_s) = (Outcome::InFlight, now_s),
            Moment::PrefillBegun { instance, cached_tokens } => {
                record.prefill = Some((instance, cached_tokens));
                record.prefill_begin_s = Some(now_s);
            }
            Moment::Prefilled => record.prefilled_s = Some(now_s),
            Moment::Admitted { instance } => {
                (record.decode, record.admitted_s) = (Some(instance), Some(now_s));
            }
            Moment::Moved => record.moved_s = Some(now_s),
            Moment::Token => match record.first_token_s {
                None => record.first_token_s = Some(now_s),
                Some(first_s) => self.inter_token.push(now_s - first_s, 1),
            },
            Moment::Finished => (record.outcome, record.end_s) = (Outcome::Finished, Some(now_s)),
            Moment::Failed(reason) => {
                (record.outcome, record.end_s) = (Outcome::Failed(reason), Some(now_s));
            }
        }
    }

    /// A decode instance has ended a step, in which so many sequences got a token that had one in its step before.
    pub fn step(&mut self, now_s: f64, instance: u32, continuing: u32) {
        let stepped_s = std::mem::replace(&mut self.stepped_s[instance as usize], now_s);
        if continuing > 0 {
            self.inter_token.push(now_s - stepped_s, u64::from(continuing));
        }
    }

    /// Record of each request.
    pub fn records(&self) -> &[Record] {
        &self.records
    }

    /// Inter-token latencies in seconds, each with how often it was seen; in no order. Of very many that are all different, neighbours are
    /// merged: see [`Self::inter_token_error`].
    pub fn inter_token_s(&self) -> &[(f64, u64)] {
        self.inter_token.list()
    }

    /// Largest relative error of the [`Self::inter_token_s`]. It is 0 below a million steps of decoding, and stays below a thousandth where
    /// the longest latency is less than a million times the shortest.
    pub fn inter_token_error(&self) -> f64 {
        self.inter_token.error()
    }
}
