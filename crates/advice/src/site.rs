//! Cluster of a job: the one that is named, or constants that calls of the profile fit.

use std::collections::BTreeMap;
use std::path::Path;

use toml::{Table, Value};
use zipwire_calibrate::{Point, Series, calibrate_few, cluster_file};
use zipwire_cluster::Group;
use zipwire_cluster::library::Operation;
use zipwire_profiles::{CollectiveOp, Profile, Replay, ReplayCall};

use crate::{AdviceError, AdviceSetup, AdvisedCluster};

/// GPUs of a node, where nothing says them and the job has more.
const USUAL_GPUS: u32 = 8;

/// Difference of a factor from 1 that is worth a note.
const NOTED: f64 = 0.05;

/// Keys of `[cluster]`, and what is said of them.
pub(crate) struct Site {
    pub(crate) table: Table,
    pub(crate) advised: AdvisedCluster,
    pub(crate) notes: Vec<String>,
}

impl Site {
    pub(crate) fn of(
        profile: &Profile,
        replay: &Replay,
        setup: &AdviceSetup,
        path: &Path,
    ) -> Result<Self, AdviceError> {
        let mut notes = Vec::new();
        let (name, from, mut table) = match &setup.cluster {
            Some((name, text)) => (name.clone(), "given", parsed(name, text)?),
            None => {
                let gpus = gpus_per_node(profile, setup, None, &mut notes)?;
                let text = calibrated(profile, replay, gpus, path, &mut notes)?;
                ("calibrated from the profile".to_owned(), "profile", parsed("the cluster", &text)?)
            }
        };
        let own = table.get("gpus_per_node").and_then(Value::as_integer);
        let own = own.and_then(|gpus| u32::try_from(gpus).ok()).filter(|_| from == "given");
        let mut assumed = Vec::new();
        let gpus = gpus_per_node(profile, setup, own, &mut assumed)?;
        notes.extend(assumed.into_iter().filter(|_| from == "given"));
        let nodes = profile.world_size / gpus;
        set_nodes(&mut table, nodes, gpus);
        let file = table.to_string();
        Ok(Self { table, advised: AdvisedCluster { name, from, nodes, gpus_per_node: gpus, file }, notes })
    }
}

/// Sets the nodes of a cluster, each with at most one NIC for each GPU.
pub(crate) fn set_nodes(table: &mut Table, nodes: u32, gpus: u32) {
    table.insert("nodes".into(), i64::from(nodes).into());
    table.insert("gpus_per_node".into(), i64::from(gpus).into());
    let nics = table.get("nics_per_node").and_then(Value::as_integer);
    if nics.is_some_and(|nics| nics > i64::from(gpus)) {
        table.insert("nics_per_node".into(), i64::from(gpus).into());
    }
}

pub(crate) fn parsed(name: &str, text: &str) -> Result<Table, AdviceError> {
    text.parse().map_err(|error: toml::de::Error| AdviceError::Toml {
        path: name.to_owned(),
        reason: error.message().to_owned(),
    })
}

/// GPUs of a node: as said, or those of the cluster if the job has whole nodes of them, or of the profile, or as many as are usual.
fn gpus_per_node(
    profile: &Profile,
    setup: &AdviceSetup,
    own: Option<u32>,
    notes: &mut Vec<String>,
) -> Result<u32, AdviceError> {
    let ranks = profile.world_size;
    if let Some(gpus) = setup.gpus_per_node {
        let is_whole = gpus > 0 && ranks.is_multiple_of(gpus);
        return is_whole.then_some(gpus).ok_or(AdviceError::Nodes { ranks, gpus });
    }
    if let Some(gpus) = own.or(profile.gpus_per_node.filter(|gpus| *gpus > 1)) {
        let gpus = gpus.min(ranks);
        return ranks.is_multiple_of(gpus).then_some(gpus).ok_or(AdviceError::Nodes { ranks, gpus });
    }
    let gpus = (1..=USUAL_GPUS.min(ranks)).rev().find(|gpus| ranks.is_multiple_of(*gpus)).unwrap_or(1);
    notes.push(format!(
        "the profile does not say how many GPUs a node has: {gpus} are assumed (`--gpus-per-node`)"
    ));
    Ok(gpus)
}

/// A cluster file whose constants fit transfers of the first step.
fn calibrated(
    profile: &Profile,
    replay: &Replay,
    gpus_per_node: u32,
    path: &Path,
    notes: &mut Vec<String>,
) -> Result<String, AdviceError> {
    if !profile.timing.has_durations() {
        return Err(AdviceError::NoDurations);
    }
    let series = series(profile, replay, gpus_per_node, path);
    let calibration = calibrate_few(&series)?;
    let (mut measured_s, mut modelled_s) = (0.0, 0.0);
    for call in &replay.calls {
        let Some((operation, bytes)) = size(call) else { continue };
        let Some(shape) = shape(&call.groups.group(0), gpus_per_node) else { continue };
        measured_s += call.transfers_s.first().copied().unwrap_or(0.0);
        modelled_s += calibration.seconds(operation, shape, bytes);
    }
    let factor = measured_s / modelled_s;
    if (factor - 1.0).abs() > NOTED {
        notes.push(format!(
            "calls of step 0 take {factor:.2} times what any constants of such GPUs explain: all times of links and library are multiplied by that"
        ));
    }
    let calibration = calibration.slowed(factor);
    notes.extend(calibration.notes.iter().filter(|note| !note.starts_with("not determined")).cloned());
    Ok(cluster_file(&calibration))
}

/// Times of calls of the first step by operation and shape of their groups.
fn series(profile: &Profile, replay: &Replay, gpus_per_node: u32, path: &Path) -> Vec<Series> {
    let mut points: BTreeMap<(Operation, u32, u32), BTreeMap<u64, Vec<f64>>> = BTreeMap::new();
    for call in &replay.calls {
        let Some((operation, bytes)) = size(call) else { continue };
        let Some((nodes, gpus)) = shape(&call.groups.group(0), gpus_per_node) else { continue };
        let of_size = points.entry((operation, nodes, gpus)).or_default().entry(bytes).or_default();
        of_size.extend(call.transfers_s.first().filter(|seconds| **seconds > 0.0));
    }
    let series = points.into_iter().map(|((operation, nodes, gpus_per_node), sizes)| Series {
        file: path.display().to_string(),
        operation,
        nodes,
        gpus_per_node,
        gpu: profile.gpu.clone(),
        nics: None,
        dtype: "float".to_owned(),
        points: sizes.into_iter().filter_map(|(bytes, times)| point(bytes, times)).collect(),
    });
    series.collect()
}

fn point(bytes: u64, mut times: Vec<f64>) -> Option<Point> {
    times.sort_by(f64::total_cmp);
    let (first, last) = (*times.first()?, *times.last()?);
    Some(Point { bytes, seconds: times[times.len() / 2], spread: last / first - 1.0 })
}

/// Operation and size of a call, as nccl-tests has them; none of what it does not measure.
pub(crate) fn size(call: &ReplayCall) -> Option<(Operation, u64)> {
    Some(match call.op {
        CollectiveOp::AllReduce => (Operation::AllReduce, call.bytes_in),
        CollectiveOp::AllGather => (Operation::AllGather, call.bytes_out),
        CollectiveOp::ReduceScatter => (Operation::ReduceScatter, call.bytes_in),
        CollectiveOp::AllToAll if call.splits.is_none() => (Operation::AllToAll, call.bytes_in),
        CollectiveOp::Broadcast => (Operation::Broadcast, call.bytes_in.max(call.bytes_out)),
        _ => return None,
    })
}

/// Nodes of a group, and its GPUs in each, if these are equally many.
fn shape(group: &Group, gpus_per_node: u32) -> Option<(u32, u32)> {
    let mut nodes: BTreeMap<u32, u32> = BTreeMap::new();
    for rank in group.ranks() {
        *nodes.entry(rank.0 / gpus_per_node).or_default() += 1;
    }
    let gpus = *nodes.values().next()?;
    nodes.values().all(|count| *count == gpus).then_some((nodes.len() as u32, gpus))
}
