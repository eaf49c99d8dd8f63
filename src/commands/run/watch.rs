//! `zipwire run --watch`: what is done, the best result so far, and the time that is left.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::progress::{Progress, time_left};

/// Least time between lines where stderr is no terminal.
const INTERVAL: Duration = Duration::from_secs(10);

/// A result that may be the best one.
#[derive(Clone, Debug)]
pub(super) struct Candidate {
    /// The larger, the better.
    pub(super) value: f64,
    /// Its name, and what it reached, in words.
    pub(super) name: String,
}

/// Progress over steps of a run.
#[derive(Debug)]
pub(super) struct Watch {
    progress: Progress,
    is_on: bool,
    /// Name of the steps.
    steps: &'static str,
    count: usize,
    begun: Instant,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    skipped: usize,
    done: usize,
    step: String,
    best: Option<Candidate>,
    said: Option<Instant>,
}

impl State {
    fn consider(&mut self, result: Option<Candidate>) {
        if let Some(result) = result
            && self.best.as_ref().is_none_or(|best| result.value > best.value)
        {
            self.best = Some(result);
        }
    }

    /// The step that is under way and the best result, as far as they are known.
    fn text(&self) -> String {
        let best = self.best.as_ref().map(|best| format!("best so far: {}", best.name));
        [Some(self.step.clone()), best].into_iter().flatten().collect::<Vec<_>>().join("; ")
    }
}

impl Watch {
    /// Progress over `count` steps; only with `is_on` it also tells the best result.
    pub(super) fn new(is_on: bool, count: usize, steps: &'static str) -> Self {
        let progress = if is_on { Progress::wide(count) } else { Progress::new(count) };
        progress.begin(steps);
        let state = Mutex::new(State { step: steps.to_owned(), ..State::default() });
        Self { progress, is_on, steps, count, begun: Instant::now(), state }
    }

    /// A line beside the progress.
    pub(super) fn say(&self, line: &str) {
        self.progress.say(line);
    }

    /// Names the step that begins.
    pub(super) fn begin(&self, step: &str) {
        let mut state = self.state();
        step.clone_into(&mut state.step);
        self.progress.begin(&state.text());
    }

    /// So many steps need not be done.
    pub(super) fn skip(&self, steps: usize) {
        self.progress.skip(steps);
        self.state().skipped = steps;
    }

    /// A step had ended before, with a result if it has one.
    pub(super) fn found(&self, result: Option<Candidate>) {
        self.state().consider(result);
    }

    /// A step has ended, with a result if it has one.
    pub(super) fn ended(&self, result: Option<Candidate>) {
        self.progress.end();
        if !self.is_on {
            return;
        }
        let mut state = self.state();
        state.done += 1;
        state.consider(result);
        if !self.progress.is_hidden() {
            return self.progress.begin(&state.text());
        }
        let is_last = state.skipped + state.done == self.count;
        if is_last || state.said.is_none_or(|said| said.elapsed() >= INTERVAL) {
            state.said = Some(Instant::now());
            say!("{}", line(self.steps, self.count, &state, self.begun.elapsed()));
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A line of the log.
fn line(steps: &str, count: usize, state: &State, elapsed: Duration) -> String {
    let done = state.skipped + state.done;
    let left = time_left(elapsed, state.done as u64, (count - done) as u64);
    let best = state.best.as_ref().map(|best| format!("best so far: {}", best.name));
    let parts = [Some(format!("{done} of {count} {steps}")), left, best];
    parts.into_iter().flatten().collect::<Vec<_>>().join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_say_what_is_done_and_what_is_left() {
        let best = Some(Candidate { value: 1.0, name: "x".to_owned() });
        let state = State { skipped: 2, done: 3, best, ..State::default() };
        let elapsed = Duration::from_secs(6);
        assert_eq!(line("points", 10, &state, elapsed), "5 of 10 points; about 10 s left; best so far: x");
        let state = State { done: 3, ..State::default() };
        assert_eq!(line("runs", 3, &state, elapsed), "3 of 3 runs");
    }
}
