//! `[[fault]]` and `[deadline]`: what goes wrong, and how long ranks wait before they say so.

use std::ops::RangeInclusive;

use zipwire_schedule::{Fault, FaultKind, Job, Rank, SegmentId, Slack, Stage, TransferSite, Work};

use crate::error::Result;
use crate::problem::Problem;
use crate::reader::{Field, Reader};
use crate::schema::{Schema, array, integer, names, needed, number, one_of, optional, string, table, time};

/// Kinds of faults.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Drop,
    Delay,
    FlippedByte,
    SlowRank,
    DeadRank,
}

impl Kind {
    const ALL: [Self; 5] = [Self::Drop, Self::Delay, Self::FlippedByte, Self::SlowRank, Self::DeadRank];

    fn name(self) -> &'static str {
        match self {
            Self::Drop => "drop",
            Self::Delay => "delay",
            Self::FlippedByte => "flipped-byte",
            Self::SlowRank => "slow-rank",
            Self::DeadRank => "dead-rank",
        }
    }

    fn keys(self) -> &'static [&'static str] {
        match self {
            Self::Drop => &["kind", "iteration", "src", "dst", "segment", "stage"],
            Self::Delay => &["kind", "iteration", "src", "dst", "segment", "stage", "by"],
            Self::FlippedByte => &["kind", "iteration", "src", "dst", "segment", "stage", "byte"],
            Self::SlowRank => &["kind", "iteration", "rank", "factor"],
            Self::DeadRank => &["kind", "iteration", "rank", "at"],
        }
    }

    fn schema(self) -> Schema {
        let rank = || integer(0..=u32::MAX);
        #[rustfmt::skip]
        let site = || vec![
            needed("src", "sender", rank()),
            needed("dst", "receiver, another rank", rank()),
            optional("segment", "the collective call; any by default", string()),
            optional("stage", "what the exchange carries; anything by default", names(Stage::ALL.map(Stage::name))),
        ];
        #[rustfmt::skip]
        let own = match self {
            Self::Drop => site(),
            Self::Delay => [site(), vec![needed("by", "how late the transfer ends", time())]].concat(),
            Self::FlippedByte => [site(), vec![optional("byte", "its offset, modulo the length; 0 by default", integer(0..=u64::MAX))]].concat(),
            Self::SlowRank => vec![
                needed("rank", "which rank", rank()),
                needed("factor", "how many times as long its compute and codec ops take", number(FACTOR_LIMITS)),
            ],
            Self::DeadRank => vec![
                needed("rank", "which rank", rank()),
                optional("at", "when, after the start of the iteration; at once by default", time()),
            ],
        };
        let shared = [
            needed("kind", "what goes wrong", names([self.name()])),
            optional("iteration", "in which iteration; 0 by default", integer(0..=u32::MAX)),
        ];
        table(self.keys(), shared.into_iter().chain(own))
    }
}

const DEADLINE_KEYS: &[&str] = &["slack", "floor"];

/// How many times as long a slow rank may take, and deadlines may be.
const FACTOR_LIMITS: RangeInclusive<f64> = 1.0..=1e6;

/// Most faults of a scenario.
const LIMIT: usize = 1000;

/// How long ranks wait unless the scenario says otherwise: four times as long as expected, and a millisecond.
const SLACK: Slack = Slack { factor: 4.0, floor_s: 1e-3 };

/// Reads the array of tables.
pub(crate) fn read(field: &Field<'_>, job: &Job, iterations: u32) -> Result<Vec<Fault>> {
    let items = field.array()?;
    if let Some(extra) = items.get(LIMIT) {
        let (path, value) = ("fault".to_owned(), items.len().to_string());
        return Err(extra.error(Problem::OutOfRange {
            path,
            value,
            limits: format!("at most {LIMIT} faults"),
        }));
    }
    items.iter().map(|item| read_one(item, job, iterations)).collect()
}

/// The schema of [`read`].
pub(crate) fn schema() -> Schema {
    array(one_of(Kind::ALL.map(Kind::schema))).at_most(LIMIT)
}

/// The schema of [`read_slack`].
pub(crate) fn slack_schema() -> Schema {
    #[rustfmt::skip]
    let keys = [
        optional("slack", "how many times as long as expected ops may take; 4 by default", number(FACTOR_LIMITS)),
        optional("floor", "how much longer than that; 1 ms by default", time()),
    ];
    table(DEADLINE_KEYS, keys)
}

/// Reads `[deadline]`.
pub(crate) fn read_slack(field: &Field<'_>) -> Result<Slack> {
    let table = field.table(DEADLINE_KEYS)?;
    Ok(Slack {
        factor: table.get("slack").map_or(Ok(SLACK.factor), |field| field.number(FACTOR_LIMITS))?,
        floor_s: table.get("floor").map_or(Ok(SLACK.floor_s), |field| field.time())?,
    })
}

/// The slack of a scenario that states none.
pub(crate) fn default_slack() -> Slack {
    SLACK
}

fn read_one(item: &Field<'_>, job: &Job, iterations: u32) -> Result<Fault> {
    let kind = match item.peek("kind")? {
        Some(kind) => kind.choice("kind of fault", &Kind::ALL, Kind::name)?,
        None => {
            let (key, table, example) = ("kind".to_owned(), item.path.clone(), "\"drop\"".to_owned());
            return Err(item.error(Problem::MissingKey { key, table, example }));
        }
    };
    let table = item.table(kind.keys())?;
    let iteration = table.get("iteration").map_or(Ok(0), |field| field.integer_u32(0..=iterations - 1))?;
    let rank = |key| Ok(Rank(table.need(key, "0")?.integer_u32(0..=job.rank_count - 1)?));
    let site = || site(&table, job, rank("src")?, rank("dst")?);
    let kind = match kind {
        Kind::Drop => FaultKind::Drop(site()?),
        Kind::Delay => FaultKind::Delay(site()?, table.need("by", "\"1 ms\"")?.time()?),
        Kind::FlippedByte => {
            let byte = table.get("byte").map_or(Ok(0), |field| field.integer(0..=u64::MAX))?;
            FaultKind::FlippedByte(site()?, byte)
        }
        Kind::SlowRank => {
            FaultKind::SlowRank(rank("rank")?, table.need("factor", "10.0")?.number(FACTOR_LIMITS)?)
        }
        Kind::DeadRank => {
            FaultKind::DeadRank(rank("rank")?, table.get("at").map_or(Ok(0.0), |field| field.time())?)
        }
    };
    Ok(Fault { iteration, kind })
}

fn site(table: &Reader<'_>, job: &Job, src: Rank, dst: Rank) -> Result<TransferSite> {
    if src == dst {
        let dst = table.need("dst", "1")?;
        return Err(dst.error(Problem::SelfFault { rank: src.0 }));
    }
    let calls = (0..).zip(&job.segments).filter(|(_, segment)| !matches!(segment.work, Work::Compute { .. }));
    let names: Vec<(&str, SegmentId)> =
        calls.map(|(index, segment)| (&*segment.name, SegmentId(index))).collect();
    let segment = table.get("segment").map(|field| field.choice("collective call", &names, |(name, _)| name));
    let stage = table.get("stage").map(|field| field.choice("stage", &Stage::ALL, Stage::name));
    Ok(TransferSite { src, dst, segment: segment.transpose()?.map(|(_, id)| id), stage: stage.transpose()? })
}
