//! Adaptive variants: a switcher chooses the way of each call before each iteration and learns from what it took.
//!
//! Each iteration is a plan of its own: choose, plan, run, exchange statistics, observe. The exchange is a call of the
//! plan, so its time is part of the result.

mod arms;
mod oracle;
mod runs;
mod statistics;

pub(crate) use arms::Arms;

use serde_json::json;
use zipwire_schedule::Protocol;
use zipwire_schedule::switcher::{Decision, Reason, Round, Switcher};
use zipwire_traces::{Note, SwitcherClass, SwitcherDecision, SwitcherSummary, Timeline};

use crate::{Cancel, ExecuteError, Prepared};
use oracle::Oracle;
use runs::Runs;

impl Prepared<'_> {
    /// Simulates the adaptive variant at `index`, and every fixed choice beside it.
    pub(crate) fn simulate_adaptive(
        &mut self,
        index: usize,
        cancel: &Cancel,
    ) -> Result<(Timeline, SwitcherSummary), ExecuteError> {
        let experiment = self.experiment;
        let variant = &experiment.variants[index];
        let arms = Arms::new(experiment, variant);
        let mut switcher = arms.switcher();
        let (simulator, _) = self.simulator(cancel);
        let mut runs = Runs::new(&arms, variant, simulator);
        let mut timeline = Timeline::default();
        let mut oracle = Oracle::new(variant.arms.len());
        let mut log = Log::default();
        let warm_up = switcher.warm_up().min(experiment.iterations);
        let (mut warm_up_s, mut probing_s, mut exchange_s) = (0.0, 0.0, 0.0);
        for iteration in 0..experiment.iterations {
            let round = switcher.choose(iteration);
            let key = (round.arms.clone(), round.exchanges);
            let mut ran = runs.run(iteration, &key)?;
            let report = statistics::report(&ran, &arms.raw_bytes);
            ran.notes = log.add(&switcher, &round, experiment);
            let length_s = ran.end_s();
            timeline.append(ran);
            if iteration < warm_up {
                warm_up_s += length_s;
            } else {
                exchange_s += report.exchange_s;
                if let Some(without) = without_probes(&switcher, &round) {
                    probing_s += length_s - runs.length_s(iteration, &(without, round.exchanges))?;
                }
                oracle.add(&mut runs, &switcher, iteration, length_s)?;
            }
            if round.exchanges {
                switcher.observe(iteration, &round, &report);
            }
        }
        let elapsed_s = timeline.end_s() - warm_up_s;
        let share = |seconds: f64| if elapsed_s > 0.0 { seconds / elapsed_s } else { 0.0 };
        let is_native = |arm: &zipwire_scenarios::Variant| arm.protocol == Protocol::Native;
        let native = variant.arms.iter().position(is_native);
        let best_arm_s = oracle.arms_s.iter().copied().fold(f64::INFINITY, f64::min);
        let class = |class: &zipwire_schedule::switcher::Class| SwitcherClass {
            name: class.name.clone(),
            calls: class.segments.len(),
        };
        let summary = SwitcherSummary {
            arms: variant.arms.iter().map(|arm| arm.name.clone()).collect(),
            classes: switcher.classes().iter().map(class).collect(),
            warm_up_iterations: warm_up,
            warm_up_s,
            elapsed_s,
            probing_share: share(probing_s),
            statistics_share: share(exchange_s),
            regret: oracle.regret(),
            over_best_arm: oracle.over(best_arm_s),
            over_native: native.and_then(|arm| oracle.over(oracle.arms_s[arm])),
            decisions: log.decisions,
        };
        Ok((timeline, summary))
    }
}

/// The arms of a round if every probed call took what the rest of its class takes; `None` without probes.
fn without_probes(switcher: &Switcher, round: &Round) -> Option<Vec<usize>> {
    let mut arms = round.arms.clone();
    let probes = round.decisions.iter().filter(|decision| decision.reason == Reason::Probe);
    let mut any = false;
    for probe in probes {
        let used = round.decisions.iter().find(|other| other.class == probe.class && other.segment.is_none());
        let (Some(segment), Some(used)) = (probe.segment, used) else { continue };
        debug_assert!(switcher.classes()[probe.class].segments.contains(&segment));
        arms[segment.index()] = used.arm;
        any = true;
    }
    any.then_some(arms)
}

/// The decisions that changed something.
#[derive(Default)]
struct Log {
    decisions: Vec<SwitcherDecision>,
    /// The arm of each class.
    used: Vec<Option<usize>>,
}

impl Log {
    /// Adds what is new in a round; the same as notes for its timeline.
    fn add(
        &mut self,
        switcher: &Switcher,
        round: &Round,
        experiment: &zipwire_scenarios::Experiment,
    ) -> Vec<Note> {
        self.used.resize(switcher.classes().len(), None);
        let mut notes = Vec::new();
        for decision in &round.decisions {
            if decision.segment.is_none() {
                if self.used[decision.class] == Some(decision.arm) {
                    continue;
                }
                self.used[decision.class] = Some(decision.arm);
            }
            let Decision { iteration, class, segment, arm, costs_s, reason } = decision;
            let name = |arm: usize| switcher.arms()[arm].name.clone();
            let segment = segment.map(|segment| experiment.job.segments[segment.index()].name.to_string());
            let costs = (0..).map(name).zip(costs_s.iter().map(|&seconds| json!(seconds)));
            let class_name = &switcher.classes()[*class].name;
            let args = json!({
                "iteration": iteration,
                "class": class_name,
                "call": segment,
                "reason": reason.name(),
                "costs_s": costs.collect::<serde_json::Map<_, _>>(),
            });
            notes.push(Note { at_s: 0.0, name: format!("{class_name}: {}", name(*arm)), args });
            self.decisions.push(SwitcherDecision {
                iteration: *iteration,
                class: *class,
                segment,
                arm: name(*arm),
                reason: reason.name(),
                costs_s: costs_s.clone(),
            });
        }
        notes
    }
}
