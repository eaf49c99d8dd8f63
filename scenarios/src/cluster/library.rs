//! `[cluster.library]`: what calls of a communication library's own collectives cost, as declared, or from a model of the library.

use std::sync::LazyLock;

use zipwire_cluster::library::{Constant, ConstantUnit, Generation, Hardware, LibraryModel};
use zipwire_cluster::{DeclaredCost, LibraryCost};

use super::RANK_LIMIT;
use crate::error::Result;
use crate::language::{
    AnyKey, Condition, Field, Key, Keys, Raw, Reader, Rule, Schema, bandwidth, choice, integer, keys, map,
    number, one_of, raw, schema, table, time,
};
use crate::problem::Problem;

// The collectives, as [`Collective::name`] has them, and the model for those that are not declared.
keys! { static KEYS =
    all_gather as "all-gather": Raw = raw(|| table(COST.all)), "cost of an All-Gather";
    reduce_scatter as "reduce-scatter": Raw = raw(|| table(COST.all)), "cost of a Reduce-Scatter";
    all_reduce as "all-reduce": Raw = raw(|| table(COST.all)), "cost of an All-Reduce";
    broadcast: Raw = raw(|| table(COST.all)), "cost of a broadcast to all ranks";
    model: &'static str = choice("model of a library", &[LibraryModel::NAME], |name| name), "a model of the library, for the costs of collectives that are not declared";
    gpus: Generation = choice("generation of GPUs", &Generation::ALL, Generation::name), "generation of the GPUs, whose constants the model takes where `constants` says nothing", example = "\"hopper\"";
    nvlink_domain: u32 = integer(1..=RANK_LIMIT), "GPUs that NVLink connects, where these are those of several nodes; those of a node by default";
    constants: Raw = raw(constants_schema), "constants of the model, fitted to this cluster";
    fitted_domains: u32 = integer(1..=RANK_LIMIT), "most nodes, or racks that NVLink connects, of a log that the constants are from, for a warning where a cluster has many more; not known by default";
}

keys! { static COST =
    latency: f64 = time(), "time of every call, from when the last rank has issued it", needed = "\"30 us\"";
    per_rank: f64 = time(), "time more for each rank but the first; none by default";
    bandwidth: Raw = raw(|| one_of([schema::bandwidth(), map(schema::bandwidth())])), "bus bandwidth, as `busbw` of nccl-tests: what each rank moves around a ring over the time of a long call; or a table of it by GPUs per node", needed = "\"22 GB/s\"";
}

fn rules() -> Vec<Rule> {
    let of_model: Keys<'_> = &[KEYS.gpus, KEYS.nvlink_domain, KEYS.constants, KEYS.fitted_domains];
    vec![
        Condition::Has(KEYS.model).needs(&[KEYS.gpus]),
        Condition::Lacks(KEYS.model).refuses(of_model, "no `model` is chosen"),
    ]
}

/// Shares of a bandwidth, which is divided by them, and shares that may be none.
const SHARES: std::ops::RangeInclusive<f64> = 0.001..=10.0;
const SHARES_OR_NONE: std::ops::RangeInclusive<f64> = 0.0..=10.0;

/// Example cost, as TOML, for messages about a missing one.
pub(crate) const EXAMPLE: &str = r#"{ latency = "30 us", per_rank = "6 us", bandwidth = "22 GB/s" }"#;

/// Reads the table, for a cluster of that hardware; what it says of NVLink domains is not looked at. And the domains of logs that constants
/// of the model are from.
pub(super) fn read(field: &Field<'_>, hardware: Hardware) -> Result<(LibraryCost, Option<u32>)> {
    let table = field.table(KEYS.all)?;
    let cost = |key| table.field(key).map_or(Ok(None), |field| read_cost(&field, hardware.gpus_per_node));
    table.check(&rules())?;
    let model = table.field(KEYS.model).map(|field| read_model(&field, &table, hardware)).transpose()?;
    let cost = LibraryCost {
        all_gather: cost(KEYS.all_gather)?,
        reduce_scatter: cost(KEYS.reduce_scatter)?,
        all_reduce: cost(KEYS.all_reduce)?,
        broadcast: cost(KEYS.broadcast)?,
        model,
    };
    Ok((cost, table.get(KEYS.fitted_domains)?))
}

fn read_model(field: &Field<'_>, table: &Reader<'_>, mut hardware: Hardware) -> Result<LibraryModel> {
    table.need(KEYS.model)?;
    if hardware.gpu_bytes_per_s == 0.0 {
        return Err(field.error(Problem::missing_key("gpu_bandwidth", "cluster", "\"450 GB/s\"")));
    }
    let mut constants = table.need(KEYS.gpus)?.constants();
    hardware.nvlink_domain = table.get(KEYS.nvlink_domain)?.unwrap_or(hardware.nvlink_domain);
    if let Some(field) = table.field(KEYS.constants) {
        let said = field.table(&constant_keys())?;
        for (constant, key) in Constant::ALL.into_iter().zip(CONSTANTS.iter()) {
            if let Some(value) = said.get(key)? {
                constants.set(constant, value);
            }
        }
    }
    Ok(LibraryModel { hardware, constants })
}

/// `None` if the cost is known for other numbers of GPUs per node only.
fn read_cost(field: &Field<'_>, gpus_per_node: u32) -> Result<Option<DeclaredCost>> {
    let table = field.table(COST.all)?;
    let latency_s = table.need(COST.latency)?;
    let per_rank_s = table.get(COST.per_rank)?.unwrap_or(0.0);
    let bytes_per_s = read_bandwidth(&table.need_field(COST.bandwidth)?, gpus_per_node)?;
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
            let limits = format!("a number of GPUs per node, from 1 to {RANK_LIMIT}");
            Problem::out_of_range(format!("a key of {}", field.path), key, limits).at(place.clone())
        })?;
        let bandwidth = value.bandwidth()?;
        if gpus == gpus_per_node {
            found = Some(bandwidth);
        }
    }
    Ok(found)
}

pub(super) fn schema() -> Schema {
    table(KEYS.all).with(rules())
}

/// Keys of the constants, in their order: the model knows what there is.
static CONSTANTS: LazyLock<[Key<f64>; Constant::ALL.len()]> = LazyLock::new(|| {
    Constant::ALL.map(|constant| Key {
        name: constant.key(),
        about: constant.about(),
        example: "",
        is_needed: false,
        kind: match constant.unit() {
            ConstantUnit::Time => const { &time() },
            ConstantUnit::Bandwidth => const { &bandwidth() },
            ConstantUnit::Ratio if constant.may_be_none() => const { &number(SHARES_OR_NONE) },
            ConstantUnit::Ratio => const { &number(SHARES) },
        },
    })
});

fn constant_keys() -> Vec<&'static dyn AnyKey> {
    CONSTANTS.iter().map(|key| key as &dyn AnyKey).collect()
}

fn constants_schema() -> Schema {
    table(&constant_keys())
}
