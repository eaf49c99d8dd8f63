//! Whole runs of ranks over the transport of threads.

use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};
use std::time::Instant;

use shuttle::thread;
use zipwire_codec::DType;
use zipwire_payload::{Payload, Rows};
use zipwire_schedule::{
    CallKind, Choice, Failure, FailureKind, Job, Order, Protocol, Rank, Segment, Slot, Work, plan,
};

use super::check;
use crate::control::Control;
use crate::host::{self, HostSetup, Permits, RunResult, run_rank};
use crate::transport::Transport;
use crate::transport::local::{Local, Process};

/// Runs an All-to-All of three ranks; a rank that `fails` aborts instead of taking part. What has become of it, by rank.
fn run(choice: &Choice, fails: Option<Rank>) -> Vec<RunResult> {
    let bytes = ndarray::Array2::from_elem((3, 3), 256);
    let work = Work::of_call(DType::Bf16, [Slot(0), Slot(1)], CallKind::AllToAll { bytes, tokens: None });
    let segments = vec![Segment::new("call", work)];
    let plan = plan(&Job { name: "job", rank_count: 3, slots: vec!["in", "out"], segments }, choice);
    let payload = Payload::new(1, vec![Arc::new(Rows::gaussian(1.0, 1))]);
    let setup = HostSetup { cores: 1, ..HostSetup::new(&plan, &payload, 0..2) };
    let memories: Vec<_> = (0..3).map(|rank| host::memory(&plan, Rank(rank)).unwrap()).collect();
    let cancel = AtomicBool::new(false);
    let (control, inboxes) = Control::new(3, Instant::now(), &cancel);
    let process = Process { control: &control, memories: &memories };
    let permits = Permits::new(1);
    let results: Mutex<Vec<Option<RunResult>>> = Mutex::new((0..3).map(|_| None).collect());
    thread::scope(|scope| {
        for (rank, inbox) in (0..).map(Rank).zip(inboxes) {
            let (setup, permits, results) = (&setup, &permits, &results);
            scope.spawn(move || {
                let mut local = Local::new(process, rank, inbox);
                if fails == Some(rank) {
                    let failure = Failure::new(rank, None, FailureKind::Device, "it fails");
                    local.abort(&failure);
                    let end = zipwire_schedule::RankEnd { failure, status: None };
                    assert!(local.gather(crate::RankReport::failed(rank, 0.0, end)).is_none());
                    return;
                }
                let result = run_rank(setup, permits, &mut local);
                results.lock().unwrap()[rank.index()] = Some(result);
            });
        }
    });
    results.into_inner().unwrap().into_iter().flatten().collect()
}

/// Every rank ends, every byte is what was sent, and each arrives once, with any protocol, order and window.
#[test]
fn a_run_ends_well_however_its_threads_take_turns() {
    let coded = |protocol| Choice::of(protocol, Some("tiered".parse().unwrap()));
    let choices = [
        Choice::of(Protocol::Native, None),
        Choice { window: Some(1), order: Order::AnyReady, ..Choice::of(Protocol::Native, None) },
        Choice { window: Some(1), ..coded(Protocol::SizeFirst) },
        coded(Protocol::StaticFirst),
    ];
    for choice in choices {
        check(move || {
            let results = run(&choice, None);
            assert_eq!(results.len(), 3);
            for (rank, result) in results.into_iter().enumerate() {
                let report = result.unwrap();
                assert_eq!(report.is_some(), rank == 0);
                if let Some(report) = report {
                    assert_eq!(report.bytes_verified, 2 * 6 * 256);
                }
            }
        });
    }
}

/// A rank that fails at any moment ends all others, with a failure that names it.
#[test]
fn a_failure_ends_all_ranks() {
    check(|| {
        let results = run(&Choice::of(Protocol::Native, None), Some(Rank(2)));
        assert_eq!(results.len(), 2);
        let failures: Vec<_> = results.into_iter().map(Result::unwrap_err).collect();
        assert_eq!(failures[0].first.rank, Rank(2), "{}", failures[0]);
        assert_eq!(failures[1].first.kind, FailureKind::Cancelled, "{}", failures[1]);
    });
}
