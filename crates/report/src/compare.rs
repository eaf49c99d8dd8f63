//! Several outcomes side by side: before and after a change.

use crate::html::{Cell, table};
use crate::outcome::{Outcome, OutcomeResult};
use crate::quantity::{factor, seconds, signed_percent};

/// Changes below this, in percent, are none.
const NOTHING_PCT: f64 = 0.5;

/// Time of a variant on an executor, and its speedup.
struct Timed<'a> {
    executor: &'a str,
    variant: &'a str,
    seconds: f64,
    speedup: Option<f64>,
}

fn times(outcome: &Outcome) -> Vec<Timed<'_>> {
    match &outcome.result {
        OutcomeResult::Run(run) => {
            let timed = run.results().filter_map(|(executor, variant, result)| {
                let ttft_s = result.requests.as_ref().and_then(|requests| requests.ttft_s?.mean);
                let seconds = ttft_s.or(result.iteration_s.mean)?;
                Some(Timed { executor, variant, seconds, speedup: result.speedup })
            });
            timed.collect()
        }
        OutcomeResult::Validation(validation) => {
            let all = validation.variants.0.iter().flat_map(|(variant, times)| {
                [("sim", times.predicted_s), (validation.executor.as_str(), times.measured_s)].map(
                    |(executor, time_s)| Some(Timed { executor, variant, seconds: time_s?, speedup: None }),
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
    let mut keys: Vec<(&str, &str)> = Vec::new();
    for timed in all.iter().flatten() {
        if !keys.contains(&(timed.executor, timed.variant)) {
            keys.push((timed.executor, timed.variant));
        }
    }
    let own = |times: &'_ [Timed<'_>], key: (&str, &str)| {
        times
            .iter()
            .find(|timed| (timed.executor, timed.variant) == key)
            .map(|timed| (timed.seconds, timed.speedup))
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
            let change = before_s.filter(|_| index > 0).map(|before_s| 100.0 * (time_s / before_s - 1.0));
            let is_good = change.filter(|change| change.abs() > NOTHING_PCT).map(|change| change < 0.0);
            rows.push(vec![
                Cell::name(key.1),
                Cell::text(key.0),
                Cell::name(&outcome.name),
                Cell::number(Some(time_s), seconds),
                Cell::number(change, signed_percent).coloured(is_good),
                Cell::number(speedup, factor),
            ]);
        }
    }
    html += &table(&["variant", "executor", "result", "time", "against the first result", "speedup"], &rows);
    html
}
