//! Times and ages of updates of weights in simulations, against closed forms.

use zipwire_runner::executors::SIM;
use zipwire_runner::{Cancel, ExecuteError, Prepared, RunResult, compare};
use zipwire_scenarios::{Experiment, Source, load};
use zipwire_timeline::Updates;

/// Seconds of a step, steps of an iteration, seconds from one rank to another, and bytes per second there.
const STEP_S: f64 = 0.02;
const EVERY: f64 = 4.0;
const LATENCY_S: f64 = 5e-6;
const LINK: f64 = 20e9;
const BYTES: f64 = 400e6;

fn experiment(trainers: u32, ranks: u32, bytes: f64, update: &str) -> Experiment {
    let text = format!(
        "name = \"t\"\niterations = 2\n[cluster]\nnodes = 1\ngpus_per_node = {ranks}\ngpu_bandwidth = \"20 GB/s\"\n\
         latency_intra = \"5 us\"\n[workload]\nkind = \"weight-sync\"\ntrainers = {trainers}\nbytes = \"{bytes} B\"\n\
         step = \"20 ms\"\nevery = 4\nupdate = \"{update}\"\n[[variant]]\nname = \"native\"\nalgorithm = \"direct\"\n"
    );
    load(&Source::from_text("t.toml", text, ""), &[], None)
        .unwrap_or_else(|error| panic!("{}", error.render(false)))
}

/// Seconds of an iteration, and its updates.
fn simulated(experiment: &Experiment) -> (f64, Updates) {
    let cancel = Cancel::new();
    let mut prepared = Prepared::new(experiment, &cancel).unwrap();
    let keep = |_: &RunResult<'_>| Ok::<_, ExecuteError>(());
    let compared = compare(&mut prepared, &[SIM], "native", false, &cancel, |_, _| {}, keep).unwrap();
    let result = compared.executors.get("sim", "native").unwrap();
    (result.metrics.iteration_s.mean, result.updates.unwrap())
}

#[track_caller]
fn assert_near(found: f64, expected: f64) {
    assert!((found - expected).abs() < 1e-9 * expected, "{found} instead of {expected}");
}

/// Trainers send one after the other to all others at once, so each part takes as long as if one rank had all of it: the link of the trainer
/// is shared by its receivers.
#[test]
fn updates_behind_the_steps() {
    for (trainers, ranks) in [(1, 2), (1, 4), (2, 5)] {
        let receivers = f64::from(ranks - trainers);
        let update_s = f64::from(trainers) * LATENCY_S + BYTES * receivers / LINK;
        let (iteration_s, updates) = simulated(&experiment(trainers, ranks, BYTES, "exposed"));
        assert_near(iteration_s, EVERY * STEP_S + update_s);
        assert_near(updates.update_s.mean, update_s);
        assert_near(updates.age_s.mean, update_s + iteration_s / 2.0);
        assert_near(updates.age_s.max, update_s + iteration_s);
        // Steps end while the weights are those of before: the k-th one of four k steps behind their begin.
        let behind = |k: f64| iteration_s + update_s - (update_s + k * STEP_S);
        let expected: f64 = [1.0, 2.0, 3.0, 4.0].map(behind).iter().sum::<f64>() / iteration_s;
        assert_near(updates.age_steps.mean, expected);
        assert_near(updates.age_steps.max, EVERY);
    }
}

#[test]
fn updates_beside_the_steps() {
    // Half as long as the steps, and twice as long.
    for factor in [0.5, 2.0] {
        let bytes = (factor * EVERY * STEP_S * LINK / 2.0).round() * 2.0;
        let (iteration_s, updates) = simulated(&experiment(1, 2, bytes, "overlapped"));
        let sent_s = LATENCY_S + bytes / LINK;
        assert_near(iteration_s, sent_s.max(EVERY * STEP_S));
        // What is made while the weights before are still on their way waits for these.
        let update_s = sent_s + (iteration_s - EVERY * STEP_S);
        assert_near(updates.update_s.mean, update_s);
        assert_near(updates.age_s.max, update_s + iteration_s);
    }
}
