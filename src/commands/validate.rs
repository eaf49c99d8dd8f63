//! `zipwire validate`: predictions beside measurements.
mod serving;

use std::ops::RangeInclusive;
use std::path::PathBuf;

use serde::Serialize;
use serde_json::{Map, Value};
use tempfile::TempDir;
use zipwire::executors::{self, SIM, ValidationSupport};
use zipwire::launch::RanksToStart;
use zipwire::scenarios::{Experiment, ExperimentWork, Source};
use zipwire::schedule::Stage;
use zipwire::timeline::{CriticalPath, Deviation, Timeline};
use zipwire::{
    Cancel, ExecuteError, Executor, HostValidationSetup, Output, OutputError, Pacing, Prepared, Validation,
    ValidationSetup, VariantValidation, probe_for, validate, validate_on_hosts, write_record, write_trace,
};

use super::ranks::with_ranks;
use super::{load_real_scenario, load_scenario, print, print_json, say_warnings, say_without_sweep};
use crate::cli::ValidateArgs;
use crate::error::CliError;
use crate::progress::Progress;
use crate::table::{self, Table};

/// Dilations that can be asked for: at the largest one, a microsecond takes a quarter of an hour.
const DILATIONS: RangeInclusive<f64> = 1.0..=1e9;

/// Variants that are predicted to differ by less than this need not be ranked.
const RANKING_TOLERANCE: f64 = 0.05;

/// Shares of an iteration below this are not named.
const NOTHING: f64 = 0.0005;

#[derive(Clone, Copy, Debug)]
struct Scope {
    /// The parts in which the two sides differ.
    compared: &'static str,
    /// Parts of a critical path that the real run does not take as declared.
    real: &'static [&'static str],
    /// Effects that neither side models.
    not_tested: &'static str,
}

/// On links that are paced.
const PACED: Scope = Scope {
    compared: "two implementations of ideal links, one with real threads, bytes and frame sizes",
    real: &["links", "latency"],
    not_tested: "NICs and congestion as hardware has them, network stacks, and how fast a codec is on a GPU",
};

pub(crate) fn run(args: &ValidateArgs, cancel: &Cancel) -> Result<(), CliError> {
    super::refuse_store(args.out.as_deref())?;
    super::report::refuse(args.report.as_deref())?;
    let validation = args.on.capabilities().validation;
    if validation == ValidationSupport::Probed {
        return run_on_hosts(args, cancel);
    }
    if args.cluster.is_some() {
        return Err(CliError::Usage(format!(
            "`--cluster` has no effect on `{}`: the scenario says what the cluster is",
            args.on
        )));
    }
    let mut experiment = load_scenario(&args.scenario)?;
    experiment.select(&args.scenario.variant)?;
    let mut real = load_real_scenario(&args.scenario, &args.real_set)?;
    real.select(&args.scenario.variant)?;
    say_without_sweep(&experiment);
    if let ValidationSupport::None(why) = validation {
        let paced = executors::ALL.iter().find(|executor| executor.capabilities().is_paced());
        let paced = paced.expect("one has paced links");
        return Err(CliError::Usage(format!("`--on {}`: {why}; use `{paced}`", args.on)));
    }
    if let Some(dilation) = args.dilation.filter(|dilation| !DILATIONS.contains(dilation)) {
        return Err(CliError::Usage(format!(
            "`--dilation {dilation}`: expected a number from {} to {:e}",
            DILATIONS.start(),
            DILATIONS.end()
        )));
    }
    if let ExperimentWork::Serving(_) = experiment.work {
        return serving::run(args, &experiment, &real, cancel);
    }
    let mut prepared = Prepared::new(&experiment, cancel)?;
    prepared.check_plans(args.on)?;
    // Ranks are threads here, and links that are paced take minutes: they end in order.
    let hold = cancel.hold();
    let mut kept = Kept::begin(args)?;
    let coded = experiment.variants.iter().filter(|variant| variant.protocol.is_coded()).count();
    let progress = Progress::new(coded + 2 * experiment.variants.len());
    let setup =
        ValidationSetup { experiment: &experiment, real: &real, executor: args.on, dilation: args.dilation };
    let validation = validate(&mut prepared, &setup, cancel, |step| progress.next(&step))?;
    drop(progress);
    let result = report(args, &experiment, &validation, PACED);
    if let Some(kept) = &mut kept {
        write_timelines(&mut kept.output, &experiment, args.on, &prepared, &validation)?;
        // With what differs in the real run.
        kept.write(&real, &result)?;
    }
    if cancel.is_cancelled() {
        return Err(ExecuteError::Cancelled.into());
    }
    let kept = kept.map(Kept::commit).transpose()?;
    drop(hold);
    if args.json {
        print_json(&result)
    } else {
        let ranks = experiment.topology.ranks();
        let head =
            format!("{ranks} real ranks at 1/{} of the speed, every byte compared", validation.dilation);
        print(text(args, &experiment, &head, &validation, PACED))
    }?;
    say_warnings(&experiment);
    kept.map_or(Ok(()), |kept| kept.report(args, &experiment, cancel))
}

/// Files of a validation, before they are in place.
struct Kept {
    output: Output,
    files: KeptFiles,
}

/// Folder of a validation: that which is asked for, or one that lasts until the report is made.
struct KeptFiles {
    folder: PathBuf,
    scratch: Option<TempDir>,
}

impl Kept {
    /// Nothing if neither a folder nor a report is asked for.
    fn begin(args: &ValidateArgs) -> Result<Option<Self>, CliError> {
        let (folder, scratch) = match (&args.out, &args.report) {
            (Some(folder), _) => (folder.clone(), None),
            (None, Some(_)) => {
                let scratch = tempfile::tempdir().map_err(|error| no_scratch(&error))?;
                (scratch.path().to_owned(), Some(scratch))
            }
            (None, None) => return Ok(None),
        };
        Ok(Some(Self { output: Output::create(&folder)?, files: KeptFiles { folder, scratch } }))
    }

    fn write(&mut self, experiment: &Experiment, result: &Report<'_>) -> Result<(), CliError> {
        write_record(&mut self.output, experiment)?;
        let written = self.output.write("validation.json", |mut out| {
            serde_json::to_writer_pretty(&mut out, result)?;
            out.write_all(b"\n")
        });
        Ok(written?)
    }

    /// Puts all files into place.
    fn commit(self) -> Result<KeptFiles, CliError> {
        self.output.commit()?;
        Ok(self.files)
    }
}

impl KeptFiles {
    /// Makes the report, if one is asked for: last, since it may fail, and the result took minutes.
    fn report(&self, args: &ValidateArgs, experiment: &Experiment, cancel: &Cancel) -> Result<(), CliError> {
        let Some(file) = &args.report else { return Ok(()) };
        let folder = self.folder.display().to_string();
        let name = if self.scratch.is_some() { &experiment.name } else { &folder };
        super::report::of_folder(&self.folder, name, file, cancel)
    }
}

fn no_scratch(error: &std::io::Error) -> CliError {
    CliError::Usage(format!(
        "cannot keep timelines until the report is made: {error}\nhelp: `--out DIR` keeps them, or `TMPDIR` names another folder for them"
    ))
}

#[derive(Serialize)]
struct Report<'a> {
    scenario: &'a str,
    executor: &'static str,
    /// Where constants of hosts come from; absent where the scenario has them.
    #[serde(skip_serializing_if = "Option::is_none")]
    constants: Option<String>,
    /// Settings in which the real run differs from the scenario; absent if there are none.
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    real_set: &'a [String],
    dilation: f64,
    variants: Map<String, Value>,
    ranking_agrees: bool,
    /// The compared parts, as in [`Scope`].
    compared: &'static str,
    /// Effects that were not tested, as in [`Scope`].
    not_tested: &'static str,
}

fn report<'a>(
    args: &'a ValidateArgs,
    experiment: &'a Experiment,
    validation: &Validation,
    scope: Scope,
) -> Report<'a> {
    let variants = validation.variants.iter().map(|variant| {
        let mut result = serde_json::json!({
            "predicted_s": variant.predicted_s,
            "measured_s": variant.measured_s,
            "error": variant.error(),
            "on_links": variant.on_links(),
            "declared": declared(variant, scope),
            "largest_deviation": variant.largest_deviation.as_ref().map(deviation),
        });
        if let Some(Pacing { codec_share, core_wait_s }) = variant.paced {
            result["codec_share"] = codec_share.into();
            result["core_wait_s"] = core_wait_s.into();
        }
        (variant.name.clone(), result)
    });
    Report {
        scenario: &experiment.name,
        executor: args.on.name(),
        constants: (args.on.capabilities().validation == ValidationSupport::Probed).then(|| constants(args)),
        real_set: &args.real_set,
        dilation: validation.dilation,
        variants: variants.collect(),
        ranking_agrees: validation.ranking_agrees(RANKING_TOLERANCE),
        compared: scope.compared,
        not_tested: scope.not_tested,
    }
}

/// Parts of a predicted iteration that the real run takes as declared, by the keys of `critical_path_s`. Calls of a library are
/// always among them, as they are transfers that take the declared time.
fn declared(variant: &VariantValidation, scope: Scope) -> Vec<&'static str> {
    let path = variant.critical_path.iter();
    let on_path = |name: &str| {
        path.clone().any(|path| {
            let seconds = &path.critical_path_s;
            seconds.get(name).is_some_and(|&s| s > NOTHING * seconds.values().sum::<f64>())
        })
    };
    let is_declared = |name: &&str| match *name {
        "library" => variant.calls_library,
        name if scope.real.contains(&name) => false,
        other => on_path(other),
    };
    CriticalPath::NAMES.into_iter().filter(is_declared).collect()
}

fn deviation(largest: &Deviation) -> Value {
    serde_json::json!({
        "segment": &*largest.segment,
        "rank": largest.rank.0,
        "lane": largest.lane.name(),
        "op": largest.op.0,
        "name": largest.name,
        "stage": largest.stage.map(Stage::name),
        "peer": largest.peer.map(|peer| peer.0),
        "predicted_s": largest.a_s,
        "measured_s": largest.b_s,
    })
}

fn text(
    args: &ValidateArgs,
    experiment: &Experiment,
    head: &str,
    validation: &Validation,
    scope: Scope,
) -> String {
    let is_paced = validation.variants.iter().any(|variant| variant.paced.is_some());
    let mut header = vec!["variant", "predicted", "measured", "error", "on links"];
    if is_paced {
        header.extend(["codec share", "wait for a core"]);
    }
    let mut rows = table::new(&header, &[0]);
    for variant in &validation.variants {
        let mut row = vec![
            variant.name.clone(),
            table::seconds(variant.predicted_s),
            table::seconds(variant.measured_s),
            format!("{:+.2} %", 100.0 * variant.error()),
            table::or_dash(variant.on_links(), |part| format!("{:.1} %", 100.0 * part)),
        ];
        if let Some(Pacing { codec_share, core_wait_s }) = variant.paced {
            row.extend([format!("{:.1} %", 100.0 * codec_share), table::seconds(core_wait_s)]);
        }
        rows.add_row(row);
    }
    let ranking = if validation.ranking_agrees(RANKING_TOLERANCE) { "agrees" } else { "DISAGREES" };
    let differs = if args.real_set.is_empty() {
        String::new()
    } else {
        format!("the real run differs from the scenario: `{}`\n", args.real_set.join("`, `"))
    };
    format!(
        "{}: {head}\n{differs}\n{}\n\npredicted worst, mean over iterations:\n\n{}\n\nranking {ranking}\n\n{}",
        experiment.name,
        table::text(&rows),
        table::text(&deviations(validation)),
        meaning(validation, scope),
    )
}

/// Meaning of the errors, a line each: what is compared, what is declared on both sides, and what was not tested.
fn meaning(validation: &Validation, scope: Scope) -> String {
    // Which variants call a library has a line of its own.
    let all: Vec<&str> = validation.variants.iter().flat_map(|variant| declared(variant, scope)).collect();
    let named: Vec<&str> =
        CriticalPath::NAMES.into_iter().filter(|&name| name != "library" && all.contains(&name)).collect();
    let declared_line = if named.is_empty() {
        String::new()
    } else {
        format!("declared, not measured: {}\n", named.join(", "))
    };
    let calling = validation.variants.iter().filter(|variant| variant.calls_library);
    let calling: Vec<&str> = calling.map(|variant| variant.name.as_str()).collect();
    let library_line = if calling.is_empty() {
        String::new()
    } else {
        format!(
            "calls of a library have the same demand on links on both sides: `{}`\n",
            calling.join("`, `")
        )
    };
    let Scope { compared, not_tested, .. } = scope;
    format!("compared: {compared}\n{declared_line}{library_line}not tested: {not_tested}\n")
}

/// One row per variant: the op or transfer whose duration was predicted worst.
fn deviations(validation: &Validation) -> Table {
    let header = ["variant", "segment", "rank", "lane", "op", "stage", "peer", "predicted", "measured"];
    let mut rows = table::new(&header, &[0, 1, 3, 5]);
    for variant in &validation.variants {
        let Some(largest) = &variant.largest_deviation else { continue };
        let dash = || "-".to_owned();
        rows.add_row(vec![
            variant.name.clone(),
            largest.segment.to_string(),
            largest.rank.to_string(),
            largest.lane.name().to_owned(),
            format!("{} {}", largest.name, largest.op),
            largest.stage.map_or_else(dash, |stage| stage.name().to_owned()),
            largest.peer.map_or_else(dash, |peer| peer.to_string()),
            table::seconds(largest.a_s),
            table::seconds(largest.b_s),
        ]);
    }
    rows
}

fn write_timelines(
    output: &mut Output,
    experiment: &Experiment,
    real: &dyn Executor,
    prepared: &Prepared<'_>,
    validation: &Validation,
) -> Result<(), OutputError> {
    for (index, variant) in validation.variants.iter().enumerate() {
        let planned = prepared.planned(index);
        let both: [(&dyn Executor, &Timeline); 2] = [(SIM, &variant.simulated), (real, &variant.measured)];
        for (executor, timeline) in both {
            write_trace(output, experiment, executor, &variant.name, planned, timeline)?;
        }
    }
    Ok(())
}

/// On hosts as they are.
const ON_HOSTS: Scope = Scope {
    compared: "a simulation with constants that probes measured on these hosts, and the same plans between them",
    real: &["links", "latency", "codec", "sums", "host", "library", "start", "other"],
    not_tested: "other hosts, and other load on these than there was in the meantime",
};

fn run_on_hosts(args: &ValidateArgs, cancel: &Cancel) -> Result<(), CliError> {
    for (flag, is_given, why) in [
        ("--dilation", args.dilation.is_some(), "hosts run as fast as they can"),
        ("--real-set", !args.real_set.is_empty(), "the real run finds hosts as they are"),
    ] {
        if is_given {
            return Err(CliError::Usage(format!("`{flag}` has no effect on `{}`: {why}", args.on)));
        }
    }
    let job = || {
        let experiment = selected(args)?;
        // Found wrong before processes begin.
        predicted_by_file(args, &experiment)?;
        Ok(RanksToStart { ranks: experiment.topology.ranks(), folder: args.out.clone() })
    };
    with_ranks(&[args.on], &args.mpi, job, cancel, || run_on_hosts_here(args, cancel))
}

fn selected(args: &ValidateArgs) -> Result<Experiment, CliError> {
    let mut experiment = load_scenario(&args.scenario)?;
    experiment.select(&args.scenario.variant)?;
    Ok(experiment)
}

/// The experiment with the constants of the file, if one is given.
fn predicted_by_file(args: &ValidateArgs, experiment: &Experiment) -> Result<Option<Experiment>, CliError> {
    let Some(path) = &args.cluster else { return Ok(None) };
    Ok(Some(experiment.on_hosts(&Source::read(path)?)?))
}

/// Where the constants come from, in words.
fn constants(args: &ValidateArgs) -> String {
    match &args.cluster {
        Some(path) => path.display().to_string(),
        None => "probes, just before".to_owned(),
    }
}

/// Warnings of the scenario are left out: what it declares of hardware is not what is looked at.
fn run_on_hosts_here(args: &ValidateArgs, cancel: &Cancel) -> Result<(), CliError> {
    let experiment = selected(args)?;
    say_without_sweep(&experiment);
    let hold = cancel.hold();
    let mut kept = Kept::begin(args)?;
    let predicted = match predicted_by_file(args, &experiment)? {
        Some(predicted) => predicted,
        None => measured(args, &experiment, cancel)?,
    };
    let progress = Progress::new(3 * experiment.variants.len());
    let setup = HostValidationSetup { experiment: &experiment, predicted: &predicted, executor: args.on };
    let validation = validate_on_hosts(&setup, cancel, |step| progress.next(&step))?;
    drop(progress);
    let result = report(args, &experiment, &validation, ON_HOSTS);
    if let Some(kept) = &mut kept {
        let prepared = Prepared::new(&predicted, cancel)?;
        write_timelines(&mut kept.output, &predicted, args.on, &prepared, &validation)?;
        kept.write(&experiment, &result)?;
    }
    if cancel.is_cancelled() {
        return Err(ExecuteError::Cancelled.into());
    }
    let kept = kept.map(Kept::commit).transpose()?;
    drop(hold);
    if args.json {
        print_json(&result)
    } else {
        let ranks = experiment.topology.ranks();
        let head = format!(
            "{ranks} real ranks, every byte compared in a run before the one that is measured\nconstants of these hosts: {}",
            constants(args)
        );
        print(text(args, &experiment, &head, &validation, ON_HOSTS))
    }?;
    kept.map_or(Ok(()), |kept| kept.report(args, &experiment, cancel))
}

/// The experiment with constants that probes measure.
fn measured(args: &ValidateArgs, experiment: &Experiment, cancel: &Cancel) -> Result<Experiment, CliError> {
    // Links, how they are shared, sums, and codecs.
    let progress = Progress::new(3 + experiment.variants.len());
    let constants = probe_for(experiment, args.on, cancel, |step| progress.next(&step))?;
    drop(progress);
    constants.notes.iter().for_each(|note| say!("note: {note}"));
    Ok(experiment.on_hosts(&Source::from_text("what probes measured", constants.file(), ""))?)
}
