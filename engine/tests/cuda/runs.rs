//! Runs in which all is well, however the device delays what it is given.

use std::ops::Range;

use zipwire_schedule::plan::Plan;
use zipwire_schedule::{Lane, Protocol};
use zipwire_timeline::Span;

use crate::Test;
use crate::common::RANKS;
use crate::jobs::{ITERATIONS, controls, layer, run_well, with_delays};

pub(crate) const TESTS: &[Test] = &[
    ("runs::every_protocol_delivers", every_protocol_delivers),
    ("runs::delays_change_nothing", || delays_change_nothing(1..2)),
    ("runs::whole::delays_change_nothing", || delays_change_nothing(2..6)),
    ("runs::several_devices_deliver", several_devices_deliver),
    ("runs::spans_are_in_order", spans_are_in_order),
    ("runs::nothing_is_left_on_the_device", nothing_is_left_on_the_device),
];

fn delivers(plan: &Plan) {
    let report = run_well(plan);
    assert_eq!(report.bytes_verified, u64::from(ITERATIONS) * plan.bytes_raw(), "every byte, every time");
    assert_eq!(report.timeline.iterations.len(), ITERATIONS as usize);
}

fn every_protocol_delivers() {
    Protocol::ALL.iter().for_each(|protocol| delivers(&layer(*protocol)));
}

fn delays_change_nothing(seeds: Range<u64>) {
    for seed in seeds {
        with_delays(seed, || Protocol::ALL.iter().for_each(|protocol| delivers(&layer(*protocol))));
    }
}

fn several_devices_deliver() {
    for count in [2, 3] {
        controls().set_devices(count);
        with_delays(u64::from(count), || {
            Protocol::ALL.iter().for_each(|protocol| delivers(&layer(*protocol)));
        });
        controls().set_devices(1);
    }
}

/// Times are those of a device that does one thing of a lane at a time, and transfers lie within their exchanges.
fn spans_are_in_order() {
    let plan = layer(Protocol::StaticFirst);
    let timeline = with_delays(1, || run_well(&plan)).timeline;
    let within = |inner: &Span, outer: &Span| outer.begin_s <= inner.begin_s && inner.end_s <= outer.end_s;
    for span in &timeline.spans {
        assert!(0.0 <= span.begin_s && span.begin_s <= span.end_s, "{span:?}");
        assert!(span.end_s <= timeline.iterations[span.iteration as usize].length_s, "{span:?}");
        let same = |other: &&Span| (other.iteration, other.rank) == (span.iteration, span.rank);
        if matches!(span.lane, Lane::Tx | Lane::Rx) {
            let exchange = timeline.spans.iter().filter(same);
            let exchange = exchange.clone().find(|other| other.lane == Lane::Exchange && other.op == span.op);
            assert!(within(span, exchange.unwrap()), "{span:?} is outside of {exchange:?}");
        } else {
            let deps = &plan.programs[span.rank.index()].ops[span.op.index()].deps;
            let before = timeline.spans.iter().filter(same);
            let before = before.filter(|other| other.peer.is_none() && deps.contains(&other.op));
            for other in before {
                // An exchange of sizes ends with the news at the host, which the device does not wait for.
                let is_news = other.stage == Some(zipwire_schedule::Stage::Sizes);
                assert!(is_news || other.end_s <= span.begin_s, "{span:?} begins before {other:?} ends");
            }
        }
    }
    let exchanges = timeline.spans.iter().filter(|span| span.lane == Lane::Exchange).count();
    assert_eq!(
        exchanges,
        (ITERATIONS * RANKS * 6) as usize,
        "static sections, sizes and dynamic ones, twice"
    );
}

fn nothing_is_left_on_the_device() {
    let before = controls().live_allocations();
    Protocol::ALL.iter().for_each(|protocol| delivers(&layer(*protocol)));
    assert_eq!(controls().live_allocations(), before);
}
