//! How long ranks are busy, and with what.

/// Seconds of a run by rank: each a union of intervals, so what overlaps counts once.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RankTimes {
    /// Seconds in which the rank computes.
    pub compute_s: Vec<f64>,
    /// Seconds in which it encodes or decodes.
    pub codec_s: Vec<f64>,
    /// Seconds in which a transfer of the rank is in latency or moving.
    pub comm_s: Vec<f64>,
    /// Seconds in which it does any of these.
    pub busy_s: Vec<f64>,
}

/// Kind of work that a rank can be busy with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Work {
    Compute,
    Codec,
    Comm,
}

/// A stopwatch that runs while something is open.
#[derive(Clone, Copy, Debug, Default)]
struct Watch {
    open: u32,
    since_s: f64,
    total_s: f64,
}

impl Watch {
    fn begin(&mut self, now_s: f64) {
        if self.open == 0 {
            self.since_s = now_s;
        }
        self.open += 1;
    }

    fn end(&mut self, now_s: f64) {
        self.open -= 1;
        if self.open == 0 {
            self.total_s += now_s - self.since_s;
        }
    }

    fn total_s(&self, now_s: f64) -> f64 {
        self.total_s + if self.open > 0 { now_s - self.since_s } else { 0.0 }
    }
}

/// The stopwatches of all ranks: compute, codec, comm, any.
pub(super) struct Busy {
    ranks: Vec<[Watch; 4]>,
}

impl Busy {
    pub(super) fn new(ranks: u32) -> Self {
        Self { ranks: vec![<[Watch; 4]>::default(); ranks as usize] }
    }

    pub(super) fn begin(&mut self, now_s: f64, rank: usize, work: Work) {
        let watches = &mut self.ranks[rank];
        watches[work as usize].begin(now_s);
        watches[3].begin(now_s);
    }

    pub(super) fn end(&mut self, now_s: f64, rank: usize, work: Work) {
        let watches = &mut self.ranks[rank];
        watches[work as usize].end(now_s);
        watches[3].end(now_s);
    }

    pub(super) fn times(&self, now_s: f64) -> RankTimes {
        let of = |index: usize| self.ranks.iter().map(|watches| watches[index].total_s(now_s)).collect();
        RankTimes { compute_s: of(0), codec_s: of(1), comm_s: of(2), busy_s: of(3) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_overlaps_counts_once() {
        let mut busy = Busy::new(1);
        busy.begin(1.0, 0, Work::Codec);
        busy.begin(2.0, 0, Work::Codec);
        busy.begin(2.0, 0, Work::Comm);
        busy.end(3.0, 0, Work::Codec);
        busy.end(5.0, 0, Work::Codec);
        busy.end(6.0, 0, Work::Comm);
        busy.begin(9.0, 0, Work::Compute);
        let times = busy.times(10.0);
        assert_eq!(
            (times.codec_s[0], times.comm_s[0], times.compute_s[0], times.busy_s[0]),
            (4.0, 4.0, 1.0, 6.0)
        );
    }
}
