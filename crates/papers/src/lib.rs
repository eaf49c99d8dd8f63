//! Published numbers of five papers, beside those that come out here.
//!
//! `expected.toml` has a row for each number, with its place, its role, and how it is measured here: by simulating a scenario, by encoding a
//! sample, or from a formula. `curves.toml` has tables of numbers that depend on something that the text does not say. Nothing is fitted here:
//! fitted values stand in the scenarios, and `constants.toml` says how each was obtained.

mod bench;
mod constants;
mod curve;
mod dfloat11;
mod error;
mod expected;
mod lmc;
mod measure;
mod pictures;
mod report;
mod samples;
mod score;
mod splitzip;
mod switcher;
mod zipccl;
mod zipnn;

pub use bench::Bench;
pub use constants::{Constant, ConstantsError, Moved, Origin, Sensitivity};
pub use curve::{Curve, CurveAbout, PublishedLevel};
pub use error::ReproduceError;
pub use expected::{Anchor, CALIBRATIONS, Expected, ExpectedError, Fault, Number, Published, Role};
pub use pictures::pictures;
pub use report::{Paper, PaperReport, Row, signed_percent};
pub use score::{Errors, NullModel, Score};
pub use zipwire_report::plots;

use std::num::NonZeroU32;
use std::path::Path;

use constants::Short;
use rayon::prelude::*;
use zipwire_runner::Cancel;

/// Scenarios, and values that make their runs shorter where only changes count.
fn shorter(paper: Paper) -> &'static [(&'static str, &'static str)] {
    match paper {
        Paper::ZipCcl => zipccl::SHORTER,
        Paper::SplitZip | Paper::DFloat11 | Paper::ZipNn | Paper::Lmc => &[],
    }
}

/// How much is measured.
#[derive(Clone, Copy, Debug)]
pub struct Extent {
    /// How many seeds simulations have: that of their scenario and those after it; at least 1. Numbers are those of the first, and
    /// lie between the least and the most of all.
    pub seeds: NonZeroU32,
    /// Whether fitted constants are moved.
    pub has_sensitivity: bool,
}

/// How many steps [`reproduce`] announces: measurements, and constants that are moved.
///
/// # Errors
/// If the published numbers or the list of constants cannot be used.
pub fn count(paper: Paper, folder: &Path, extent: Extent) -> Result<usize, ReproduceError> {
    let moves =
        if extent.has_sensitivity { constants::moves(&constants::read(folder, paper)?).count() } else { 0 };
    let expected = Expected::read(folder)?;
    let measured = expected.of(paper).iter().filter(|number| number.measure.is_some()).count();
    Ok(measured * extent.seeds.get() as usize + moves)
}

/// Measures all numbers and curves of a paper, on request with several seeds, and how they depend on fitted constants. `folder` holds the
/// papers' scenarios; `begin` is told the id of each number, or the path of each constant, before its turn, the latter from any thread.
///
/// # Errors
/// If a file of the folder cannot be used, a simulation fails, or the user stops it.
pub fn reproduce(
    paper: Paper,
    folder: &Path,
    extent: Extent,
    cancel: &Cancel,
    begin: &(dyn Fn(&str) + Sync),
) -> Result<PaperReport, ReproduceError> {
    let expected = Expected::read(folder)?;
    let (numbers, curves) = (expected.of(paper), CurveAbout::read(folder, paper)?);
    let constants = constants::read(folder, paper)?;
    let with_seed = |seeds_on: u32| {
        let bench = Bench::new(folder, cancel).with_seeds_on(seeds_on.into());
        PaperReport::measure(paper, numbers, constants.clone(), &curves, &bench, begin)
    };
    let report = || {
        let others = || (1..extent.seeds.get()).into_par_iter().map(with_seed).collect::<Vec<_>>();
        let (report, others) = rayon::join(|| with_seed(0), others);
        let mut report = report?;
        // Of several errors the first one, whichever was found first.
        for other in others {
            report.widen(&other?);
        }
        Ok(report)
    };
    if !extent.has_sensitivity {
        return report();
    }
    let short = Short { folder, shorter: shorter(paper), cancel };
    let subjects = || constants::subjects(numbers, &constants, &short);
    let (report, subjects) = rayon::join(report, subjects);
    let mut report = report?;
    report.sensitivity = Sensitivity::measure(&subjects?, &constants, &short, begin)?;
    Ok(report)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// A number is either measured or pending; levels of curves are numbers.
    #[test]
    fn every_number_is_measured_or_pending() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios/paper");
        let expected = Expected::read(&folder).unwrap();
        for paper in Paper::ALL {
            let numbers = expected.of(paper).iter();
            let measured = numbers.clone().filter(|number| number.measure.is_some());
            let measured: BTreeSet<&str> = measured.map(|number| number.id.as_str()).collect();
            let open = numbers.filter(|number| number.pending.is_none());
            let open: BTreeSet<&str> = open.map(|number| number.id.as_str()).collect();
            assert_eq!(measured, open, "{paper}");
            let curves = CurveAbout::read(&folder, paper).unwrap();
            for level in curves.iter().flat_map(|curve| &curve.published) {
                assert!(expected.of(paper).iter().any(|number| number.id == level.id), "{}", level.id);
            }
        }
    }
}
