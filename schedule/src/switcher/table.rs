//! The cost table of one class: what each arm is expected to take, as far as is known.

use super::Prior;

/// A difference that counts as a change of the ratio or of the network.
const CHANGE: f64 = 0.03;
/// Weight of the newest measurement of the arm in use.
const GAIN: f64 = 0.2;
/// Most probes of an arm that count; older ones fade.
const MOST_COUNTED: u32 = 10;
/// How much better an arm must be to be used instead.
const HYSTERESIS: f64 = 0.005;
/// Iterations between two probes of an arm: at first, and at most.
const INTERVALS: [u32; 2] = [2, 16];

#[derive(Clone, Debug)]
struct Entry {
    prior: Prior,
    is_coded: bool,
    /// Measured over modelled.
    correction: f64,
    /// Measurements that the correction stands for; none before the first.
    count: u32,
    /// The iteration from which on it may be probed, and how long after that again.
    due: u32,
    interval: u32,
}

/// One measurement of a call.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Observation {
    /// Seconds from the last rank's first op to the last rank's end.
    pub seconds: f64,
    /// Bytes that the call delivers, uncompressed, over all ranks.
    pub raw_bytes: u64,
    /// Bytes on the wire, over all ranks.
    pub wire_bytes: u64,
}

/// Costs of the arms for the calls of one class.
#[derive(Clone, Debug)]
pub(super) struct CostTable {
    entries: Vec<Entry>,
    raw_bytes: f64,
    /// Seconds per raw byte that the network takes, as the arm in use shows it.
    beta_s_per_byte: f64,
    /// Mean square of measured over expected - 1.
    noise: f64,
    /// By what factor frames have become longer since that was last a change.
    fraction_drift: f64,
    pub(super) used: usize,
}

impl CostTable {
    pub(super) fn new(priors: &[(Prior, bool)], raw_bytes: f64, beta_s_per_byte: f64) -> Self {
        let entry = |&(prior, is_coded): &(Prior, bool)| Entry {
            prior,
            is_coded,
            correction: 1.0,
            count: 0,
            due: 0,
            interval: INTERVALS[0],
        };
        let entries = priors.iter().map(entry).collect();
        let mut table =
            Self { entries, raw_bytes, beta_s_per_byte, noise: 0.0, fraction_drift: 1.0, used: 0 };
        table.used = table.best();
        table
    }

    /// Seconds that a call of mean length is expected to take.
    pub(super) fn cost_s(&self, arm: usize) -> f64 {
        self.expected_s(arm, self.raw_bytes)
    }

    pub(super) fn costs_s(&self) -> Vec<f64> {
        (0..self.entries.len()).map(|arm| self.cost_s(arm)).collect()
    }

    fn expected_s(&self, arm: usize, raw_bytes: f64) -> f64 {
        let entry = &self.entries[arm];
        entry.correction * entry.prior.seconds(raw_bytes, self.beta_s_per_byte)
    }

    /// The arm of least cost; of equals the first.
    pub(super) fn best(&self) -> usize {
        let costs = self.costs_s();
        (1..costs.len()).fold(0, |best, arm| if costs[arm] < costs[best] { arm } else { best })
    }

    /// Uses another arm if it is better by more than the hysteresis, and by more than can be told from noise. What was measured
    /// in the warm-up alone does not count: other calls used other arms then, and they act on one another.
    pub(super) fn switch(&mut self) {
        let known = (0..self.entries.len()).filter(|&arm| self.entries[arm].count > 1);
        let Some(best) = known.min_by(|&a, &b| self.cost_s(a).total_cmp(&self.cost_s(b))) else { return };
        let (least_s, used_s) = (self.cost_s(best), self.cost_s(self.used));
        if used_s - least_s > HYSTERESIS.max(self.uncertainty(best)) * least_s {
            self.used = best;
            self.entries[best].interval = INTERVALS[0];
        }
    }

    /// Probe to make next, with its expected cost beyond the arm in use: an arm that is due and could be the best after all comes
    /// first, then the cheapest, then the first.
    pub(super) fn probe(&self, iteration: u32) -> Option<(usize, f64)> {
        let used_s = self.cost_s(self.used);
        let due =
            (0..self.entries.len()).filter(|&arm| arm != self.used && iteration >= self.entries[arm].due);
        let extra = due.map(|arm| (arm, (self.cost_s(arm) - used_s).max(0.0)));
        extra.min_by(|(_, a), (_, b)| a.total_cmp(b))
    }

    /// Standard error of an arm's cost over its cost, and of that of the arm in use.
    fn uncertainty(&self, arm: usize) -> f64 {
        let of_used = GAIN / (2.0 - GAIN);
        let of_arm = 1.0 / f64::from(self.entries[arm].count.max(1));
        (self.noise * (of_used + of_arm)).sqrt()
    }

    /// Takes in a first measurement: how the arm compares with the model, once the first arm of all has shown how fast the network
    /// is.
    pub(super) fn calibrate(&mut self, arm: usize, observed: &Observation) {
        let says_how_fast = |entry: &Entry| entry.prior.uses_links();
        let known = self.entries.iter().any(|entry| entry.count > 0 && says_how_fast(entry));
        let is_first = says_how_fast(&self.entries[arm]) && !known;
        let raw_bytes = observed.raw_bytes as f64;
        self.entries[arm].prior.wire_fraction = fraction(observed);
        if is_first {
            self.beta_s_per_byte = self.entries[arm].prior.beta_s_per_byte(raw_bytes, observed.seconds);
        }
        self.correct(arm, observed.seconds / self.expected_s(arm, raw_bytes));
    }

    /// Takes in the mean of the arm in use: it shows how fast the network is now, for all arms; a call of a library shows it only
    /// for itself. Returns whether something has changed.
    pub(super) fn follow(&mut self, observed: &Observation) -> bool {
        let (arm, raw_bytes) = (self.used, observed.raw_bytes as f64);
        let ratio_changed = self.take_fraction(arm, observed);
        let error = observed.seconds / self.expected_s(arm, raw_bytes) - 1.0;
        let changed = error.abs() > CHANGE && error * error > 9.0 * self.noise;
        self.add_noise(error);
        let gain = if changed { 1.0 } else { GAIN };
        let entry = &mut self.entries[arm];
        if entry.prior.uses_links() {
            let now = entry.prior.beta_s_per_byte(raw_bytes, observed.seconds / entry.correction);
            self.beta_s_per_byte += gain * (now - self.beta_s_per_byte);
        } else {
            entry.correction *= 1.0 + gain * error;
        }
        if changed {
            // Whether the arms are still to each other as they were is not known.
            for entry in &mut self.entries {
                entry.count = entry.count.min(2);
            }
        }
        changed || ratio_changed
    }

    /// Takes in a probe. `others` is measured over expected of the arm in use in the same iteration, 1 if it was in no call: a
    /// factor common to both says nothing about the arm. Returns whether something has changed.
    pub(super) fn learn(&mut self, iteration: u32, arm: usize, observed: &Observation, others: f64) -> bool {
        let ratio_changed = self.take_fraction(arm, observed);
        let factor = observed.seconds / self.expected_s(arm, observed.raw_bytes as f64) / others;
        self.correct(arm, factor);
        let error = factor - 1.0;
        let changed = error.abs() > CHANGE && error * error > 9.0 * self.noise;
        if self.entries[arm].count > 2 {
            self.add_noise(error);
        }
        let could_be_best = self.cost_s(arm) * (1.0 - 2.0 * self.uncertainty(arm)) < self.cost_s(self.used);
        let entry = &mut self.entries[arm];
        entry.interval = if changed || could_be_best {
            INTERVALS[0]
        } else {
            (entry.interval + entry.interval.div_ceil(2)).min(INTERVALS[1])
        };
        entry.due = iteration + entry.interval;
        changed || ratio_changed
    }

    /// Takes an error into account as noise: one that is far from those before counts as twice as large as usual, so that a single
    /// change is not taken for noise, and errors that stay large are.
    fn add_noise(&mut self, error: f64) {
        let most = 4.0 * self.noise.max(CHANGE * CHANGE);
        self.noise += GAIN * ((error * error).min(most) - self.noise);
    }

    /// Measured over expected of a call of the arm in use.
    pub(super) fn factor(&self, observed: &Observation) -> f64 {
        observed.seconds / self.expected_s(self.used, observed.raw_bytes as f64)
    }

    /// Something has changed: all other arms are due, the coded ones only if `coded`.
    pub(super) fn hurry(&mut self, iteration: u32, coded: bool) {
        for entry in self.entries.iter_mut().filter(|entry| entry.is_coded || !coded) {
            entry.interval = INTERVALS[0];
            entry.due = entry.due.min(iteration + 1);
        }
    }

    fn correct(&mut self, arm: usize, factor: f64) {
        let entry = &mut self.entries[arm];
        entry.count = (entry.count + 1).min(MOST_COUNTED);
        entry.correction *= 1.0 + (factor - 1.0) / f64::from(entry.count);
    }

    /// Takes over how well a call was coded, for the other coded arms too, before any of them is tried. Whether that has changed
    /// much since this was last said.
    fn take_fraction(&mut self, arm: usize, observed: &Observation) -> bool {
        if !self.entries[arm].is_coded {
            return false;
        }
        let factor = fraction(observed) / self.entries[arm].prior.wire_fraction;
        for entry in self.entries.iter_mut().filter(|entry| entry.is_coded) {
            entry.prior.wire_fraction *= factor;
        }
        self.fraction_drift *= factor;
        let changed = (self.fraction_drift - 1.0).abs() > CHANGE;
        if changed {
            self.fraction_drift = 1.0;
        }
        changed
    }
}

fn fraction(observed: &Observation) -> f64 {
    observed.wire_bytes as f64 / (observed.raw_bytes as f64).max(1.0)
}
