//! What papers publish, beside what comes out here.
//!
//! A paper is a list of `Figure`s, a figure is a file with a list of measurements, and a measurement gives one number
//! of `expected.toml`: by simulating a scenario, by encoding a sample, or from a formula. All papers share one table.
//! Nothing is fitted here: what was fitted stands in the scenarios, and `constants.toml` says how it was obtained.

mod bench;
mod coded;
mod constants;
mod curve;
mod dfloat11;
mod error;
mod expected;
mod figure;
mod lmc;
mod null_model;
mod paper;
mod pictures;
pub mod plots;
mod report;
mod samples;
mod score;
mod sensitivity;
mod splitzip;
mod zipccl;
mod zipnn;

pub use bench::Bench;
pub use constants::{Constant, ConstantsError, Origin};
pub use curve::{Curve, PublishedLevel};
pub use error::ReproduceError;
pub use expected::{Anchor, CALIBRATIONS, Expected, ExpectedError, Fault, Number, Published, Role};
pub use null_model::NullModel;
pub use paper::Paper;
pub use pictures::pictures;
pub use report::{Report, Row, signed_percent};
pub use score::{Errors, Score};
pub use sensitivity::{Moved, Sensitivity};

use std::num::NonZeroU32;
use std::path::Path;

use figure::{Figure, Measurement};
use rayon::prelude::*;
use sensitivity::Short;
use zipwire_runner::Cancel;

/// The figures of a paper that can be measured today; what else it publishes is pending.
fn figures(paper: Paper) -> &'static [Figure] {
    match paper {
        Paper::ZipCcl => zipccl::FIGURES,
        Paper::SplitZip => splitzip::FIGURES,
        Paper::DFloat11 => dfloat11::FIGURES,
        Paper::ZipNn => zipnn::FIGURES,
        Paper::Lmc => lmc::FIGURES,
    }
}

/// Scenarios and what makes their runs shorter where only changes are looked at.
fn shorter(paper: Paper) -> &'static [(&'static str, &'static str)] {
    match paper {
        Paper::ZipCcl => zipccl::SHORTER,
        Paper::SplitZip | Paper::DFloat11 | Paper::ZipNn | Paper::Lmc => &[],
    }
}

/// The measurements of a paper.
fn measurements(paper: Paper) -> impl Iterator<Item = &'static Measurement> {
    figures(paper).iter().flat_map(|figure| figure.measurements)
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
/// If the list of constants cannot be used.
pub fn count(paper: Paper, folder: &Path, extent: Extent) -> Result<usize, ReproduceError> {
    let moves =
        if extent.has_sensitivity { sensitivity::moves(&constants::read(folder, paper)?).count() } else { 0 };
    Ok(measurements(paper).count() * extent.seeds.get() as usize + moves)
}

/// Measures whatever a paper publishes and can be measured, on request with several seeds, and how it depends on fitted constants. `folder` holds the
/// papers' scenarios; `begin` is told which number, or which constant, is next, the latter from any thread.
///
/// # Errors
/// If a file of the folder cannot be used, a simulation fails, or the user stops it.
pub fn reproduce(
    paper: Paper,
    folder: &Path,
    extent: Extent,
    cancel: &Cancel,
    begin: &(dyn Fn(&str) + Sync),
) -> Result<Report, ReproduceError> {
    let expected = Expected::read(folder)?;
    let constants = constants::read(folder, paper)?;
    let with_seed = |seeds_on: u32| {
        let bench = Bench::new(folder, cancel).with_seeds_on(seeds_on.into());
        Report::measure(paper, expected.of(paper), constants.clone(), figures(paper), &bench, begin)
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
    let subjects = || sensitivity::subjects(measurements(paper), &constants, &short);
    let (report, subjects) = rayon::join(report, subjects);
    let mut report = report?;
    report.sensitivity = Sensitivity::measure(&subjects?, &constants, &short, begin)?;
    Ok(report)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// What can be measured is not pending, and what is not pending can be measured.
    #[test]
    fn every_number_is_measured_or_pending() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios/paper");
        let expected = Expected::read(&folder).unwrap();
        for paper in Paper::ALL {
            let measured: BTreeSet<&str> = measurements(paper).map(|measurement| measurement.id).collect();
            assert_eq!(measured.len(), measurements(paper).count(), "{paper}: measured twice");
            let open = expected.of(paper).iter().filter(|number| number.pending.is_none());
            let open: BTreeSet<&str> = open.map(|number| number.id.as_str()).collect();
            assert_eq!(measured, open, "{paper}");
        }
    }
}
