//! Drivers of whole runs: they ask an executor for runs of plans, whichever it is.

use std::sync::Arc;

use zipwire_engine::threads::Pace;
use zipwire_payload::Payload;
use zipwire_scenarios::ExperimentWork;
use zipwire_schedule::{Deadlines, Lane, OpId, Rank};
use zipwire_timeline::{Metrics, Timeline};

use crate::choices::costs;
use crate::execute::{ExecuteError, Outcome, Prepared, check_start};
use crate::executors::{
    FaultSupport, PlanReport, PlanRun, Recipe, RunConditions, SIM, ServeReport, ServeRun,
};
use crate::validate::{check_model, needs_measuring};
use crate::{Cancel, Executor};

/// Seconds of this machine that an iteration with faults takes at the least: then a thread that wakes up late is not overdue.
const SHORTEST_ITERATION_S: f64 = 0.25;

impl<'a> Prepared<'a> {
    /// Runs the variant at `index`.
    ///
    /// # Errors
    /// If the executor is not available, the run fails, or the user stops it.
    pub fn run(
        &mut self,
        index: usize,
        executor: &dyn Executor,
        cancel: &Cancel,
    ) -> Result<Outcome, ExecuteError> {
        self.check_variant(index, executor)?;
        check_start(self.experiment, executor)?;
        let experiment = self.experiment;
        let variant = &experiment.variants[index];
        let _span = tracing::info_span!("variant", name = %variant.name, %executor).entered();
        if let ExperimentWork::Serving(serving) = &experiment.work {
            let run = ServeRun { index, serving, pace: None };
            let ServeReport { timeline, verified, served, .. } = executor.serve(self, &run, cancel)?;
            // The length of a run is that of its arrivals: speedups of it would mean nothing.
            let is_timed = false;
            let (switcher, served, unfired) = (None, Some(served), Vec::new());
            return Ok(Outcome { timeline, verified, is_timed, switcher, served, unfired });
        }
        let (report, switcher) = if variant.is_adaptive() {
            let (report, summary) = self.run_adaptive(index, executor, None, cancel)?;
            (report, Some(summary))
        } else {
            (self.run_with_faults(index, executor, cancel)?, None)
        };
        let PlanReport { timeline, bytes_verified, is_timed, unfired, .. } = report;
        let verified = bytes_verified.map(|bytes| self.verifies() || bytes > 0);
        Ok(Outcome { timeline, verified, is_timed, switcher, served: None, unfired })
    }

    /// Runs a plan. As many bytes were then compared as it delivers and adds up, if bytes are verified.
    pub(crate) fn run_plan(
        &mut self,
        executor: &dyn Executor,
        run: &PlanRun<'_>,
        cancel: &Cancel,
    ) -> Result<PlanReport, ExecuteError> {
        let report = executor.run_plan(self, run, cancel)?;
        let expected = run.plan.bytes_verified() * run.iterations.len() as u64;
        if report.bytes_verified.is_none_or(|bytes| bytes == expected || !self.verifies()) {
            return Ok(report);
        }
        Err(ExecuteError::Unverified(self.experiment.variants[run.index].name.clone()))
    }

    /// Runs the plan of a variant that is not adaptive, for iterations from the first on.
    pub(crate) fn run_own_plan(
        &mut self,
        index: usize,
        executor: &dyn Executor,
        iterations: u32,
        conditions: RunConditions<'_>,
        cancel: &Cancel,
    ) -> Result<PlanReport, ExecuteError> {
        let plan = Arc::clone(&self.planned(index).plan);
        let is_real = executor.capabilities().is_real;
        let run = PlanRun {
            index,
            plan: &plan,
            recipe: Recipe::Variant,
            payload: is_real.then(|| self.payload(index, executor)).transpose()?,
            iterations: 0..iterations,
            conditions,
        };
        self.run_plan(executor, &run, cancel)
    }

    /// Runs the plan of a variant with the faults of the scenario. Where deadlines notice them, a simulation without faults sets these; real links
    /// are paced then, because both are in the cluster's time.
    fn run_with_faults(
        &mut self,
        index: usize,
        executor: &dyn Executor,
        cancel: &Cancel,
    ) -> Result<PlanReport, ExecuteError> {
        let experiment = self.experiment;
        let (iterations, faults) = (experiment.iterations, experiment.faults());
        let capabilities = executor.capabilities();
        if faults.is_empty() || capabilities.faults != FaultSupport::Deadlines {
            let conditions = RunConditions { faults, ..RunConditions::NONE };
            return self.run_own_plan(index, executor, iterations, conditions, cancel);
        }
        if capabilities.is_real {
            check_model(experiment)?;
        }
        let expected = self.run_own_plan(index, SIM, iterations, RunConditions::NONE, cancel)?.timeline;
        let pace = capabilities
            .is_real
            .then(|| self.pace_for_faults(index, executor, &expected, cancel))
            .transpose()?;
        let deadlines = Some(&self.deadlines(index, &expected));
        let conditions = RunConditions { faults, deadlines, pace: pace.as_ref() };
        self.run_own_plan(index, executor, iterations, conditions, cancel)
    }

    /// The cluster, slowed down so far that this machine keeps up with it and iterations are long enough.
    fn pace_for_faults(
        &mut self,
        index: usize,
        executor: &dyn Executor,
        expected: &Timeline,
        cancel: &Cancel,
    ) -> Result<Pace, ExecuteError> {
        let experiment = self.experiment;
        let variant = &experiment.variants[index];
        let predicted_s = Metrics::of(expected, self.planned(index).plan.bytes_raw()).iteration_s.mean;
        if predicted_s == 0.0 {
            return Err(ExecuteError::NoTime(variant.name.clone()));
        }
        let mut dilation = (SHORTEST_ITERATION_S / predicted_s).max(1.0);
        if needs_measuring(self, index) {
            dilation = dilation.max(self.needed_dilation(index, executor, experiment, cancel)?);
        }
        Ok(Pace {
            topology: experiment.topology.clone(),
            costs: costs(experiment, variant),
            durations: experiment.expect_iterations().durations.clone(),
            dilation: dilation.ceil(),
        })
    }

    /// When each op of a variant must have ended, given when it is expected to.
    pub(crate) fn deadlines(&self, index: usize, expected: &Timeline) -> Deadlines {
        let (plan, experiment) = (&self.planned(index).plan, self.experiment);
        let ops = expected.spans.iter().filter(|span| !matches!(span.lane, Lane::Tx | Lane::Rx));
        let ends = ops.map(|span| (span.iteration, span.rank, span.op, span.end_s));
        let ends: Vec<(u32, Rank, OpId, f64)> = ends.collect();
        Deadlines::new(plan, experiment.iterations, experiment.expect_iterations().slack, ends)
    }

    /// The contents of the chunks of a run, for executors that move them.
    pub(crate) fn payload_of<'r>(
        &self,
        run: &PlanRun<'r>,
        executor: &dyn Executor,
    ) -> Result<&'r Payload, ExecuteError> {
        let variant = || self.experiment.variants[run.index].name.clone();
        run.payload.ok_or_else(|| ExecuteError::NoPayload(variant(), executor.name()))
    }
}
