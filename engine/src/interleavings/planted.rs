//! Planted defects: copies of what is tested here with one mistake in each, which must be found.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use shuttle::thread;

use super::check;
use crate::sync::{Condvar, Mutex};

fn is_found(work: impl Fn() + Send + Sync + Clone + 'static) -> bool {
    catch_unwind(AssertUnwindSafe(|| check(work))).is_err()
}

/// Places that are free, as in `Permits`, without the mistakes that a flag turns on.
struct Places {
    free: Mutex<usize>,
    freed: Condvar,
    looks_again: bool,
    frees_first: bool,
}

impl Places {
    fn take(&self) {
        let mut free = self.free.lock().unwrap();
        if self.looks_again {
            while *free == 0 {
                free = self.freed.wait(free).unwrap();
            }
        } else if *free == 0 {
            free = self.freed.wait(free).unwrap();
        }
        *free = free.saturating_sub(1);
    }

    fn give_back(&self) {
        if self.frees_first {
            *self.free.lock().unwrap() += 1;
            self.freed.notify_one();
        } else {
            self.freed.notify_one();
            *self.free.lock().unwrap() += 1;
        }
    }
}

fn crowd(looks_again: bool, frees_first: bool) -> impl Fn() + Send + Sync + Clone + 'static {
    move || {
        let places = Places { free: Mutex::new(1), freed: Condvar::new(), looks_again, frees_first };
        let (places, inside) = (Arc::new(places), Arc::new(AtomicUsize::new(0)));
        let threads: Vec<_> = (0..4)
            .map(|_| {
                let (places, inside) = (Arc::clone(&places), Arc::clone(&inside));
                thread::spawn(move || {
                    for _ in 0..2 {
                        places.take();
                        assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0, "too many inside");
                        thread::yield_now();
                        inside.fetch_sub(1, Ordering::SeqCst);
                        places.give_back();
                    }
                })
            })
            .collect();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
    }
}

#[test]
fn the_copy_without_a_mistake_passes() {
    check(crowd(true, true));
}

/// Whoever is woken takes a place without looking whether it is still free.
#[test]
fn a_wait_that_does_not_look_again_is_found() {
    assert!(is_found(crowd(false, true)));
}

/// Whoever waits is woken before the place is free, and sleeps on.
#[test]
fn news_before_the_state_is_set_is_found() {
    assert!(is_found(crowd(true, false)));
}

/// A barrier as in `Control::barrier`, which a rank may leave once somebody has said something and all words are there, without counting
/// barriers: the words of the next barrier are taken for those of this one.
#[test]
fn a_barrier_without_a_number_is_found() {
    assert!(is_found(|| {
        let state = Arc::new((Mutex::new(0usize), Condvar::new()));
        let threads: Vec<_> = (0..3)
            .map(|_| {
                let state = Arc::clone(&state);
                thread::spawn(move || {
                    for _ in 0..2 {
                        let (come, changed) = &*state;
                        let mut come = come.lock().unwrap();
                        *come += 1;
                        if *come == 3 {
                            *come = 0;
                            changed.notify_all();
                        }
                        while *come != 0 {
                            come = changed.wait(come).unwrap();
                        }
                    }
                })
            })
            .collect();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
    }));
}
