//! `[workload]`: what an iteration does.

mod collective;
mod flows_file;
mod matrix_file;
mod moe;
mod table_file;
mod transfers;

use zipwire_codec::DType;
use zipwire_schedule::{Durations, Job, Work};

use crate::compute::Compute;
use crate::error::Result;
use crate::files::Files;
use crate::payload::Rowset;
use crate::reader::Field;
use crate::schema::{Key, Schema, names, needed, one_of};

/// What workloads need to know about everything else.
pub(crate) struct Context<'a> {
    pub(crate) files: &'a Files,
    pub(crate) seed: u64,
    pub(crate) iterations: u32,
    pub(crate) ranks: u32,
    pub(crate) compute: Compute,
}

/// A workload, resolved.
pub(crate) struct Workload {
    pub(crate) job: Job,
    pub(crate) durations: Durations,
    /// Type of the values that travel.
    pub(crate) dtype: DType,
    pub(crate) rows: Option<Rowset>,
}

impl Workload {
    /// Whether each segment of the job communicates.
    pub(crate) fn communicates(&self) -> Vec<bool> {
        self.job.segments.iter().map(|segment| !matches!(segment.work, Work::Compute { .. })).collect()
    }
}

/// Kinds of workloads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Moe,
    Collective,
    Transfers,
}

impl Kind {
    const ALL: [Self; 3] = [Self::Moe, Self::Collective, Self::Transfers];

    fn name(self) -> &'static str {
        match self {
            Self::Moe => "moe",
            Self::Collective => "collective",
            Self::Transfers => "transfers",
        }
    }

    /// The key that decides which others there are, with this as its only value.
    fn key(self) -> Key {
        needed("kind", "what an iteration does; it decides on the other keys", names([self.name()]))
    }

    /// Reads the key that decides which others there are.
    pub(crate) fn read(field: &Field<'_>) -> Result<Self> {
        match field.peek("kind")? {
            Some(kind) => kind.choice("workload kind", &Self::ALL, Self::name),
            None => Err(field.error(crate::problem::Problem::MissingKey {
                key: "kind".to_owned(),
                table: field.path.clone(),
                example: "\"moe\"".to_owned(),
            })),
        }
    }
}

/// Reads the table.
pub(crate) fn read(kind: Kind, field: &Field<'_>, context: &Context<'_>) -> Result<Workload> {
    match kind {
        Kind::Moe => moe::read(field, context),
        Kind::Collective => collective::read(field, context),
        Kind::Transfers => transfers::read(field, context),
    }
}

/// What [`read`] reads.
pub(crate) fn schema() -> Schema {
    one_of(Kind::ALL.map(|kind| match kind {
        Kind::Moe => moe::schema(),
        Kind::Collective => collective::schema(),
        Kind::Transfers => transfers::schema(),
    }))
}
