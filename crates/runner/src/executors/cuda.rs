//! Ranks on the GPUs of this machine.

use std::collections::BTreeSet;

use zipwire_codec::{DType, Layout};
use zipwire_engine::{EngineError, cuda};
use zipwire_kernels::{Coder, Device, GpuError};
use zipwire_scenarios::{Experiment, Variant};
use zipwire_schedule::Algorithm;
use zipwire_schedule::plan::{Batch, Local, Plan};

use super::{Capabilities, Executor, PlanReport, PlanRun, ValidationSupport};
use crate::Cancel;
use crate::execute::{ExecuteError, Prepared};

#[derive(Debug)]
pub(super) struct Cuda;

impl Executor for Cuda {
    says! {
        name: &'static str = "cuda";
        summary: &'static str = "ranks on CUDA streams";
        clock: &'static str = "device";
        capabilities: Capabilities = Capabilities {
            validation: ValidationSupport::None("copies between ranks on GPUs are no network to hold a prediction against"),
            ..Capabilities::REAL
        };
    }

    fn times(&self, _: &Experiment) -> &'static str {
        "measured on GPUs (copies between ranks: times are those of this machine, not the cluster's)"
    }

    fn missing(&self) -> Option<String> {
        Device::count().err().map(|error| error.to_string())
    }

    fn settle(&self, experiment: &mut Experiment) -> Vec<String> {
        let mut settled = without_calls(experiment);
        settled.extend(with_written_layouts(experiment));
        settled
    }

    fn check(&self, prepared: &Prepared<'_>, index: usize) -> Result<(), ExecuteError> {
        let plan = &prepared.planned(index).plan;
        let checked = cuda::check(plan).and_then(|()| check_gpus(prepared, plan));
        checked.map_err(|error| refused(self, prepared, index, error))
    }

    fn run_plan(
        &self,
        prepared: &mut Prepared<'_>,
        run: &PlanRun<'_>,
        cancel: &Cancel,
    ) -> Result<PlanReport, ExecuteError> {
        let devices = gpus(prepared).map_err(|error| refused(self, prepared, run.index, error.into()))?;
        let setup = cuda::CudaSetup {
            plan: run.plan,
            payload: prepared.payload_of(run, self)?,
            iterations: run.iterations.clone(),
            stuck_after: cuda::STUCK_AFTER,
            devices,
        };
        let ran = cuda::run(&setup, cancel.flag());
        let report = ran.map_err(|failure| prepared.failed(run.index, self, failure))?;
        // Ranks may share a GPU, and copies are no network.
        Ok(PlanReport::of_run(report, false))
    }
}

/// Takes planned algorithms where a scenario says nothing and a library's collective would be chosen.
fn without_calls(experiment: &mut Experiment) -> Vec<String> {
    let calls =
        |variant: &Variant| variant.ways.iter().flatten().any(|way| way.algorithm == Algorithm::Library);
    let called: Vec<bool> = experiment.variants.iter().map(calls).collect();
    for variant in &mut experiment.variants {
        variant.may_call = false;
    }
    experiment.choose_ways();
    let changed =
        experiment.variants.iter().zip(called).filter(|(variant, called)| *called && !calls(variant));
    let line = |variant: &Variant| {
        format!(
            "variant `{}`: algorithms are planned ones, as copies between GPUs are no library",
            variant.name
        )
    };
    changed.map(|(variant, _)| line(variant)).collect()
}

/// Takes the layout `split` where a scenario says nothing and no kernel writes the other one.
pub(super) fn with_written_layouts(experiment: &mut Experiment) -> Vec<String> {
    let writes: Vec<bool> =
        experiment.variants.iter().map(|variant| writes_compact(experiment, variant)).collect();
    let mut settled = Vec::new();
    for (variant, writes) in experiment.variants.iter_mut().zip(writes) {
        if variant.protocol.layout() == Some(Layout::Compact) && variant.layout.is_none() && !writes {
            variant.layout = Some(Layout::Split);
            let name = &variant.name;
            settled.push(format!(
                "variant `{name}`: frames have the layout `split`, as no GPU kernel writes `compact` ones of its codec"
            ));
        }
    }
    settled
}

/// Whether kernels write compact frames of the types of all calls, coded or not, with the codec of a variant.
fn writes_compact(experiment: &Experiment, variant: &Variant) -> bool {
    experiment.codec_of(variant).is_some_and(|choice| {
        let mut dtypes = experiment.work.segments().iter().filter_map(|segment| segment.work.dtype());
        dtypes.all(|dtype| Coder::check_compact(&choice.spec, dtype).is_ok())
    })
}

/// Whether the kernels that a plan takes are compiled, or can be.
fn check_code(plan: &Plan, devices: &[Device]) -> Result<(), GpuError> {
    let ops = plan.programs.iter().flat_map(|program| &program.ops);
    let kernels: BTreeSet<Option<DType>> = ops
        .filter_map(|op| match op.kind.local()? {
            Local::Encode(Batch { dtype, .. }) | Local::Decode(Batch { dtype, .. }) => Some(Some(*dtype)),
            Local::Reduce(_) => Some(None),
            Local::Split(_) | Local::GatherRows(_) => None,
        })
        .collect();
    for device in devices {
        let arch = device.arch()?;
        for dtype in &kernels {
            let spec = || plan.codec.as_ref().expect("coded plans name their codec");
            zipwire_kernels::check_code(dtype.map(|dtype| (spec(), dtype)), &arch)?;
        }
    }
    Ok(())
}

/// Whether the GPUs of this process have the code and the room for a plan.
pub(super) fn check_gpus(prepared: &Prepared<'_>, plan: &Plan) -> Result<(), EngineError> {
    let devices = gpus(prepared)?;
    check_code(plan, devices)?;
    cuda::check_memory(plan, devices)
}

pub(super) fn gpus<'p>(prepared: &'p Prepared<'_>) -> Result<&'p [Device], GpuError> {
    if let Some(gpus) = prepared.gpus.get() {
        return Ok(gpus);
    }
    let gpus = cuda::devices(prepared.experiment.topology.ranks() as usize)?;
    Ok(prepared.gpus.get_or_init(|| gpus))
}

pub(super) fn refused(
    executor: &dyn Executor,
    prepared: &Prepared<'_>,
    index: usize,
    error: EngineError,
) -> ExecuteError {
    if let EngineError::Gpu(error) = &error
        && error.is_absence()
    {
        return ExecuteError::Unavailable(executor.name(), error.to_string());
    }
    ExecuteError::Refused(prepared.experiment.variants[index].name.clone(), executor.name(), error)
}
