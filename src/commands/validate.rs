//! `zipwire validate`: predictions beside measurements.

use std::io::{Write, stdout};

use serde::Serialize;
use serde_json::{Map, Value};
use zipwire::scenarios::Experiment;
use zipwire::traces::Timeline;
use zipwire::{Cancel, ExecuteError, Executor, Output, OutputError, Prepared, Validation, validate};

use crate::cli::ValidateArgs;
use crate::commands::{load_scenario, write_trace};
use crate::error::CliError;
use crate::progress::Progress;
use crate::table;

/// Variants that are predicted to differ by less than this need not be ranked.
const RANKING_TOLERANCE: f64 = 0.05;

pub(crate) fn run(args: &ValidateArgs, cancel: &Cancel) -> Result<(), CliError> {
    let mut experiment = load_scenario(&args.scenario)?;
    experiment.select(&args.scenario.variant)?;
    if args.on == Executor::Sim {
        return Err(CliError::Usage(
            "`--on sim`: a simulation is not held against itself; use `threads`".to_owned(),
        ));
    }
    if let Some(dilation) = args.dilation.filter(|dilation| !(dilation.is_finite() && *dilation >= 1.0)) {
        return Err(CliError::Usage(format!("`--dilation {dilation}`: expected a number from 1")));
    }
    let mut prepared = Prepared::new(&experiment, cancel)?;
    prepared.check(args.on)?;
    let mut output = args.out.as_deref().map(Output::create).transpose()?;
    let coded = experiment.variants.iter().filter(|variant| variant.protocol.is_coded()).count();
    let progress = Progress::new(coded + 2 * experiment.variants.len());
    let mut steps = 0;
    let validation = validate(&mut prepared, &experiment, args.dilation, cancel, |step| {
        if steps > 0 {
            progress.end();
        }
        steps += 1;
        progress.begin(step);
    })?;
    drop(progress);
    if let Some(output) = &mut output {
        write_timelines(output, &experiment, &prepared, &validation)?;
    }
    if cancel.is_cancelled() {
        return Err(ExecuteError::Cancelled.into());
    }
    output.map_or(Ok(()), Output::commit)?;
    let mut out = stdout().lock();
    if args.json {
        serde_json::to_writer_pretty(&mut out, &report(args.on, &validation))
            .map_err(std::io::Error::from)?;
        writeln!(out)?;
    } else {
        write!(out, "{}", text(&experiment, &validation))?;
    }
    Ok(())
}

/// `validate --json`.
#[derive(Serialize)]
struct Report {
    executor: &'static str,
    dilation: f64,
    variants: Map<String, Value>,
    ranking_agrees: bool,
}

fn report(executor: Executor, validation: &Validation) -> Report {
    let variants = validation.variants.iter().map(|variant| {
        let result = serde_json::json!({
            "predicted_s": variant.predicted_s,
            "measured_s": variant.measured_s,
            "error": variant.error(),
            "codec_share": variant.codec_share,
            "core_wait_s": variant.core_wait_s,
        });
        (variant.name.clone(), result)
    });
    Report {
        executor: executor.name(),
        dilation: validation.dilation,
        variants: variants.collect(),
        ranking_agrees: validation.ranking_agrees(RANKING_TOLERANCE),
    }
}

fn text(experiment: &Experiment, validation: &Validation) -> String {
    let mut rows =
        table::new(&["variant", "predicted", "measured", "error", "codec share", "wait for a core"], &[0]);
    for variant in &validation.variants {
        rows.add_row(vec![
            variant.name.clone(),
            table::seconds(variant.predicted_s),
            table::seconds(variant.measured_s),
            format!("{:+.2} %", 100.0 * variant.error()),
            format!("{:.1} %", 100.0 * variant.codec_share),
            table::seconds(variant.core_wait_s),
        ]);
    }
    let ranking = if validation.ranking_agrees(RANKING_TOLERANCE) { "agrees" } else { "DISAGREES" };
    format!(
        "{}: {} real ranks at 1/{} of the speed, every byte compared\n\n{}\n\nranking {ranking}\n",
        experiment.name,
        experiment.topology.ranks(),
        validation.dilation,
        table::text(&rows),
    )
}

fn write_timelines(
    output: &mut Output,
    experiment: &Experiment,
    prepared: &Prepared<'_>,
    validation: &Validation,
) -> Result<(), OutputError> {
    for (index, variant) in validation.variants.iter().enumerate() {
        let planned = prepared.planned(index);
        let both: [(Executor, &Timeline); 2] =
            [(Executor::Sim, &variant.simulated), (Executor::Threads, &variant.measured)];
        for (executor, timeline) in both {
            write_trace(output, experiment, executor, &variant.name, planned, timeline)?;
        }
    }
    Ok(())
}
