//! `zipwire advise`: what compression would do to a job, and what to do first.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::Read;
use std::path::{Path, PathBuf};

use zipwire::Cancel;
use zipwire::advice::{
    Advice, AdviceError, AdviceSetup, ClassAdvice, Gain, Judgement, advise_profile, advise_scenario,
};
use zipwire::bench::inspect::{inspect, totals};
use zipwire::codec::{DType, Spec};
use zipwire::profiles::{PROFILE_MARK, Profile};
use zipwire::scenarios::presets;
use zipwire::traces::{TensorFile, open_input, read_text};

use super::files::{ModelFile, models_of};
use super::marked::Marked;
use super::{print, print_json};
use crate::cli::AdviseArgs;
use crate::error::CliError;
use crate::progress::Progress;
use crate::table;

const ADVICE: Marked = Marked { mark: b"{\"zipwire_advice\":", at: 0, command: "advise" };

const PROFILE: Marked = Marked { mark: PROFILE_MARK.as_bytes(), at: 0, command: "import" };

/// Longest hardware file, in bytes.
const LONGEST_CLUSTER: u64 = 1 << 20;

/// Longest profile, in bytes, as of those that scenarios name.
const LONGEST_PROFILE: u64 = 1 << 30;

/// Steps of the search, for people who wait.
const STAGES: usize = 3;

pub(crate) fn run(args: &AdviseArgs, cancel: &Cancel) -> Result<(), CliError> {
    if let Some(path) = &args.out {
        ADVICE.refuse_others(path)?;
    }
    let cluster = args.cluster.as_deref().map(cluster).transpose()?;
    let shares = shares(&args.tensors, cancel)?;
    let setup = AdviceSetup {
        cluster,
        ran_there: args.ran_there,
        gpus_per_node: args.gpus_per_node,
        shares,
        memory: args.memory,
        ..AdviceSetup::default()
    };
    let progress = Progress::new(STAGES);
    let mut stage = |stage: &str| progress.next(stage);
    let advice = if PROFILE.is(&args.file) {
        let profile = read_profile(&args.file)?;
        advise_profile(&profile, &args.file, &setup, cancel, &mut stage)
    } else {
        super::refuse_shipped(&args.file)?;
        refuse_json(&args.file)?;
        advise_scenario(&args.file, &setup, cancel, &mut stage)
    };
    drop(progress);
    let advice = advice.map_err(failed)?;
    if let Some(path) = &args.out {
        ADVICE.write(path, cancel, |out| {
            serde_json::to_writer(&mut *out, &advice)?;
            writeln!(out)
        })?;
        say!("the advice is in {}: `zipwire report {0}` makes a page of it", path.display());
    }
    if args.json {
        return print_json(&advice);
    }
    print(text(&advice))
}

fn failed(error: AdviceError) -> CliError {
    match error {
        AdviceError::Scenario(error) => CliError::from(*error),
        AdviceError::Execute(error) => CliError::from(error),
        error => CliError::Usage(error.to_string()),
    }
}

fn read_profile(path: &Path) -> Result<Profile, CliError> {
    let unfit = |reason: String| {
        let help = "import its traces again: `zipwire import kineto TRACES -o profile.json`";
        CliError::Usage(format!("cannot read the profile `{}`: {reason}\nhelp: {help}", path.display()))
    };
    let text = read_text(path, LONGEST_PROFILE).map_err(|error| unfit(error.to_string()))?;
    Profile::parse(&text).map_err(|error| unfit(error.to_string()))
}

/// Refuses traces and other JSON, for which errors of TOML would say little.
fn refuse_json(path: &Path) -> Result<(), CliError> {
    let mut first = Vec::new();
    let read = open_input(path).and_then(|file| file.take(16).read_to_end(&mut first));
    let is_gzip = first.starts_with(&[0x1f, 0x8b]);
    let is_json = first.iter().find(|byte| !byte.is_ascii_whitespace()) == Some(&b'{');
    if read.is_ok() && (is_gzip || is_json) {
        return Err(CliError::Usage(format!(
            "`{}` is neither a profile nor a scenario: it begins as JSON or gzip does\n\
             help: `zipwire import kineto|flight|inspector|chakra|shim FILES -o profile.json` makes a profile of traces (it begins with `{PROFILE_MARK}`)",
            path.display()
        )));
    }
    Ok(())
}

/// Name and keys of a cluster: those of a preset, or of a file.
fn cluster(name: &str) -> Result<(String, String), CliError> {
    if let Some(preset) = presets().iter().find(|preset| preset.name == name) {
        return Ok((name.to_owned(), format!("preset = \"{}\"\n", preset.name)));
    }
    let text = read_text(Path::new(name), LONGEST_CLUSTER).map_err(|error| {
        let names: Vec<&str> = presets().iter().map(|preset| preset.name).collect();
        CliError::Usage(format!(
            "`{name}` is no preset, and cannot be read as a file: {error}\nhelp: presets are {}",
            names.join(", ")
        ))
    })?;
    Ok((name.to_owned(), text))
}

/// Bytes after compression over those before, by type, of all tensors.
fn shares(paths: &[PathBuf], cancel: &Cancel) -> Result<BTreeMap<DType, f64>, CliError> {
    let spec: Spec = "tiered".parse().expect("it is a codec");
    let mut reports = Vec::new();
    for ModelFile { path, .. } in &if paths.is_empty() { Vec::new() } else { models_of(paths)? } {
        let file = TensorFile::open(path)?;
        for tensor in file.tensors() {
            if cancel.is_cancelled() {
                return Err(zipwire::ExecuteError::Cancelled.into());
            }
            let values = file.read(tensor)?;
            let report = inspect(tensor, &values, std::slice::from_ref(&spec), None).map_err(|error| {
                CliError::Usage(format!("tensor `{}` of `{}`: {error}", tensor.name, path.display()))
            })?;
            reports.push(report);
        }
    }
    let shares = totals(&reports)
        .into_iter()
        .filter_map(|total| Some((DType::from_name(&total.dtype)?, total.size_pct.first()?.1 / 100.0)));
    Ok(shares.collect())
}

/// Advice for people: the verdict, how far to believe it, and the tables that it rests on.
fn text(advice: &Advice) -> String {
    let mut text = format!("{}\n\n", advice.verdict.text);
    let cluster = &advice.cluster;
    let _ = writeln!(
        text,
        "{} ranks, {} of them in the {}; cluster: {}, {} x {} GPUs",
        advice.source.world_size,
        advice.source.ranks_here,
        advice.source.kind,
        cluster.name,
        cluster.nodes,
        cluster.gpus_per_node
    );
    let step = &advice.step;
    let measured =
        step.measured_s.map_or(String::new(), |seconds| format!(" (measured {})", table::seconds(seconds)));
    let _ = writeln!(
        text,
        "step: {}{measured}; communication {}, for which compute waits {}",
        table::seconds(step.predicted_s),
        table::seconds(step.communication_s),
        table::seconds(step.exposed_s)
    );
    if let Some(judgement) = &advice.calibration {
        text += &judged(judgement);
    }
    let _ = write!(text, "\n{}\n", classes(&advice.classes));
    for (title, lines) in
        [("first", &advice.first), ("would change it", &advice.would_change), ("note", &advice.notes)]
    {
        for line in lines {
            let _ = writeln!(text, "{title}: {line}");
        }
    }
    text
}

/// How well measured steps come out.
fn judged(judgement: &Judgement) -> String {
    let percent = |error: f64| format!("{error:+.1} %");
    let mut steps =
        table::new(&["step", "measured", "simulated", "error", "calls measured", "simulated", "error"], &[]);
    for step in &judgement.judged {
        let error = |predicted: f64, measured: f64| percent(100.0 * (predicted / measured - 1.0));
        steps.add_row([
            step.step.to_string(),
            table::or_dash(step.measured_s, table::seconds),
            table::seconds(step.predicted_s),
            table::or_dash(step.measured_s, |measured| error(step.predicted_s, measured)),
            table::seconds(step.collectives_measured_s),
            table::seconds(step.collectives_predicted_s),
            error(step.collectives_predicted_s, step.collectives_measured_s),
        ]);
    }
    let fitted: Vec<String> = judgement.steps_fitted.iter().map(usize::to_string).collect();
    let from =
        if fitted.is_empty() { "the cluster".to_owned() } else { format!("step {}", fitted.join(", ")) };
    let judged: Vec<String> = judgement.judged.iter().map(|step| step.step.to_string()).collect();
    let judged = judged.join(", ");
    let believed = if judgement.is_believed { "believed" } else { "not believed" };
    format!(
        "\nconstants of {from}, judged on step {judged}: {believed}: {}\n{}\nin all: steps {}, calls {}\n",
        judgement.why,
        table::text(&steps),
        table::or_dash(judgement.step_error_pct, percent),
        percent(judgement.collectives_error_pct)
    )
}

fn classes(classes: &[ClassAdvice]) -> String {
    let header = ["calls", "ranks", "a step", "bytes", "time", "compute waits", "best", "gain", "from", "to"];
    let mut rows = table::new(&header, &[0, 6]);
    for class in classes {
        let gain = |of: fn(&Gain) -> f64| match class.options.is_empty() {
            true => "-".to_owned(),
            false => format!("{:.1} %", of(&class.gain)),
        };
        rows.add_row([
            class.name.clone(),
            class.ranks.to_string(),
            class.calls.to_string(),
            table::bytes(class.bytes as f64),
            table::or_dash(class.total_s, table::seconds),
            table::or_dash(class.exposed_s, table::seconds),
            class.best.clone(),
            gain(|gain| gain.gain_pct),
            gain(|gain| gain.low_pct),
            gain(|gain| gain.high_pct),
        ]);
    }
    table::text(&rows)
}
