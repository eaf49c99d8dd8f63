//! How much results depend on what was fitted: each fitted constant of a scenario a fifth smaller and larger.

use serde::Serialize;

use super::constants::{Constant, Origin};
use super::{Bench, ReproduceError};

/// How far each constant is moved.
const FACTORS: [f64; 2] = [0.8, 1.2];

/// What measuring gives.
pub(super) type Result<T> = std::result::Result<T, ReproduceError>;

/// The results that are looked at, of one scenario.
#[derive(Clone, Copy, Debug)]
pub(super) struct Subject {
    /// The scenario.
    pub(super) scenario: &'static str,
    /// Their names.
    pub(super) results: &'static [&'static str],
    /// Obtains them with some values of the scenario replaced.
    pub(super) measure: fn(&Bench<'_>, &[String]) -> Result<Vec<f64>>,
}

/// What results become when constants change.
#[derive(Clone, Debug, Serialize)]
pub struct Sensitivity {
    /// The scenario.
    pub scenario: &'static str,
    /// Names of the results.
    pub results: Vec<&'static str>,
    /// The results as they are.
    pub unchanged: Vec<f64>,
    /// A row for each constant and each factor.
    pub rows: Vec<Moved>,
}

/// The results with one constant moved.
#[derive(Clone, Debug, Serialize)]
pub struct Moved {
    /// Where the constant is.
    pub path: String,
    /// What it was multiplied by.
    pub factor: f64,
    /// Its value then, as TOML.
    pub value: String,
    /// The results then.
    pub results: Vec<f64>,
}

impl Sensitivity {
    /// Moves each fitted constant of the subject's scenario; `begin` is told which is next.
    pub(super) fn measure(
        subject: Subject,
        constants: &[Constant],
        bench: &Bench<'_>,
        begin: &mut dyn FnMut(&str),
    ) -> Result<Self> {
        let unchanged = (subject.measure)(bench, &[])?;
        let mut rows = Vec::new();
        for constant in of(subject, constants) {
            begin(&constant.path);
            for factor in FACTORS {
                let Some(value) = scaled(&constant.value, factor) else { continue };
                bench.proceed()?;
                let sets = [format!("{}={value}", constant.path)];
                let results = (subject.measure)(bench, &sets)?;
                rows.push(Moved { path: constant.path.clone(), factor, value, results });
            }
        }
        Ok(Self { scenario: subject.scenario, results: subject.results.to_vec(), unchanged, rows })
    }
}

/// The constants that are moved.
pub(super) fn of(subject: Subject, constants: &[Constant]) -> impl Iterator<Item = &Constant> {
    constants.iter().filter(move |constant| {
        constant.origin == Origin::Fitted && constant.files.iter().any(|file| file == subject.scenario)
    })
}

/// A number, or a quantity with its unit, times `factor`; `None` if it is neither.
fn scaled(value: &str, factor: f64) -> Option<String> {
    let text = value.trim_matches('"');
    let end = text.find(|sign: char| !sign.is_ascii_digit() && sign != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    // Products of decimal fractions, without the digits that binary ones add.
    let moved = format!("{:.9}", number.parse::<f64>().ok()? * factor);
    let moved = moved.trim_end_matches('0');
    let moved = if moved.ends_with('.') { format!("{moved}0") } else { moved.to_owned() };
    Some(format!("{moved}{unit}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_keep_their_units() {
        assert_eq!(scaled("\"18 GB/s\"", 1.2).unwrap(), "21.6 GB/s");
        assert_eq!(scaled("16.0", 0.8).unwrap(), "12.8");
        assert_eq!(scaled("\"2.5 ms\"", 0.8).unwrap(), "2.0 ms");
        assert_eq!(scaled("\"none\"", 0.8), None);
    }
}
