//! Simulates plans under the conditions of an experiment, which may change in the course of a run.

use std::collections::BTreeMap;
use std::ops::Range;

use zipwire_scenarios::{CodecChoice, Conditions, Experiment, Variant};
use zipwire_schedule::Plan;
use zipwire_sim::{FrameSizes, Room, SimError, SizeCache, SizeTable};
use zipwire_timeline::{Metrics, Timeline};

use crate::choices::costs;
use crate::faults::FaultSetup;
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
    /// Runs a plan of `variant` for iterations that find the same conditions.
    pub(crate) fn run(
        &mut self,
        variant: &Variant,
        plan: &Plan,
        iterations: Range<u32>,
        conditions: &Conditions,
        fault_setup: FaultSetup<'_>,
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
        let setup = zipwire_sim::SimSetup {
            plan,
            topology: &conditions.topology,
            model: experiment.model,
            start: experiment.start,
            costs: costs(experiment, variant),
            sizes,
            durations: &experiment.durations,
            iterations,
            capabilities: SIMULATED,
            faults: fault_setup.faults,
            fired: fault_setup.fired,
            deadlines: fault_setup.deadlines,
        };
        zipwire_sim::run(&setup, &|| !cancel.is_cancelled()).map_err(|error| match error {
            SimError::Cancelled => ExecuteError::Cancelled,
            error => ExecuteError::Sim(variant.name.clone(), error),
        })
    }
}

impl Prepared<'_> {
    /// Simulates a variant, phase by phase if conditions change.
    pub(crate) fn simulate(
        &mut self,
        index: usize,
        fault_setup: FaultSetup<'_>,
        cancel: &Cancel,
    ) -> Result<Timeline, ExecuteError> {
        let experiment = self.experiment;
        self.simulate_as(experiment, &experiment.variants[index], index, fault_setup, cancel)
    }

    /// Mean seconds of an iteration of a variant with another codec: other costs, another ratio.
    pub(crate) fn mean_s_with(
        &mut self,
        codec: CodecChoice,
        index: usize,
        cancel: &Cancel,
    ) -> Result<f64, ExecuteError> {
        let experiment = self.experiment;
        let variant = Variant { codec: Some(codec), ..experiment.variants[index].clone() };
        self.mean_s_as(experiment, &variant, index, cancel)
    }

    /// Mean seconds of an iteration of the plan at `index`, with the costs, links and ratio of another experiment or variant.
    pub(crate) fn mean_s_as(
        &mut self,
        experiment: &Experiment,
        variant: &Variant,
        index: usize,
        cancel: &Cancel,
    ) -> Result<f64, ExecuteError> {
        let timeline = self.simulate_as(experiment, variant, index, FaultSetup::NONE, cancel)?;
        Ok(Metrics::of(&timeline, self.planned(index).plan.bytes_raw()).iteration_s.mean)
    }

    fn simulate_as(
        &mut self,
        experiment: &Experiment,
        variant: &Variant,
        index: usize,
        fault_setup: FaultSetup<'_>,
        cancel: &Cancel,
    ) -> Result<Timeline, ExecuteError> {
        let (simulator, planned) = self.simulator(cancel);
        let mut simulator = Simulator { experiment, ..simulator };
        let mut timeline = Timeline::default();
        for phase in experiment.phases() {
            let (plan, conditions) = (&planned[index].plan, experiment.conditions(phase.start));
            timeline.append(simulator.run(variant, plan, phase, &conditions, fault_setup)?);
        }
        Ok(timeline)
    }
}
