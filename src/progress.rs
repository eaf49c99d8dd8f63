//! Progress of long commands on stderr; silent where stderr is not a terminal.

use std::fmt::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressState, ProgressStyle};
use zipwire::traces::escaped;

/// Interval at which a bar is drawn.
const TICK: Duration = Duration::from_millis(200);

/// Time after which work of unknown length is shown.
const PATIENCE: Duration = Duration::from_secs(1);

/// A bar over known steps, with the time that is left.
#[derive(Debug)]
pub(crate) struct Progress {
    bar: ProgressBar,
    /// Steps that were done before the first one of this process.
    skipped: Arc<AtomicU64>,
    /// Whether a step is under way that [`next`](Self::next) began.
    has_begun: AtomicBool,
}

/// The time that steps take which are left, if `done` have taken `elapsed`, in words; none before the first one has ended.
pub(crate) fn time_left(elapsed: Duration, done: u64, left: u64) -> Option<String> {
    let seconds = elapsed.as_secs_f64() * left as f64 / done as f64;
    (done > 0 && left > 0).then(|| match seconds {
        ..90.0 => format!("about {seconds:.0} s left"),
        ..5400.0 => format!("about {:.0} min left", seconds / 60.0),
        _ => format!("about {:.1} h left", seconds / 3600.0),
    })
}

impl Progress {
    pub(crate) fn new(steps: usize) -> Self {
        Self::styled(steps as u64, "{spinner} [{elapsed_precise}] {bar:24} {pos}/{len} {left}  {wide_msg}")
    }

    /// A bar as wide as the terminal, with a line of its own for what is said of the steps.
    pub(crate) fn wide(steps: usize) -> Self {
        Self::styled(steps as u64, "{spinner} [{elapsed_precise}] {wide_bar} {pos}/{len} {left}\n{wide_msg}")
    }

    /// Elapsed time of work whose length nobody knows beforehand, once it takes a while.
    pub(crate) fn of_unknown(what: &'static str) -> Self {
        let style = ProgressStyle::with_template("{spinner} [{elapsed_precise}] {wide_msg}");
        // A message that is set later is drawn at once.
        let bar =
            ProgressBar::no_length().with_message(what).with_style(style.expect("the template is valid"));
        Self::of(bar, Arc::default(), PATIENCE)
    }

    /// A bar over bytes of a file, with their speed and the time that is left.
    pub(crate) fn of_bytes(bytes: u64, file: &str) -> Self {
        let progress = Self::styled(
            bytes,
            "{spinner} [{elapsed_precise}] {bar:24} {bytes}/{total_bytes} {bytes_per_sec}, {left}  {wide_msg}",
        );
        progress.begin(file);
        progress
    }

    fn styled(steps: u64, template: &str) -> Self {
        let skipped = Arc::new(AtomicU64::new(0));
        let before = Arc::clone(&skipped);
        let left = move |state: &ProgressState, text: &mut dyn Write| {
            let done = state.pos().saturating_sub(before.load(Ordering::Relaxed));
            let left = state.len().unwrap_or(0).saturating_sub(state.pos());
            // A bar without it is a bar still.
            let _ = text.write_str(&time_left(state.elapsed(), done, left).unwrap_or_default());
        };
        let style = ProgressStyle::with_template(template).expect("the template is valid");
        let bar = ProgressBar::new(steps).with_style(style.with_key("left", left));
        Self::of(bar, skipped, Duration::ZERO)
    }

    /// Shows a bar, and draws it now and then, so that its time goes on in a long step; without a thread for that, only when a step ends.
    fn of(bar: ProgressBar, skipped: Arc<AtomicU64>, delay: Duration) -> Self {
        if !bar.is_hidden() {
            let shown = bar.downgrade();
            let draw = move || {
                thread::sleep(delay);
                while let Some(bar) = shown.upgrade().filter(|bar| !bar.is_finished()) {
                    bar.tick();
                    drop(bar);
                    thread::sleep(TICK);
                }
            };
            // Nothing but the bar depends on it.
            let _ = thread::Builder::new().name("progress".to_owned()).spawn(draw);
        }
        Self { bar, skipped, has_begun: AtomicBool::new(false) }
    }

    /// So many more have been done.
    pub(crate) fn add(&self, steps: u64) {
        self.bar.inc(steps);
    }

    pub(crate) fn begin(&self, step: &str) {
        self.bar.set_message(escaped(step).into_owned());
    }

    /// Names the step that begins where the one before has ended.
    pub(crate) fn next(&self, step: &str) {
        if self.has_begun.swap(true, Ordering::Relaxed) {
            self.end();
        }
        self.begin(step);
    }

    /// These steps need not be done.
    pub(crate) fn skip(&self, steps: usize) {
        self.skipped.store(steps as u64, Ordering::Relaxed);
        self.bar.set_position(steps as u64);
    }

    /// A line beside the bar, also where there is none.
    pub(crate) fn say(&self, line: &str) {
        self.bar.suspend(|| say!("{line}"));
    }

    /// Whether nobody sees it.
    pub(crate) fn is_hidden(&self) -> bool {
        self.bar.is_hidden()
    }

    pub(crate) fn end(&self) {
        self.bar.inc(1);
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_left_follows_from_what_was_done() {
        let left = |seconds, done, left| time_left(Duration::from_secs(seconds), done, left);
        assert_eq!(left(10, 0, 5), None);
        assert_eq!(left(10, 5, 0), None);
        assert_eq!(left(10, 2, 4).as_deref(), Some("about 20 s left"));
        assert_eq!(left(600, 2, 4).as_deref(), Some("about 20 min left"));
        assert_eq!(left(3600, 2, 5).as_deref(), Some("about 2.5 h left"));
    }
}
