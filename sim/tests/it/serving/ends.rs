//! How runs end: at a time, with requests that fit nowhere, and with more than can be served.

use zipwire_serving::{DecodeTime, FailReason, FirstToken, Metrics, Outcome, PrefillTime, Slo};
use zipwire_sim::SimError;
use zipwire_sim::serving::run;

use super::{Case, arriving, close, request};

/// A request each second, and prefill of `service_s`; tokens of prefill never move.
fn line(count: u32, service_s: f64) -> Case {
    let list = (0..count).map(|index| arriving(f64::from(index), 10, 1)).collect();
    let mut case = Case::new(1, 1, list);
    case.compute.prefill = PrefillTime { step_s: service_s, ..PrefillTime::default() };
    case.config.first_token = FirstToken::Prefill;
    case
}

fn metrics(case: &Case) -> Metrics {
    let served = case.run();
    Metrics::of(&case.requests, &served.recorder, &Slo::default(), served.unanswered_at_last_arrival)
}

#[test]
fn who_is_served_at_the_end_is_counted() {
    let mut case = line(10, 2.0);
    case.until_s = Some(6.5);
    let served = case.run();
    let counted = metrics(&case);
    // Seven have come, those of 2, 4 and 6 s are done, one is computed and three wait.
    assert_eq!((counted.arrived, counted.finished, counted.failed, counted.in_flight), (7, 3, 0, 4));
    assert_eq!(served.unanswered_at_last_arrival, 4, "when the run ended: the last one was still to come");
    assert_eq!(served.recorder.records()[8].outcome, Outcome::Expected);
    close(served.end_s, 6.5);
    close(served.times.compute_s[0], 6.5);
}

#[test]
fn a_run_ends_with_its_last_request() {
    let mut case = line(3, 2.0);
    case.until_s = Some(100.0);
    close(case.run().end_s, 6.0);
    assert!(line(0, 1.0).run().recorder.records().is_empty());
}

#[test]
fn who_does_not_fit_fails_and_holds_nobody_up() {
    let mut case =
        Case::new(1, 1, vec![request(2000, 1), request(500, 600), request(500, 100), request(900, 50)]);
    case.config.prefill.kv_tokens = 1000;
    case.config.decode.kv_tokens = 1000;
    let records = case.records();
    let failed = Outcome::Failed(FailReason::TooLarge);
    let outcomes: Vec<_> = records.iter().map(|record| record.outcome).collect();
    assert_eq!(outcomes, [failed, failed, Outcome::Finished, Outcome::Finished]);
    assert_eq!(records[0].end_s, Some(0.0));
    let counted = metrics(&case);
    assert_eq!((counted.finished, counted.failed, counted.in_flight), (2, 2, 0));
}

#[test]
fn an_overload_is_flagged_and_a_full_load_is_not() {
    for (service_s, is_overloaded) in [(0.9, false), (1.0, false), (2.0, true)] {
        let counted = metrics(&line(200, service_s));
        assert_eq!(counted.is_overloaded, is_overloaded, "{service_s} s: {counted:?}");
        assert_eq!(counted.finished, 200);
    }
    // Half of what comes waits for decode, too.
    let mut case = line(200, 0.1);
    case.config.first_token = FirstToken::Decode;
    case.config.decode.sequences = 1;
    case.compute.decode = DecodeTime { step_s: 2.0, ..DecodeTime::default() };
    assert!(metrics(&case).is_overloaded);
    // A run that is cut before its last request comes says so as well.
    let mut case = line(200, 2.0);
    case.until_s = Some(100.0);
    assert!(metrics(&case).is_overloaded);
}

#[test]
fn goodput_counts_who_kept_all_promises() {
    let case = line(100, 2.0);
    let served = case.run();
    // Request `i` comes at `i` and ends at `2 i + 2`: it takes `i + 2` seconds.
    let slo = Slo { ttft_s: Some(11.5), tpot_s: Some(0.0), e2e_s: None };
    let counted = Metrics::of(&case.requests, &served.recorder, &slo, 0);
    close(counted.slo_met, 0.1);
    close(counted.duration_s, 200.0);
    close(counted.goodput_per_s, 10.0 / 200.0);
    let ttft_s = counted.ttft_s.unwrap();
    close(ttft_s.mean, 51.5);
    close(ttft_s.p90, 2.0 + 0.9 * 99.0);
}

#[test]
fn who_asks_to_stop_is_heard() {
    let asked = run(&line(10, 1.0).setup(), &|| false);
    assert!(matches!(asked, Err(SimError::Cancelled)));
}
