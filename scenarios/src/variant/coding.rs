//! Keys of a variant that say what is coded and handed on, and in which memory.

use zipwire_schedule::{Choice, Job, Protocol, Selection, Work};

use super::ARENA_LIMIT;
use crate::document::Place;
use crate::error::Result;
use crate::reader::Reader;

/// What a coded variant codes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Compress {
    All,
    InterNode,
}

impl Compress {
    pub(super) const ALL: [Self; 2] = [Self::All, Self::InterNode];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::All => "all",
            Self::InterNode => "inter-node",
        }
    }
}

/// Among whom tokens cross the network once: the one value of `dedup`.
pub(super) const NODE: &str = "node";

/// Whether reductions stay uncompressed, in a workload that has them and calls that do not.
pub(super) fn read_reductions(table: &Reader<'_>, job: &Job) -> Result<bool> {
    let Some(field) = table.get("reductions") else { return Ok(false) };
    field.choice("way of reductions", &[Protocol::Native], Protocol::name)?;
    let mut works = job.segments.iter().map(|segment| &segment.work).filter(|work| work.is_collective());
    if works.clone().all(|work| !work.is_reduction()) {
        table.refuse("reductions", "the workload adds nothing up")?;
    }
    if works.all(Work::is_reduction) {
        table.refuse("reductions", "the workload has no other calls: that is the protocol `native`")?;
    }
    Ok(true)
}

/// Ranks of a node, if tokens cross the network once, and where that is said.
pub(super) fn read_dedup(table: &Reader<'_>, job: &Job, gpus_per_node: u32) -> Result<Option<(u32, Place)>> {
    let Some(field) = table.get("dedup") else { return Ok(None) };
    field.choice("group of ranks", &[NODE], |name| name)?;
    if job.segments.iter().all(|segment| segment.work.tokens().is_none()) {
        table
            .refuse("dedup", "the workload does not say which tokens its rows are (`tokens = \"shared\"`)")?;
    }
    Ok(Some((gpus_per_node, field.place())))
}

/// How many calls have scratch memory of their own, where any need some.
pub(super) fn read_arenas(table: &Reader<'_>, job: &Job, codes_or_hands_on: bool) -> Result<u32> {
    let Some(field) = table.get("arenas") else { return Ok(Choice::ARENAS) };
    if !codes_or_hands_on && job.segments.iter().all(|segment| !segment.work.is_reduction()) {
        table.refuse(
            "arenas",
            "nothing is coded, handed on or added up, so calls need no memory of their own",
        )?;
    }
    field.integer_u32(1..=ARENA_LIMIT)
}

pub(super) fn read_selection(table: &Reader<'_>, gpus_per_node: u32) -> Result<Selection> {
    let compress = table
        .get("compress")
        .map(|field| field.choice("part of the traffic", &Compress::ALL, Compress::name));
    let least_bytes = table.get("raw_below").map_or(Ok(0), |field| field.bytes(0))?;
    let ranks_per_node = match compress.transpose()? {
        Some(Compress::InterNode) => Some(gpus_per_node),
        Some(Compress::All) | None => None,
    };
    Ok(Selection { least_bytes, ranks_per_node })
}
