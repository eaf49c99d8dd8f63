//! Scenarios with faults, and how they end.

use zipwire::executors::SIM;
use zipwire::scenarios::{Experiment, ExperimentWork, Source, load};
use zipwire::schedule::{Lane, RunFailure};
use zipwire::sim::SimError;
use zipwire::{Cancel, ExecuteError, Prepared};

/// A scenario that names no files.
pub(crate) fn load_text(text: &str) -> Experiment {
    load(&Source::from_text("test.toml", text, "."), &[], None)
        .unwrap_or_else(|error| panic!("{error}\n{text}"))
}

/// How a run failed.
///
/// # Panics
/// If it was not a rank that failed.
pub(crate) fn failure_of(error: ExecuteError) -> RunFailure {
    match error {
        ExecuteError::Sim(_, SimError::Failed(failure)) | ExecuteError::Run(_, _, failure) => *failure,
        other => panic!("{other}"),
    }
}

/// When the last op of each variant and iteration must have ended: derived from a simulation without faults, as the
/// definition says, and not by the code under test.
pub(crate) fn deadlines(experiment: &Experiment) -> Vec<Vec<f64>> {
    let mut healthy = experiment.clone();
    if let ExperimentWork::Iterations(iterations) = &mut healthy.work {
        iterations.faults.clear();
    }
    let cancel = Cancel::new();
    let mut prepared = Prepared::new(&healthy, &cancel).expect("the scenario without faults is valid");
    let slack = experiment.expect_iterations().slack;
    (0..experiment.variants.len())
        .map(|index| {
            let outcome = prepared.run(index, SIM, &cancel).expect("nothing goes wrong without faults");
            let mut last_s = vec![0.0_f64; experiment.iterations as usize];
            for span in &outcome.timeline.spans {
                if !matches!(span.lane, Lane::Tx | Lane::Rx) {
                    let last_s = &mut last_s[span.iteration as usize];
                    *last_s = last_s.max(slack.factor * span.end_s + slack.floor_s);
                }
            }
            last_s
        })
        .collect()
}
