//! `[cluster.library]`: what calls of a communication library's own collectives cost.

use zipwire_schedule::{CallCost, Collective, LibraryCost};

use crate::error::Result;
use crate::reader::Field;
use crate::schema::{Schema, bandwidth, needed, optional, table, time};

/// The collectives, as [`Collective::name`] has them.
const KEYS: &[&str] = &["all-gather", "reduce-scatter", "all-reduce"];

const COST_KEYS: &[&str] = &["latency", "per_rank", "bandwidth"];

/// What one may add where a cost is missing.
pub(crate) const EXAMPLE: &str = r#"{ latency = "30 us", per_rank = "6 us", bandwidth = "22 GB/s" }"#;

/// Reads the table.
pub(super) fn read(field: &Field<'_>) -> Result<LibraryCost> {
    let table = field.table(KEYS)?;
    let cost =
        |collective: Collective| table.get(collective.name()).map(|field| read_cost(&field)).transpose();
    Ok(LibraryCost {
        all_gather: cost(Collective::AllGather)?,
        reduce_scatter: cost(Collective::ReduceScatter)?,
        all_reduce: cost(Collective::AllReduce)?,
    })
}

fn read_cost(field: &Field<'_>) -> Result<CallCost> {
    let table = field.table(COST_KEYS)?;
    Ok(CallCost {
        latency_s: table.need("latency", "\"30 us\"")?.time()?,
        per_rank_s: table.get("per_rank").map_or(Ok(0.0), |field| field.time())?,
        bytes_per_s: table.need("bandwidth", "\"22 GB/s\"")?.bandwidth()?,
    })
}

/// What [`read`] reads.
pub(super) fn schema() -> Schema {
    let cost = || {
        #[rustfmt::skip]
        let keys = [
            needed("latency", "time of every call, from when the last rank has issued it", time()),
            optional("per_rank", "time more for each rank but the first; none by default", time()),
            needed("bandwidth", "bus bandwidth, as `busbw` of nccl-tests: what each rank moves around a ring over the time of a long call", bandwidth()),
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
