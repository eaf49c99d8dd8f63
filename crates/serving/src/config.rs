//! Pools of instances, and the rules of serving.

/// Instances of one kind, all alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pool {
    /// How many there are, at least 1.
    pub instances: u32,
    /// Tokens whose KV cache an instance has room for.
    pub kv_tokens: u64,
    /// Requests that an instance decodes at the same time, at the most; of prefill instances without a meaning.
    pub sequences: u32,
}

/// Which instance a request goes to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Placement {
    /// One after the other.
    RoundRobin,
    /// The one with the fewest tokens to do: of prompts that wait or are computed, or reserved for decoding.
    #[default]
    LeastLoaded,
    /// For prefill the one with the fewest tokens to do with this request's, of which those that its cache has are none; for decode as
    /// [`Self::LeastLoaded`].
    PrefixAware,
    /// Requests wait in one queue, and an instance that is free takes the first; for decode as [`Self::LeastLoaded`].
    SharedQueue,
}

impl Placement {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::RoundRobin, Self::LeastLoaded, Self::PrefixAware, Self::SharedQueue];

    /// Its name in scenarios.
    pub fn name(self) -> &'static str {
        match self {
            Self::RoundRobin => "round-robin",
            Self::LeastLoaded => "least-loaded",
            Self::PrefixAware => "prefix-aware",
            Self::SharedQueue => "shared-queue",
        }
    }
}

/// When caches move.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Move {
    /// A decode instance reserves room before the prompt is computed, and each group of layers is sent as soon as it is computed.
    #[default]
    Push,
    /// A decode instance reserves room when the prompt has been computed, and then fetches all groups of layers.
    Pull,
}

impl Move {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Push, Self::Pull];

    /// Its name in scenarios.
    pub fn name(self) -> &'static str {
        match self {
            Self::Push => "push",
            Self::Pull => "pull",
        }
    }
}

/// Instance that makes the first token that a user sees.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FirstToken {
    /// The decode instance, in its first step with the request: the time to the first token has the move of the cache in it, as in
    /// engines whose proxy shows only what decode instances answer.
    #[default]
    Decode,
    /// The prefill instance, when the prompt has been computed. A request of one token then never moves.
    Prefill,
}

impl FirstToken {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Decode, Self::Prefill];

    /// Its name in scenarios.
    pub fn name(self) -> &'static str {
        match self {
            Self::Decode => "decode",
            Self::Prefill => "prefill",
        }
    }
}

/// Pools and rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// Instances that compute prompts.
    pub prefill: Pool,
    /// Instances that generate tokens.
    pub decode: Pool,
    /// Where requests go.
    pub placement: Placement,
    /// When caches move.
    pub moves: Move,
    /// Who makes the first token.
    pub first_token: FirstToken,
    /// Groups of layers that a cache moves in, at least 1.
    pub layer_groups: u32,
    /// Tokens of a prompt that are computed at a time, at the most; at least 1.
    pub chunk_tokens: u32,
    /// Blocks of prompts that each prefill instance keeps for later requests; 0 keeps none.
    pub cached_blocks: u64,
}
