//! Faults, each through one scenario on the simulator and on threads: every rank ends with a typed error within its
//! deadline, and the rank and the op in which it began are named, alike on both.

use crate::common;

use std::path::Path;

use common::faults::{deadlines, failure_of, load_text};
use zipwire::executors::{SIM, THREADS};
use zipwire::schedule::{FailureKind, Rank, RunFailure};
use zipwire::{Cancel, Prepared};

/// Failure with which every variant of a scenario must end.
struct Expected {
    scenario: &'static str,
    kind: FailureKind,
    culprit: u32,
    /// The op of the culprit, by variant.
    ops: [(&'static str, &'static str); 2],
    /// The iteration that fails.
    iteration: u32,
}

/// Messages that are dropped, delayed and damaged, and ranks that are slow and dead.
const FAULTS: [Expected; 5] = [
    Expected {
        scenario: "drop",
        kind: FailureKind::Timeout,
        culprit: 2,
        ops: [("native", "raw exchange of combine"), ("static-first", "static exchange of combine")],
        iteration: 1,
    },
    Expected {
        scenario: "delay",
        kind: FailureKind::Timeout,
        culprit: 6,
        ops: [("native", "raw exchange of dispatch"), ("static-first", "static exchange of dispatch")],
        iteration: 0,
    },
    Expected {
        scenario: "flipped-byte",
        kind: FailureKind::Corrupt,
        culprit: 3,
        ops: [("native", "raw exchange of combine"), ("static-first", "static exchange of combine")],
        iteration: 1,
    },
    Expected {
        scenario: "slow-rank",
        kind: FailureKind::Timeout,
        culprit: 7,
        ops: [("native", "expert"), ("static-first", "encode of dispatch")],
        iteration: 1,
    },
    Expected {
        scenario: "dead-rank",
        kind: FailureKind::Timeout,
        culprit: 4,
        // Nobody else knows how far it was in what it does for itself.
        ops: [("native", "expert"), ("static-first", "decode of dispatch")],
        iteration: 0,
    },
];

fn check(expected: &Expected) {
    let name = expected.scenario;
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("scenarios/faults");
    let text = std::fs::read_to_string(folder.join(format!("{name}.toml"))).unwrap();
    let experiment = load_text(&text);
    let cancel = Cancel::new();
    let mut prepared = Prepared::new(&experiment, &cancel).unwrap();
    let last_s = deadlines(&experiment);
    for executor in [SIM, THREADS] {
        for (index, (variant, op)) in expected.ops.iter().enumerate() {
            assert_eq!(experiment.variants[index].name, *variant);
            let failure = failure_of(prepared.run(index, executor, &cancel).unwrap_err());
            let context = format!("{name}, {variant} on {executor}: {failure}");
            assert_eq!(failure.iteration, expected.iteration, "{context}");
            assert_eq!(failure.first.kind, expected.kind, "{context}");
            assert_eq!(failure.root_cause.rank, Rank(expected.culprit), "{context}");
            assert_eq!(failure.root_cause.what, *op, "{context}");
            ends_everywhere(&failure, &context);
            // Threads also take their time to wake up: a tenth of the iteration that they are slowed down to.
            let late = if executor == SIM { 1.000_001 } else { 1.5 };
            let last_s = last_s[index][expected.iteration as usize];
            assert!(failure.after_s <= late * last_s, "{context}: after {} s of {last_s} s", failure.after_s);
        }
    }
}

/// Every rank that has not finished has an error of its own; whoever is not the first one says that it was cancelled.
fn ends_everywhere(failure: &RunFailure, context: &str) {
    let ranks: Vec<u32> = failure.ranks.iter().map(|end| end.rank.0).collect();
    assert!(ranks.is_sorted_by(|a, b| a < b), "{context}");
    assert!(failure.ranks.contains(&failure.first), "{context}");
    assert!(failure.ranks.iter().any(|end| end.rank == failure.root_cause.rank), "{context}");
    let culprit = Some((failure.root_cause.rank, failure.root_cause.op));
    assert!(failure.ranks.iter().all(|end| end.culprit == culprit), "{context}");
    for end in failure.ranks.iter().filter(|end| end.rank != failure.first.rank) {
        assert!(
            end.kind == FailureKind::Cancelled || end.kind == failure.first.kind,
            "{context}: rank {} ended otherwise: {end}",
            end.rank
        );
    }
}

/// At once: ranks on threads sleep most of the time.
#[test]
fn every_fault_ends_all_ranks_and_is_named() {
    std::thread::scope(|scope| {
        for fault in &FAULTS {
            scope.spawn(|| check(fault));
        }
    });
}

/// Faults for which a rank makes up in time change nothing but the time.
#[test]
fn small_faults_are_survived() {
    let text = std::fs::read_to_string(
        Path::new(env!("CARGO_MANIFEST_DIR")).join("scenarios/faults/slow-rank.toml"),
    )
    .unwrap();
    let text = text.replace("factor = 50.0", "factor = 1.5");
    let (slow, cancel) = (load_text(&text), Cancel::new());
    let healthy = load_text(&text[..text.find("[[fault]]").unwrap()]);
    let mut slow = Prepared::new(&slow, &cancel).unwrap();
    let mut healthy = Prepared::new(&healthy, &cancel).unwrap();
    let length_s = |prepared: &mut Prepared<'_>| {
        let outcome = prepared.run(1, SIM, &cancel).unwrap();
        outcome.timeline.iterations.iter().map(|iteration| iteration.length_s).collect::<Vec<_>>()
    };
    let (slow_s, healthy_s) = (length_s(&mut slow), length_s(&mut healthy));
    assert_eq!(slow_s[0], healthy_s[0], "the fault begins with iteration 1");
    assert!(slow_s[1] > healthy_s[1], "{slow_s:?} {healthy_s:?}");
    assert_eq!(slow.run(1, THREADS, &cancel).unwrap().verified, Some(true));
}
