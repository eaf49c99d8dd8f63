//! Progress of long commands on stderr; silent where stderr is not a terminal.

use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

/// A bar over known steps.
#[derive(Debug)]
pub(crate) struct Progress(ProgressBar);

impl Progress {
    pub(crate) fn new(steps: usize) -> Self {
        let bar = ProgressBar::new(steps as u64);
        let style = ProgressStyle::with_template("{spinner} [{elapsed_precise}] {bar:24} {pos}/{len} {msg}");
        bar.set_style(style.expect("the template is valid"));
        bar.enable_steady_tick(Duration::from_millis(200));
        Self(bar)
    }

    /// Names the step that begins.
    pub(crate) fn begin(&self, step: String) {
        self.0.set_message(step);
    }

    /// These steps need not be done.
    pub(crate) fn skip(&self, steps: usize) {
        self.0.set_position(steps as u64);
        self.0.reset_eta();
    }

    /// A line beside the bar, also where there is none.
    pub(crate) fn say(&self, line: &str) {
        self.0.suspend(|| eprintln!("{line}"));
    }

    /// The step has ended.
    pub(crate) fn end(&self) {
        self.0.inc(1);
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}
