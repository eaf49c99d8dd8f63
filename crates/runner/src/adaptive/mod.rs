//! Adaptive variants: a switcher chooses the way of each call before each iteration and learns from what it took.
//!
//! Each iteration is a plan of its own: choose, plan, run, exchange statistics, observe. The exchange is a call of the
//! plan, so its time is part of the result.

mod arms;
mod measured;
mod simulated;

pub(crate) use arms::Arms;
pub(crate) use measured::{Key, Plans};

use std::rc::Rc;

use serde_json::json;
use zipwire_codec::Table;
use zipwire_scenarios::Experiment;
use zipwire_schedule::Plan;
use zipwire_schedule::switcher::{Class, Decision, Round, Switcher};
use zipwire_timeline::{Note, Timeline};
use zipwire_traces::{SwitcherClass, SwitcherDecision, SwitcherSummary};

use crate::ExecuteError;
use simulated::Recalibration;

/// Runner of the iterations of an adaptive variant: simulated, or on real ranks.
trait Iterations {
    /// Runs an iteration, whole; the bytes before coding are those of its plan.
    fn run(&mut self, iteration: u32, key: &Key) -> Result<(Timeline, u64), ExecuteError>;

    fn plan(&mut self, key: &Key) -> Result<Rc<Plan>, ExecuteError>;

    /// From the next iteration on, frames name this table.
    fn use_table(&mut self, table: &Table);

    /// Hears of an iteration behind the warm-up, before the switcher learns from it.
    fn follow(&mut self, ran: &IterationResult<'_>) -> Result<(), ExecuteError>;
}

/// An iteration that was run.
struct IterationResult<'a> {
    iteration: u32,
    switcher: &'a Switcher,
    round: &'a Round,
    length_s: f64,
}

/// Runs all iterations. What the summary says about other choices is not known here.
fn adaptive_loop(
    experiment: &Experiment,
    arms: &Arms<'_>,
    mut recalibration: Option<Recalibration<'_>>,
    iterations: &mut impl Iterations,
) -> Result<(Timeline, SwitcherSummary), ExecuteError> {
    let mut switcher = arms.switcher();
    let mut timeline = Timeline::default();
    let mut log = Log::default();
    let warm_up = switcher.warm_up().min(experiment.iterations);
    let (mut warm_up_s, mut elapsed_s, mut exchange_s) = (0.0, 0.0, 0.0);
    let mut raw = 0_u128;
    for iteration in 0..experiment.iterations {
        let round = switcher.choose(iteration);
        let key = (round.arms.clone(), round.exchanges);
        let (mut ran, bytes_raw) = iterations.run(iteration, &key)?;
        raw += u128::from(bytes_raw);
        let report = arms::report(&ran, &arms.raw_bytes);
        ran.notes = log.add(&switcher, &round, experiment);
        let length_s = ran.elapsed_s();
        timeline.append(ran);
        if iteration < warm_up {
            warm_up_s += length_s;
        } else {
            elapsed_s += length_s;
            exchange_s += report.exchange_s;
            iterations.follow(&IterationResult {
                iteration,
                switcher: &switcher,
                round: &round,
                length_s,
            })?;
        }
        if round.exchanges {
            switcher.observe(iteration, &round, &report);
            if let Some(recalibration) = &mut recalibration {
                let plan = iterations.plan(&key)?;
                if let Some(table) = recalibration.observe(iteration, &plan)? {
                    iterations.use_table(&table);
                }
            }
        }
    }
    let class = |class: &Class| SwitcherClass { name: class.name.clone(), calls: class.segments.len() };
    let count = u128::from(experiment.iterations.max(1));
    let summary = SwitcherSummary {
        bytes_raw: u64::try_from((raw + count / 2) / count).expect("a mean is no larger than its terms"),
        arms: switcher.arms().iter().map(|arm| arm.name.clone()).collect(),
        classes: switcher.classes().iter().map(class).collect(),
        warm_up_iterations: warm_up,
        warm_up_s,
        elapsed_s,
        probing_share: None,
        statistics_share: share(exchange_s, elapsed_s),
        regret: None,
        over_best_arm: None,
        over_native: None,
        decisions: log.decisions,
        tables: recalibration.map_or(Vec::new(), |recalibration| recalibration.tables),
    };
    Ok((timeline, summary))
}

/// Part of a time; 0 of none.
fn share(part_s: f64, all_s: f64) -> f64 {
    if all_s > 0.0 { part_s / all_s } else { 0.0 }
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
    fn add(&mut self, switcher: &Switcher, round: &Round, experiment: &Experiment) -> Vec<Note> {
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
            let args = args.to_string();
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
