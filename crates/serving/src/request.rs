//! Requests and when they arrive.

use std::fmt;

/// A request, by position in [`Requests`].
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize,
)]
pub struct RequestId(pub u32);

impl RequestId {
    /// Position in a table that has one entry each.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

impl fmt::Display for RequestId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// One request.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Request {
    /// When it arrives, in seconds of the run.
    pub arrival_s: f64,
    /// Tokens of the prompt, at least 1.
    pub input_tokens: u32,
    /// Tokens that are generated, at least 1.
    pub output_tokens: u32,
    /// Identities of the blocks of the prompt, from its beginning on: requests whose first blocks are equal share that much of
    /// their caches. Empty where nothing is known.
    pub prefix: Vec<u64>,
}

/// Requests in the order of their arrival.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Requests {
    list: Vec<Request>,
    block_tokens: u32,
}

impl Requests {
    /// Tokens of a block of [`Request::prefix`] where nothing else is said: those of the traces of Mooncake.
    pub const BLOCK_TOKENS: u32 = 512;

    /// Sorts them by arrival; those that arrive together keep their order.
    ///
    /// # Panics
    /// If a request has no token of input or of output, or arrives at no time of the run.
    pub fn new(mut list: Vec<Request>, block_tokens: u32) -> Self {
        assert!(block_tokens > 0, "a block has tokens");
        assert!(u32::try_from(list.len()).is_ok(), "requests are counted in 32 bits");
        for (index, request) in list.iter().enumerate() {
            let is_at_a_time = request.arrival_s.is_finite() && request.arrival_s >= 0.0;
            assert!(is_at_a_time, "request {index} arrives at {} s", request.arrival_s);
            assert!(request.input_tokens > 0 && request.output_tokens > 0, "request {index} has no tokens");
        }
        list.sort_by(|a, b| a.arrival_s.total_cmp(&b.arrival_s));
        Self { list, block_tokens }
    }

    /// All of them, by [`RequestId`].
    pub fn list(&self) -> &[Request] {
        &self.list
    }

    /// One of them.
    pub fn get(&self, id: RequestId) -> &Request {
        &self.list[id.index()]
    }

    /// All ids.
    pub fn ids(&self) -> impl Iterator<Item = RequestId> + use<> {
        (0..self.list.len() as u32).map(RequestId)
    }

    /// Number of requests.
    pub fn len(&self) -> usize {
        self.list.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Tokens of a block of [`Request::prefix`].
    pub fn block_tokens(&self) -> u32 {
        self.block_tokens
    }

    /// When the last one arrives; 0 if there is none.
    pub fn last_arrival_s(&self) -> f64 {
        self.list.last().map_or(0.0, |last| last.arrival_s)
    }
}
