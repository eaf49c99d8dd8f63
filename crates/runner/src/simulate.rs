//! Simulates plans under the conditions of an experiment, which may change in the course of a run.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::ops::Range;

use zipwire_scenarios::{CodecChoice, Conditions, Experiment, Variant};
use zipwire_schedule::{FiredFaults, Plan};
use zipwire_sim::lateness::{OnTime, lengths};
use zipwire_sim::{FrameSizes, Room, SimError, SizeCache, SizeTable};
use zipwire_timeline::{Metrics, Timeline};

use crate::choices::{costs, travel_alike};
use crate::execute::plan;
use crate::executors::RunConditions;
use crate::folded::Folded;
use crate::{Cancel, ExecuteError, Prepared, SIMULATED};

/// Simulator of an experiment, shared by all of its simulations.
pub(crate) struct Simulator<'a> {
    pub(crate) experiment: &'a Experiment,
    /// Lengths of frames that are known, by codec.
    pub(crate) sizes: &'a mut BTreeMap<String, SizeTable>,
    pub(crate) cache: &'a SizeCache,
    /// Memory that encoding may take.
    pub(crate) room: Room,
    pub(crate) cancel: &'a Cancel,
}

impl Simulator<'_> {
    /// Runs a plan of `variant` for some iterations, phase by phase if conditions change.
    pub(crate) fn run(
        &mut self,
        variant: &Variant,
        plan: &Plan,
        iterations: Range<u32>,
        faults: RunConditions<'_>,
        fired: &FiredFaults,
    ) -> Result<Timeline, ExecuteError> {
        let mut timeline = Timeline::default();
        for phase in self.experiment.phases() {
            let phase = phase.start.max(iterations.start)..phase.end.min(iterations.end);
            if !phase.is_empty() {
                let conditions = self.experiment.conditions(phase.start);
                timeline.append(self.run_phase(variant, plan, phase, &conditions, faults, fired)?);
            }
        }
        Ok(timeline)
    }

    /// Runs a plan for iterations that find the same conditions.
    fn run_phase(
        &mut self,
        variant: &Variant,
        plan: &Plan,
        iterations: Range<u32>,
        conditions: &Conditions,
        faults: RunConditions<'_>,
        fired: &FiredFaults,
    ) -> Result<Timeline, ExecuteError> {
        let (experiment, cancel) = (self.experiment, self.cancel);
        let ratio = match &variant.codec {
            Some(own) => own.ratio,
            None => conditions.ratio,
        };
        let sizes = match &plan.codec {
            Some(spec) => match (ratio, &experiment.payload) {
                (Some(ratio), _) => FrameSizes::Ratio(ratio),
                (None, Some(payload)) => {
                    let proceed = || !cancel.is_cancelled();
                    let sizes = self.sizes.entry(spec.to_string()).or_default();
                    if !sizes.measure(plan, spec, payload, self.cache, self.room, proceed)? {
                        return Err(ExecuteError::Cancelled);
                    }
                    FrameSizes::Measured(sizes)
                }
                (None, None) => unreachable!("scenarios with coded variants have a payload or a ratio"),
            },
            None => FrameSizes::None,
        };
        let (costs, own) = (costs(experiment, variant), &experiment.expect_iterations().durations);
        let evened = (!own.are_alike(&plan.symmetry)).then(|| own.evened());
        let setup = zipwire_sim::SimSetup {
            plan,
            topology: &conditions.topology,
            model: experiment.model,
            start: experiment.start,
            costs,
            sizes,
            durations: evened.as_ref().unwrap_or(own),
            iterations: iterations.clone(),
            capabilities: SIMULATED,
            faults: faults.faults,
            fired: Some(fired),
            deadlines: faults.deadlines,
        };
        let proceed = || !cancel.is_cancelled();
        let simulate = || {
            let mut timeline = zipwire_sim::run(&setup, &proceed)?;
            if let Some(durations) = &evened {
                let topology = &conditions.topology;
                let on_time = OnTime { plan, topology, durations, timeline: &timeline, costs };
                timeline.with_lateness = lengths(&on_time, own, iterations, &proceed)?;
            }
            Ok(timeline)
        };
        simulate().map_err(|error| match error {
            SimError::Cancelled => ExecuteError::Cancelled,
            error => ExecuteError::Sim(variant.name.clone(), error),
        })
    }
}

impl Prepared<'_> {
    /// Mean seconds of an iteration of the variant at `index` as it is in an experiment in which constants of the cluster or the codec differ from
    /// those of this one ([`Experiment::with_changed`]). Its plan is made anew where it is another one.
    pub(crate) fn mean_s_in(
        &mut self,
        changed: &Experiment,
        variant: &Variant,
        index: usize,
        cancel: &Cancel,
    ) -> Result<f64, ExecuteError> {
        let is_planned =
            travel_alike((self.experiment, &self.experiment.variants[index]), (changed, variant));
        let anew = (!is_planned).then(|| self.plan_of(changed, variant, cancel)).transpose()?;
        let timeline = self.simulate_as(changed, variant, index, anew.as_ref(), cancel)?;
        Ok(Metrics::of(&timeline, self.planned(index).plan.bytes_raw()).iteration_s.mean)
    }

    /// The plan of a variant of another experiment, with ranks that stand for others if plans are folded here.
    fn plan_of(
        &self,
        changed: &Experiment,
        variant: &Variant,
        cancel: &Cancel,
    ) -> Result<Plan, ExecuteError> {
        let goes_on = || !cancel.is_cancelled();
        let folded = self.shared.folds.then(|| Folded::of(changed, variant, goes_on).ok()).flatten();
        let planned = folded.and_then(|folded| folded.plan(&changed.topology, goes_on));
        match planned {
            Some(plan) => Ok(plan),
            None if cancel.is_cancelled() => Err(ExecuteError::Cancelled),
            None => Ok(plan(changed, variant)),
        }
    }

    /// Mean seconds of an iteration of a variant with another codec, other costs or another ratio, whose plan stays.
    pub(crate) fn mean_s_with(
        &mut self,
        codec: CodecChoice,
        index: usize,
        cancel: &Cancel,
    ) -> Result<f64, ExecuteError> {
        let experiment = self.experiment;
        let variant = Variant { codec: Some(codec), ..experiment.variants[index].clone() };
        let timeline = self.simulate_as(experiment, &variant, index, None, cancel)?;
        Ok(Metrics::of(&timeline, self.planned(index).plan.bytes_raw()).iteration_s.mean)
    }

    /// Simulates the plan at `index`, or another one in its place, without faults.
    fn simulate_as(
        &mut self,
        experiment: &Experiment,
        variant: &Variant,
        index: usize,
        anew: Option<&Plan>,
        cancel: &Cancel,
    ) -> Result<Timeline, ExecuteError> {
        let (simulator, planned) = self.simulator(cancel);
        let plan = anew.unwrap_or(&planned[index].plan);
        let mut simulator = Simulator { experiment, ..simulator };
        simulator.run(variant, plan, 0..experiment.iterations, RunConditions::NONE, &FiredFaults::new(0))
    }
}
