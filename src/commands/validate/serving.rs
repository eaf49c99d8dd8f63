//! `zipwire validate` of workload `serving`: what users wait, request by request.

use serde_json::json;
use zipwire::scenarios::Experiment;
use zipwire::serving::{Percentiles, Summary};
use zipwire::{Cancel, Prepared, ServingValidation, ServingValidationSetup, validate_serving};

use super::{RANKING_TOLERANCE, print, print_json};
use crate::cli::ValidateArgs;
use crate::commands::say_warnings;
use crate::error::CliError;
use crate::progress::Progress;
use crate::table;

pub(super) fn run(
    args: &ValidateArgs,
    experiment: &Experiment,
    real: &Experiment,
    cancel: &Cancel,
) -> Result<(), CliError> {
    let unused = [("--out", args.out.is_some()), ("--report", args.report.is_some())];
    if let Some((flag, _)) = unused.into_iter().find(|(_, is_given)| *is_given) {
        return Err(CliError::Usage(format!(
            "`{flag}` has no effect: `zipwire run --on sim,threads {flag}` writes timelines and reports of serving"
        )));
    }
    let (simulated, on_cluster) = (Prepared::new(experiment, cancel)?, Prepared::new(real, cancel)?);
    simulated.check_plans(args.on)?;
    let progress = Progress::new(3 * experiment.variants.len());
    let setup = ServingValidationSetup {
        simulated: &simulated,
        real: &on_cluster,
        executor: args.on,
        dilation: args.dilation,
    };
    let validation = validate_serving(&setup, cancel, |step| progress.next(&step))?;
    drop(progress);
    if args.json {
        print_json(&report(args, &validation))
    } else {
        print(text(args, experiment, &validation))
    }?;
    say_warnings(experiment);
    Ok(())
}

fn report(args: &ValidateArgs, validation: &ServingValidation) -> serde_json::Value {
    let ttft = |summary: &Summary| summary.metrics.ttft_s;
    let variants: serde_json::Map<String, serde_json::Value> = validation
        .variants
        .iter()
        .map(|variant| {
            let means =
                [ttft(&variant.predicted), ttft(&variant.measured)].map(|ttft| ttft.map(|ttft| ttft.mean));
            let error = means[0].zip(means[1]).map(|(predicted, measured)| measured / predicted - 1.0);
            let result = json!({
                "predicted_s": means[0],
                "measured_s": means[1],
                "error": error,
                "ttft_error": variant.ttft_error,
                "e2e_error": variant.e2e_error,
                "predicted": variant.predicted,
                "measured": variant.measured,
                "other_ends": variant.other_ends,
                "late_groups": variant.late.0,
                "late_s": variant.late.1,
            });
            (variant.name.clone(), result)
        })
        .collect();
    json!({
        "executor": args.on.name(),
        "real_set": args.real_set,
        "dilation": validation.dilation,
        "variants": variants,
        "ranking_agrees": validation.ranking_agrees(RANKING_TOLERANCE),
    })
}

fn text(args: &ValidateArgs, experiment: &Experiment, validation: &ServingValidation) -> String {
    let header = [
        "variant",
        "TTFT predicted",
        "measured",
        "error",
        "p99 predicted",
        "measured",
        "of a request: mean error",
        "p99",
        "e2e: mean error",
        "p99",
        "late groups",
    ];
    let mut rows = table::new(&header, &[0]);
    for variant in &validation.variants {
        let [predicted, measured] =
            [&variant.predicted, &variant.measured].map(|summary| summary.metrics.ttft_s);
        let seconds = |of: Option<Percentiles>, value: fn(&Percentiles) -> f64| {
            table::or_dash(of.as_ref(), |of| table::seconds(value(of)))
        };
        let percent = |of: Option<Percentiles>, value: fn(&Percentiles) -> f64| {
            table::or_dash(of.as_ref(), |of| format!("{:.2} %", 100.0 * value(of)))
        };
        let error =
            predicted.zip(measured).map(|(a, b)| format!("{:+.2} %", 100.0 * (b.mean / a.mean - 1.0)));
        rows.add_row([
            variant.name.clone(),
            seconds(predicted, |of| of.mean),
            seconds(measured, |of| of.mean),
            error.unwrap_or_else(|| "-".to_owned()),
            seconds(predicted, |of| of.p99),
            seconds(measured, |of| of.p99),
            percent(variant.ttft_error, |of| of.mean),
            percent(variant.ttft_error, |of| of.p99),
            percent(variant.e2e_error, |of| of.mean),
            percent(variant.e2e_error, |of| of.p99),
            variant.late.0.to_string(),
        ]);
    }
    let ranking = if validation.ranking_agrees(RANKING_TOLERANCE) { "agrees" } else { "DISAGREES" };
    let differs = if args.real_set.is_empty() {
        String::new()
    } else {
        format!("the real run differs from the scenario: `{}`\n", args.real_set.join("`, `"))
    };
    let others: usize = validation.variants.iter().map(|variant| variant.other_ends).sum();
    let late: u64 = validation.variants.iter().map(|variant| variant.late.0).sum();
    let late = if late == 0 {
        String::new()
    } else {
        format!(
            "{late} groups took longer than declared: this machine did not keep up, and errors may be its own; `--dilation` takes a larger one\n"
        )
    };
    let others = if others == 0 {
        String::new()
    } else {
        format!("{others} requests ended differently than predicted\n")
    };
    format!(
        "{}: requests served by real ranks at 1/{:.1} of the speed, every byte compared\n{differs}\n{}\n\nranking {ranking}\n{others}{late}\n\
         compared: fluid flows with caches that move piece by piece over paced links, with real threads, bytes and codecs\n\
         declared, not measured: how long computing and coding take\n\
         not tested: NICs and congestion as hardware has them, engines and their schedulers\n",
        experiment.name,
        validation.dilation,
        table::text(&rows)
    )
}
