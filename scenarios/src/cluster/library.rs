//! `[cluster.library]`: what calls of a communication library's own collectives cost, as declared, or from a model of the library.

use zipwire_cluster::library::{Constant, ConstantUnit, Generation, Hardware, LibraryModel};
use zipwire_cluster::{DeclaredCost, LibraryCost};
use zipwire_schedule::Collective;

use super::RANK_LIMIT;
use crate::error::Result;
use crate::problem::Problem;
use crate::reader::{Field, Reader};
use crate::schema::{
    Condition, Rule, Schema, bandwidth, integer, map, names, needed, number, one_of, optional, table, time,
};

/// The collectives, as [`Collective::name`] has them, and the model for those that are not declared.
const KEYS: &[&str] =
    &["all-gather", "reduce-scatter", "all-reduce", "model", "gpus", "nvlink_domain", "constants"];

/// Keys that say nothing without a model.
const MODEL_KEYS: &[&str] = &["gpus", "nvlink_domain", "constants"];

/// Shares of a bandwidth, which is divided by them, and shares that may be none.
const SHARES: std::ops::RangeInclusive<f64> = 0.001..=10.0;
const SHARES_OR_NONE: std::ops::RangeInclusive<f64> = 0.0..=10.0;

const COST_KEYS: &[&str] = &["latency", "per_rank", "bandwidth"];

/// What one may add where a cost is missing.
pub(crate) const EXAMPLE: &str = r#"{ latency = "30 us", per_rank = "6 us", bandwidth = "22 GB/s" }"#;

/// Reads the table, for a cluster of that hardware; what it says of NVLink domains is not looked at.
pub(super) fn read(field: &Field<'_>, hardware: Hardware) -> Result<LibraryCost> {
    let table = field.table(KEYS)?;
    let cost = |collective: Collective| {
        table.get(collective.name()).map_or(Ok(None), |field| read_cost(&field, hardware.gpus_per_node))
    };
    let model = match table.get("model") {
        Some(field) => Some(read_model(&field, &table, hardware)?),
        None => {
            MODEL_KEYS.iter().try_for_each(|key| table.refuse(key, "no `model` is chosen"))?;
            None
        }
    };
    Ok(LibraryCost {
        all_gather: cost(Collective::AllGather)?,
        reduce_scatter: cost(Collective::ReduceScatter)?,
        all_reduce: cost(Collective::AllReduce)?,
        model,
    })
}

fn read_model(field: &Field<'_>, table: &Reader<'_>, mut hardware: Hardware) -> Result<LibraryModel> {
    field.choice("model of a library", &[LibraryModel::NAME], |name| name)?;
    if hardware.gpu_bytes_per_s == 0.0 {
        let (key, table, example) = ("gpu_bandwidth", "cluster", "\"450 GB/s\"");
        return Err(field.error(Problem::MissingKey {
            key: key.to_owned(),
            table: table.to_owned(),
            example: example.to_owned(),
        }));
    }
    let gpus = table.need("gpus", &format!("\"{}\"", Generation::Hopper.name()))?;
    let generation = gpus.choice("generation of GPUs", &Generation::ALL, Generation::name)?;
    if let Some(field) = table.get("nvlink_domain") {
        hardware.nvlink_domain = field.integer_u32(1..=RANK_LIMIT)?;
    }
    let mut constants = generation.constants();
    if let Some(field) = table.get("constants") {
        let said = field.table(Constant::KEYS)?;
        for constant in Constant::ALL {
            if let Some(field) = said.get(constant.key()) {
                let value = match constant.unit() {
                    ConstantUnit::Time => field.time()?,
                    ConstantUnit::Bandwidth => field.bandwidth()?,
                    ConstantUnit::Ratio if constant.may_be_none() => field.number(SHARES_OR_NONE)?,
                    ConstantUnit::Ratio => field.number(SHARES)?,
                };
                constants.set(constant, value);
            }
        }
    }
    Ok(LibraryModel { hardware, constants })
}

/// `None` if the cost is known for other numbers of GPUs per node only.
fn read_cost(field: &Field<'_>, gpus_per_node: u32) -> Result<Option<DeclaredCost>> {
    let table = field.table(COST_KEYS)?;
    let latency_s = table.need("latency", "\"30 us\"")?.time()?;
    let per_rank_s = table.get("per_rank").map_or(Ok(0.0), |field| field.time())?;
    let bytes_per_s = read_bandwidth(&table.need("bandwidth", "\"22 GB/s\"")?, gpus_per_node)?;
    Ok(bytes_per_s.map(|bytes_per_s| DeclaredCost { latency_s, per_rank_s, bytes_per_s }))
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
        optional("model", "a model of the library, for the costs of collectives that are not declared", names([LibraryModel::NAME])),
        optional("gpus", "generation of the GPUs, whose constants the model takes where `constants` says nothing", names(Generation::ALL.map(Generation::name))),
        optional("nvlink_domain", "GPUs that NVLink connects, where these are those of several nodes; those of a node by default", integer(1..=RANK_LIMIT)),
        optional("constants", "constants of the model, fitted to this cluster", constants()),
    ];
    table(KEYS, keys)
        .when(Condition::Has("model"), Rule::Needs(&["gpus"]))
        .when(Condition::Lacks("model"), Rule::Refuses(MODEL_KEYS))
}

fn constants() -> Schema {
    let keys = Constant::ALL.map(|constant| {
        let value = match constant.unit() {
            ConstantUnit::Time => time(),
            ConstantUnit::Bandwidth => bandwidth(),
            ConstantUnit::Ratio if constant.may_be_none() => number(SHARES_OR_NONE),
            ConstantUnit::Ratio => number(SHARES),
        };
        optional(constant.key(), constant.about(), value)
    });
    table(Constant::KEYS, keys)
}
