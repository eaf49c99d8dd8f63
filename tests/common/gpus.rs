//! Conformance on GPUs: a test per variant.

use libtest_mimic::{Failed, Trial};
use zipwire::engine::cuda;
use zipwire::{Cancel, Prepared};

use super::conformance::{Case, resolve};

/// A test for each variant of each case; those that no GPU can run are reported as ignored.
pub(crate) fn trials(
    cases: &[Case],
    test: impl Fn(&Case, usize) -> Result<(), Failed> + Copy + Send + 'static,
) -> Vec<Trial> {
    let of_case = |case: &Case| {
        let case = case.on_gpus();
        let experiment = resolve(&case).unwrap_or_else(|error| panic!("{}: {error:?}", case.name));
        let prepared =
            Prepared::new(&experiment, &Cancel::new()).expect("scenarios of the repository are plans");
        let trial = |(index, variant): (usize, &zipwire::scenarios::Variant)| {
            let (name, case) = (format!("{}::{}::cuda", case.name, variant.name), case.clone());
            Trial::test(name, move || test(&case, index))
                .with_kind("conformance")
                .with_ignored_flag(cuda::check(&prepared.planned(index).plan).is_err())
        };
        experiment.variants.iter().enumerate().map(trial).collect::<Vec<_>>()
    };
    cases.iter().flat_map(of_case).collect()
}
