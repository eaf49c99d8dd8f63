//! Validation notices when the cluster is not what the scenario says: links, delays and codec costs that differ in the
//! real run only show as errors of the variants that they concern.

use std::path::Path;

use zipwire::executors::{SIM, THREADS};
use zipwire::scenarios::{Experiment, Source, load, load_real};
use zipwire::timeline::Metrics;
use zipwire::{Cancel, ExecuteError, Prepared, Validation, ValidationSetup, validate};

/// Errors beyond this are noticed.
const NOTICED: f64 = 0.1;

fn source(name: &str) -> Source {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("scenarios/validate");
    Source::read(&folder.join(format!("{name}.toml"))).unwrap()
}

fn validated(experiment: &Experiment, real: &Experiment) -> Result<Validation, ExecuteError> {
    let cancel = Cancel::new();
    let mut prepared = Prepared::new(experiment, &cancel)?;
    let setup = ValidationSetup { experiment, real, executor: THREADS, dilation: None };
    validate(&mut prepared, &setup, &cancel, |_| ())
}

/// Mean iterations of all variants as simulated.
fn simulated_s(experiment: &Experiment) -> Vec<f64> {
    let cancel = Cancel::new();
    let mut prepared = Prepared::new(experiment, &cancel).unwrap();
    let mean_s = |index| {
        let timeline = prepared.run(index, SIM, &cancel).unwrap().timeline;
        Metrics::of(&timeline, prepared.planned(index).plan.bytes_raw()).iteration_s.mean
    };
    (0..experiment.variants.len()).map(mean_s).collect()
}

/// Without the change the variants are predicted well; with it they are off by more than what is noticed, by more than twice the error
/// without it, and by as much as a simulation of the changed cluster says.
#[track_caller]
fn notices(scenario: &str, real_set: &str, variants: &[&str]) -> Validation {
    let source = source(scenario);
    let variants: Vec<String> = variants.iter().map(|&name| name.to_owned()).collect();
    let mut experiment = load(&source, &[], None).unwrap();
    let mut real = load_real(&source, &[], &[real_set.to_owned()], None).unwrap();
    experiment.select(&variants).unwrap();
    real.select(&variants).unwrap();
    // At once: paced runs sleep most of the time.
    let (changed, control) = std::thread::scope(|scope| {
        let control = scope.spawn(|| validated(&experiment, &experiment).unwrap());
        (validated(&experiment, &real).unwrap(), control.join().unwrap())
    });
    assert_eq!(changed.variants.len(), variants.len());
    let should = simulated_s(&real);
    for ((control, changed), should_s) in control.variants.iter().zip(&changed.variants).zip(should) {
        let (before, after) = (control.error(), changed.error());
        let name = &changed.name;
        let should = should_s / changed.predicted_s - 1.0;
        println!(
            "{scenario} `{real_set}`: `{name}` {before:+.4} without, {after:+.4} with, simulated {should:+.4}"
        );
        assert!(
            ((1.0 + after) / (1.0 + should) - 1.0).abs() < NOTICED,
            "`{name}` is off by {after} with `{real_set}`, and should be by {should}"
        );
        assert!(after.abs() > NOTICED, "`{name}` is off by {after} with `{real_set}`, which nobody notices");
        assert!(
            before.abs() < after.abs() / 2.0,
            "`{name}` is off by {after} with, by {before} without change"
        );
    }
    changed
}

/// Name and rank of the op that was predicted worst, by variant.
fn blamed(validation: &Validation) -> Vec<(&'static str, u32)> {
    let worst = validation.variants.iter().map(|variant| variant.largest_deviation.as_ref().unwrap());
    worst.map(|deviation| (deviation.name, deviation.rank.0)).collect()
}

fn notices_half_of_a_nic(variants: &[&str]) {
    let change = "cluster.links.\"nic 1 down\"=5 GB/s";
    let changed = notices("fails-halved-nic-2x2", change, variants);
    for deviation in changed.variants.iter().map(|variant| variant.largest_deviation.as_ref().unwrap()) {
        let ends = [deviation.rank.0, deviation.peer.unwrap().0];
        assert!(ends.iter().any(|&rank| rank < 2) && ends.iter().any(|&rank| rank >= 2), "{deviation:?}");
    }
}

#[test]
fn a_nic_with_half_of_its_bandwidth() {
    notices_half_of_a_nic(&["native"]);
}

/// More variants, and more beliefs that are wrong: paced runs of 20 s, which `.ci/run` plays one at a time.
mod paced {
    use super::{blamed, notices, notices_half_of_a_nic};

    #[test]
    #[ignore = "measures the machine: .ci/run runs it, and another of its kind is beside it"]
    fn a_nic_with_half_of_its_bandwidth_below_frames() {
        notices_half_of_a_nic(&["native", "static-first"]);
    }

    /// A belief that is wrong everywhere: all NICs are faster than it says by a quarter.
    #[test]
    #[ignore = "measures the machine: .ci/run runs it, and another of its kind is beside it"]
    fn nics_that_are_faster_than_believed() {
        notices("fails-halved-nic-2x2", "cluster.nic_bandwidth=12.5 GB/s", &["native", "static-first"]);
    }

    /// Only variants whose hosts look at sizes are delayed by slower looks.
    #[test]
    #[ignore = "measures the machine: .ci/run runs it, and another of its kind is beside it"]
    fn looks_at_sizes_that_take_longer() {
        notices("host-costs-1x4", "cluster.host_sync=300 us", &["size-first", "static-first"]);
    }

    #[test]
    #[ignore = "measures the machine: .ci/run runs it, and another of its kind is beside it"]
    fn a_rank_that_is_late() {
        let changed = notices("fails-late-rank-1x4", "workload.start.3=3 ms", &["native", "size-first"]);
        assert_eq!(blamed(&changed), [("start", 3); 2]);
    }

    #[test]
    #[ignore = "measures the machine: .ci/run runs it, and another of its kind is beside it"]
    fn a_codec_that_costs_twice_as_much() {
        let change = "codec.speed={ encode = \"15 GB/s\", decode = \"15 GB/s\" }";
        let changed = notices("fails-slow-codec-1x4", change, &["size-first", "static-first"]);
        assert!(blamed(&changed).iter().all(|(name, _)| ["encode", "decode"].contains(name)));
    }
}

#[test]
fn a_real_run_that_would_do_other_work_is_refused() {
    let source = source("fails-slow-codec-1x4");
    let experiment = load(&source, &[], None).unwrap();
    for (change, variant, what) in [
        ("seed=9", "native", "seed"),
        ("iterations=2", "native", "iteration count"),
        ("workload.payload.gaussian=1.0", "native", "payload"),
        ("workload.bytes_per_rank=4 MiB", "native", "plan"),
        ("variant.static-first.window=1", "static-first", "plan"),
        ("variant.size-first.name=first", "native", "list of variants"),
        ("codec.ratio=1.2", "native", "ratio"),
    ] {
        let real = load_real(&source, &[], &[change.to_owned()], None).unwrap();
        let error = validated(&experiment, &real).unwrap_err();
        let ExecuteError::OtherWork { variant: named, what: found } = &error else {
            panic!("{change}: {error}")
        };
        assert_eq!((named.as_str(), *found), (variant, what), "{change}");
    }
}
