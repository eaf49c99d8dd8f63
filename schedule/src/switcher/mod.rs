//! The switcher: which of several ways each call of an iteration takes, from what earlier iterations took.
//!
//! It is a pure function of shared statistics: every rank that observes the same computes the same. A cost table per class of
//! calls is edited by what was measured, and the least cost wins. It never stops to learn: now and then an arm that is not
//! in use is tried in one call, for a bounded share of the time.

mod table;

pub use table::Observation;

use std::mem::discriminant;

use table::CostTable;

use crate::{Job, SegmentId};

/// Share of the elapsed time that probes may cost.
const PROBING_SHARE: f64 = 0.0035;
/// Share of the elapsed time that exchanges of statistics may cost.
const STATISTICS_SHARE: f64 = 0.003;

/// One way for calls to travel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Arm {
    /// Its name.
    pub name: String,
    /// Whether it codes: its cost then depends on the ratio.
    pub is_coded: bool,
}

/// A class of calls, and what the model says about it.
#[derive(Clone, Debug, PartialEq)]
pub struct ClassModel {
    /// The class.
    pub class: Class,
    /// Modelled costs of each arm.
    pub priors: Vec<Prior>,
    /// Seconds that the network takes per raw byte, by the model.
    pub beta_s_per_byte: f64,
}

/// Why an arm was taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// It was not measured before.
    Calibrate,
    /// It costs least.
    Best,
    /// To learn whether it still costs what the table says.
    Probe,
}

impl Reason {
    /// Its name in timelines and summaries.
    pub fn name(self) -> &'static str {
        match self {
            Self::Calibrate => "calibrate",
            Self::Best => "best",
            Self::Probe => "probe",
        }
    }
}

/// A choice, and what led to it.
#[derive(Clone, Debug, PartialEq)]
pub struct Decision {
    /// When.
    pub iteration: u32,
    /// For which class, by position.
    pub class: usize,
    /// For which call; `None` means all of the class but those with decisions of their own.
    pub segment: Option<SegmentId>,
    /// The arm.
    pub arm: usize,
    /// Expected seconds of a call, by arm.
    pub costs_s: Vec<f64>,
    /// Why.
    pub reason: Reason,
}

/// Arms of the calls of one iteration, and the decisions behind them.
#[derive(Clone, Debug, PartialEq)]
pub struct Round {
    /// The arm of each segment; 0 for those of no class.
    pub arms: Vec<usize>,
    /// Whether statistics are exchanged at its end. Only then it is to be observed.
    pub exchanges: bool,
    /// The decisions of this iteration, class by class.
    pub decisions: Vec<Decision>,
}

/// Outcome of an iteration, the same on all ranks.
#[derive(Clone, Debug, PartialEq)]
pub struct SwitcherReport {
    /// Seconds of the iteration.
    pub iteration_s: f64,
    /// Seconds of the exchange of statistics.
    pub exchange_s: f64,
    /// Each segment's call; `None` where there is none.
    pub calls: Vec<Option<Observation>>,
}

/// See the module.
#[derive(Clone, Debug)]
pub struct Switcher {
    arms: Vec<Arm>,
    classes: Vec<Class>,
    tables: Vec<CostTable>,
    segment_count: usize,
    probing: Budget,
    exchanging: Budget,
    /// The last iteration that was observed, and the time after warm-up until its end.
    observed: Option<(u32, f64)>,
    /// Seconds that an iteration is expected to take without an exchange of statistics, and of the exchange.
    iteration_s: f64,
    exchange_s: f64,
    /// The probe of the current iteration by class: arm, and what it is expected to cost.
    probes: Vec<Option<(SegmentId, usize, f64)>>,
}

impl Switcher {
    /// A switcher for calls of these classes among `segment_count` segments.
    ///
    /// # Panics
    /// If there is no arm, or not a prior for each.
    pub fn new(arms: Vec<Arm>, models: Vec<ClassModel>, segment_count: usize) -> Self {
        assert!(!arms.is_empty(), "there is a way to travel");
        let table = |model: &ClassModel| {
            assert_eq!(model.priors.len(), arms.len(), "every arm has a prior");
            let priors: Vec<(Prior, bool)> =
                model.priors.iter().copied().zip(arms.iter().map(|arm| arm.is_coded)).collect();
            CostTable::new(&priors, model.class.raw_bytes, model.beta_s_per_byte)
        };
        let tables = models.iter().map(table).collect();
        let probes = vec![None; models.len()];
        Self {
            arms,
            classes: models.into_iter().map(|model| model.class).collect(),
            tables,
            segment_count,
            probing: Budget::new(PROBING_SHARE),
            exchanging: Budget::new(STATISTICS_SHARE),
            observed: None,
            iteration_s: 0.0,
            exchange_s: 0.0,
            probes,
        }
    }

    /// The arms.
    pub fn arms(&self) -> &[Arm] {
        &self.arms
    }

    /// The classes.
    pub fn classes(&self) -> &[Class] {
        &self.classes
    }

    /// Iterations that try every arm once in each class, one call per arm.
    pub fn warm_up(&self) -> u32 {
        let of_class = |class: &Class| self.arms.len().div_ceil(class.segments.len());
        let most = self.classes.iter().map(of_class).max().unwrap_or(0);
        u32::try_from(most).expect("arms are few")
    }

    /// Plans the next iteration; iterations come in order.
    pub fn choose(&mut self, iteration: u32) -> Round {
        let mut round = Round { arms: vec![0; self.segment_count], exchanges: false, decisions: Vec::new() };
        if iteration < self.warm_up() {
            round.exchanges = true;
            self.calibrate(iteration, &mut round);
            return round;
        }
        let elapsed_s = self.elapsed_s(iteration);
        round.exchanges = !self.classes.is_empty() && self.exchanging.allows(self.exchange_s, elapsed_s);
        for class in 0..self.classes.len() {
            let table = &mut self.tables[class];
            // Where nothing was observed since, nothing can have become better.
            table.switch();
            for segment in &self.classes[class].segments {
                round.arms[segment.index()] = table.used;
            }
            let decision = |segment, arm, reason| Decision {
                iteration,
                class,
                segment,
                arm,
                costs_s: table.costs_s(),
                reason,
            };
            round.decisions.push(decision(None, table.used, Reason::Best));
            self.probes[class] = None;
            let Some((arm, extra_s)) = table.probe(iteration).filter(|_| round.exchanges) else { continue };
            if !self.probing.allows(extra_s, elapsed_s) {
                continue;
            }
            self.probing.spend(extra_s);
            // Another call each time, so that no peculiarity of one call is taken for the arm's.
            let segments = &self.classes[class].segments;
            let segment = segments[iteration as usize % segments.len()];
            round.arms[segment.index()] = arm;
            round.decisions.push(decision(Some(segment), arm, Reason::Probe));
            self.probes[class] = Some((segment, arm, extra_s));
        }
        round
    }

    fn calibrate(&self, iteration: u32, round: &mut Round) {
        for (class, (Class { segments, .. }, table)) in self.classes.iter().zip(&self.tables).enumerate() {
            for (position, &segment) in segments.iter().enumerate() {
                let next = iteration as usize * segments.len() + position;
                let (arm, reason) = if next < self.arms.len() {
                    (next, Reason::Calibrate)
                } else {
                    (table.best(), Reason::Best)
                };
                round.arms[segment.index()] = arm;
                let costs_s = table.costs_s();
                round.decisions.push(Decision {
                    iteration,
                    class,
                    segment: Some(segment),
                    arm,
                    costs_s,
                    reason,
                });
            }
        }
    }

    /// Seconds from the end of the warm-up to the beginning of an iteration, as far as all ranks know: iterations without
    /// an exchange count as the last one with one.
    fn elapsed_s(&self, iteration: u32) -> f64 {
        let Some((last, until_s)) = self.observed else { return 0.0 };
        until_s + f64::from(iteration - last - 1) * self.iteration_s
    }

    /// Learns from an iteration that exchanged statistics.
    ///
    /// # Panics
    /// If the report is not about as many segments as there are.
    pub fn observe(&mut self, iteration: u32, round: &Round, report: &SwitcherReport) {
        assert_eq!(report.calls.len(), self.segment_count, "a report is about all segments");
        let is_warm_up = iteration < self.warm_up();
        let before_s = self.elapsed_s(iteration);
        let until_s = if is_warm_up { 0.0 } else { before_s + report.iteration_s };
        self.observed = Some((iteration, until_s));
        // Of iterations that calibrate, the shortest is like those that follow.
        let own_s = report.iteration_s - report.exchange_s;
        let is_least = !is_warm_up || iteration == 0 || own_s < self.iteration_s;
        self.iteration_s = if is_least { own_s } else { self.iteration_s };
        self.exchange_s = report.exchange_s;
        if is_warm_up {
            for decision in round.decisions.iter().filter(|decision| decision.reason == Reason::Calibrate) {
                let call = decision.segment.and_then(|segment| report.calls[segment.index()]);
                if let Some(call) = call {
                    self.tables[decision.class].calibrate(decision.arm, &call);
                }
            }
            if iteration + 1 == self.warm_up() {
                let start = self.best_for_all();
                self.tables.iter_mut().for_each(|table| table.used = start);
            }
            return;
        }
        self.exchanging.spend(report.exchange_s);
        let spills: Vec<Option<Spill>> =
            (0..self.classes.len()).map(|class| self.spill(class, report)).collect();
        let hit: Vec<SegmentId> = spills.iter().flatten().map(|spill| spill.segment).collect();
        let mut ratio_changed = false;
        for (class, spill) in spills.iter().enumerate() {
            let extra_s = spill.as_ref().map_or(0.0, |spill| spill.seconds);
            ratio_changed |= self.observe_class(iteration, class, report, extra_s, &hit);
        }
        if ratio_changed {
            // What changed in one class may have changed in all.
            self.tables.iter_mut().for_each(|table| table.hurry(iteration, true));
        }
    }

    /// The arm that costs least if all calls take it.
    fn best_for_all(&self) -> usize {
        let cost_s = |arm: usize| {
            let classes = self.classes.iter().zip(&self.tables);
            classes.map(|(class, table)| class.segments.len() as f64 * table.cost_s(arm)).sum::<f64>()
        };
        (1..self.arms.len()).fold(0, |best, arm| if cost_s(arm) < cost_s(best) { arm } else { best })
    }

    /// Effect of the probe of a class on the call that follows it.
    fn spill(&self, class: usize, report: &SwitcherReport) -> Option<Spill> {
        let (probed, ..) = self.probes[class]?;
        let is_probed =
            |segment: SegmentId| self.probes.iter().flatten().any(|&(other, ..)| other == segment);
        let calls = self
            .classes
            .iter()
            .zip(&self.tables)
            .flat_map(|(class, table)| class.segments.iter().map(move |&segment| (segment, table)));
        let (segment, table) =
            calls.filter(|&(segment, _)| segment > probed).min_by_key(|&(segment, _)| segment)?;
        let call = report.calls[segment.index()].filter(|_| !is_probed(segment))?;
        Some(Spill { segment, seconds: call.seconds - call.seconds / table.factor(&call) })
    }

    /// Learns from the calls of a class; `spill_s` is what its probe cost the call behind it, and calls `hit` by such a spill say
    /// nothing about their own arms. Returns whether the coded size has changed.
    fn observe_class(
        &mut self,
        iteration: u32,
        class: usize,
        report: &SwitcherReport,
        spill_s: f64,
        hit: &[SegmentId],
    ) -> bool {
        let (table, probe) = (&mut self.tables[class], self.probes[class].take());
        let probed = probe.map(|(segment, ..)| segment);
        let is_own = |segment: &&SegmentId| Some(**segment) != probed && !hit.contains(segment);
        let segments = self.classes[class].segments.iter().filter(is_own);
        let calls: Vec<Observation> = segments.filter_map(|segment| report.calls[segment.index()]).collect();
        let (mut others, mut ratio_changed) = (1.0, false);
        if let Some(mean) = mean(&calls) {
            if table.follow(&mean) {
                table.hurry(iteration, false);
                ratio_changed = self.arms[table.used].is_coded;
            }
            // What the network did in this iteration and the table has not taken over yet.
            others = table.factor(&mean);
        }
        let Some((segment, arm, expected_s)) = probe else { return ratio_changed };
        let Some(call) = report.calls[segment.index()] else { return ratio_changed };
        // No call is cheaper than a twentieth of what it takes itself.
        let seconds = (call.seconds + spill_s).max(0.05 * call.seconds);
        let changed = table.learn(iteration, arm, &Observation { seconds, ..call }, others);
        let extra_s = (table.cost_s(arm) - table.cost_s(table.used)).max(0.0);
        self.probing.spend(extra_s - expected_s);
        ratio_changed || (changed && self.arms[arm].is_coded)
    }
}

/// Effect of a probe on the call behind it: ranks enter that one earlier or later, and not all by the same.
struct Spill {
    segment: SegmentId,
    seconds: f64,
}

fn mean(calls: &[Observation]) -> Option<Observation> {
    let count = calls.len() as u64;
    let sum = |of: fn(&Observation) -> u64| calls.iter().map(of).sum::<u64>();
    (count > 0).then(|| Observation {
        seconds: calls.iter().map(|call| call.seconds).sum::<f64>() / count as f64,
        raw_bytes: sum(|call| call.raw_bytes) / count,
        wire_bytes: sum(|call| call.wire_bytes) / count,
    })
}

/// A share of the elapsed time that may be spent, and the seconds that were.
#[derive(Clone, Copy, Debug)]
struct Budget {
    share: f64,
    spent_s: f64,
}

impl Budget {
    fn new(share: f64) -> Self {
        Self { share, spent_s: 0.0 }
    }

    /// Whether so much more is within the share of the time that has elapsed.
    fn allows(&self, seconds: f64, elapsed_s: f64) -> bool {
        self.spent_s + seconds <= self.share * elapsed_s
    }

    /// Spends; less than nothing is given back.
    fn spend(&mut self, seconds: f64) {
        self.spent_s = (self.spent_s + seconds).max(0.0);
    }
}

/// Calls of one kind and about one length.
/// Lessons of one call are used for all of its class.
#[derive(Clone, Debug, PartialEq)]
pub struct Class {
    /// The calls, in order; at least one.
    pub segments: Vec<SegmentId>,
    /// Their names without numbers: `layer dispatch`.
    pub name: String,
    /// Mean raw bytes of a call, over all ranks.
    pub raw_bytes: f64,
}

/// The classes of a job's collective calls, in the order of their first calls: one kind of call, names that differ in numbers
/// only, and bytes that are the same when rounded to steps of 25 %. `raw_bytes` are those of each segment.
///
/// # Panics
/// If there is not a number of bytes for each segment.
pub fn classes(job: &Job, raw_bytes: &[u64]) -> Vec<Class> {
    assert_eq!(raw_bytes.len(), job.segments.len(), "every segment moves a number of bytes");
    let mut found: Vec<(Class, _)> = Vec::new();
    for ((segment, &bytes), id) in job.segments.iter().zip(raw_bytes).zip(0..) {
        if !segment.work.is_collective() || bytes == 0 {
            continue;
        }
        let name = without_numbers(&segment.name);
        let key = (discriminant(&segment.work), segment.channel, steps(bytes));
        match found.iter_mut().find(|(class, other)| class.name == name && *other == key) {
            Some((class, _)) => {
                let count = class.segments.len() as f64;
                class.raw_bytes = (class.raw_bytes * count + bytes as f64) / (count + 1.0);
                class.segments.push(SegmentId(id));
            }
            None => found.push((Class { segments: vec![SegmentId(id)], name, raw_bytes: bytes as f64 }, key)),
        }
    }
    found.into_iter().map(|(class, _)| class).collect()
}

fn without_numbers(name: &str) -> String {
    let is_number = |word: &&str| word.chars().all(|c| c.is_ascii_digit());
    name.split(' ').filter(|word| !is_number(word)).collect::<Vec<_>>().join(" ")
}

/// The number of steps of 25 % from one byte, rounded to the nearest.
fn steps(bytes: u64) -> u32 {
    let (mut reached, mut count) = (1.0_f64, 0);
    while reached * 1.25 <= bytes as f64 {
        reached *= 1.25;
        count += 1;
    }
    // Past the middle of a step, it is the next one.
    count + u32::from(bytes as f64 * bytes as f64 > reached * reached * 1.25)
}

/// Costs of a cluster and a codec, for one class of calls.
/// They say what a call costs before it was ever measured: the linear model of ZipCCL, formulas (6) and (7), with the terms that the paper
/// leaves out.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LinearModel {
    /// `a`: seconds of an exchange that moves nothing.
    pub alpha_s: f64,
    /// `g`: seconds per raw byte of encoding and decoding, and of reducing where the call reduces.
    pub gamma_s_per_byte: f64,
    /// Seconds per call that a codec takes whatever the call's length: launches, and what the host waits for sizes.
    pub coded_s: f64,
}

/// Modelled cost of one arm, in the parts that change for different reasons.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Prior {
    /// Seconds that depend on nothing.
    pub fixed_s: f64,
    /// Seconds per raw byte that do not depend on the network.
    pub codec_s_per_byte: f64,
    /// `e s`: bytes on the wire per raw byte, by the codec and by the width of what is sent.
    pub wire_fraction: f64,
    /// `b` of a call of a library, which takes other ways than the links that all other arms share: seconds per byte on the wire.
    pub library_s_per_byte: Option<f64>,
}

impl LinearModel {
    /// Formula (6): `T = a + b s d` for an uncompressed call of `s d` bytes in `exchanges` exchanges.
    pub fn native(&self, exchanges: u32) -> Prior {
        let fixed_s = self.alpha_s * f64::from(exchanges);
        Prior { fixed_s, codec_s_per_byte: 0.0, wire_fraction: 1.0, library_s_per_byte: None }
    }

    /// Formula (6) of a call of a library: its own `a`, all calls together, its own `b`, and `s`, which is 2 where it adds up BF16 in FP32.
    pub fn library(&self, calls_s: f64, s_per_byte: f64, wire_fraction: f64) -> Prior {
        let codec_s_per_byte = self.gamma_s_per_byte;
        Prior { fixed_s: calls_s, codec_s_per_byte, wire_fraction, library_s_per_byte: Some(s_per_byte) }
    }

    /// Formula (7), corrected: `T = a + b e s d + g s d`. The paper has no term `g`, which is up to 30 % of the time, and says
    /// FP16 where its `s` must be the width of the values that are reduced.
    pub fn coded(&self, exchanges: u32, wire_fraction: f64) -> Prior {
        Prior {
            fixed_s: self.alpha_s * f64::from(exchanges) + self.coded_s,
            codec_s_per_byte: self.gamma_s_per_byte,
            wire_fraction,
            library_s_per_byte: None,
        }
    }
}

impl Prior {
    /// Whether it depends on how fast the network is.
    pub fn uses_links(&self) -> bool {
        self.library_s_per_byte.is_none()
    }

    /// Seconds of a call of `raw_bytes` on a network that takes `beta_s_per_byte`.
    pub fn seconds(&self, raw_bytes: f64, beta_s_per_byte: f64) -> f64 {
        let beta_s_per_byte = self.library_s_per_byte.unwrap_or(beta_s_per_byte);
        self.fixed_s + raw_bytes * (self.codec_s_per_byte + beta_s_per_byte * self.wire_fraction)
    }

    /// Seconds per byte that the network must take if a call that uses its links took `seconds`. At least a twentieth of them is
    /// counted as the network's: the rest may be overestimated.
    pub fn beta_s_per_byte(&self, raw_bytes: f64, seconds: f64) -> f64 {
        let network_s = seconds - self.fixed_s - raw_bytes * self.codec_s_per_byte;
        network_s.max(0.05 * seconds) / (raw_bytes * self.wire_fraction).max(f64::MIN_POSITIVE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_of_one_step_are_alike() {
        assert_eq!(steps(1_000_000), steps(1_050_000));
        assert!(steps(1_000_000) < steps(1_300_000));
        assert_eq!(steps(1 << 30) + 1, steps((1 << 30) / 4 * 5));
    }

    #[test]
    fn numbers_make_no_difference() {
        assert_eq!(without_numbers("layer 12 dispatch"), without_numbers("layer 3 dispatch"));
        assert_ne!(without_numbers("dispatch"), without_numbers("combine"));
    }

    const MODEL: LinearModel = LinearModel { alpha_s: 1e-5, gamma_s_per_byte: 1e-11, coded_s: 2e-5 };
    /// `b`: seconds per byte.
    const BETA_S: f64 = 1e-10;

    #[test]
    fn the_formulas_hold() {
        let bytes = 1e8;
        assert!((MODEL.native(1).seconds(bytes, BETA_S) - 0.01001).abs() < 1e-12);
        // 1e-5 x 3 + 2e-5 + 1e8 x (1e-11 + 0.75e-10)
        assert!((MODEL.coded(3, 0.75).seconds(bytes, BETA_S) - 0.00855).abs() < 1e-12);
        // 1e-3 + 1e8 x (1e-11 + 2 x 3e-10), whatever the links take.
        let library = MODEL.library(1e-3, 3e-10, 2.0);
        assert!((library.seconds(bytes, BETA_S) - 0.062).abs() < 1e-12 && !library.uses_links());
    }

    #[test]
    fn the_network_is_what_is_left() {
        let prior = MODEL.coded(3, 0.75);
        let beta = prior.beta_s_per_byte(1e8, prior.seconds(1e8, 3e-10));
        assert!((beta / 3e-10 - 1.0).abs() < 1e-9);
        assert!(prior.beta_s_per_byte(1e8, 1e-6) > 0.0, "a call that is faster than its codec");
    }
}
