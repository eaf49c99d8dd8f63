//! Workload `profile`: a recorded job becomes segments, and what does not fit is refused.

use std::fs;
use std::path::Path;

use zipwire_profiles::{merge, read_kineto};
use zipwire_scenarios::{Experiment, ScenarioError, Source, load};
use zipwire_schedule::{Rank, Work};

/// The profile of rank 0 of two, of which DistributedDataParallel made three steps.
fn recorded(folder: &Path) {
    let samples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../traces/samples/profiles");
    let trace = fs::File::open(samples.join("hta-ddp-rank0.json.gz")).unwrap();
    let profile = merge(vec![read_kineto("hta-ddp-rank0.json.gz", trace).unwrap()]).unwrap();
    fs::write(folder.join("profile.json"), serde_json::to_vec(&profile).unwrap()).unwrap();
}

fn experiment(folder: &Path, gpus: u32, workload: &str) -> Result<Experiment, ScenarioError> {
    let text = format!(
        "name = \"recorded\"\niterations = 3\n[cluster]\nnodes = 1\ngpus_per_node = {gpus}\ngpu_bandwidth = \"100 GB/s\"\n\
         latency_intra = \"5 us\"\n[workload]\nkind = \"profile\"\n{workload}\n"
    );
    load(&Source::from_text("recorded.toml", text, folder), &[], None)
}

#[test]
fn a_recorded_job_has_its_calls_and_its_times() {
    let folder = tempfile::tempdir().unwrap();
    recorded(folder.path());
    let experiment = experiment(folder.path(), 2, "file = \"profile.json\"").unwrap();
    let segments = experiment.work.segments();
    let names: Vec<&str> =
        segments.iter().filter(|own| own.work.communicates()).map(|own| &*own.name).collect();
    let sums = (1..=5).map(|number| format!("all_reduce default_pg {number}"));
    let others = ["broadcast default_pg 1", "broadcast default_pg (Long) 1"].map(str::to_owned);
    let expected: Vec<String> = others.into_iter().chain(sums).collect();
    assert_eq!(names, expected);
    // By hand, from the trace: from the end of the calls of a step to that of the next one 220.598 and 225.023 ms, without what compute waits for.
    let durations = &experiment.as_iterations().unwrap().durations;
    let of = |iteration| -> f64 {
        let computes =
            segments.iter().enumerate().filter(|(_, own)| matches!(own.work, Work::Compute { .. }));
        computes.map(|(index, _)| durations.get(iteration, index, Rank(0))).sum()
    };
    for (iteration, whole_s) in [(1, 0.220_598), (2, 0.225_023)] {
        let waited_s = whole_s - of(iteration);
        assert!((-1e-6..1e-3).contains(&waited_s), "{iteration}: {waited_s}");
        assert_eq!(durations.get(iteration, 0, Rank(1)), durations.get(iteration, 0, Rank(0)), "its twin");
    }
}

#[test]
fn profiles_that_do_not_fit_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    recorded(folder.path());
    fs::write(folder.path().join("trace.json"), "{\"traceEvents\": []}").unwrap();
    fs::write(folder.path().join("cut.json"), "{\"zipwire_profile\":2,\"format\":").unwrap();
    for (gpus, workload, says) in [
        (2, "file = \"absent.json\"", "cannot read"),
        (2, "file = \"trace.json\"", "it is no profile"),
        (2, "file = \"cut.json\"", "EOF while parsing a value"),
        (4, "file = \"profile.json\"", "it is of 2 ranks, and the cluster has 4"),
        (2, "file = \"profile.json\"\nsteps = [0, 3]", "the profile has no step 3: it has 3, 0 to 2"),
        (2, "file = \"profile.json\"\nsteps = []", "steps"),
        (2, "file = \"profile.json\"\nqueued = \"sometimes\"", "unknown time of queued calls `sometimes`"),
        (2, "file = \"profile.json\"\npayload = { gaussian = 0.02 }", "of several types"),
    ] {
        let refused = experiment(folder.path(), gpus, workload)
            .err()
            .map(|error| error.to_string())
            .unwrap_or_default();
        assert!(refused.contains(says), "{workload}: {refused}");
    }
}
