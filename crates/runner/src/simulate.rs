//! Simulates plans under the conditions of an experiment, which may change in the course of a run, and
//! with the faults that it names.

use std::collections::BTreeMap;
use std::ops::Range;

use zipwire_engine::threads::{HostReport, Pace};
use zipwire_scenarios::{CodecChoice, Conditions, Experiment, Variant};
use zipwire_schedule::{Deadlines, Fault, FiredFaults, Lane, OpId, Plan, Rank};
use zipwire_sim::{FrameSizes, Room, SimError, SizeCache, SizeTable};
use zipwire_timeline::{Metrics, Timeline};

use crate::choices::{costs, travel_alike};
use crate::execute::plan;
use crate::validate::{check_model, needs_measuring};
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
        self.simulate_as(experiment, &experiment.variants[index], index, None, fault_setup, cancel)
    }

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
        let anew = (!is_planned).then(|| plan(changed, variant));
        let timeline = self.simulate_as(changed, variant, index, anew.as_ref(), FaultSetup::NONE, cancel)?;
        Ok(Metrics::of(&timeline, self.planned(index).plan.bytes_raw()).iteration_s.mean)
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
        let timeline = self.simulate_as(experiment, &variant, index, None, FaultSetup::NONE, cancel)?;
        Ok(Metrics::of(&timeline, self.planned(index).plan.bytes_raw()).iteration_s.mean)
    }

    /// Runs the plan at `index`, or another one in its place.
    fn simulate_as(
        &mut self,
        experiment: &Experiment,
        variant: &Variant,
        index: usize,
        anew: Option<&Plan>,
        fault_setup: FaultSetup<'_>,
        cancel: &Cancel,
    ) -> Result<Timeline, ExecuteError> {
        let (simulator, planned) = self.simulator(cancel);
        let mut simulator = Simulator { experiment, ..simulator };
        let mut timeline = Timeline::default();
        for phase in experiment.phases() {
            let plan = anew.unwrap_or(&planned[index].plan);
            let conditions = experiment.conditions(phase.start);
            timeline.append(simulator.run(variant, plan, phase, &conditions, fault_setup)?);
        }
        Ok(timeline)
    }
}

/// Seconds of this machine that an iteration takes at the least: then a thread that wakes up late is not overdue.
const SHORTEST_ITERATION_S: f64 = 0.25;

/// Faults of a run, and the deadlines by which they are noticed, which follow from a simulation without faults.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FaultSetup<'a> {
    pub(crate) faults: &'a [Fault],
    pub(crate) deadlines: Option<&'a Deadlines>,
    /// Record of the faults that had an effect.
    pub(crate) fired: Option<&'a FiredFaults>,
}

impl FaultSetup<'_> {
    pub(crate) const NONE: Self = Self { faults: &[], deadlines: None, fired: None };
}

impl Prepared<'_> {
    /// Simulates the variant at `index` with the faults of the scenario. Also gives those that had no effect.
    pub(crate) fn simulate_faults(
        &mut self,
        index: usize,
        cancel: &Cancel,
    ) -> Result<(Timeline, Vec<usize>), ExecuteError> {
        let experiment = self.experiment;
        let expected = self.simulate(index, FaultSetup::NONE, cancel)?;
        let deadlines = self.deadlines(index, &expected);
        let fired = FiredFaults::new(experiment.faults.len());
        let fault_setup =
            FaultSetup { faults: &experiment.faults, deadlines: Some(&deadlines), fired: Some(&fired) };
        let timeline = self.simulate(index, fault_setup, cancel)?;
        Ok((timeline, fired.missing()))
    }

    /// Runs the variant at `index` on threads with the faults of the scenario: on paced links, because faults and deadlines
    /// are in the cluster's time.
    pub(crate) fn measure_faults(
        &mut self,
        index: usize,
        cancel: &Cancel,
    ) -> Result<HostReport, ExecuteError> {
        let experiment = self.experiment;
        check_model(experiment)?;
        let expected = self.simulate(index, FaultSetup::NONE, cancel)?;
        let (variant, plan) = (&experiment.variants[index], &self.planned(index).plan);
        let predicted_s = Metrics::of(&expected, plan.bytes_raw()).iteration_s.mean;
        if predicted_s == 0.0 {
            return Err(ExecuteError::NoTime(experiment.variants[index].name.clone()));
        }
        let mut dilation = (SHORTEST_ITERATION_S / predicted_s).max(1.0);
        if needs_measuring(self, index) {
            dilation = dilation.max(self.needed_dilation(index, experiment, cancel)?);
        }
        let pace = Pace {
            topology: experiment.topology.clone(),
            costs: costs(experiment, variant),
            durations: experiment.durations.clone(),
            dilation: dilation.ceil(),
        };
        let deadlines = self.deadlines(index, &expected);
        let fault_setup = FaultSetup { faults: &experiment.faults, deadlines: Some(&deadlines), fired: None };
        self.measure(index, experiment.iterations, Some(&pace), fault_setup, cancel)
    }

    /// When each op of a variant must have ended, given when it is expected to.
    pub(crate) fn deadlines(&self, index: usize, expected: &Timeline) -> Deadlines {
        let (plan, experiment) = (&self.planned(index).plan, self.experiment);
        let ops = expected.spans.iter().filter(|span| !matches!(span.lane, Lane::Tx | Lane::Rx));
        let ends = ops.map(|span| (span.iteration, span.rank, span.op, span.end_s));
        let ends: Vec<(u32, Rank, OpId, f64)> = ends.collect();
        Deadlines::new(plan, experiment.iterations, experiment.slack, ends)
    }
}
