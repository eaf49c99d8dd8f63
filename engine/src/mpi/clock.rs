//! A clock that all processes share, as far as messages can tell: rank 0's.

use std::time::Instant;

/// Questions after which a clock is aligned: the quickest answer counts, as it says most.
const QUESTIONS: u32 = 40;

/// Seconds between two alignments from which on the difference between their offsets is taken for drift: over less, the errors of both
/// would be.
const DRIFT_BASE_S: f64 = 10.0;

/// The clock of one process, and what is known about how it differs from rank 0's.
#[derive(Debug)]
pub(super) struct Clock {
    epoch: Instant,
    /// Rank 0's time less this one's at `aligned_s` of this one's.
    offset_s: f64,
    aligned_s: f64,
    /// Seconds of rank 0's clock more for a second of this one.
    drift: f64,
    /// The first alignment: time of this clock, and offset.
    first: Option<(f64, f64)>,
    /// The best answer of the alignment under way: length of the way there and back, and the offset by it.
    best: Option<(f64, f64)>,
    asked: u32,
}

impl Clock {
    pub(super) fn new() -> Self {
        let epoch = Instant::now();
        Self { epoch, offset_s: 0.0, aligned_s: 0.0, drift: 0.0, first: None, best: None, asked: 0 }
    }

    /// Seconds of this process's own clock.
    pub(super) fn own_s(&self) -> f64 {
        self.epoch.elapsed().as_secs_f64()
    }

    /// Seconds of rank 0's clock, as far as is known.
    pub(super) fn now_s(&self) -> f64 {
        let own_s = self.own_s();
        own_s + self.offset_s + self.drift * (own_s - self.aligned_s)
    }

    /// Takes an answer to a question that was asked at `asked_s` of this clock. Whether to ask again; otherwise within how many seconds the
    /// clocks are aligned now.
    pub(super) fn answer(&mut self, asked_s: f64, theirs_s: f64) -> Option<f64> {
        let heard_s = self.own_s();
        self.learn(asked_s, theirs_s, heard_s)
    }

    fn learn(&mut self, asked_s: f64, theirs_s: f64, heard_s: f64) -> Option<f64> {
        let way_s = heard_s - asked_s;
        // Half of the way there, half of it back: wrong by half of it at the most.
        let offset_s = theirs_s - (asked_s + way_s / 2.0);
        if self.best.is_none_or(|(best_s, _)| way_s < best_s) {
            self.best = Some((way_s, offset_s));
        }
        self.asked += 1;
        if self.asked < QUESTIONS {
            return None;
        }
        self.asked = 0;
        let (way_s, offset_s) = self.best.take()?;
        let (first_s, first_offset_s) = *self.first.get_or_insert((heard_s, offset_s));
        if heard_s - first_s >= DRIFT_BASE_S {
            self.drift = (offset_s - first_offset_s) / (heard_s - first_s);
        }
        (self.offset_s, self.aligned_s) = (offset_s, heard_s);
        Some(way_s / 2.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_quickest_answer_counts_and_drift_is_learned() {
        let mut clock = Clock::new();
        // Rank 0 is 5 s ahead and gains 20 parts in a million; ways there and back are uneven, but for one.
        let theirs_s = |own_s: f64| own_s * (1.0 + 20e-6) + 5.0;
        for begin_s in [1.0, 101.0] {
            for question in 0..QUESTIONS {
                let asked_s = begin_s + f64::from(question) * 1e-3;
                let (there_s, back_s) = if question == 17 { (2e-6, 2e-6) } else { (90e-6, 5e-6) };
                let residual = clock.learn(asked_s, theirs_s(asked_s + there_s), asked_s + there_s + back_s);
                assert_eq!(residual.is_some(), question == QUESTIONS - 1);
                if let Some(residual_s) = residual {
                    assert!((residual_s - 2e-6).abs() < 1e-9, "{residual_s}");
                }
            }
        }
        let error_s = (clock.aligned_s + clock.offset_s) - theirs_s(clock.aligned_s);
        assert!(error_s.abs() < 2e-6, "{error_s}");
        assert!((clock.drift - 20e-6).abs() < 1e-7, "{}", clock.drift);
    }
}
