//! A wait between streams that is missing is noticed.

use std::time::Duration;

use zipwire_schedule::{FailureKind, Protocol};

use crate::Test;
use crate::jobs::{controls, layer, run_well, run_with, with_delays};

pub(crate) const TESTS: &[Test] = &[
    ("waits::a_missing_wait_is_noticed_in_native", || a_missing_wait_is_noticed(Protocol::Native)),
    ("waits::whole::a_missing_wait_is_noticed_in_static_first", || {
        a_missing_wait_is_noticed(Protocol::StaticFirst);
    }),
];

/// Runs with a missing wait each, at the most; and how many must be noticed before.
const RUNS: u64 = 300;
const NOTICED: usize = 3;

/// Many waits are for what has long been done, even under delays. But of waits all over the program some are not, and the
/// bytes or the decoders say so.
fn a_missing_wait_is_noticed(protocol: Protocol) {
    let plan = layer(protocol);
    let before = controls().waits();
    run_well(&plan);
    let waits = controls().waits() - before;
    let mut runs = 0;
    let failures = (0..RUNS).filter_map(|run| {
        runs += 1;
        let result = with_delays(run + 1, || {
            // A stride that comes to all of them, in another order.
            controls().drop_wait(1 + run * 37 % waits);
            run_with(&plan, Duration::from_secs(5))
        });
        controls().drop_wait(0);
        result.err()
    });
    let failures: Vec<_> = failures.take(NOTICED).collect();
    eprintln!("{} of {runs} missing waits are noticed", failures.len());
    assert_eq!(failures.len(), NOTICED);
    for failure in failures {
        // A size that is read before it is written is that of no section.
        let kind = failure.first.kind;
        assert!(matches!(kind, FailureKind::Corrupt | FailureKind::Device), "{failure}");
    }
}
