//! `[[fault]]` and `[deadline]`: what goes wrong, and how long ranks wait before they say so.

use zipwire_schedule::{Fault, FaultKind, Job, Rank, SegmentId, Slack, Stage, TransferSite, Work};

use crate::error::Result;
use crate::problem::Problem;
use crate::reader::{Field, Reader};

/// What a fault is called and which keys it takes.
#[derive(Clone, Copy)]
struct Kind {
    name: &'static str,
    keys: &'static [&'static str],
}

const TRANSFER_KINDS: [Kind; 3] = [
    Kind { name: "drop", keys: &["kind", "iteration", "src", "dst", "segment", "stage"] },
    Kind { name: "delay", keys: &["kind", "iteration", "src", "dst", "segment", "stage", "by"] },
    Kind { name: "flipped-byte", keys: &["kind", "iteration", "src", "dst", "segment", "stage", "byte"] },
];
const SLOW_RANK: Kind = Kind { name: "slow-rank", keys: &["kind", "iteration", "rank", "factor"] };
const DEAD_RANK: Kind = Kind { name: "dead-rank", keys: &["kind", "iteration", "rank", "at"] };

const STAGES: [Stage; 4] = [Stage::Raw, Stage::Sizes, Stage::Static, Stage::Dynamic];

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

/// Reads `[deadline]`.
pub(crate) fn read_slack(field: &Field<'_>) -> Result<Slack> {
    let table = field.table(&["slack", "floor"])?;
    Ok(Slack {
        factor: table.get("slack").map_or(Ok(SLACK.factor), |field| field.number(1.0..=1e6))?,
        floor_s: table.get("floor").map_or(Ok(SLACK.floor_s), |field| field.time())?,
    })
}

/// The slack of a scenario that states none.
pub(crate) fn default_slack() -> Slack {
    SLACK
}

fn read_one(item: &Field<'_>, job: &Job, iterations: u32) -> Result<Fault> {
    let kinds = [&TRANSFER_KINDS[..], &[SLOW_RANK, DEAD_RANK]].concat();
    let kind = match item.peek("kind")? {
        Some(kind) => kind.choice("kind of fault", &kinds, |kind| kind.name)?,
        None => {
            let (key, table, example) = ("kind".to_owned(), item.path.clone(), "\"drop\"".to_owned());
            return Err(item.error(Problem::MissingKey { key, table, example }));
        }
    };
    let table = item.table(kind.keys)?;
    let iteration = table.get("iteration").map_or(Ok(0), |field| field.integer_u32(0..=iterations - 1))?;
    let rank = |key| Ok(Rank(table.need(key, "0")?.integer_u32(0..=job.rank_count - 1)?));
    let site = || site(item, &table, job, rank("src")?, rank("dst")?);
    let kind = match kind.name {
        "drop" => FaultKind::Drop(site()?),
        "delay" => FaultKind::Delay(site()?, table.need("by", "\"1 ms\"")?.time()?),
        "flipped-byte" => {
            let byte = table.get("byte").map_or(Ok(0), |field| field.integer(0..=u64::MAX))?;
            FaultKind::FlippedByte(site()?, byte)
        }
        "slow-rank" => FaultKind::SlowRank(rank("rank")?, table.need("factor", "10.0")?.number(1.0..=1e6)?),
        _ => FaultKind::DeadRank(rank("rank")?, table.get("at").map_or(Ok(0.0), |field| field.time())?),
    };
    Ok(Fault { iteration, kind })
}

fn site(item: &Field<'_>, table: &Reader<'_>, job: &Job, src: Rank, dst: Rank) -> Result<TransferSite> {
    if src == dst {
        return Err(item.error(Problem::SelfFlow { rank: src.0 }));
    }
    let calls = (0..).zip(&job.segments).filter(|(_, segment)| !matches!(segment.work, Work::Compute { .. }));
    let names: Vec<(&'static str, SegmentId)> =
        calls.map(|(index, segment)| (segment.name, SegmentId(index))).collect();
    let segment = table.get("segment").map(|field| field.choice("collective call", &names, |(name, _)| name));
    let stage = table.get("stage").map(|field| field.choice("stage", &STAGES, Stage::name));
    Ok(TransferSite { src, dst, segment: segment.transpose()?.map(|(_, id)| id), stage: stage.transpose()? })
}
