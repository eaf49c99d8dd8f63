//! Runs variants on the GPUs of this machine.

use zipwire_engine::{EngineError, cuda};
use zipwire_kernels::{Device, GpuError, compiler};

use crate::execute::Outcome;
use crate::{Cancel, ExecuteError, Executor, Prepared};

impl Prepared<'_> {
    /// Whether the GPUs of this machine can run the variant at `index`.
    ///
    /// # Errors
    /// What the executor lacks, or how much memory the GPUs do.
    pub(crate) fn check_gpus(&self, index: usize) -> Result<(), ExecuteError> {
        let plan = &self.planned(index).plan;
        let check = || -> Result<(), EngineError> {
            if !self.experiment.faults.is_empty() {
                return Err(EngineError::Faults);
            }
            cuda::check(plan)?;
            if plan.codec.is_some() {
                compiler()?;
            }
            cuda::check_memory(plan, self.gpus()?)
        };
        check().map_err(|error| self.refused(index, error))
    }

    /// Runs the variant at `index`. What it returns is verified.
    pub(crate) fn run_on_gpus(&self, index: usize, cancel: &Cancel) -> Result<Outcome, ExecuteError> {
        let (experiment, plan) = (self.experiment, &self.planned(index).plan);
        let devices = self.gpus().map_err(|error| self.refused(index, error.into()))?;
        let no_payload = || ExecuteError::NoPayload(experiment.variants[index].name.clone(), Executor::Cuda);
        let setup = cuda::Setup {
            plan,
            payload: experiment.payload.as_ref().ok_or_else(no_payload)?,
            iterations: experiment.iterations,
            stuck_after: cuda::STUCK_AFTER,
            devices,
        };
        let run = cuda::run(&setup, cancel.flag());
        let report = run.map_err(|failure| self.failed(index, Executor::Cuda, failure))?;
        self.check_verified(index, plan, experiment.iterations.into(), report.bytes_verified)?;
        // Ranks may share a GPU, and copies are no network.
        Ok(Outcome {
            timeline: report.timeline,
            verified: Some(true),
            is_timed: false,
            switcher: None,
            unfired: Vec::new(),
        })
    }

    /// The GPUs that ranks run on.
    fn gpus(&self) -> Result<&[Device], GpuError> {
        if let Some(gpus) = self.gpus.get() {
            return Ok(gpus);
        }
        let gpus = cuda::devices(self.experiment.topology.ranks() as usize)?;
        Ok(self.gpus.get_or_init(|| gpus))
    }

    fn refused(&self, index: usize, error: EngineError) -> ExecuteError {
        if let EngineError::Gpu(error) = &error
            && error.is_absence()
        {
            return ExecuteError::Unavailable(Executor::Cuda, error.to_string());
        }
        ExecuteError::Refused(self.experiment.variants[index].name.clone(), Executor::Cuda, error)
    }
}
