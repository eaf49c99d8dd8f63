//! Conformance on GPUs: a test per variant.

use libtest_mimic::{Failed, Trial};
use zipwire::codec::Layout;
use zipwire::engine::{EngineError, cuda, nccl};
use zipwire::executors::{CUDA, NCCL};
use zipwire::scenarios::Variant;
use zipwire::schedule::Plan;
use zipwire::{Cancel, Executor, Prepared};

use super::conformance::{Case, resolve};

/// Executors with ranks on GPUs, and what says whether they can run a plan.
pub(crate) type OnGpus = (&'static dyn Executor, fn(&Plan) -> Result<(), EngineError>);
pub(crate) const EXECUTORS: [OnGpus; 2] = [(CUDA, cuda::check), (NCCL, nccl::check)];

/// A test for each variant of each case, and another one where kernels write compact frames of its codec; variants that no GPU can run
/// are reported as ignored, as are those of long cases, whose names begin with `wide::`.
pub(crate) fn trials(
    cases: &[Case],
    (executor, check): OnGpus,
    is_long: impl Fn(&Case, Layout) -> bool,
    test: impl Fn(&'static dyn Executor, &Case, usize) -> Result<(), Failed> + Copy + Send + 'static,
) -> Vec<Trial> {
    let of_case = |(case, layout): (&Case, Layout)| {
        let (case, is_long) = (case.in_layout(layout), is_long(case, layout));
        let experiment = resolve(&case).unwrap_or_else(|error| panic!("{}: {error:?}", case.name));
        if layout == Layout::Compact
            && !experiment.variants.iter().any(|variant| variant.protocol.takes_layout())
        {
            return Vec::new();
        }
        let prepared =
            Prepared::new(&experiment, &Cancel::new()).expect("scenarios of the repository are plans");
        let trial = |(index, variant): (usize, &Variant)| {
            let is_possible = check(&prepared.planned(index).plan).is_ok();
            let suffix = match layout {
                Layout::Split => "",
                // Others are those of the first round.
                Layout::Compact if is_possible && variant.protocol.takes_layout() => "::compact",
                Layout::Compact => return None,
            };
            let extent = if is_long && is_possible { "wide::" } else { "" };
            let (name, case) =
                (format!("{extent}{}::{}{suffix}::{executor}", case.name, variant.name), case.clone());
            let trial = Trial::test(name, move || test(executor, &case, index));
            Some(trial.with_kind("conformance").with_ignored_flag(is_long || !is_possible))
        };
        experiment.variants.iter().enumerate().filter_map(trial).collect::<Vec<_>>()
    };
    let in_layouts = |case| Layout::ALL.map(|layout| (case, layout));
    cases.iter().flat_map(in_layouts).flat_map(of_case).collect()
}
