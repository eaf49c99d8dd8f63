//! Conformance on GPUs: a test per variant.

use libtest_mimic::{Failed, Trial};
use zipwire::engine::cuda;
use zipwire::{Cancel, Prepared};

use super::conformance::{Case, resolve};

/// A test for each variant of each case; those that no GPU can run are reported as ignored, as are those of long cases, whose names
/// begin with `whole::`.
pub(crate) fn trials(
    cases: &[Case],
    is_long: impl Fn(&Case) -> bool,
    test: impl Fn(&Case, usize) -> Result<(), Failed> + Copy + Send + 'static,
) -> Vec<Trial> {
    let of_case = |case: &Case| {
        let (case, is_long) = (case.on_gpus(), is_long(case));
        let experiment = resolve(&case).unwrap_or_else(|error| panic!("{}: {error:?}", case.name));
        let prepared =
            Prepared::new(&experiment, &Cancel::new()).expect("scenarios of the repository are plans");
        let trial = |(index, variant): (usize, &zipwire::scenarios::Variant)| {
            let is_possible = cuda::check(&prepared.planned(index).plan).is_ok();
            let extent = if is_long && is_possible { "whole::" } else { "" };
            let (name, case) = (format!("{extent}{}::{}::cuda", case.name, variant.name), case.clone());
            Trial::test(name, move || test(&case, index))
                .with_kind("conformance")
                .with_ignored_flag(is_long || !is_possible)
        };
        experiment.variants.iter().enumerate().map(trial).collect::<Vec<_>>()
    };
    cases.iter().flat_map(of_case).collect()
}
