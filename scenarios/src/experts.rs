//! `experts` of a mixture of experts: on which ranks they are.

use crate::error::Result;
use crate::language::{Field, choice, integer, keys};
use crate::placement::{Hosts, Placement};

/// How experts are placed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Experts {
    placement: Placement,
    replicas: u32,
}

/// Most extra copies, of all experts together.
const REPLICA_LIMIT: u32 = 4096;

keys! { pub(crate) static KEYS =
    placement: Placement = choice("placement", &Placement::ALL, Placement::name), "which experts share a rank; `contiguous` by default";
    replicas: u32 = integer(0..=REPLICA_LIMIT), "extra copies of the hottest experts, at most one on every rank; 0 by default";
}

impl Experts {
    /// Reads the table, for a model of `experts` experts on `ranks` ranks.
    pub(crate) fn read(field: &Field<'_>, experts: u32, ranks: u32) -> Result<Self> {
        let table = field.table(KEYS.all)?;
        let placement = table.get(KEYS.placement)?.unwrap_or_default();
        let (replicas, most) = (table.get(KEYS.replicas)?.unwrap_or(0), experts * (ranks - 1));
        if replicas > most {
            let limits = format!("at most {most}: experts x (ranks - 1), a copy on every rank");
            return Err(table.need_field(KEYS.replicas)?.out_of_range(replicas, limits));
        }
        Ok(Self { placement, replicas })
    }

    /// The ranks of each expert, by the tokens that all ranks together have for it.
    pub(crate) fn place(self, loads: &[u64], ranks: u32) -> Hosts {
        Hosts::new(loads, ranks, self.placement, self.replicas)
    }
}
