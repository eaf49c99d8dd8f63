//! A wait between streams that is missing is noticed.

use std::time::Duration;

use zipwire_schedule::{FailureKind, Protocol};

use crate::Test;
use crate::jobs::{controls, layer, run_well, run_with, with_delays};

pub(crate) const TESTS: &[Test] = &[
    ("waits::a_missing_wait_is_noticed_in_native", || a_missing_wait_is_noticed(Protocol::Native)),
    ("waits::a_missing_wait_is_noticed_in_static_first", || a_missing_wait_is_noticed(Protocol::StaticFirst)),
];

/// Runs with a missing wait each.
const RUNS: u64 = 40;

/// Many waits are for what has long been done, even under delays. But of waits all over the program some are not, and the
/// bytes or the decoders say so.
fn a_missing_wait_is_noticed(protocol: Protocol) {
    let plan = layer(protocol);
    let before = controls().waits();
    run_well(&plan);
    let waits = controls().waits() - before;
    let failures = (0..RUNS).filter_map(|run| {
        let result = with_delays(run + 1, || {
            controls().drop_wait(1 + run * waits / RUNS);
            run_with(&plan, Duration::from_secs(5))
        });
        controls().drop_wait(0);
        result.err()
    });
    let failures: Vec<_> = failures.collect();
    eprintln!("{} of {RUNS} missing waits are noticed", failures.len());
    assert!(failures.len() >= 2, "{} of {RUNS}", failures.len());
    for failure in failures {
        // A size that is read before it is written is that of no section.
        let kind = failure.first.kind;
        assert!(matches!(kind, FailureKind::Corrupt | FailureKind::Device), "{failure}");
    }
}
