//! Runs in which all is well.

use zipwire_schedule::Protocol;

use crate::Test;
use crate::jobs::{ITERATIONS, layer, run_well};

pub(crate) const TESTS: &[Test] =
    &[("runs::every_protocol_with_kernels_delivers", every_protocol_with_kernels_delivers)];

fn every_protocol_with_kernels_delivers() {
    for protocol in [Protocol::Native, Protocol::StaticFirst] {
        let plan = layer(protocol);
        let report = run_well(&plan);
        assert_eq!(
            report.bytes_verified,
            u64::from(ITERATIONS) * plan.bytes_raw(),
            "every byte of every iteration"
        );
        assert_eq!(report.timeline.iterations.len(), ITERATIONS as usize);
        assert!(report.timeline.spans.iter().all(|span| 0.0 <= span.begin_s && span.begin_s <= span.end_s));
    }
}
