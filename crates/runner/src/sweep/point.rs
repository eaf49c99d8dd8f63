//! Runs one point of a sweep, beside others as long as all of them fit into memory.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use zipwire_scenarios::{Experiment, ScenarioError};

use super::{FailedRun, SweepError, SweepRow, SweepSetup};
use crate::executors::settle;
use crate::{Cancel, ExecuteError, Output, OutputError, Prepared, Shared, add_splits, compare, write_run};

/// Setup shared by the points of a sweep.
pub(super) struct Points<'a> {
    pub(super) setup: &'a SweepSetup<'a>,
    pub(super) shared: Arc<Shared>,
    pub(super) admission: Admission,
}

/// Why a point has no row.
pub(super) enum Stop {
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
        if setup.explains {
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

/// Bytes that are free to be used.
/// Points run at the same time as long as all of them together fit into memory.
#[derive(Debug)]
pub(crate) struct Admission {
    /// `None` if it is not known.
    total: Option<u64>,
    used: Mutex<u64>,
    released: Condvar,
}

/// Bytes in use, until this is dropped.
#[derive(Debug)]
pub(super) struct Admitted<'a> {
    admission: &'a Admission,
    bytes: u64,
}

impl Admission {
    pub(super) fn new(total: Option<u64>) -> Self {
        Self { total, used: Mutex::new(0), released: Condvar::new() }
    }

    /// Waits until `bytes` are free, or until nothing else is in use: what never fits is refused elsewhere.
    fn wait(&self, bytes: u64) -> Admitted<'_> {
        let mut used = self.used();
        while *used > 0 && self.total.is_some_and(|total| used.saturating_add(bytes) > total) {
            used = self.released.wait(used).unwrap_or_else(PoisonError::into_inner);
        }
        *used = used.saturating_add(bytes);
        Admitted { admission: self, bytes }
    }

    fn used(&self) -> MutexGuard<'_, u64> {
        self.used.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Admitted<'_> {
    fn drop(&mut self) {
        let mut used = self.admission.used();
        *used = used.saturating_sub(self.bytes);
        drop(used);
        self.admission.released.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;

    #[test]
    fn no_more_is_in_use_than_there_is() {
        let admission = Admission::new(Some(10));
        let (in_use, most) = (AtomicU64::new(0), AtomicU64::new(0));
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    for _ in 0..50 {
                        let admitted = admission.wait(4);
                        let now = in_use.fetch_add(4, Ordering::SeqCst) + 4;
                        most.fetch_max(now, Ordering::SeqCst);
                        std::thread::yield_now();
                        in_use.fetch_sub(4, Ordering::SeqCst);
                        drop(admitted);
                    }
                });
            }
        });
        assert_eq!(most.into_inner(), 8, "two at once, never three");
    }

    #[test]
    fn what_never_fits_runs_alone() {
        let admission = Admission::new(Some(10));
        drop(admission.wait(11));
        drop(admission.wait(11));
        assert_eq!(*admission.used(), 0);
    }
}
