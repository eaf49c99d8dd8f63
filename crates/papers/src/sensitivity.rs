//! Sensitivity to fitted constants: each is made a fifth smaller and larger, and every number that depends on it is measured again.

use std::collections::BTreeSet;
use std::path::Path;

use rayon::prelude::*;
use serde::Serialize;
use zipwire_runner::Cancel;

use crate::constants::{Constant, Origin};
use crate::measure::Measure;
use crate::{Bench, Number, ReproduceError};

/// How far each constant is moved.
const FACTORS: [f64; 2] = [0.8, 1.2];

/// Numbers with constants changed. Simulations have one iteration here, and some fewer layers: only effects count.
#[derive(Clone, Debug, Serialize)]
pub struct Sensitivity {
    /// Ids of the numbers that depend on any fitted constant.
    pub numbers: Vec<String>,
    /// The numbers as they are.
    pub unchanged: Vec<f64>,
    /// A row for each constant and each factor.
    pub rows: Vec<Moved>,
}

/// The numbers with one constant moved.
#[derive(Clone, Debug, Serialize)]
pub struct Moved {
    /// The scenarios in which it was moved: all that have it.
    pub files: Vec<String>,
    /// Where the constant is.
    pub path: String,
    /// Factor of the change.
    pub factor: f64,
    /// Changed value of the constant.
    pub value: String,
    /// Numbers with that value.
    pub results: Vec<f64>,
}

/// Inputs of short runs.
#[derive(Clone, Copy, Debug)]
pub(super) struct Short<'a> {
    /// The folder of the papers' scenarios.
    pub(super) folder: &'a Path,
    /// Files and what makes their runs shorter, beside a single iteration.
    pub(super) shorter: &'a [(&'a str, &'a str)],
    pub(super) cancel: &'a Cancel,
}

impl<'a> Short<'a> {
    fn bench(&self) -> Bench<'a> {
        Bench::of_short_runs(self.folder, self.cancel, self.shorter)
    }
}

/// A number that depends on simulations.
pub(super) struct Subject<'a> {
    id: &'a str,
    measure: &'a Measure,
    /// The scenarios that it was simulated from.
    files: BTreeSet<String>,
    unchanged: f64,
}

/// Constants by how far they are moved, of which [`Sensitivity::measure`] announces each.
pub(super) fn moves(constants: &[Constant]) -> impl Iterator<Item = (&Constant, f64)> {
    let fitted = constants.iter().filter(|constant| constant.origin == Origin::Fitted);
    fitted.flat_map(|constant| FACTORS.map(|factor| (constant, factor)))
}

impl Sensitivity {
    /// Moves each fitted constant under what depends on it; `begin` is told which is next, from any thread. `None` if nothing was
    /// fitted.
    pub(super) fn measure(
        subjects: &[Subject<'_>],
        constants: &[Constant],
        short: &Short<'_>,
        begin: &(dyn Fn(&str) + Sync),
    ) -> Result<Option<Self>, ReproduceError> {
        if subjects.is_empty() {
            return Ok(None);
        }
        let moves: Vec<(&Constant, f64)> = moves(constants).collect();
        let rows = moves.into_par_iter().map(|(constant, factor)| {
            begin(&constant.path);
            let Some((value, set)) = constant.moved(factor) else { return Ok(None) };
            let bench = short.bench().with_moved(&constant.files, set);
            let results = subjects.iter().map(|subject| subject.measure(constant, &bench));
            let results = results.collect::<Result<_, ReproduceError>>()?;
            let (files, path) = (constant.files.clone(), constant.path.clone());
            Ok(Some(Moved { files, path, factor, value, results }))
        });
        // Of several errors the first one, whichever was found first.
        let rows: Vec<Result<Option<Moved>, ReproduceError>> = rows.collect();
        let rows = rows.into_iter().filter_map(Result::transpose).collect::<Result<_, _>>()?;
        Ok(Some(Self {
            numbers: subjects.iter().map(|subject| subject.id.to_owned()).collect(),
            unchanged: subjects.iter().map(|subject| subject.unchanged).collect(),
            rows,
        }))
    }
}

/// The numbers whose scenarios have constants that are moved.
pub(super) fn subjects<'a>(
    numbers: &'a [Number],
    constants: &[Constant],
    short: &Short<'_>,
) -> Result<Vec<Subject<'a>>, ReproduceError> {
    let bench = short.bench();
    let mut subjects = Vec::new();
    for (id, measure) in numbers.iter().filter_map(|number| Some((&number.id, number.measure.as_ref()?))) {
        bench.proceed()?;
        let ours = measure.ours(&bench)?.value;
        let files = bench.take_used();
        let is_moved = moves(constants).any(|(constant, _)| has_any(&files, constant));
        if let Some(unchanged) = ours.filter(|_| is_moved) {
            subjects.push(Subject { id, measure, files, unchanged });
        }
    }
    Ok(subjects)
}

fn has_any(files: &BTreeSet<String>, constant: &Constant) -> bool {
    constant.files.iter().any(|file| files.contains(file))
}

impl Subject<'_> {
    /// The number on a bench on which `constant` is moved.
    fn measure(&self, constant: &Constant, bench: &Bench<'_>) -> Result<f64, ReproduceError> {
        if !has_any(&self.files, constant) {
            return Ok(self.unchanged);
        }
        bench.proceed()?;
        let ours = self.measure.ours(bench)?.value;
        Ok(ours.expect("the number has a value, whatever its constants are"))
    }
}
