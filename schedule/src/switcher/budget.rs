//! A share of the elapsed time that may be spent.

/// What may be spent, and what was.
#[derive(Clone, Copy, Debug)]
pub(super) struct Budget {
    share: f64,
    spent_s: f64,
}

impl Budget {
    pub(super) fn new(share: f64) -> Self {
        Self { share, spent_s: 0.0 }
    }

    /// Whether so much more is within the share of the time that has elapsed.
    pub(super) fn allows(&self, seconds: f64, elapsed_s: f64) -> bool {
        self.spent_s + seconds <= self.share * elapsed_s
    }

    /// Spends; less than nothing is given back.
    pub(super) fn spend(&mut self, seconds: f64) {
        self.spent_s = (self.spent_s + seconds).max(0.0);
    }
}
