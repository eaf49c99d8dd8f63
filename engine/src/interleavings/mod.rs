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
mod runs;
mod transfers;

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Instant;

use shuttle::thread;
use zipwire_schedule::Rank;

use crate::control::Control;
use crate::host::Permits;

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
