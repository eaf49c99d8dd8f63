//! Conformance on GPUs: a test per variant.

use libtest_mimic::{Failed, Trial};
use zipwire::codec::Layout;
use zipwire::engine::cuda;
use zipwire::scenarios::Variant;
use zipwire::{Cancel, Prepared};

use super::conformance::{Case, resolve};

/// A test for each variant of each case, and another one where kernels write compact frames of its codec; variants that no GPU can run
/// are reported as ignored, as are those of long cases, whose names begin with `wide::`.
pub(crate) fn trials(
    cases: &[Case],
    is_long: impl Fn(&Case, Layout) -> bool,
    test: impl Fn(&Case, usize) -> Result<(), Failed> + Copy + Send + 'static,
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
            let is_possible = cuda::check(&prepared.planned(index).plan).is_ok();
            let suffix = match layout {
                Layout::Split => "",
                // Others are those of the first round.
                Layout::Compact if is_possible && variant.protocol.takes_layout() => "::compact",
                Layout::Compact => return None,
            };
            let extent = if is_long && is_possible { "wide::" } else { "" };
            let (name, case) =
                (format!("{extent}{}::{}{suffix}::cuda", case.name, variant.name), case.clone());
            let trial = Trial::test(name, move || test(&case, index));
            Some(trial.with_kind("conformance").with_ignored_flag(is_long || !is_possible))
        };
        experiment.variants.iter().enumerate().filter_map(trial).collect::<Vec<_>>()
    };
    let in_layouts = |case| Layout::ALL.map(|layout| (case, layout));
    cases.iter().flat_map(in_layouts).flat_map(of_case).collect()
}
