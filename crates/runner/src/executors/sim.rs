//! The simulator as an executor: declared costs in virtual time, no bytes.

use zipwire_scenarios::{Experiment, Variant};
use zipwire_schedule::{FiredFaults, Plan};

use super::{
    Capabilities, Executor, FaultSupport, PlanReport, PlanRun, Ranks, ServeReport, ServeRun,
    ValidationSupport,
};
use crate::execute::{ExecuteError, Prepared};
use crate::{Cancel, memory, serving};

#[derive(Debug)]
pub(super) struct Sim;

impl Executor for Sim {
    says! {
        name: &'static str = "sim";
        summary: &'static str = "the simulator";
        clock: &'static str = "virtual";
        capabilities: Capabilities = Capabilities {
            is_real: false,
            ranks: Ranks::Inside,
            needs_mpi: false,
            faults: FaultSupport::Deadlines,
            adapts: true,
            serves: true,
            validation: ValidationSupport::None("a simulation is not held against itself"),
        };
    }

    fn times(&self, _: &Experiment) -> &'static str {
        "simulated"
    }

    /// Frames are made for their lengths, unless these are stated.
    fn memory_bytes(&self, prepared: &Prepared<'_>, index: usize) -> u64 {
        let (experiment, plan) = (prepared.experiment, &prepared.planned(index).plan);
        let is_encoded = experiment.largest_ratio(&experiment.variants[index]).is_none();
        let encoding = if is_encoded { zipwire_sim::encoding_bytes(plan) } else { 0 };
        memory::timeline_bytes(plan, experiment.iterations) + encoding
    }

    fn check(&self, prepared: &Prepared<'_>, index: usize) -> Result<(), ExecuteError> {
        let experiment = prepared.experiment;
        check_ratio(experiment, &experiment.variants[index], &prepared.planned(index).plan)
    }

    fn run_plan(
        &self,
        prepared: &mut Prepared<'_>,
        run: &PlanRun<'_>,
        cancel: &Cancel,
    ) -> Result<PlanReport, ExecuteError> {
        let experiment = prepared.experiment;
        let variant = &experiment.variants[run.index];
        check_ratio(experiment, variant, run.plan)?;
        let fired = FiredFaults::new(run.conditions.faults.len());
        let timeline = prepared.simulator(cancel).0.run(
            variant,
            run.plan,
            run.iterations.clone(),
            run.conditions,
            &fired,
        )?;
        Ok(PlanReport { timeline, is_timed: true, unfired: fired.missing(), ..PlanReport::default() })
    }

    fn serve(
        &self,
        prepared: &Prepared<'_>,
        run: &ServeRun<'_>,
        cancel: &Cancel,
    ) -> Result<ServeReport, ExecuteError> {
        serving::simulate(prepared.experiment, run, cancel)
    }
}

/// By which part a stated ratio may be above what frames can have: both are rounded to whole bytes, and people state three digits.
const ROUNDED: f64 = 5e-4;

/// Whether frames of a plan can have the ratios that are stated for a variant.
fn check_ratio(experiment: &Experiment, variant: &Variant, plan: &Plan) -> Result<(), ExecuteError> {
    match (experiment.largest_ratio(variant), largest_ratio(plan)) {
        (Some(ratio), Some(limit)) if ratio > limit * (1.0 + ROUNDED) => {
            Err(ExecuteError::Ratio { variant: variant.name.clone(), ratio, limit })
        }
        _ => Ok(()),
    }
}

/// Raw bytes over those of the static sections: no frames of the plan can do better. `None` without static sections.
fn largest_ratio(plan: &Plan) -> Option<f64> {
    let ops = plan.programs.iter().flat_map(|program| &program.ops);
    let blocks = ops.filter_map(|op| Some(&op.kind.encoded()?.blocks));
    let (raw, fixed) = blocks
        .flatten()
        .fold((0, 0), |(raw, fixed), block| (raw + block.values.len, fixed + block.known_len()));
    (fixed > 0).then(|| raw as f64 / fixed as f64)
}
