//! Gateways on threads: what every rank gets is what the plain All-to-All brings, and a wrong row is noticed.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use zipwire_engine::threads::{RunReport, run};
use zipwire_payload::Payload;
use zipwire_schedule::plan::{Local, OpKind, Plan};
use zipwire_schedule::{CallKind, Choice, FailureKind, Job, Protocol, RunFailure, TokenMap, Work, plan};

use crate::common::{job, on_threads, payload_of, tamper};

/// Four ranks with 60 tokens of 900 bytes each, in five copies.
fn map() -> Arc<TokenMap> {
    let destinations = (0..4 * 60 * 5).map(|copy: u32| copy.wrapping_mul(2_654_435_761) >> 30).collect();
    Arc::new(TokenMap::new(4, 5, 900, destinations))
}

fn layer() -> (Job, Payload) {
    let (mut job, map) = (job(), map());
    let Work::Call { kind: CallKind::AllToAll { bytes, tokens }, .. } = &mut job.segments[0].work else {
        panic!("it dispatches")
    };
    *bytes = map.bytes().into();
    *tokens = Some(Arc::clone(&map));
    (job, payload_of(3).with_tokens(vec![Some(map)]))
}

fn planned(job: &Job, protocol: Protocol, parts: u32) -> Plan {
    let codec = Some("tiered".parse().unwrap());
    let choice =
        Choice { dedup: Some(2), parts, speculative_capacity: Some(0.7), ..Choice::of(protocol, codec) };
    plan(job, &choice)
}

fn run_with(plan: &Plan, payload: &Payload) -> Result<RunReport, Box<RunFailure>> {
    run(&on_threads(plan, payload), &AtomicBool::new(false))
}

#[test]
fn every_protocol_delivers_what_the_plain_call_does() {
    let (job, payload) = layer();
    let plain = plan(&job, &Choice::of(Protocol::Native, None)).bytes_raw();
    for protocol in Protocol::ALL {
        for parts in [1, 3] {
            let plan = planned(&job, protocol, parts);
            plan.validate().unwrap();
            let report =
                run_with(&plan, &payload).unwrap_or_else(|error| panic!("{}: {error}", protocol.name()));
            assert_eq!(report.bytes_verified, 2 * plain, "{}: every byte, twice", protocol.name());
        }
    }
}

#[test]
fn a_wrong_row_is_noticed() {
    let (job, payload) = layer();
    let mut plan = planned(&job, Protocol::Native, 1);
    let op = plan.programs[1]
        .ops
        .iter()
        .position(|op| matches!(op.kind, OpKind::Local(Local::GatherRows(_))))
        .unwrap();
    tamper(&mut plan, 1, op, |kind| {
        let OpKind::Local(Local::GatherRows(copy)) = kind else { panic!("it copies") };
        let gather = &mut copy.gathers[0];
        let mut rows = gather.rows.to_vec();
        let other = rows.iter().position(|&row| row != rows[0]).unwrap();
        rows[0] = rows[other];
        gather.rows = rows.into();
    });
    let error = run_with(&plan, &payload).unwrap_err();
    assert_eq!(error.first.kind, FailureKind::Corrupt, "{error}");
    assert!(error.to_string().contains("is not what was sent"), "{error}");
}
