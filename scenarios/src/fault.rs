//! `[[fault]]` and `[deadline]`: what goes wrong, and how long ranks wait before they say so.

use std::ops::RangeInclusive;

use zipwire_schedule::{Fault, FaultKind, Job, Rank, SegmentId, Slack, Stage, TransferSite, Work};

use crate::error::Result;
use crate::language::{
    AnyKey, Field, Key, Keys, Raw, Reader, Schema, array, choice, integer, keys, named, number, one_of, raw,
    string, table, time,
};
use crate::problem::Problem;

named! {
    #[derive(Clone, Copy, PartialEq, Eq)]
    enum Kind {
        Drop = "drop",
        Delay = "delay",
        FlippedByte = "flipped-byte",
        SlowRank = "slow-rank",
        DeadRank = "dead-rank",
    }
}

impl Kind {
    fn keys(self) -> Vec<&'static dyn AnyKey> {
        let (site, own): (Keys<'_>, Keys<'_>) = match self {
            Self::Drop => (SITE.all, &[]),
            Self::Delay => (SITE.all, &[OWN.by]),
            Self::FlippedByte => (SITE.all, &[OWN.byte]),
            Self::SlowRank => (&[], &[OWN.rank, OWN.factor]),
            Self::DeadRank => (&[], &[OWN.rank, OWN.at]),
        };
        [KEYS.all, site, own].concat()
    }

    fn schema(self) -> Schema {
        table(&self.keys()).only(KEYS.kind.name, [self.name()])
    }
}

/// How many times as long a slow rank may take, and deadlines may be.
const FACTOR_LIMITS: RangeInclusive<f64> = 1.0..=1e6;

/// Most faults of a scenario.
const LIMIT: usize = 1000;

/// How long ranks wait unless the scenario says otherwise: four times as long as expected, and a millisecond.
pub(crate) const SLACK: Slack = Slack { factor: 4.0, floor_s: 1e-3 };

keys! { static KEYS =
    kind: Kind = choice("kind of fault", &Kind::ALL, Kind::name), "what goes wrong", needed = "\"drop\"";
    iteration: u32 = integer(0..=u32::MAX), "in which iteration; 0 by default";
}

// Of faults that hit a transfer.
keys! { static SITE =
    src: u32 = integer(0..=u32::MAX), "sender", needed = "0";
    dst: u32 = integer(0..=u32::MAX), "receiver, another rank", needed = "0";
    segment: Raw = raw(string), "the collective call; any by default";
    stage: Stage = choice("stage", &Stage::ALL, Stage::name), "what the exchange carries; anything by default";
}

// Of one or two kinds each.
keys! { static OWN =
    by: f64 = time(), "how late the transfer ends", needed = "\"1 ms\"";
    byte: u64 = integer(0..=u64::MAX), "its offset, modulo the length; 0 by default";
    rank: u32 = integer(0..=u32::MAX), "which rank", needed = "0";
    factor: f64 = number(FACTOR_LIMITS), "how many times as long its compute and codec ops take", needed = "10.0";
    at: f64 = time(), "when, after the start of the iteration; at once by default";
}

keys! { pub(crate) static DEADLINE =
    slack: f64 = number(FACTOR_LIMITS), "how many times as long as expected ops may take; 4 by default";
    floor: f64 = time(), "how much longer than that; 1 ms by default";
}

pub(crate) fn read(field: &Field<'_>, job: &Job, iterations: u32) -> Result<Vec<Fault>> {
    field.tables(LIMIT, "faults")?.iter().map(|item| read_one(item, job, iterations)).collect()
}

pub(crate) fn schema() -> Schema {
    array(one_of(Kind::ALL.map(Kind::schema))).at_most(LIMIT)
}

pub(crate) fn read_slack(field: &Field<'_>) -> Result<Slack> {
    let table = field.table(DEADLINE.all)?;
    let factor = table.get(DEADLINE.slack)?.unwrap_or(SLACK.factor);
    Ok(Slack { factor, floor_s: table.get(DEADLINE.floor)?.unwrap_or(SLACK.floor_s) })
}

fn read_one(item: &Field<'_>, job: &Job, iterations: u32) -> Result<Fault> {
    let kind = item.tag(KEYS.kind)?;
    let table = item.table(&kind.keys())?;
    let iteration = table.field(KEYS.iteration);
    let iteration = iteration.map_or(Ok(0), |field| field.integer_u32(0..=iterations - 1))?;
    let rank = |key: &Key<u32>| Ok(Rank(table.need_field(key)?.integer_u32(0..=job.rank_count - 1)?));
    let site = || site(&table, job, rank(SITE.src)?, rank(SITE.dst)?);
    let kind = match kind {
        Kind::Drop => FaultKind::Drop(site()?),
        Kind::Delay => FaultKind::Delay(site()?, table.need(OWN.by)?),
        Kind::FlippedByte => FaultKind::FlippedByte(site()?, table.get(OWN.byte)?.unwrap_or(0)),
        Kind::SlowRank => FaultKind::SlowRank(rank(OWN.rank)?, table.need(OWN.factor)?),
        Kind::DeadRank => FaultKind::DeadRank(rank(OWN.rank)?, table.get(OWN.at)?.unwrap_or(0.0)),
    };
    Ok(Fault { iteration, kind })
}

fn site(table: &Reader<'_>, job: &Job, src: Rank, dst: Rank) -> Result<TransferSite> {
    if src == dst {
        return Err(table.need_field(SITE.dst)?.error(Problem::SelfFault { rank: src.0 }));
    }
    let calls = (0..).zip(&job.segments).filter(|(_, segment)| !matches!(segment.work, Work::Compute { .. }));
    let names: Vec<(&str, SegmentId)> =
        calls.map(|(index, segment)| (&*segment.name, SegmentId(index))).collect();
    let segment =
        table.field(SITE.segment).map(|field| field.choice("collective call", &names, |(name, _)| name));
    let segment = segment.transpose()?.map(|(_, id)| id);
    Ok(TransferSite { src, dst, segment, stage: table.get(SITE.stage)? })
}
