//! From text to a resolved experiment.

use std::ops::Range;
use std::sync::Arc;

use serde_json::{Value, json};
use zipwire_cluster::library::Hardware;
use zipwire_cluster::{HostCost, NetworkModel, Part, Topology, TransferStart};
use zipwire_codec::DType;
use zipwire_payload::Payload;
use zipwire_schedule::{CallKind, Fault, Job, Segment, Slack, SumType, TokenMap, Work};

use crate::cluster::{Cluster, Preset};
use crate::codec::{self, CodecChoice};
use crate::drift::{self, Conditions, Drift};
use crate::error::Result;
use crate::files::Files;
use crate::language::{
    AnyKey, Condition, Field, Raw, Reader, Schema, choice, custom, file_name, integer, keys, names, raw,
    table,
};
use crate::origin::{Arguments, Origin, Source};
use crate::payload::{self, Rowset};
use crate::problem::{PayloadProblem, Problem, TableProblem};
use crate::sweep::{AXES, count_points, take_axes};
use crate::traffic::Traffic;
use crate::tree::{Document, Node, Place};
use crate::variant::{self, ParsedVariant, Variant};
use crate::workload::{self, ExperimentWork, Iterations, Kind, Serving, Workload};
use crate::{cluster, compute, fault, set, tree};

/// Everything that executors and reports need; nothing in it is left to look up.
#[derive(Clone, Debug)]
pub struct Experiment {
    /// Name of the scenario; it can be part of a file name.
    pub name: String,
    /// First line of the comment that opens the file.
    pub description: Option<String>,
    /// The one seed of all draws.
    pub seed: u64,
    /// Iterations, at least 1; 1 if requests are served.
    pub iterations: u32,
    /// The hardware that the cluster is named after, whatever of it the scenario replaces.
    pub preset: Option<Preset>,
    /// The cluster's links.
    pub topology: Topology,
    /// How simulated transfers share the links.
    pub model: NetworkModel,
    /// Whom simulated transfers wait for.
    pub start: TransferStart,
    /// The cluster's host costs.
    pub host: HostCost,
    /// Most NVLink domains of a log that constants of the library's model are from, if that is known.
    pub fitted_domains: Option<u32>,
    /// The codec of coded variants that have none of their own ([`codec_of`](Self::codec_of)).
    pub codec: Option<CodecChoice>,
    /// Iterations of a job, or requests to serve.
    pub work: ExperimentWork,
    /// Values that transfers carry: the scenario's payload, or noise if no variant is coded. `None` only with coded
    /// variants whose ratio is stated: they can be simulated and not run.
    pub payload: Option<Payload>,
    /// In which type partial sums travel, in all variants.
    pub sums: SumType,
    /// Variants to compare, at least one; speedups are over the first.
    pub variants: Vec<Variant>,
    /// Points of the scenario's `[sweep]`, which this experiment leaves out; 0 if it has none, or is one of them.
    pub points_left_out: usize,
    /// Text, arguments and files from which the experiment was loaded.
    pub origin: Origin,
}

keys! { static KEYS =
    name: String = file_name(), "name of the scenario; it names output files", needed = "\"moe-16gpu\"";
    seed: u64 = integer(0..=u64::MAX), "the one seed of everything that is drawn; 0 by default";
    iterations: u32 = integer(1..=ITERATION_LIMIT), "iterations, one after the other; 1 by default";
    cluster: Raw = raw(cluster::schema), "the hardware: equal nodes of equal GPUs", needed = "{ nodes = 1, ... }";
    workload: Raw = raw(workload::schema), "what an iteration does", needed = "{ kind = \"moe\", ... }";
    partial_sums: SumType = choice("type of partial sums", &SumType::ALL, SumType::name), "in which type partial sums travel in all variants, and that of the sums of a Reduce-Scatter: `sent`, that of the contributions, as in NCCL, by default";
    compute: Raw = raw(|| table(compute::KEYS.all)), "how long the model computes; workloads with a model only";
    codec: Raw = raw(|| table(codec::KEYS.all)), "codec of the coded variants and its cost";
    variant: Raw = raw(variant::schema), "what to compare, in order; one, `native`, by default";
    fault: Raw = raw(fault::schema), "what goes wrong; nothing by default";
    deadline: Slack = custom(fault::read_slack, || table(fault::DEADLINE.all)), "how long ranks wait before they fail";
    drift: Raw = raw(drift::schema), "what becomes different in the course of the run; simulations only";
}

fn all_keys() -> Vec<&'static dyn AnyKey> {
    [KEYS.all, AXES.all].concat()
}

const NO_COMPUTE: &str = "the workload has no model that computes";

const ITERATION_LIMIT: u32 = 1_000_000;
/// Most iterations x ranks: durations are drawn in advance, up to 40 bytes each.
const DRAW_LIMIT: u64 = 1 << 24;

/// Reads, checks and resolves a scenario. Of a `[sweep]` it reads only that it is one: the scenario is what it is without.
///
/// `sets` are the arguments of `--set`, each `path=value`, applied in order; `seed` replaces the scenario's.
///
/// # Errors
/// The first thing that is wrong, with the place in the file or the argument.
pub fn load(source: &Source, sets: &[String], seed: Option<u64>) -> Result<Experiment> {
    load_real(source, sets, &[], seed)
}

/// Like [`load`], for a real run that differs from the scenario: `real_sets` are the arguments of `--real-set`, applied
/// after `sets`.
///
/// # Errors
/// The first thing that is wrong, with the place in the file or the argument.
pub fn load_real(
    source: &Source,
    sets: &[String],
    real_sets: &[String],
    seed: Option<u64>,
) -> Result<Experiment> {
    load_from(&Arguments::new(source, sets, real_sets, seed), &Files::new(&source.base))
}

/// Like [`load_real`], with files from disk or from a parcel.
pub(crate) fn load_from(arguments: &Arc<Arguments>, files: &Files) -> Result<Experiment> {
    let (mut root, _) = parse(arguments)?;
    let axes = take_axes(&mut root)?;
    let mut experiment = resolve(&root, arguments, None, files)?.experiment(files);
    experiment.points_left_out = if axes.is_empty() { 0 } else { count_points(&axes) };
    Ok(experiment)
}

/// Whether a text is a scenario, right or wrong, and no other TOML file that lies beside scenarios, as hardware and published
/// numbers do: those have none of a scenario's tables and keys.
pub fn is_scenario_file(text: &str) -> bool {
    let document = Document::file(String::new(), text.to_owned());
    let Ok(Node { value: tree::Value::Table(table), .. }) = tree::parse(&document) else { return true };
    table.entries.is_empty() || table.keys().any(|key| all_keys().iter().any(|known| known.name() == key))
}

/// The tree of a scenario after all arguments, and their paths.
pub(crate) fn parse(arguments: &Arguments) -> Result<(Node, Vec<set::Path>)> {
    let Arguments { source, sets, real_sets, .. } = arguments;
    let document = Document::file(source.name.clone(), source.text.clone());
    let mut root = tree::parse(&document)?;
    let sets = sets.iter().map(|argument| (set::SET, argument));
    let arguments = sets.chain(real_sets.iter().map(|argument| (set::REAL_SET, argument)));
    let paths =
        arguments.map(|(flag, argument)| set::apply(&mut root, flag, argument)).collect::<Result<_>>()?;
    Ok((root, paths))
}

/// An experiment that is known to be right, before its payload is drawn.
pub(crate) struct Resolved {
    experiment: Experiment,
    rows: Option<Rowset>,
    tensors: Vec<Option<usize>>,
    fp8_values: Option<usize>,
}

/// Resolves a tree without a sweep, which is that of the arguments, or that of a point of its sweep. `files` are those of this
/// experiment alone.
pub(crate) fn resolve(
    root: &Node,
    arguments: &Arc<Arguments>,
    point: Option<usize>,
    files: &Files,
) -> Result<Resolved> {
    let table = Field::root(root).table(&all_keys())?;

    let name = table.need(KEYS.name)?;
    let own_seed = table.get(KEYS.seed)?.unwrap_or(0);
    let seed = arguments.seed.unwrap_or(own_seed);
    let cluster_field = table.need_field(KEYS.cluster)?;
    let Cluster { preset, topology, host, fitted_domains, gpu_memory, codec_speeds, model, start } =
        cluster::read(&cluster_field, files)?;
    let ranks = topology.ranks();
    let iterations = iterations(&table, ranks)?;

    let workload_field = table.need_field(KEYS.workload)?;
    let kind = Kind::read(&workload_field)?;
    check_ranks(ranks, kind, &cluster_field)?;
    let compute = compute(&table, kind)?;
    let context = workload::Context {
        files,
        seed,
        iterations,
        ranks,
        topology: &topology,
        gpu_memory,
        launch_s: host.launch_s,
        compute,
    };
    let workload = workload::read(kind, &workload_field, &context)?;

    let codec = table.field(KEYS.codec).map(|field| codec::read(&field, &codec_speeds, files)).transpose()?;
    let context = variant::Context {
        job: workload.job(),
        gpus_per_node: topology.gpus_per_node,
        library: &host.library,
        speeds: &codec_speeds,
        files,
    };
    let variants = read_variants(&table, &context, codec.as_ref(), &workload)?;

    let sums = sums(&table, workload.work.segments())?;
    let Workload { mut work, rows, tensors, fp8_values, .. } = workload;
    let ratio = codec.as_ref().and_then(|(choice, _)| choice.ratio);
    read_disturbances(&table, &mut work, iterations, &topology, ratio)?;

    let mut experiment = Experiment {
        name,
        description: arguments.source.description(),
        seed,
        iterations,
        preset,
        topology,
        model,
        start,
        host,
        fitted_domains,
        codec: codec.map(|(choice, _)| choice),
        work,
        payload: None,
        sums,
        variants,
        points_left_out: 0,
        origin: Origin::loaded(arguments, point, files.used()),
    };
    experiment.choose_ways();
    Ok(Resolved { experiment, rows, tensors, fp8_values })
}

/// Reads what to compare; one variant that compresses nothing by default.
fn read_variants(
    table: &Reader<'_>,
    context: &variant::Context<'_>,
    codec: Option<&(CodecChoice, Place)>,
    workload: &Workload,
) -> Result<Vec<Variant>> {
    let placed = variant::read(table.field(KEYS.variant).as_ref(), context)?;
    check_coded(&placed, codec, workload)?;
    let mut variants: Vec<Variant> = placed.into_iter().map(|placed| placed.variant).collect();
    if variants.is_empty() {
        variants.push(variant::default());
    }
    Ok(variants)
}

/// Refuses more ranks than a kind of workload takes.
fn check_ranks(ranks: u32, kind: Kind, cluster: &Field<'_>) -> Result<()> {
    if ranks <= kind.rank_limit() {
        return Ok(());
    }
    let (what, limits) = ("ranks of this kind of workload", format!("at most {}", kind.rank_limit()));
    Err(cluster.error(Problem::out_of_range(what, ranks, limits)))
}

/// Reads faults, deadlines and drifts of iterations; refuses keys that mean nothing beside one another, or in serving.
fn read_disturbances(
    table: &Reader<'_>,
    work: &mut ExperimentWork,
    count: u32,
    topology: &Topology,
    ratio: Option<f64>,
) -> Result<()> {
    let ExperimentWork::Iterations(iterations) = work else {
        let reason = "serving has no plan: `workload.lost` and `workload.cancelled` say what goes wrong";
        return table.refuse_all(&[KEYS.fault, KEYS.deadline, KEYS.drift], reason);
    };
    let faults = table.field(KEYS.fault).map(|field| fault::read(&field, &iterations.job, count));
    iterations.faults = faults.transpose()?.unwrap_or_default();
    if !iterations.faults.is_empty() {
        let reason = "ranks with faults have deadlines, which a cluster that changes would break";
        table.refuse(KEYS.drift, reason)?;
    }
    iterations.slack = table.get(KEYS.deadline)?.unwrap_or(fault::SLACK);
    let drifts = table.field(KEYS.drift).map(|field| drift::read(&field, count, topology, ratio));
    iterations.drifts = drifts.transpose()?.unwrap_or_default();
    Ok(())
}

fn sums(table: &Reader<'_>, segments: &[Segment]) -> Result<SumType> {
    if segments.iter().all(|segment| !segment.work.is_reduction()) {
        table.refuse(KEYS.partial_sums, "the workload adds nothing up")?;
    }
    Ok(table.get(KEYS.partial_sums)?.unwrap_or(SumType::Sent))
}

impl Resolved {
    pub(crate) fn experiment(self, files: &Files) -> Experiment {
        let Self { mut experiment, rows, tensors, fp8_values } = self;
        let carries_fp8 = |segment: &Segment| {
            matches!(segment.work, Work::Call { dtype: DType::F8E4M3, kind: CallKind::AllToAll { .. }, .. })
        };
        let segments = experiment.work.segments();
        // What serving moves is no segment's.
        let values = |index: usize| fp8_values.filter(|_| segments.get(index).is_some_and(carries_fp8));
        let fp8_values: Vec<Option<usize>> = (0..tensors.len()).map(values).collect();
        let (seed, is_coded) = (experiment.seed, Variant::is_coded);
        experiment.payload = match rows {
            Some(rows) => Some(rows.into_payload(&tensors, &fp8_values, seed, files)),
            None if experiment.variants.iter().any(is_coded) => None,
            None => Some(payload::noise(tensors.len(), seed, files)),
        };
        let tokens = tokens(experiment.work.segments());
        experiment.payload = experiment.payload.map(|payload| payload.with_tokens(tokens));
        experiment
    }
}

/// A JSON Schema (draft 2020-12) of the language that [`load`] reads, for editors.
///
/// It knows keys, types, names, units and the limits of bare numbers. It refuses nothing that [`load`] accepts, a minus
/// before a zero excepted; what depends on several tables, on files or on the value of a quantity, only [`load`] refuses.
pub fn schema() -> Value {
    let Value::Object(root) = root_schema().into_value() else {
        unreachable!("a table's schema is an object")
    };
    let mut schema = json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "zipwire scenario",
    });
    for (key, value) in root {
        schema[key] = value;
    }
    schema
}

/// The same as a page of Markdown: every key with its values, its default and its meaning.
pub fn schema_markdown() -> String {
    crate::language::markdown::reference(&schema())
}

fn root_schema() -> Schema {
    // What `[compute]` may say, and whether it must be there, depends on the workload.
    let rules = Kind::ALL.into_iter().flat_map(|kind| {
        let is_kind = || {
            Condition::Fits(KEYS.workload, Schema::with_key(workload::KEYS.kind.name, &names([kind.name()])))
        };
        let fits = match kind.compute_schema() {
            Some(schema) => is_kind().fits(KEYS.compute, schema),
            None => is_kind().refuses(&[KEYS.compute], NO_COMPUTE),
        };
        [Some(fits), kind.needed_compute().map(|_| is_kind().needs(&[KEYS.compute]))].into_iter().flatten()
    });
    table(&all_keys()).with(rules.collect())
}

fn iterations(table: &Reader<'_>, ranks: u32) -> Result<u32> {
    let iterations = table.get(KEYS.iterations)?.unwrap_or(1);
    let draws = u64::from(iterations) * u64::from(ranks);
    if draws > DRAW_LIMIT {
        let problem = Problem::out_of_range("iterations x ranks", draws, format!("at most {DRAW_LIMIT}"));
        return Err(table.need_field(KEYS.iterations)?.error(problem));
    }
    Ok(iterations)
}

/// `[compute]`, if there is one, for kinds that know what to do with it.
fn compute<'a>(table: &Reader<'a>, kind: Kind) -> Result<Option<Field<'a>>> {
    if kind.compute_schema().is_none() {
        table.refuse(KEYS.compute, NO_COMPUTE)?;
    }
    match (table.field(KEYS.compute), kind.needed_compute()) {
        (None, Some(example)) => Err(table.error(Problem::missing_key(KEYS.compute.name, "", example))),
        (field, _) => Ok(field),
    }
}

/// The tokens that chunks of each segment are made of, where these are known.
fn tokens(segments: &[Segment]) -> Vec<Option<Arc<TokenMap>>> {
    segments.iter().map(|segment| segment.work.tokens().cloned()).collect()
}

/// Coded variants need a codec that knows the values, and something that says how well it does; what is put together needs
/// its speed.
fn check_coded(
    variants: &[ParsedVariant],
    codec: Option<&(CodecChoice, Place)>,
    workload: &Workload,
) -> Result<()> {
    let lacks_speed = |placed: &&ParsedVariant| placed.variant.codec.is_none() && codec.is_none();
    if let Some(place) = variants.iter().filter(lacks_speed).find_map(|placed| placed.dedup.as_ref()) {
        return Err(Problem::NoCopySpeed.at(place.clone()));
    }
    // Arms are checked as the variants that they are.
    let fixed = variants.iter().filter(|placed| !placed.variant.is_adaptive());
    let coded = fixed.filter(|placed| placed.variant.is_coded());
    coded.into_iter().try_for_each(|placed| {
        let own = placed.variant.codec.as_ref().zip(placed.codec.as_ref());
        let Some((choice, header)) = own.or(codec.map(|(choice, header)| (choice, header))) else {
            let protocol = placed.variant.protocol.name();
            return Err(Problem::NoCodec { protocol }.at(placed.protocol.clone()));
        };
        check_codec(choice, header, placed, workload)
    })
}

fn check_codec(
    choice: &CodecChoice,
    header: &Place,
    user: &ParsedVariant,
    workload: &Workload,
) -> Result<()> {
    if let Some(dtype) = workload.dtypes.iter().find(|dtype| !choice.spec.codec().supports(**dtype)) {
        let (codec, dtype) = (choice.spec.to_string(), dtype.name());
        let of_table = choice.spec.table().and_then(zipwire_codec::Table::dtype);
        let problem = of_table.map_or(Problem::CodecType { codec: codec.clone(), dtype }, |of_table| {
            Problem::Table(TableProblem::Type { codec, of_table: of_table.name(), dtype })
        });
        return Err(problem.at(header.clone()).with(user.protocol.clone(), "used here"));
    }
    if let ExperimentWork::Serving(serving) = &workload.work {
        workload::check_caches(serving, choice).map_err(|problem| problem.at(header.clone()))?;
    }
    let protocol = user.variant.protocol;
    if protocol.sends_sign_mantissa() {
        let codec = choice.spec.codec();
        let has_sign_mantissa =
            |dtype: &DType| zipwire_codec::sign_mantissa_len(codec.as_ref(), *dtype, 1).is_some();
        if let (false, Some(dtype)) = (workload.dtypes.iter().any(has_sign_mantissa), workload.dtypes.first())
        {
            let (protocol, codec) = (protocol.name(), choice.spec.to_string());
            return Err(Problem::NoRests { protocol, codec, dtype: dtype.name() }
                .at(user.protocol.clone())
                .with(header.clone(), "the codec"));
        }
    }
    if choice.spec.takes_base() {
        check_base(choice, header, user, workload)?;
    }
    if workload.rows.is_none() && choice.ratio.is_none() {
        // A payload is possible only if all values are BF16: name those that are not.
        let other = workload.dtypes.iter().find(|dtype| **dtype != DType::Bf16);
        let (codec, dtype) = (choice.spec.to_string(), other.unwrap_or(&DType::Bf16).name());
        return Err(Problem::NoPayload { codec, dtype }.at(header.clone()));
    }
    Ok(())
}

/// Whether a codec of differences has something to take them from, in every call that it codes.
fn check_base(choice: &CodecChoice, header: &Place, user: &ParsedVariant, workload: &Workload) -> Result<()> {
    let codec = choice.spec.to_string();
    let segments = || workload.work.segments().iter();
    let works = || segments().map(|segment| &segment.work);
    if segments().any(|segment| segment.work.is_reduction() && user.variant.protocol_of(segment).is_coded()) {
        let has_others = works().any(|work| work.is_collective() && !work.is_reduction());
        let problem = PayloadProblem::SumBase { codec, has_others };
        return Err(problem.at(user.protocol.clone()).with(header.clone(), "the codec"));
    }
    // Without a payload, a stated ratio is that of differences as of anything else.
    let is_known = match &workload.rows {
        Some(rows) => rows.has_base(),
        None => choice.ratio.is_some(),
    };
    if is_known {
        return Ok(());
    }
    let is_recorded = matches!(workload.rows, Some(Rowset::Recorded(_)));
    Err(PayloadProblem::NoBase { codec, is_recorded }.at(header.clone()))
}

impl Experiment {
    /// The codec of a variant and its cost: its own, or else that of the scenario.
    pub fn codec_of<'a>(&'a self, variant: &'a Variant) -> Option<&'a CodecChoice> {
        variant.codec.as_ref().or(self.codec.as_ref())
    }

    /// Keeps only the variants of these names, in the scenario's order. No names keep all.
    ///
    /// # Errors
    /// When a name is not that of a variant; the experiment is then unchanged.
    pub fn select(&mut self, names: &[String]) -> Result<()> {
        if let Some(unknown) =
            names.iter().find(|&name| self.variants.iter().all(|variant| variant.name != *name))
        {
            let flag = "--variant ";
            let document = Document::argument(format!("{flag}{}", names.join(",")));
            let before: usize =
                names.iter().take_while(|&name| name != unknown).map(|name| name.len() + 1).sum();
            let start = flag.len() + before;
            let valid = self.variants.iter().map(|variant| variant.name.clone()).collect();
            let problem = Problem::UnknownName { what: "variant", name: unknown.clone(), valid };
            return Err(problem.at(Place::new(&document, start..start + unknown.len())));
        }
        if !names.is_empty() {
            self.variants.retain(|variant| names.contains(&variant.name));
        }
        if self.payload.is_none() && !self.variants.iter().any(Variant::is_coded) {
            let files = Files::new(std::path::Path::new(""));
            let tensors = match &self.work {
                ExperimentWork::Iterations(iterations) => iterations.job.segments.len(),
                ExperimentWork::Serving(serving) => serving.geometry.planes(),
            };
            let payload = payload::noise(tensors, self.seed, &files);
            self.payload = Some(payload.with_tokens(tokens(self.work.segments())));
        }
        Ok(())
    }

    /// The experiment with something of its cluster or its codecs changed, and with what loading derives of these: the hardware that a model
    /// of a library rests on, and the ways of all calls.
    #[must_use]
    pub fn with_changed(&self, change: impl FnOnce(&mut Self)) -> Self {
        let mut changed = self.clone();
        change(&mut changed);
        if let Some(model) = &mut changed.host.library.model {
            model.hardware =
                Hardware { nvlink_domain: model.hardware.nvlink_domain, ..changed.topology.hardware() };
        }
        changed.choose_ways();
        changed
    }

    /// Links and ratio in `iteration`, with the drifts of the scenario.
    pub fn conditions(&self, iteration: u32) -> Conditions {
        let ratio = self.codec.as_ref().and_then(|choice| choice.ratio);
        drift::conditions(self.drifts(), Conditions { topology: self.topology.clone(), ratio }, iteration)
    }

    /// The iterations as ranges within which conditions are the same.
    pub fn phases(&self) -> Vec<Range<u32>> {
        drift::phases(self.drifts(), self.iterations)
    }

    /// The largest ratio that is stated for a variant in any iteration: drift is that of the scenario's codec.
    pub fn largest_ratio(&self, variant: &Variant) -> Option<f64> {
        let stated = self.codec_of(variant).and_then(|choice| choice.ratio);
        let drifts = self.drifts().iter().filter(|_| variant.codec.is_none());
        stated.into_iter().chain(drifts.filter_map(|drift| drift.ratio)).reduce(f64::max)
    }

    /// Part of the cluster that the first group of a segment's ranks has, as have the others; `None` if nodes do not share it evenly.
    pub fn part(&self, segment: &Segment) -> Option<Part> {
        self.topology.part(&segment.groups(self.topology.ranks()).group(0))
    }

    /// Bytes that each communication segment moves in one iteration; none of serving.
    pub fn traffic(&self) -> Vec<Traffic> {
        let job = self.as_iterations().map(|iterations| &iterations.job);
        job.map_or_else(Vec::new, |job| Traffic::of(job, self.topology.gpus_per_node))
    }

    /// Name of the kind of workload.
    pub fn workload_name(&self) -> &'static str {
        match &self.work {
            ExperimentWork::Iterations(iterations) => iterations.job.name,
            ExperimentWork::Serving(_) => Kind::Serving.name(),
        }
    }

    /// The iterations; `None` if requests are served.
    pub fn as_iterations(&self) -> Option<&Iterations> {
        match &self.work {
            ExperimentWork::Iterations(iterations) => Some(iterations),
            ExperimentWork::Serving(_) => None,
        }
    }

    /// The requests and their pools; `None` if there are iterations.
    pub fn as_serving(&self) -> Option<&Serving> {
        match &self.work {
            ExperimentWork::Iterations(_) => None,
            ExperimentWork::Serving(serving) => Some(serving),
        }
    }

    /// The iterations, where no serving can come.
    ///
    /// # Panics
    /// If requests are served.
    pub fn expect_iterations(&self) -> &Iterations {
        self.as_iterations().expect("serving has no iterations")
    }

    /// The job of an iteration, likewise.
    ///
    /// # Panics
    /// If requests are served.
    pub fn job(&self) -> &Job {
        &self.expect_iterations().job
    }

    /// Faults of iterations; serving has troubles of its own.
    pub fn faults(&self) -> &[Fault] {
        self.as_iterations().map_or(&[], |iterations| &iterations.faults)
    }

    /// Changes of links or ratio in the course of iterations; none in serving.
    pub fn drifts(&self) -> &[Drift] {
        self.as_iterations().map_or(&[], |iterations| &iterations.drifts)
    }
}
