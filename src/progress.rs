//! Progress of long commands on stderr; silent where stderr is not a terminal.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
use zipwire::traces::escaped;

/// Interval at which a bar is drawn.
const TICK: Duration = Duration::from_millis(200);

/// A bar over known steps.
#[derive(Debug)]
pub(crate) struct Progress {
    bar: ProgressBar,
    /// Whether a step is under way that [`next`](Self::next) began.
    has_begun: AtomicBool,
}

impl Progress {
    pub(crate) fn new(steps: usize) -> Self {
        let bar = ProgressBar::new(steps as u64);
        let style = ProgressStyle::with_template("{spinner} [{elapsed_precise}] {bar:24} {pos}/{len} {msg}");
        bar.set_style(style.expect("the template is valid"));
        Self::of(bar)
    }

    /// A bar over bytes of a file, with their speed and the time that is left.
    pub(crate) fn of_bytes(bytes: u64, file: &str) -> Self {
        let bar = ProgressBar::new(bytes).with_message(escaped(file).into_owned());
        let style = ProgressStyle::with_template(
            "{spinner} [{elapsed_precise}] {bar:24} {bytes}/{total_bytes} {bytes_per_sec}, {eta} left  {msg}",
        );
        bar.set_style(style.expect("the template is valid"));
        Self::of(bar)
    }

    /// Shows a bar, and draws it now and then, so that its time goes on in a long step; without a thread for that, only when a step ends.
    fn of(bar: ProgressBar) -> Self {
        if !bar.is_hidden() {
            let shown = bar.downgrade();
            let draw = move || {
                while let Some(bar) = shown.upgrade().filter(|bar| !bar.is_finished()) {
                    bar.tick();
                    drop(bar);
                    thread::sleep(TICK);
                }
            };
            // Nothing but the bar depends on it.
            let _ = thread::Builder::new().name("progress".to_owned()).spawn(draw);
        }
        Self { bar, has_begun: AtomicBool::new(false) }
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
        self.bar.set_position(steps as u64);
        self.bar.reset_eta();
    }

    /// A line beside the bar, also where there is none.
    pub(crate) fn say(&self, line: &str) {
        self.bar.suspend(|| say!("{line}"));
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
