//! `experts` of a mixture of experts: on which ranks they are.

use crate::error::Result;
use crate::placement::{Hosts, Placement};
use crate::problem::Problem;
use crate::reader::Field;
use crate::schema::{Schema, integer, names, optional, table};

/// How experts are placed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Experts {
    placement: Placement,
    replicas: u32,
}

const KEYS: &[&str] = &["placement", "replicas"];

/// Most extra copies, of all experts together.
const REPLICA_LIMIT: u32 = 4096;

impl Experts {
    /// Reads the table, for a model of `experts` experts on `ranks` ranks.
    pub(crate) fn read(field: &Field<'_>, experts: u32, ranks: u32) -> Result<Self> {
        let table = field.table(KEYS)?;
        let placement = table.get("placement").map_or(Ok(Placement::default()), |field| {
            field.choice("placement", &Placement::ALL, Placement::name)
        })?;
        let replicas = table.get("replicas").map_or(Ok(0), |field| {
            let replicas = field.integer_u32(0..=REPLICA_LIMIT)?;
            let most = experts * (ranks - 1);
            if replicas > most {
                let (path, value) = (field.path.clone(), replicas.to_string());
                let limits = format!("at most {most}: experts x (ranks - 1), a copy on every rank");
                return Err(field.error(Problem::OutOfRange { path, value, limits }));
            }
            Ok(replicas)
        })?;
        Ok(Self { placement, replicas })
    }

    /// What [`read`](Self::read) reads.
    pub(crate) fn schema() -> Schema {
        #[rustfmt::skip]
        let keys = [
            optional("placement", "which experts share a rank; `contiguous` by default", names(Placement::ALL.map(Placement::name))),
            optional("replicas", "extra copies of the hottest experts, at most one on every rank; 0 by default", integer(0..=REPLICA_LIMIT)),
        ];
        table(KEYS, keys)
    }

    /// The ranks of each expert, by the tokens that all ranks together have for it.
    pub(crate) fn place(self, loads: &[u64], ranks: u32) -> Hosts {
        Hosts::new(loads, ranks, self.placement, self.replicas)
    }
}
