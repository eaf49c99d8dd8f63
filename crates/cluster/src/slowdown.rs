//! Compute that shares its GPU: how far it has come while codec kernels and transfers take their part of it.
//!
//! Codec kernels and those of a communication library occupy multiprocessors and memory bandwidth. Arithmetic only: whoever
//! executes an op says when what else is busy. It slows nobody but compute phases.

/// How many times as long compute takes while something else of its rank is busy; 1 is no slowdown.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Slowdown {
    /// While the rank encodes or decodes.
    pub codec: f64,
    /// While a transfer of the rank, in either direction, is in latency or moving.
    pub exchange: f64,
}

impl Default for Slowdown {
    fn default() -> Self {
        Self { codec: 1.0, exchange: 1.0 }
    }
}

impl Slowdown {
    /// Whether nothing slows anything.
    pub fn is_none(&self) -> bool {
        *self == Self::default()
    }

    /// How many times as long compute takes now. While both are busy the factors multiply: each takes its part of what the
    /// other one leaves. The greater of them alone would say that a second disturbance costs nothing.
    pub fn factor(&self, is_coding: bool, is_moving: bool) -> f64 {
        let codec = if is_coding { self.codec } else { 1.0 };
        let exchange = if is_moving { self.exchange } else { 1.0 };
        codec * exchange
    }
}

/// A compute phase that has begun. All times in seconds of one clock.
///
/// ```
/// use zipwire_cluster::Progress;
///
/// let mut phase = Progress::begin(0.0, 10.0, 1.0);
/// phase.change(4.0, 2.0);
/// assert_eq!(phase.end_s(), 16.0);
/// phase.change(6.0, 1.0);
/// assert_eq!(phase.end_s(), 11.0);
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Progress {
    /// When `left_s` was true.
    since_s: f64,
    /// Seconds of undisturbed work.
    left_s: f64,
    factor: f64,
    end_s: f64,
}

impl Progress {
    /// A phase of `seconds` seconds of undisturbed work that works from `begin_s` on, `factor` times as long as undisturbed.
    pub fn begin(begin_s: f64, seconds: f64, factor: f64) -> Self {
        Self { since_s: begin_s, left_s: seconds, factor, end_s: begin_s + seconds * factor }
    }

    /// From `now_s` on it takes `factor` times as long. What is said about the past counts from the last change on.
    pub fn change(&mut self, now_s: f64, factor: f64) {
        if factor == self.factor {
            return;
        }
        let now_s = now_s.max(self.since_s);
        self.left_s = (self.left_s - (now_s - self.since_s) / self.factor).max(0.0);
        self.since_s = now_s;
        self.factor = factor;
        self.end_s = now_s + self.left_s * factor;
    }

    /// When it ends if nothing changes any more.
    pub fn end_s(&self) -> f64 {
        self.end_s
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_multiply() {
        let slowdown = Slowdown { codec: 1.5, exchange: 2.0 };
        let factors = [(false, false), (true, false), (false, true), (true, true)]
            .map(|(coding, moving)| slowdown.factor(coding, moving));
        assert_eq!(factors, [1.0, 1.5, 2.0, 3.0]);
        assert!(Slowdown::default().is_none() && !slowdown.is_none());
    }

    #[test]
    fn work_goes_on_at_the_speed_of_the_moment() {
        let mut phase = Progress::begin(1.0, 6.0, 2.0);
        assert_eq!(phase.end_s(), 13.0);
        phase.change(5.0, 4.0);
        assert_eq!(phase.end_s(), 21.0, "2 s of work are done, 4 s left");
        phase.change(5.0, 2.0);
        assert_eq!(phase.end_s(), 13.0, "what lasted no time had no effect");
        phase.change(3.0, 1.0);
        assert_eq!(phase.end_s(), 9.0, "the past cannot be changed");
        phase.change(20.0, 8.0);
        assert_eq!(phase.end_s(), 20.0, "nothing was left");
    }

    #[test]
    fn what_changes_nothing_rounds_nothing() {
        let mut phase = Progress::begin(0.1, 0.7, 1.1);
        let end_s = phase.end_s();
        (1..50).for_each(|step| phase.change(f64::from(step) * 0.013, 1.1));
        assert_eq!(phase.end_s(), end_s);
    }

    #[test]
    fn before_the_work_begins_nothing_slows_it() {
        let mut phase = Progress::begin(2.0, 3.0, 1.0);
        phase.change(0.5, 5.0);
        phase.change(1.5, 1.0);
        assert_eq!(phase.end_s(), 5.0);
    }
}
