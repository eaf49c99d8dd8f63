//! The job of an advice: experiments of it with any variants, and its classes of calls.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use toml::{Table, Value};
use zipwire_cluster::Groups;
use zipwire_codec::DType;
use zipwire_profiles::{Profile, Replay};
use zipwire_scenarios::{Experiment, ExperimentWork, Source, load, presets};
use zipwire_schedule::{CallKind, Segment, Work};

use crate::site::{Site, parsed, set_nodes, size};
use crate::{AdviceError, AdviceSetup, AdviceSource, AdvisedCluster};

/// Steps of a profile that candidates are tried on.
const STEPS_TRIED: usize = 3;

/// Calls of one operation in groups of one kind.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Class {
    pub(crate) name: String,
    pub(crate) op: String,
    pub(crate) group: String,
    pub(crate) ranks: u32,
    /// Calls of a rank in a step, the mean over ranks, and their bytes.
    pub(crate) calls: f64,
    pub(crate) bytes: f64,
    pub(crate) total_s: Option<f64>,
    pub(crate) exposed_s: Option<f64>,
    /// Bytes by type, of values that a codec can shorten.
    pub(crate) codable: BTreeMap<DType, u64>,
}

/// A job that can be simulated with any variants.
pub(crate) struct Case {
    root: Table,
    base: PathBuf,
    pub(crate) classes: Vec<Class>,
    pub(crate) source: AdviceSource,
    pub(crate) cluster: AdvisedCluster,
    /// Codec of the scenario.
    pub(crate) codec: Option<Table>,
    pub(crate) shares: BTreeMap<DType, f64>,
    pub(crate) measured_s: Option<f64>,
    pub(crate) exposed_s: Option<f64>,
    pub(crate) is_profile: bool,
    /// Steps of a profile.
    pub(crate) steps: usize,
    pub(crate) notes: Vec<String>,
}

impl Case {
    pub(crate) fn of_profile(
        profile: &Profile,
        replay: &Replay,
        path: &Path,
        site: &Site,
        setup: &AdviceSetup,
    ) -> Result<Self, AdviceError> {
        let file = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let mut root = Table::new();
        root.insert("name".into(), "advice".into());
        root.insert("cluster".into(), Value::Table(site.table.clone()));
        let mut workload = Table::new();
        workload.insert("kind".into(), "profile".into());
        workload.insert("file".into(), file.into());
        root.insert("workload".into(), workload.into());
        let tried: Vec<_> = steps_tried(replay.steps.len()).iter().map(|step| replay.steps[*step]).collect();
        let count = tried.len() as f64;
        let spans: Option<Vec<f64>> = tried.iter().map(|step| step.span_s).collect();
        let mut notes = site.notes.clone();
        notes.extend(replay.notes.iter().cloned());
        notes.extend(profile.notes.iter().cloned());
        let mut shares = setup.shares.clone();
        sampled(replay, &mut shares);
        let case = Self {
            root,
            base: path.parent().unwrap_or(Path::new("")).to_owned(),
            classes: classes_of(replay, profile),
            source: AdviceSource {
                kind: "profile",
                path: path.display().to_string(),
                format: Some(profile.format.name()),
                world_size: profile.world_size,
                ranks_here: u32::try_from(profile.ranks.len()).unwrap_or(u32::MAX),
            },
            cluster: site.advised.clone(),
            codec: None,
            shares,
            measured_s: spans.map(|spans| spans.iter().sum::<f64>() / count),
            exposed_s: profile
                .is_compute_known
                .then(|| tried.iter().map(|step| step.stalled_s).sum::<f64>() / count),
            is_profile: true,
            steps: replay.steps.len(),
            notes,
        };
        case.with_speed()
    }

    pub(crate) fn of_scenario(path: &Path, setup: &AdviceSetup) -> Result<Self, AdviceError> {
        let unreadable = |error: std::io::Error| AdviceError::Unreadable {
            path: path.display().to_string(),
            reason: error.to_string(),
        };
        // Wrong scenarios are refused with their place first.
        let experiment = load(&Source::read(path)?, &[], None)?;
        if !matches!(experiment.work, ExperimentWork::Iterations(_)) {
            return Err(AdviceError::Serving);
        }
        let text = std::fs::read_to_string(path).map_err(unreadable)?;
        let mut root: Table = text.parse().map_err(|error: toml::de::Error| AdviceError::Toml {
            path: path.display().to_string(),
            reason: error.message().to_owned(),
        })?;
        root.remove("sweep");
        let (from, name) = match &setup.cluster {
            Some((name, _)) => ("given", name.clone()),
            None => ("scenario", experiment.name.clone()),
        };
        let experiment = on_cluster(experiment, &mut root, path, setup)?;
        let topology = &experiment.topology;
        let (nodes, gpus_per_node, ranks) = (topology.nodes, topology.gpus_per_node, topology.ranks());
        let file = root.get("cluster").map(ToString::to_string).unwrap_or_default();
        let case = Self {
            codec: root.get("codec").and_then(Value::as_table).cloned(),
            root,
            base: path.parent().unwrap_or(Path::new("")).to_owned(),
            classes: classes_in(&experiment),
            source: AdviceSource {
                kind: "scenario",
                path: path.display().to_string(),
                format: None,
                world_size: ranks,
                ranks_here: ranks,
            },
            cluster: AdvisedCluster { name, from, nodes, gpus_per_node, file },
            shares: setup.shares.clone(),
            measured_s: None,
            exposed_s: None,
            is_profile: false,
            steps: 1,
            notes: Vec::new(),
        };
        case.with_speed()
    }

    /// The same with the speed of a codec, where the cluster does not say it: that of the H100's preset.
    fn with_speed(mut self) -> Result<Self, AdviceError> {
        if self.codec.is_some() {
            return Ok(self);
        }
        let experiment = self.experiment(&[], &Run { steps: &[0], queued: "late", seed: 0 })?;
        let is_known = experiment.preset.is_some()
            || self
                .root
                .get("cluster")
                .and_then(Value::as_table)
                .is_some_and(|own| own.contains_key("codec_speed"));
        if !is_known {
            let h100 = presets().iter().find(|preset| preset.name == FALLBACK);
            let file: Option<Table> = h100.and_then(|preset| preset.text.parse().ok());
            let speed =
                file.and_then(|mut file| file.remove("codec_speed")).unwrap_or_else(|| Table::new().into());
            if let Some(cluster) = self.root.get_mut("cluster").and_then(Value::as_table_mut) {
                cluster.insert("codec_speed".into(), speed);
            }
            self.notes.push(
                format!("nothing says how fast the GPUs code: that of `{FALLBACK}` is assumed (`[codec_speed]` of a cluster file says it)"),
            );
        }
        Ok(self)
    }

    /// The job with some variants beside the uncompressed one, which is first, each with the classes that it codes.
    pub(crate) fn experiment(
        &self,
        variants: &[(Value, Vec<String>)],
        run: &Run<'_>,
    ) -> Result<Experiment, AdviceError> {
        let mut root = self.root.clone();
        let mut native = Table::new();
        native.insert("name".into(), "native".into());
        let values = variants.iter().map(|(value, _)| value.clone());
        let all: Vec<Value> = std::iter::once(native.into()).chain(values).collect();
        root.insert("variant".into(), all.into());
        if variants.is_empty() {
            root.remove("codec");
        }
        let workload = root.get_mut("workload").and_then(Value::as_table_mut).filter(|_| self.is_profile);
        if let Some(workload) = workload {
            let list: Vec<Value> = run.steps.iter().map(|step| Value::Integer(*step as i64)).collect();
            workload.insert("steps".into(), list.into());
            workload.insert("queued".into(), run.queued.into());
            root.insert("iterations".into(), (run.steps.len() as i64).into());
        }
        let source = Source::from_text(self.source.path.clone(), root.to_string(), self.base.clone());
        let first = load(&source, &[], None)?;
        let seed = first.seed.wrapping_add(run.seed);
        let mut experiment = if run.seed == 0 { first } else { load(&source, &[], Some(seed))? };
        name_classes(&mut experiment, self.is_profile);
        for (variant, (_, classes)) in experiment.variants.iter_mut().skip(1).zip(variants) {
            variant.dimensions = Some(classes.iter().map(|class| class.as_str().into()).collect());
        }
        experiment.choose_ways();
        Ok(experiment)
    }
}

/// Steps that candidates are tried on: the first ones behind that which constants were fitted to, if there are some.
pub(crate) fn steps_tried(steps: usize) -> Vec<usize> {
    match steps {
        0 | 1 => vec![0],
        _ => (1..steps.min(1 + STEPS_TRIED)).collect(),
    }
}

/// Everything by which simulations of a job differ.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Run<'a> {
    /// Steps of a profile.
    pub(crate) steps: &'a [usize],
    /// When queued calls of a profile were made.
    pub(crate) queued: &'static str,
    /// Number that is added to the seed.
    pub(crate) seed: u64,
}

/// Gives the calls of a scenario the names of their classes: dimension and collective. Those of a profile have theirs.
fn name_classes(experiment: &mut Experiment, is_profile: bool) {
    let ExperimentWork::Iterations(iterations) = &mut experiment.work else { return };
    for segment in
        iterations.job.segments.iter_mut().filter(|segment| segment.work.communicates() && !is_profile)
    {
        segment.dimension = Some(class_of(segment));
    }
}

fn class_of(segment: &Segment) -> Arc<str> {
    let op = segment.work.collective_name().unwrap_or("transfers");
    match &segment.dimension {
        Some(dimension) => format!("{op} {dimension}").into(),
        None => op.into(),
    }
}

/// Preset whose GPUs code as fast as those of which nothing is known.
const FALLBACK: &str = "h100-8x";

/// The scenario on another cluster, or on nodes of another size, of as many GPUs as its own.
fn on_cluster(
    experiment: Experiment,
    root: &mut Table,
    path: &Path,
    setup: &AdviceSetup,
) -> Result<Experiment, AdviceError> {
    if setup.cluster.is_none() && setup.gpus_per_node.is_none() {
        return Ok(experiment);
    }
    let mut table = match &setup.cluster {
        Some((name, text)) => parsed(name, text)?,
        None => root.get("cluster").and_then(Value::as_table).cloned().unwrap_or_default(),
    };
    let ranks = experiment.topology.ranks();
    let gpus = setup.gpus_per_node.unwrap_or(experiment.topology.gpus_per_node);
    if !ranks.is_multiple_of(gpus) {
        return Err(AdviceError::Nodes { ranks, gpus });
    }
    set_nodes(&mut table, ranks / gpus, gpus);
    root.insert("cluster".into(), table.into());
    let base = path.parent().unwrap_or(Path::new(""));
    Ok(load(&Source::from_text(path.display().to_string(), root.to_string(), base), &[], None)?)
}

/// Shares that were sampled in the job, for types that nobody has measured otherwise.
fn sampled(replay: &Replay, shares: &mut BTreeMap<DType, f64>) {
    let mut sums: BTreeMap<DType, (f64, f64)> = BTreeMap::new();
    for call in &replay.calls {
        if let (Some(share), Some(dtype)) = (call.coded_share, call.codable()) {
            let (sum, count) = sums.entry(dtype).or_default();
            (*sum, *count) = (*sum + share, *count + 1.0);
        }
    }
    for (dtype, (sum, count)) in sums {
        shares.entry(dtype).or_insert(sum / count);
    }
}

/// Part of all ranks that are in some groups.
fn part_of(groups: Groups, ranks: u32) -> f64 {
    f64::from(groups.count() * groups.size()) / f64::from(ranks)
}

/// Classes of a profile, those first for which ranks wait the longest.
fn classes_of(replay: &Replay, profile: &Profile) -> Vec<Class> {
    let (has_durations, is_compute_known) = (profile.timing.has_durations(), profile.is_compute_known);
    let mut classes: Vec<Class> = Vec::new();
    for call in &replay.calls {
        let index = classes.iter().position(|class| *class.name == *call.class).unwrap_or_else(|| {
            let (op, group) = call.class.split_once(' ').unwrap_or((&call.class, ""));
            classes.push(Class {
                name: call.class.to_string(),
                op: op.to_owned(),
                group: group.to_owned(),
                ranks: call.groups.size(),
                calls: 0.0,
                bytes: 0.0,
                total_s: has_durations.then_some(0.0),
                exposed_s: is_compute_known.then_some(0.0),
                codable: BTreeMap::new(),
            });
            classes.len() - 1
        });
        let class = &mut classes[index];
        let bytes = size(call).map_or(call.bytes_in.max(call.bytes_out), |(_, bytes)| bytes);
        let part = part_of(call.groups, replay.world_size);
        class.calls += part;
        class.bytes += part * bytes as f64;
        let mean = call.transfers_s.iter().sum::<f64>() / call.transfers_s.len() as f64;
        class.total_s = class.total_s.map(|total| total + part * mean);
        class.exposed_s = class.exposed_s.map(|exposed| exposed + call.stalled_s);
        if let Some(dtype) = call.codable() {
            *class.codable.entry(dtype).or_default() += bytes;
        }
    }
    classes.sort_by(|a, b| {
        b.exposed_s.unwrap_or(0.0).total_cmp(&a.exposed_s.unwrap_or(0.0)).then(b.bytes.total_cmp(&a.bytes))
    });
    classes
}

/// Classes of a scenario: calls of a collective, along a dimension if there are some.
fn classes_in(experiment: &Experiment) -> Vec<Class> {
    let mut classes: Vec<Class> = Vec::new();
    let ranks = experiment.topology.ranks();
    for segment in experiment.work.segments().iter().filter(|segment| segment.work.communicates()) {
        let name = class_of(segment);
        let op = segment.work.collective_name().unwrap_or("transfers");
        let group = segment.dimension.as_deref().unwrap_or("all ranks");
        let index = classes.iter().position(|class| *class.name == *name).unwrap_or_else(|| {
            classes.push(Class {
                name: name.to_string(),
                op: op.to_owned(),
                group: group.to_owned(),
                ranks: segment.groups(ranks).size(),
                calls: 0.0,
                bytes: 0.0,
                total_s: None,
                exposed_s: None,
                codable: BTreeMap::new(),
            });
            classes.len() - 1
        });
        let class = &mut classes[index];
        let bytes = bytes_of(segment);
        let part = part_of(segment.groups(ranks), ranks);
        class.calls += part;
        class.bytes += part * bytes as f64;
        if let Some(dtype) = segment.work.dtype().filter(|dtype| is_whole(segment, *dtype)) {
            *class.codable.entry(dtype).or_default() += bytes;
        }
    }
    classes.sort_by(|a, b| b.bytes.total_cmp(&a.bytes));
    classes
}

/// Whether what moves are whole values, as codecs take them.
fn is_whole(segment: &Segment, dtype: DType) -> bool {
    match &segment.work {
        Work::Transfers { flows, .. } => {
            flows.iter().all(|flow| flow.bytes.is_multiple_of(dtype.width() as u64))
        }
        _ => true,
    }
}

/// Bytes of a call: those of its size, as nccl-tests has it, or of the busiest rank.
fn bytes_of(segment: &Segment) -> u64 {
    match &segment.work {
        Work::Call { kind, .. } => match kind {
            CallKind::AllToAll { bytes, .. } => {
                bytes.rows().into_iter().map(|row| row.sum()).max().unwrap_or(0)
            }
            CallKind::AllGather { bytes } | CallKind::ReduceScatter { bytes } => bytes.iter().sum(),
            CallKind::Send { bytes, .. }
            | CallKind::Broadcast { bytes, .. }
            | CallKind::AllReduce { bytes } => *bytes,
        },
        Work::Transfers { flows, .. } => {
            let mut sent: BTreeMap<_, u64> = BTreeMap::new();
            flows.iter().for_each(|flow| *sent.entry(flow.src).or_default() += flow.bytes);
            sent.into_values().max().unwrap_or(0)
        }
        Work::Compute { .. } => 0,
    }
}
