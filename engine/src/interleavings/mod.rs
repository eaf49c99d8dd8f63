//! Tests of shared state under a checker that decides at every lock, wait, message and atomic which thread goes on: the very code of
//! barriers, permits, memories and the transport of threads, and whole runs over it.
//!
//! `RUSTFLAGS="--cfg shuttle" cargo test -p zipwire-engine --lib interleavings`; `ZIPWIRE_INTERLEAVINGS` is the number of interleavings of
//! each test. A test that fails prints its schedule, which `shuttle::replay` follows again; `SHUTTLE_RANDOM_SEED` repeats a run.
//!
//! It looks for threads that stand still, go on too early, or see what they should not. It does not reorder relaxed atomics: these only
//! count here.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod planted;

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use shuttle::thread;
use zipwire_codec::DType;
use zipwire_payload::{Payload, Rows};
use zipwire_schedule::plan::{Plan, Region, TransferKey};
use zipwire_schedule::{
    BufferId, CallKind, Choice, Failure, FailureKind, Job, Order, Protocol, Rank, Segment, SegmentId, Slot,
    Stage, Work, plan,
};

use crate::control::Control;
use crate::host::{self, HostSetup, Permits, RunResult, run_rank};
use crate::memory::Memory;
use crate::transport::local::{Local, Process};
use crate::transport::{Ended, Event, Incoming, Meeting, Outgoing, Transport};

/// Plays interleavings of the threads that `work` makes: half of them at random, and half with few switches at random places.
fn check(work: impl Fn() + Send + Sync + Clone + 'static) {
    let count = std::env::var("ZIPWIRE_INTERLEAVINGS").map_or(500, |text| text.parse().expect("a number"));
    let config = || {
        let mut config = shuttle::Config::new();
        config.stack_size = 1 << 20;
        config
    };
    let random = shuttle::scheduler::RandomScheduler::new(count / 2);
    shuttle::Runner::new(random, config()).run(work.clone());
    let few = shuttle::scheduler::PctScheduler::new(3, count - count / 2);
    shuttle::Runner::new(few, config()).run(work);
}

/// Whoever leaves a barrier has what all said at it, so none leaves before all are there, and all leave.
#[test]
fn a_barrier_lets_nobody_through_early_and_everybody_in_the_end() {
    const RANKS: u32 = 3;
    const MEETINGS: u8 = 3;
    check(|| {
        let cancel = AtomicBool::new(false);
        let (control, _inboxes) = Control::<()>::new(RANKS as usize, Instant::now(), &cancel);
        let come = AtomicUsize::new(0);
        thread::scope(|scope| {
            for rank in 0..RANKS {
                let (control, come) = (&control, &come);
                scope.spawn(move || {
                    for number in 0..MEETINGS {
                        come.fetch_add(1, Ordering::SeqCst);
                        let words =
                            control.barrier(Rank(rank), &[rank as u8, number]).expect("nobody aborts");
                        assert!(come.load(Ordering::SeqCst) >= RANKS as usize * (usize::from(number) + 1));
                        let said: Vec<Vec<u8>> = (0..RANKS).map(|rank| vec![rank as u8, number]).collect();
                        assert_eq!(words, said);
                    }
                });
            }
        });
    });
}

/// A rank that aborts ends the barrier of those who wait, and of those who come later.
#[test]
fn an_abort_ends_every_barrier() {
    check(|| {
        let cancel = AtomicBool::new(false);
        let (control, _inboxes) = Control::<()>::new(3, Instant::now(), &cancel);
        thread::scope(|scope| {
            for rank in 0..2 {
                let control = &control;
                scope.spawn(move || assert_eq!(control.barrier(Rank(rank), &[]), None));
            }
            control.abort();
        });
        assert!(control.is_aborted());
    });
}

/// No more are inside than there are places, and all get one.
#[test]
fn permits_are_never_exceeded() {
    for places in [1, 2] {
        check(move || {
            let (permits, inside) = (Permits::new(places), AtomicUsize::new(0));
            thread::scope(|scope| {
                for _ in 0..4 {
                    scope.spawn(|| {
                        for _ in 0..2 {
                            let permit = permits.take();
                            assert!(inside.fetch_add(1, Ordering::SeqCst) < places, "too many inside");
                            thread::yield_now();
                            inside.fetch_sub(1, Ordering::SeqCst);
                            drop(permit);
                        }
                    });
                }
            });
        });
    }
}

/// Runs an All-to-All of three ranks; a rank that `fails` aborts instead of taking part. What has become of it, by rank.
fn run(choice: &Choice, fails: Option<Rank>) -> Vec<RunResult> {
    let bytes = ndarray::Array2::from_elem((3, 3), 256);
    let work = Work::of_call(
        DType::Bf16,
        [Slot(0), Slot(1)],
        CallKind::AllToAll { bytes: bytes.into(), tokens: None },
    );
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

const BYTES: u64 = 8;
/// Transfers from each of two ranks to the other one.
const TRANSFERS: u32 = 2;

/// A plan with room for all transfers in the buffers of both ranks.
fn roomy() -> Plan {
    let bytes = ndarray::Array2::from_elem((2, 2), BYTES * u64::from(TRANSFERS));
    let work = Work::of_call(
        DType::F32,
        [Slot(0), Slot(1)],
        CallKind::AllToAll { bytes: bytes.into(), tokens: None },
    );
    let segments = vec![Segment::new("call", work)];
    let job = Job { name: "job", rank_count: 2, slots: vec!["in", "out"], segments };
    plan(&job, &Choice::of(Protocol::Native, None))
}

fn key(src: Rank, number: u32) -> TransferKey {
    TransferKey { segment: SegmentId(0), stage: Stage::Raw, src, dst: Rank(1 - src.0), number }
}

fn region(buffer: u32, number: u32) -> Region {
    Region { buffer: BufferId(buffer), offset: u64::from(number) * BYTES, len: BYTES }
}

fn fill(memory: &Memory, region: &Region, byte: u8) {
    memory.write(region).fill(byte);
}

/// Two ranks over one [`Control`], each on a thread.
fn two(work: impl Fn(&mut Local<'_>) + Sync) {
    let plan = roomy();
    let memories: Vec<Arc<Memory>> = (0..2).map(|rank| host::memory(&plan, Rank(rank)).unwrap()).collect();
    let cancel = AtomicBool::new(false);
    let (control, inboxes) = Control::new(2, Instant::now(), &cancel);
    let process = Process { control: &control, memories: &memories };
    thread::scope(|scope| {
        for (rank, inbox) in (0..).map(Rank).zip(inboxes) {
            let work = &work;
            scope.spawn(move || work(&mut Local::new(process, rank, inbox)));
        }
    });
}

/// Both ranks send to one another at the same time. What arrives is what was sent, once, and the sender may overwrite it as soon as it
/// hears that it has been taken.
#[test]
fn transfers_bring_their_bytes_once() {
    check(|| {
        two(|local| {
            let rank = local.rank();
            let memory = Arc::clone(local.memory());
            let byte = |src: Rank, number: u32| (16 * (src.0 + 1) + number) as u8;
            for number in 0..TRANSFERS {
                let bytes = region(0, number);
                fill(&memory, &bytes, byte(rank, number));
                let word = Some(u64::from(number));
                let outgoing = Outgoing { key: key(rank, number), bytes: Some(bytes), word, checksum: 0 };
                local.send(outgoing).unwrap();
                let incoming = Incoming {
                    key: key(Rank(1 - rank.0), number),
                    bytes: Some(region(1, number)),
                    has_word: true,
                };
                local.receive(incoming).unwrap();
            }
            let (mut sent, mut received) = (Vec::new(), Vec::new());
            while sent.len() + received.len() < 2 * TRANSFERS as usize {
                match local.poll(Duration::from_secs(1)).unwrap().expect("waits have no end") {
                    Event::Begun { bytes, .. } => assert_eq!(bytes, BYTES + 8),
                    Event::Sent { key, .. } => {
                        sent.push(key.number);
                        fill(&memory, &region(0, key.number), 0xee);
                    }
                    Event::Received(arrived) => {
                        let number = arrived.transfer.key.number;
                        received.push(number);
                        assert_eq!(arrived.word, Some(u64::from(number)));
                        let region = region(1, number);
                        let expected = byte(Rank(1 - rank.0), number);
                        assert!(memory.read(&region).iter().all(|&b| b == expected));
                    }
                    event => panic!("{event:?}"),
                }
            }
            sent.sort_unstable();
            received.sort_unstable();
            let all: Vec<u32> = (0..TRANSFERS).collect();
            assert_eq!((sent, received), (all.clone(), all));
            // Nobody goes before all have arrived, and nothing is left.
            assert_eq!(local.barrier(&[]).unwrap().len(), 2);
        });
    });
}

/// One rank waits for what never comes; the other one fails.
#[test]
fn an_abort_ends_whoever_waits_for_a_transfer() {
    check(|| {
        two(|local| {
            if local.rank() == Rank(0) {
                let failure = zipwire_schedule::Failure::died(Rank(0));
                local.abort(&failure);
                return;
            }
            let incoming = Incoming { key: key(Rank(0), 0), bytes: Some(region(1, 0)), has_word: false };
            local.receive(incoming).unwrap();
            assert_eq!(local.poll(Duration::from_secs(1)).unwrap_err(), Ended::Aborted);
        });
    });
}
