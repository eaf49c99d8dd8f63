//! Single iterations under any choice of arms, simulated at most once where they would be equal.

use std::collections::BTreeMap;
use std::rc::Rc;

use zipwire_codec::Table;
use zipwire_scenarios::{Conditions, Variant};
use zipwire_schedule::Plan;
use zipwire_timeline::Timeline;

use super::Arms;
use super::plans::{Key, Plans};
use crate::ExecuteError;
use crate::executors::check_ratio;
use crate::fault_setup::FaultSetup;
use crate::simulate::Simulator;

/// See the module.
pub(super) struct Runs<'a, 'e> {
    pub(super) arms: &'a Arms<'e>,
    pub(super) variant: &'e Variant,
    pub(super) simulator: Simulator<'a>,
    plans: Plans<'a, 'e>,
    /// Numbers of what is equal: conditions, and durations as bits.
    conditions: Vec<Conditions>,
    durations: BTreeMap<Vec<u64>, usize>,
    /// Seconds by choice, conditions and durations.
    lengths_s: BTreeMap<(Key, usize, usize), f64>,
}

impl<'a, 'e> Runs<'a, 'e> {
    pub(super) fn new(arms: &'a Arms<'e>, variant: &'e Variant, simulator: Simulator<'a>) -> Self {
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
    pub(super) fn run(&mut self, iteration: u32, key: &Key) -> Result<(Timeline, u64), ExecuteError> {
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

    /// The plan of a choice.
    pub(super) fn plan(&mut self, key: &Key) -> Result<Rc<Plan>, ExecuteError> {
        self.plans.get(key)
    }

    /// From now on, frames name this table; no iteration is known to be equal to one before.
    pub(super) fn use_table(&mut self, table: &Table) {
        self.plans.use_table(table);
        self.lengths_s.clear();
    }

    /// Seconds of an iteration. Iterations that find the same take the same time.
    pub(super) fn length_s(&mut self, iteration: u32, key: &Key) -> Result<f64, ExecuteError> {
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
