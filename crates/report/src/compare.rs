//! Several outcomes side by side: before and after a change.

use crate::html::{Cell, paragraph, table};
use crate::outcome::{Outcome, OutcomeResult};
use crate::quantity::{factor, seconds, signed_percent};

/// Changes below this, in percent, are none.
const NOTHING_PCT: f64 = 0.5;

/// Time that is compared with others of the same executor, variant and quantity.
type TimeKey<'a> = (&'a str, &'a str, &'static str);

/// Time of a variant on an executor, and its speedup.
struct Timed<'a> {
    key: TimeKey<'a>,
    seconds: f64,
    speedup: Option<f64>,
}

/// Quantities that are times of variants.
const ITERATION: &str = "iteration";
const FIRST_TOKEN: &str = "TTFT";

fn times(outcome: &Outcome) -> Vec<Timed<'_>> {
    match &outcome.result {
        OutcomeResult::Run(run) => {
            // Other executors tell times of this machine.
            let is_timed = |executor: &str| executor == "sim" || outcome.is_timed(executor);
            let all = run.executors.results().filter(|(executor, ..)| is_timed(executor));
            let timed = all.filter_map(|(executor, variant, result)| {
                let (quantity, seconds) = match &result.requests {
                    Some(requests) => (FIRST_TOKEN, requests.ttft_s?.mean?),
                    None => (ITERATION, result.iteration_s.mean?),
                };
                Some(Timed { key: (executor, variant, quantity), seconds, speedup: result.speedup })
            });
            timed.collect()
        }
        OutcomeResult::Validation(validation) => {
            let all = validation.variants.0.iter().flat_map(|(variant, times)| {
                [("sim", times.predicted_s), (validation.executor.as_str(), times.measured_s)].map(
                    |(executor, time_s)| {
                        Some(Timed { key: (executor, variant, ITERATION), seconds: time_s?, speedup: None })
                    },
                )
            });
            all.flatten().collect()
        }
        OutcomeResult::Sweep(_) | OutcomeResult::Advice(_) => Vec::new(),
    }
}

/// Verdicts of all outcomes, and the times of variants that several of them have.
pub(crate) fn comparison(outcomes: &[Outcome]) -> String {
    let verdicts = outcomes.iter().map(|outcome| {
        let verdict = outcome.verdict_lines().into_iter().next().unwrap_or_default();
        vec![Cell::name(&outcome.name), Cell::text(outcome.kind()), Cell::text(&verdict)]
    });
    let mut html = table(&["result", "of", "verdict"], &verdicts.collect::<Vec<_>>());
    let all: Vec<Vec<Timed<'_>>> = outcomes.iter().map(times).collect();
    let mut keys: Vec<TimeKey<'_>> = Vec::new();
    for timed in all.iter().flatten() {
        if !keys.contains(&timed.key) {
            keys.push(timed.key);
        }
    }
    let own = |times: &[Timed<'_>], key: TimeKey<'_>| {
        times.iter().find(|timed| timed.key == key).map(|timed| (timed.seconds, timed.speedup))
    };
    keys.retain(|key| all.iter().filter(|times| own(times, *key).is_some()).count() > 1);
    if keys.is_empty() {
        return html;
    }
    let mut rows = Vec::new();
    for key in keys {
        let before_s = own(&all[0], key).map(|(time_s, _)| time_s);
        for (index, (outcome, times)) in outcomes.iter().zip(&all).enumerate() {
            let Some((time_s, speedup)) = own(times, key) else { continue };
            let change = before_s
                .filter(|before_s| index > 0 && *before_s > 0.0)
                .map(|before_s| 100.0 * (time_s / before_s - 1.0));
            let is_good = change.filter(|change| change.abs() > NOTHING_PCT).map(|change| change < 0.0);
            rows.push(vec![
                Cell::name(key.1),
                Cell::text(key.0),
                Cell::text(key.2),
                Cell::name(&outcome.name),
                Cell::number(Some(time_s), seconds),
                Cell::number(change, signed_percent).coloured(is_good),
                Cell::number(speedup, factor),
            ]);
        }
    }
    let lead = "Means of iterations, or of times to the first token (TTFT), of variants that several results have, on executors whose times are a \
                measure of the cluster.";
    let header = ["variant", "executor", "time of", "result", "time", "against the first result", "speedup"];
    html += &paragraph(lead);
    html += &table(&header, &rows);
    html
}
