//! Problems with requests, pools and caches.

use zipwire_serving::ShardError;

/// Why a scenario of serving cannot be.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServingProblem {
    /// Iterations of what has none.
    #[error("serving has no iterations, and the scenario asks for {iterations}")]
    Iterations { iterations: u32 },
    /// Pools that the cluster has no room for.
    #[error("the pools have {needed} ranks, and the cluster has {found}")]
    Ranks { needed: u32, found: u32 },
    /// Caches that cannot be dealt to the ranks of both pools.
    #[error(transparent)]
    Shards(ShardError),
    /// Groups of a cache that cannot be.
    #[error("{why}")]
    Geometry { why: String },
    /// Memory for no token.
    #[error("`kv_memory` of `{pool}` is less than the cache of one token takes on a rank")]
    NoMemory { pool: &'static str },
    /// A line of a trace that is no request.
    #[error("no request: {why}")]
    Line { why: String, example: &'static str },
    /// A trace without requests.
    #[error("`{path}` has no request")]
    Empty { path: String },
    /// Tensors of other caches than the model's.
    #[error("the caches of this model are not made of `{tensor}`")]
    Tensors { tensor: &'static str, is_latent: bool },
    /// A protocol for collective calls.
    #[error("protocol `{protocol}` is one of collective calls, and serving has none")]
    Protocol { protocol: &'static str },
    /// A codec that cannot code caches.
    #[error("codec `{codec}` cannot code caches: {why}")]
    Codec { codec: String, why: String },
}

impl ServingProblem {
    /// The remedy, where the message does not name it already.
    pub fn help(&self) -> Option<String> {
        match self {
            Self::Iterations { .. } => {
                Some("leave `iterations` out: more requests make a longer run".to_owned())
            }
            Self::Ranks { needed, .. } => Some(format!(
                "ranks are instances x tensor_parallel of both pools: take fewer, or a cluster of {needed} GPUs"
            )),
            Self::Shards(ShardError::Heads { heads, .. }) => {
                Some(format!("set `tensor_parallel` of both pools to divisors of {heads}"))
            }
            Self::Shards(_) => {
                Some("set `tensor_parallel` of one pool to a multiple of the other's".to_owned())
            }
            Self::NoMemory { .. } => Some("it is bytes of each rank for caches, like `\"40 GB\"`".to_owned()),
            Self::Line { example, .. } => Some(format!("a line is like `{example}`")),
            Self::Protocol { .. } => Some(
                "take `native`, which moves caches as they are, or `in-band`, which codes them in pieces with their lengths"
                    .to_owned(),
            ),
            Self::Tensors { is_latent: true, .. } => Some("they are latents: name a tensor by `latent`".to_owned()),
            Self::Tensors { .. } => {
                Some("they are keys and values: name a tensor of each by `keys` and `values`".to_owned())
            }
            Self::Codec { .. } => Some("take a codec of single values, like `tiered`".to_owned()),
            Self::Geometry { .. } | Self::Empty { .. } => None,
        }
    }
}
