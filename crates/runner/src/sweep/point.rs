//! Runs one point of a sweep.

use std::sync::Arc;

use zipwire_scenarios::{Experiment, ScenarioError};

use super::admission::Admission;
use super::{FailedRun, SweepError, SweepRow, SweepSetup};
use crate::executors::{SIM, settle};
use crate::{Cancel, ExecuteError, Output, OutputError, Prepared, Shared, add_splits, compare, write_run};

/// Setup shared by the points of a sweep.
pub(super) struct Points<'a> {
    pub(super) setup: &'a SweepSetup<'a>,
    pub(super) shared: Arc<Shared>,
    pub(super) admission: Admission,
}

/// Why a point has no row.
pub(super) enum Stop {
    /// The user asked to stop.
    Cancelled,
    /// No other point would have one either.
    Broken(SweepError),
}

/// Why a point could not be run to its end.
enum PointError {
    Scenario(ScenarioError),
    Execute(ExecuteError),
    Output(OutputError),
}

impl From<ExecuteError> for PointError {
    fn from(error: ExecuteError) -> Self {
        Self::Execute(error)
    }
}

impl Points<'_> {
    /// Whether the first point can run: what all points lack is found before any of them runs.
    pub(super) fn check_first(&self, cancel: &Cancel) -> Result<(), ExecuteError> {
        // That it is valid is known.
        let Ok((experiment, _)) = self.experiment(0) else { return Ok(()) };
        let prepared = Prepared::with(&experiment, Arc::clone(&self.shared), cancel)?;
        self.setup.executors.iter().try_for_each(|&executor| prepared.check(executor))
    }

    /// Runs a point. What is wrong with it alone is in its row.
    pub(super) fn run(&self, point: usize, cancel: &Cancel) -> Result<SweepRow, Stop> {
        let _span = tracing::info_span!("point", point).entered();
        let paths = self.setup.sweep.paths().map(str::to_owned);
        let set = paths.zip(self.setup.sweep.values(point)).collect();
        let whole = |error: String| vec![FailedRun { executor: None, variant: None, error }];
        match self.compare(point, cancel) {
            Ok((executors, failed)) => Ok(SweepRow { set, executors, failed }),
            Err(PointError::Execute(ExecuteError::Cancelled)) => Err(Stop::Cancelled),
            Err(PointError::Output(error)) => Err(Stop::Broken(error.into())),
            Err(PointError::Execute(error)) => {
                Ok(SweepRow { set, executors: serde_json::Map::new(), failed: whole(error.to_string()) })
            }
            Err(PointError::Scenario(error)) => {
                Ok(SweepRow { set, executors: serde_json::Map::new(), failed: whole(error.to_string()) })
            }
        }
    }

    /// All results of a point as JSON, and the runs that failed.
    fn compare(
        &self,
        point: usize,
        cancel: &Cancel,
    ) -> Result<(serde_json::Map<String, serde_json::Value>, Vec<FailedRun>), PointError> {
        let setup = self.setup;
        let (experiment, first_variant) = self.experiment(point).map_err(PointError::Scenario)?;
        let mut prepared = Prepared::with(&experiment, Arc::clone(&self.shared), cancel)?;
        let _admitted = self.admission.wait(prepared.memory(setup.executors));
        let folder = setup.folder.join("points").join((point + 1).to_string());
        let mut output =
            setup.timelines.then(|| Output::create(&folder)).transpose().map_err(PointError::Output)?;
        let mut compared = compare(
            &mut prepared,
            setup.executors,
            &first_variant,
            setup.explains,
            cancel,
            |_, _| {},
            |ran| output.as_mut().map_or(Ok(()), |output| write_run(output, ran)).map_err(PointError::Output),
        )?;
        output.map_or(Ok(()), Output::commit).map_err(PointError::Output)?;
        if setup.explains && setup.executors.iter().any(|executor| executor.name() == SIM.name()) {
            add_splits(&mut compared.executors, &mut prepared, cancel)?;
        }
        drop(prepared);
        let failed = compared.failed.into_iter().map(|failed| FailedRun {
            executor: Some(failed.executor.name().to_owned()),
            variant: Some(failed.variant),
            error: failed.error.to_string(),
        });
        let executors = serde_json::to_value(&compared.executors);
        let Ok(serde_json::Value::Object(executors)) = executors else {
            unreachable!("results are a table by executor")
        };
        Ok((executors, failed.collect()))
    }

    /// A point with the variants that were asked for, and the name of its first variant.
    fn experiment(&self, point: usize) -> Result<(Experiment, String), ScenarioError> {
        let mut experiment = self.setup.sweep.point(point)?;
        let first_variant = experiment.variants[0].name.clone();
        experiment.select(self.setup.variants)?;
        settle(&mut experiment, self.setup.executors);
        Ok((experiment, first_variant))
    }
}
