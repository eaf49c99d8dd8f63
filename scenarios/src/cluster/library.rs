//! `[cluster.library]`: what calls of a communication library's own collectives cost.

use zipwire_schedule::{CallCost, Collective, LibraryCost};

use super::RANK_LIMIT;
use crate::error::Result;
use crate::problem::Problem;
use crate::reader::Field;
use crate::schema::{Schema, bandwidth, map, needed, one_of, optional, table, time};

/// The collectives, as [`Collective::name`] has them.
const KEYS: &[&str] = &["all-gather", "reduce-scatter", "all-reduce"];

const COST_KEYS: &[&str] = &["latency", "per_rank", "bandwidth"];

/// What one may add where a cost is missing.
pub(crate) const EXAMPLE: &str = r#"{ latency = "30 us", per_rank = "6 us", bandwidth = "22 GB/s" }"#;

/// Reads the table, for nodes of so many GPUs.
pub(super) fn read(field: &Field<'_>, gpus_per_node: u32) -> Result<LibraryCost> {
    let table = field.table(KEYS)?;
    let cost = |collective: Collective| {
        table.get(collective.name()).map_or(Ok(None), |field| read_cost(&field, gpus_per_node))
    };
    Ok(LibraryCost {
        all_gather: cost(Collective::AllGather)?,
        reduce_scatter: cost(Collective::ReduceScatter)?,
        all_reduce: cost(Collective::AllReduce)?,
    })
}

/// `None` if the cost is known for other numbers of GPUs per node only.
fn read_cost(field: &Field<'_>, gpus_per_node: u32) -> Result<Option<CallCost>> {
    let table = field.table(COST_KEYS)?;
    let latency_s = table.need("latency", "\"30 us\"")?.time()?;
    let per_rank_s = table.get("per_rank").map_or(Ok(0.0), |field| field.time())?;
    let bytes_per_s = read_bandwidth(&table.need("bandwidth", "\"22 GB/s\"")?, gpus_per_node)?;
    Ok(bytes_per_s.map(|bytes_per_s| CallCost { latency_s, per_rank_s, bytes_per_s }))
}

/// One bandwidth for all clusters, or a table of those that rings get by GPUs per node. Entries for other nodes than the cluster's
/// may stay, so that clusters can be scaled.
fn read_bandwidth(field: &Field<'_>, gpus_per_node: u32) -> Result<Option<f64>> {
    if field.as_string().is_some() {
        return field.bandwidth().map(Some);
    }
    let mut found = None;
    for (key, place, value) in field.entries()? {
        let gpus = key.parse().ok().filter(|gpus| (1..=RANK_LIMIT).contains(gpus));
        let gpus: u32 = gpus.ok_or_else(|| {
            let (path, limits) =
                (field.path.clone(), format!("a number of GPUs per node, from 1 to {RANK_LIMIT}"));
            Problem::OutOfRange { path: format!("a key of {path}"), value: key.to_owned(), limits }
                .at(place.clone())
        })?;
        let bandwidth = value.bandwidth()?;
        if gpus == gpus_per_node {
            found = Some(bandwidth);
        }
    }
    Ok(found)
}

/// What [`read`] reads.
pub(super) fn schema() -> Schema {
    let cost = || {
        #[rustfmt::skip]
        let keys = [
            needed("latency", "time of every call, from when the last rank has issued it", time()),
            optional("per_rank", "time more for each rank but the first; none by default", time()),
            needed("bandwidth", "bus bandwidth, as `busbw` of nccl-tests: what each rank moves around a ring over the time of a long call; or a table of it by GPUs per node", one_of([bandwidth(), map(bandwidth())])),
        ];
        table(COST_KEYS, keys)
    };
    #[rustfmt::skip]
    let keys = [
        optional("all-gather", "cost of an All-Gather", cost()),
        optional("reduce-scatter", "cost of a Reduce-Scatter", cost()),
        optional("all-reduce", "cost of an All-Reduce", cost()),
    ];
    table(KEYS, keys)
}
