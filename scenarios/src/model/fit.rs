//! Whether GPUs can share a model by tensor parallelism: its heads, and the memory that its weights take.

use super::Architecture;
use crate::error::Result;
use crate::language::Field;
use crate::problem::Problem;

impl Architecture {
    /// Bytes of the weights that each of `ranks` ranks has, of `width` bytes each, if they share all of them.
    pub(crate) fn rank_bytes(&self, width: usize, ranks: u32) -> u64 {
        // At most 2^50 parameters of four bytes.
        (self.parameters() * width as u128).div_ceil(ranks.into()) as u64
    }

    /// The same, if they share the routed experts, none of which is there twice, and each has all of the rest.
    pub(crate) fn rank_bytes_of_experts(&self, width: usize, ranks: u32) -> u64 {
        let experts = self.expert_parameters();
        let values = self.parameters() - experts + experts.div_ceil(ranks.into());
        (values * width as u128) as u64
    }
}

/// Refuses ranks that cannot have as many whole heads each.
pub(crate) fn check_heads(field: &Field<'_>, model: &Architecture, ranks: u32) -> Result<()> {
    let heads = model.attention.heads();
    if heads.is_multiple_of(ranks) {
        return Ok(());
    }
    Err(field.error(Problem::Heads { heads, ranks }))
}

/// Refuses weights of a rank that have no room in its memory, both in bytes, if the memory is known.
pub(crate) fn check_memory(field: &Field<'_>, weights: u64, memory: Option<u64>) -> Result<()> {
    match memory {
        Some(memory) if weights > memory => Err(field.error(Problem::Memory { weights, memory })),
        _ => Ok(()),
    }
}
