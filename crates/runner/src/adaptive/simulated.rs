//! An adaptive variant in the simulator, with everything that it could have chosen beside it.

use std::collections::BTreeMap;
use std::rc::Rc;

use zipwire_codec::{Table, TableUsage};
use zipwire_payload::Payload;
use zipwire_scenarios::{Conditions, Experiment, Variant};
use zipwire_schedule::switcher::{Reason, Round, Switcher};
use zipwire_schedule::{Plan, Protocol};
use zipwire_sim::{calibrated_table, table_fit};
use zipwire_timeline::Timeline;
use zipwire_traces::{SwitcherSummary, SwitcherTable};

use super::measured::{Key, Plans};
use super::{Arms, IterationResult, Iterations, adaptive_loop, share};
use crate::executors::check_ratio;
use crate::simulate::{FaultSetup, Simulator};
use crate::{Cancel, ExecuteError, Prepared};

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
        let (simulator, _) = self.simulator(cancel);
        let runs = Runs::new(&arms, variant, simulator);
        let mut simulated = Simulated { runs, oracle: Oracle::new(variant.arms.len()), probing_s: 0.0 };
        let recalibration = Recalibration::new(experiment, variant, cancel);
        let (timeline, summary) = adaptive_loop(experiment, &arms, recalibration, &mut simulated)?;
        let Simulated { oracle, probing_s, .. } = simulated;
        let is_native = |arm: &Variant| arm.protocol == Protocol::Native;
        let native = variant.arms.iter().position(is_native);
        let best_arm_s = oracle.arms_s.iter().copied().fold(f64::INFINITY, f64::min);
        let summary = SwitcherSummary {
            probing_share: Some(share(probing_s, summary.elapsed_s)),
            regret: oracle.regret(),
            over_best_arm: oracle.over(best_arm_s),
            over_native: native.and_then(|arm| oracle.over(oracle.arms_s[arm])),
            ..summary
        };
        Ok((timeline, summary))
    }
}

struct Simulated<'a, 'e> {
    runs: Runs<'a, 'e>,
    oracle: Oracle,
    /// Seconds that iterations were longer because of probes.
    probing_s: f64,
}

impl Iterations for Simulated<'_, '_> {
    fn run(&mut self, iteration: u32, key: &Key) -> Result<(Timeline, u64), ExecuteError> {
        self.runs.run(iteration, key)
    }

    fn plan(&mut self, key: &Key) -> Result<Rc<Plan>, ExecuteError> {
        self.runs.plan(key)
    }

    fn use_table(&mut self, table: &Table) {
        self.runs.use_table(table);
    }

    fn follow(&mut self, ran: &IterationResult<'_>) -> Result<(), ExecuteError> {
        let &IterationResult { iteration, switcher, round, length_s } = ran;
        if let Some(without) = without_probes(switcher, round) {
            self.probing_s += length_s - self.runs.length_s(iteration, &(without, round.exchanges))?;
        }
        self.oracle.add(&mut self.runs, switcher, iteration, length_s)
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

/// Single iterations under any choice of arms, simulated at most once if they would be equal.
struct Runs<'a, 'e> {
    arms: &'a Arms<'e>,
    variant: &'e Variant,
    simulator: Simulator<'a>,
    plans: Plans<'a, 'e>,
    /// Numbers of what is equal: conditions, and durations as bits.
    conditions: Vec<Conditions>,
    durations: BTreeMap<Vec<u64>, usize>,
    /// Seconds by choice, conditions and durations.
    lengths_s: BTreeMap<(Key, usize, usize), f64>,
}

impl<'a, 'e> Runs<'a, 'e> {
    fn new(arms: &'a Arms<'e>, variant: &'e Variant, simulator: Simulator<'a>) -> Self {
        Self {
            arms,
            variant,
            simulator,
            plans: Plans::new(arms),
            conditions: Vec::new(),
            durations: BTreeMap::new(),
            lengths_s: BTreeMap::new(),
        }
    }

    /// One iteration, whole, and its bytes before coding.
    fn run(&mut self, iteration: u32, key: &Key) -> Result<(Timeline, u64), ExecuteError> {
        let plan = self.plans.get(key)?;
        check_ratio(self.simulator.experiment, self.variant, &plan)?;
        let conditions = self.simulator.experiment.conditions(iteration);
        let timeline = self.simulator.run(
            self.variant,
            &plan,
            iteration..iteration + 1,
            &conditions,
            FaultSetup::NONE,
        )?;
        let found = self.found(iteration);
        self.lengths_s.insert((key.clone(), found.0, found.1), timeline.end_s());
        Ok((timeline, plan.bytes_raw()))
    }

    fn plan(&mut self, key: &Key) -> Result<Rc<Plan>, ExecuteError> {
        self.plans.get(key)
    }

    /// From now on, frames name this table; no iteration is known to be equal to one before.
    fn use_table(&mut self, table: &Table) {
        self.plans.use_table(table);
        self.lengths_s.clear();
    }

    /// Seconds of an iteration. Iterations that find the same take the same time.
    fn length_s(&mut self, iteration: u32, key: &Key) -> Result<f64, ExecuteError> {
        let found = self.found(iteration);
        match self.lengths_s.get(&(key.clone(), found.0, found.1)) {
            Some(&length_s) => Ok(length_s),
            None => Ok(self.run(iteration, key)?.0.end_s()),
        }
    }

    /// The numbers of what an iteration finds.
    fn found(&mut self, iteration: u32) -> (usize, usize) {
        let experiment = self.simulator.experiment;
        let conditions = experiment.conditions(iteration);
        let known = self.conditions.iter().position(|other| *other == conditions);
        let of_conditions = known.unwrap_or_else(|| {
            self.conditions.push(conditions);
            self.conditions.len() - 1
        });
        let bits =
            experiment.durations.of_iteration(iteration).iter().map(|seconds| seconds.to_bits()).collect();
        let next = self.durations.len();
        (of_conditions, *self.durations.entry(bits).or_insert(next))
    }
}

/// The best that a switcher could have done, known afterwards: every fixed choice, simulated for the same iteration. Seconds are summed over the
/// iterations after the warm-up.
#[derive(Clone, Debug)]
struct Oracle {
    /// The best choice of each iteration.
    best_s: f64,
    /// The same arm in all calls and iterations, by arm.
    arms_s: Vec<f64>,
    adaptive_s: f64,
}

impl Oracle {
    fn new(arms: usize) -> Self {
        Self { best_s: 0.0, arms_s: vec![0.0; arms], adaptive_s: 0.0 }
    }

    /// Adds an iteration that took the switcher `adaptive_s`. The best single arm is improved class by class: each class takes the
    /// arm that is best while the others stay.
    fn add(
        &mut self,
        runs: &mut Runs<'_, '_>,
        switcher: &Switcher,
        iteration: u32,
        adaptive_s: f64,
    ) -> Result<(), ExecuteError> {
        let segments = runs.arms.raw_bytes.len();
        let (mut best, mut best_s) = (Vec::new(), f64::INFINITY);
        for arm in 0..self.arms_s.len() {
            let key = (vec![arm; segments], false);
            let seconds = runs.length_s(iteration, &key)?;
            self.arms_s[arm] += seconds;
            if seconds < best_s {
                (best, best_s) = (key.0, seconds);
            }
        }
        if switcher.classes().len() > 1 {
            for class in switcher.classes() {
                for arm in 0..self.arms_s.len() {
                    let mut arms = best.clone();
                    class.segments.iter().for_each(|segment| arms[segment.index()] = arm);
                    if arms == best {
                        continue;
                    }
                    let seconds = runs.length_s(iteration, &(arms.clone(), false))?;
                    if seconds < best_s {
                        (best, best_s) = (arms, seconds);
                    }
                }
            }
        }
        self.best_s += best_s;
        self.adaptive_s += adaptive_s;
        Ok(())
    }

    /// Relative excess of the switcher's time over the best choice of each iteration.
    fn regret(&self) -> Option<f64> {
        (self.best_s > 0.0).then(|| self.adaptive_s / self.best_s - 1.0)
    }

    /// Relative excess of the switcher's time over `seconds`.
    fn over(&self, seconds: f64) -> Option<f64> {
        (seconds > 0.0).then(|| self.adaptive_s / seconds - 1.0)
    }
}

/// The share of a rank's values that a table may miss more than it promised.
const TOLERANCE: f64 = 0.01;

/// Bytes that a rank tells about the table: values and those that it missed, 8 bytes each, and room for a new one, of 108 bytes at most, in whole words.
pub(super) const TABLE_BYTES: u64 = 8 + 8 + 112;

/// The table that frames share, in the course of a run: a stale one is noticed, and a new one takes its place.
/// Each rank knows from its frames how many of its values the table has not served. One for which these are too many calibrates a table from its own values,
/// and tells it in the exchange of statistics; so all ranks know it before its first frame, and take the one of the lowest such rank.
pub(super) struct Recalibration<'a> {
    payload: &'a Payload,
    cancel: &'a Cancel,
    /// The share that the table in use promises not to serve; of one that was calibrated on the way, what the rank that it serves worst missed when it was
    /// used first. `None` until then.
    promised: Option<f64>,
    pub(super) tables: Vec<SwitcherTable>,
}

/// Whether frames of the variant share a table that can become stale: they are frames of a payload, and not of a stated ratio.
pub(super) fn takes_new_tables(experiment: &Experiment, variant: &Variant) -> bool {
    promise(experiment, variant).is_some()
}

/// Share of values that the table of the variant is declared not to serve.
fn promise(experiment: &Experiment, variant: &Variant) -> Option<f64> {
    let is_coded = variant.arms.iter().any(Variant::is_coded);
    let choice = experiment.codec_of(variant).filter(|choice| is_coded && choice.ratio.is_none())?;
    choice.table_misses.filter(|_| experiment.payload.is_some())
}

impl<'a> Recalibration<'a> {
    /// For a variant to which it applies.
    pub(super) fn new(experiment: &'a Experiment, variant: &Variant, cancel: &'a Cancel) -> Option<Self> {
        let (promised, payload) = (promise(experiment, variant)?, experiment.payload.as_ref()?);
        Some(Self { payload, cancel, promised: Some(promised), tables: Vec::new() })
    }

    /// Looks at an iteration whose statistics were exchanged; the table of the iterations after it, if that is another one.
    pub(super) fn observe(&mut self, iteration: u32, plan: &Plan) -> Result<Option<Table>, ExecuteError> {
        let Some(spec) = &plan.codec else { return Ok(None) };
        let proceed = || !self.cancel.is_cancelled();
        let fits = table_fit(plan, spec, self.payload, proceed)?.ok_or(ExecuteError::Cancelled)?;
        let coded = || fits.iter().filter(|fit| fit.values() > 0);
        let Some(worst) = coded().map(TableUsage::missed).reduce(f64::max) else { return Ok(None) };
        let Some(promised) = self.promised else {
            self.promised = Some(worst);
            return Ok(None);
        };
        let is_stale = |fit: &TableUsage| fit.missed() > promised + TOLERANCE;
        let Some(rank) = fits.iter().position(is_stale) else { return Ok(None) };
        let Some(table) = calibrated_table(plan, spec, self.payload, rank)? else { return Ok(None) };
        if spec.table_id() == Some(table.id()) {
            // Nothing better is known.
            self.promised = Some(worst);
            return Ok(None);
        }
        self.tables.push(SwitcherTable {
            iteration: iteration + 1,
            id: format!("{:08x}", table.id()),
            rank: u32::try_from(rank).expect("ranks are counted in 32 bits"),
            missed: fits[rank].missed(),
            promised,
        });
        self.promised = None;
        Ok(Some(table))
    }
}
