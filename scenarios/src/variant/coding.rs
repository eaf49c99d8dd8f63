//! Keys of a variant that say what is coded and handed on, and in which memory.

use zipwire_schedule::{Choice, Job, Protocol, Selection, Work};

use super::KEYS;
use crate::document::Place;
use crate::error::Result;
use crate::language::Reader;
use crate::problem::FlowProblem;

use crate::language::named;

named! {
    /// Calls that a coded variant codes.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub(super) enum Compress {
        All = "all",
        InterNode = "inter-node",
    }
}

/// Among whom tokens cross the network once: the one value of `dedup`.
pub(super) const NODE: &str = "node";

/// Whether reductions stay uncompressed, in a workload that has them and calls that do not.
pub(super) fn read_reductions(table: &Reader<'_>, job: &Job) -> Result<bool> {
    if table.get(KEYS.reductions)?.is_none() {
        return Ok(false);
    }
    let mut works = job.segments.iter().map(|segment| &segment.work).filter(|work| work.is_collective());
    if works.clone().all(|work| !work.is_reduction()) {
        table.refuse(KEYS.reductions, "the workload adds nothing up")?;
    }
    if works.all(Work::is_reduction) {
        let reason = "the workload has no other calls: that is the protocol `native`";
        table.refuse(KEYS.reductions, reason)?;
    }
    Ok(true)
}

/// Ranks of a node, if tokens cross the network once, and the place of that key.
pub(super) fn read_dedup(table: &Reader<'_>, job: &Job, gpus_per_node: u32) -> Result<Option<(u32, Place)>> {
    if table.get(KEYS.dedup)?.is_none() {
        return Ok(None);
    }
    if job.segments.iter().all(|segment| segment.work.tokens().is_none()) {
        let reason = "the workload does not say which tokens its rows are (`tokens = \"shared\"`)";
        table.refuse(KEYS.dedup, reason)?;
    }
    Ok(Some((gpus_per_node, table.need_field(KEYS.dedup)?.place())))
}

/// The first explicit flow that a protocol cannot code, as it does not end with a value.
pub(super) fn broken_flow(job: &Job, protocol: Protocol) -> Option<FlowProblem> {
    let mut works = job.segments.iter().map(|segment| &segment.work).filter(|_| protocol.is_coded());
    works.find_map(|work| {
        let Work::Transfers { dtype, flows, .. } = work else { return None };
        let width = dtype.width();
        let is_broken = |(_, bytes): &(usize, u64)| !bytes.is_multiple_of(width as u64);
        let (number, bytes) = flows.iter().map(|flow| flow.bytes).enumerate().find(is_broken)?;
        let (src, dst) = (flows[number].src.0, flows[number].dst.0);
        let (protocol, dtype) = (protocol.name(), dtype.name());
        Some(FlowProblem::Broken { protocol, number, src, dst, bytes, dtype, width })
    })
}

/// How many calls have scratch memory of their own, where any need some.
pub(super) fn read_arenas(table: &Reader<'_>, job: &Job, codes_or_hands_on: bool) -> Result<u32> {
    if !codes_or_hands_on && job.segments.iter().all(|segment| !segment.work.is_reduction()) {
        let reason = "nothing is coded, handed on or added up, so calls need no memory of their own";
        table.refuse(KEYS.arenas, reason)?;
    }
    Ok(table.get(KEYS.arenas)?.unwrap_or(Choice::ARENAS))
}

pub(super) fn read_selection(table: &Reader<'_>, gpus_per_node: u32) -> Result<Selection> {
    let ranks_per_node = match table.get(KEYS.compress)? {
        Some(Compress::InterNode) => Some(gpus_per_node),
        Some(Compress::All) | None => None,
    };
    let least_bytes = table.get(KEYS.raw_below)?.unwrap_or(0);
    Ok(Selection { least_bytes, ranks_per_node })
}
