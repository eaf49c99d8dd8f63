//! Published numbers: the rows of `expected.toml`, each with its place in the paper, its role, its tolerance and how it is measured.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::Path;

use serde::{Deserialize, Serialize};
use zipwire_traces::read_text;

use super::Paper;
use crate::measure::Measure;

/// The file's name, in the folder of the papers' scenarios.
const FILE: &str = "expected.toml";
/// Longest file of numbers or constants, in bytes.
pub(crate) const LONGEST: u64 = 16 << 20;

/// Numbers that something was fitted to, of all papers together.
pub const CALIBRATIONS: usize = 4;

/// The numbers of all papers.
#[derive(Clone, Debug)]
pub struct Expected(BTreeMap<Paper, Vec<Number>>);

/// One published number.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Number {
    /// Unique among those of its paper.
    pub id: String,
    /// The figure, table or equation that has it; else the section.
    pub figure: String,
    /// Where the text says it.
    pub place: String,
    /// Quantity, in words.
    pub quantity: String,
    /// Its value.
    pub paper: Published,
    /// Its unit; `x` is a ratio, of which more is better, and `none` a bare number.
    pub unit: String,
    /// Role in the comparison.
    pub role: Role,
    /// Relative error up to which it counts as reached.
    pub tolerance: Option<f64>,
    /// Absolute error up to which it counts as reached, in place of `tolerance`.
    pub within: Option<f64>,
    /// Relative error of the gain, a speedup less 1, up to which it counts as reached, in place of the other two; of every speedup.
    pub gain_tolerance: Option<f64>,
    /// Which fit, or which other number, it follows from; of a prediction that is not independent.
    pub follows: Option<String>,
    /// Calibration whose speedup the null model takes for it.
    pub null: Option<Anchor>,
    /// Why it is missed; of a known miss.
    pub reason: Option<String>,
    /// Condition that the text does not state; of a conditional number.
    pub needs: Option<String>,
    /// Reason why it cannot be measured yet.
    pub pending: Option<String>,
    /// How it is obtained here; `None` if it is pending.
    pub(crate) measure: Option<Measure>,
    /// The words of the paper.
    pub quote: Option<String>,
}

/// A published value.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Published {
    /// One number.
    Value(f64),
    /// The least and the most; one of them is infinite where the text gives a bound.
    Range([f64; 2]),
}

/// The calibration whose published speedup the null model takes for a number.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
pub enum Anchor {
    /// The speedup as published.
    Collective(String),
    /// The speedup of the part of an iteration that is communication.
    Iteration(String),
}

/// Role of a published number in the comparison.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Role {
    /// Something was fitted to it.
    Calibration,
    /// It follows from the paper's own definitions, without a model of a cluster.
    Exact,
    /// Nothing was fitted to it.
    Prediction,
    /// A prediction that is known to be off.
    KnownMiss,
    /// Scenarios take it as it is.
    Input,
    /// It follows from something that the text does not say.
    Conditional,
}

impl Anchor {
    /// The calibration's id.
    pub fn id(&self) -> &str {
        let (Self::Collective(id) | Self::Iteration(id)) = self;
        id
    }
}

impl Role {
    /// Its name in files and tables.
    pub fn name(self) -> &'static str {
        match self {
            Self::Calibration => "calibration",
            Self::Exact => "exact",
            Self::Prediction => "prediction",
            Self::KnownMiss => "known-miss",
            Self::Input => "input",
            Self::Conditional => "conditional",
        }
    }
}

impl Published {
    /// How far `ours` is from it, in its unit: 0 within a range, negative below, positive above.
    pub fn distance(self, ours: f64) -> f64 {
        let (least, most) = self.ends();
        if ours < least { ours - least } else { (ours - most).max(0.0) }
    }

    /// The same, relative to the end that is nearest; `None` if what is missed is zero, or a range about zero.
    pub fn error(self, ours: f64) -> Option<f64> {
        let (distance, (least, most)) = (self.distance(ours), self.ends());
        let end = if ours < least { least } else { most };
        match distance {
            0.0 => Some(0.0),
            _ if least <= 0.0 && most >= 0.0 && !self.is_bound() => None,
            _ if end == 0.0 => None,
            _ => Some(distance / end.abs()),
        }
    }

    /// The relative error of the gain: `ours` less 1 over it less 1, less 1; of a range to the end that is nearest, 0 inside. `None` of bounds,
    /// and where the gain is none.
    pub fn gain_error(self, ours: f64) -> Option<f64> {
        let (distance, (least, most)) = (self.distance(ours), self.ends());
        let gain = if ours < least { least - 1.0 } else { most - 1.0 };
        match distance {
            _ if self.is_bound() => None,
            0.0 => Some(0.0),
            _ if gain == 0.0 => None,
            _ => Some(distance / gain.abs()),
        }
    }

    pub(crate) fn middle(self) -> f64 {
        let (least, most) = self.ends();
        f64::midpoint(least, most)
    }

    /// Whether it says one end only.
    pub fn is_bound(self) -> bool {
        let (least, most) = self.ends();
        least.is_infinite() || most.is_infinite()
    }

    pub(crate) fn ends(self) -> (f64, f64) {
        match self {
            Self::Value(value) => (value, value),
            Self::Range([least, most]) => (least, most),
        }
    }
}

impl Number {
    /// Whether `ours` is as near as the number asks for; `None` if it asks for nothing.
    pub fn is_reached(&self, ours: f64) -> Option<bool> {
        // Tolerances are decimal fractions, and what they bound is rounded.
        const ROUNDING: f64 = 1e-9;
        let is_near =
            |error: Option<f64>, allowed: f64| error.is_some_and(|error| error.abs() <= allowed + ROUNDING);
        match (self.within, self.tolerance, self.gain_tolerance) {
            (Some(within), ..) => Some(self.paper.distance(ours).abs() <= within + ROUNDING),
            (_, Some(allowed), _) => Some(is_near(self.paper.error(ours), allowed)),
            (.., Some(allowed)) => Some(is_near(self.paper.gain_error(ours), allowed)),
            (None, None, None) => None,
        }
    }

    /// Whether it is a prediction, or one that is known to be off.
    pub fn is_predicted(&self) -> bool {
        matches!(self.role, Role::Prediction | Role::KnownMiss)
    }
}

impl Expected {
    /// Reads `expected.toml` in `folder`.
    ///
    /// # Errors
    /// If the file cannot be read, is not of this form, or breaks a rule of it.
    pub fn read(folder: &Path) -> Result<Self, ExpectedError> {
        let path = folder.join(FILE);
        let name = path.display().to_string();
        match read_text(&path, LONGEST) {
            Ok(text) => Self::parse(&name, &text),
            Err(source) => Err(ExpectedError { file: name, fault: Fault::Unreadable(source) }),
        }
    }

    /// Reads the text of such a file, which errors call `name`.
    ///
    /// # Errors
    /// If the text is not of this form, or breaks a rule of it.
    pub fn parse(name: &str, text: &str) -> Result<Self, ExpectedError> {
        let fault = |fault| ExpectedError { file: name.to_owned(), fault };
        let numbers: BTreeMap<Paper, Vec<Number>> = toml::from_str(text).map_err(|error| {
            let line = error.span().map(|span| 1 + text[..span.start].matches('\n').count());
            fault(Fault::Form { line, message: error.message().to_owned() })
        })?;
        check(&numbers).map_err(fault)?;
        Ok(Self(numbers))
    }

    /// The numbers of a paper, in the order of the file.
    pub fn of(&self, paper: Paper) -> &[Number] {
        self.0.get(&paper).map_or(&[], Vec::as_slice)
    }
}

/// Why published numbers cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("{}", error_text(file, fault))]
pub struct ExpectedError {
    /// The file.
    pub file: String,
    /// The fault in it.
    pub fault: Fault,
}

/// A fault of the file.
#[derive(Debug)]
#[non_exhaustive]
#[allow(missing_docs, reason = "fields are named by the messages")]
pub enum Fault {
    /// It cannot be read.
    Unreadable(io::Error),
    /// It is no TOML, or not of the form.
    Form {
        /// Line, from 1, where it is known.
        line: Option<usize>,
        message: String,
    },
    /// Two numbers of a paper have one id.
    Twice(String),
    /// A number breaks a rule.
    Rule {
        /// Paper and id.
        number: String,
        rule: &'static str,
    },
    /// So many numbers are calibrations.
    Calibrations(usize),
}

fn error_text(file: &str, fault: &Fault) -> String {
    match fault {
        Fault::Unreadable(source) => {
            format!(
                "cannot read `{file}`: {source}\nhelp: `--scenarios` names the folder of the papers' scenarios"
            )
        }
        Fault::Form { line: Some(line), message } => format!("`{file}`, line {line}: {message}"),
        Fault::Form { line: None, message } => format!("`{file}`: {message}"),
        Fault::Twice(number) => {
            format!("`{file}`: there are two numbers `{number}`\nhelp: give one of them another `id`")
        }
        Fault::Rule { number, rule } => format!("`{file}`: number `{number}` breaks a rule: {rule}"),
        Fault::Calibrations(found) => format!(
            "`{file}`: {found} numbers are calibrations, and there are {CALIBRATIONS}\n\
             help: give what was not fitted the role `prediction`"
        ),
    }
}

fn check(numbers: &BTreeMap<Paper, Vec<Number>>) -> Result<(), Fault> {
    for (paper, numbers) in numbers {
        let mut ids = BTreeSet::new();
        for number in numbers {
            let name = || format!("{} {}", paper.name(), number.id);
            if !ids.insert(&number.id) {
                return Err(Fault::Twice(name()));
            }
            check_number(number).map_err(|rule| Fault::Rule { number: name(), rule })?;
            let anchor = number.null.as_ref().map(Anchor::id);
            let is_calibration =
                |id: &str| numbers.iter().any(|number| number.id == id && number.role == Role::Calibration);
            if anchor.is_some_and(|id| !is_calibration(id)) {
                return Err(Fault::Rule {
                    number: name(),
                    rule: "`null` names a calibration of the same paper",
                });
            }
        }
    }
    let all = numbers.values().flatten();
    let calibrations = all.filter(|number| number.role == Role::Calibration).count();
    if calibrations == CALIBRATIONS { Ok(()) } else { Err(Fault::Calibrations(calibrations)) }
}

/// The rule that a number breaks.
fn check_number(number: &Number) -> Result<(), &'static str> {
    let Number { paper, tolerance, within, gain_tolerance, role, reason, needs, .. } = number;
    let (least, most) = paper.ends();
    let is_value = matches!(paper, Published::Value(_));
    let allowed: Vec<&f64> = [tolerance, within, gain_tolerance].into_iter().flatten().collect();
    let rules = [
        (least <= most, "the least comes before the most"),
        (!is_value || least.is_finite(), "a value is finite"),
        (least.is_finite() || most.is_finite(), "one end of a range is finite"),
        (allowed.len() < 2, "`tolerance`, `within` and `gain_tolerance` exclude one another"),
        (
            allowed.iter().all(|allowed| (0.0..f64::INFINITY).contains(*allowed)),
            "tolerances are not negative",
        ),
        (
            gain_tolerance.is_none() || number.unit == "x" && !paper.is_bound(),
            "`gain_tolerance` is for speedups, of unit `x`, that are no bounds",
        ),
        (
            number.follows.is_none() || number.is_predicted(),
            "only predictions and known misses have `follows`",
        ),
        (
            number.null.is_none() || number.is_predicted() && gain_tolerance.is_some(),
            "only predictions and known misses with `gain_tolerance` have `null`",
        ),
        (
            matches!(role, Role::Input | Role::Conditional) == allowed.is_empty(),
            "inputs and conditional numbers have no tolerance, all others have one",
        ),
        ((*role == Role::KnownMiss) == reason.is_some(), "a known miss, and nothing else, has a `reason`"),
        (
            (*role == Role::Conditional) == needs.is_some(),
            "a conditional number, and nothing else, has `needs`",
        ),
    ];
    rules.into_iter().find(|(holds, _)| !holds).map_or(Ok(()), |(_, rule)| Err(rule))
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: &str = "[[lmc]]\nid = \"a\"\nfigure = \"f\"\nplace = \"p\"\nquantity = \"q\"\nunit = \"x\"\n";

    fn error(text: &str) -> String {
        Expected::parse("e.toml", text).unwrap_err().to_string()
    }

    #[test]
    fn what_is_shipped_is_right() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios/paper");
        let expected = Expected::read(&folder).unwrap();
        for paper in Paper::ALL {
            assert!(!expected.of(paper).is_empty(), "{}", paper.name());
        }
        let is_calibration = |number: &&Number| number.role == Role::Calibration;
        let ids: Vec<&str> = expected
            .of(Paper::ZipCcl)
            .iter()
            .filter(is_calibration)
            .map(|number| number.id.as_str())
            .collect();
        assert_eq!(ids, ["fig10-qwen3-64", "fig10-llama3-64", "fig14-all-to-all-64", "fig15-mean"]);
    }

    #[test]
    fn mistakes_are_named_with_their_place() {
        let one = |rest: &str| format!("{ONE}{rest}");
        assert_eq!(
            error(&one("paper = 1.0\nrole = \"guess\"\n")),
            "`e.toml`, line 8: unknown variant `guess`, expected one of `calibration`, `exact`, `prediction`, `known-miss`, \
             `input`, `conditional`"
        );
        assert!(error("[[zipcc]]\n").starts_with("`e.toml`, line 1: unknown variant `zipcc`"));
        let prediction = one("paper = 1.0\nrole = \"prediction\"\ntolerance = 0.1\n");
        assert_eq!(
            error(&format!("{prediction}{prediction}")),
            "`e.toml`: there are two numbers `lmc a`\nhelp: give one of them another `id`"
        );
        assert_eq!(
            error(&prediction),
            "`e.toml`: 0 numbers are calibrations, and there are 4\nhelp: give what was not fitted the role `prediction`"
        );
        for (rest, rule) in [
            ("paper = [2.0, 1.0]\nrole = \"input\"\n", "the least comes before the most"),
            ("paper = inf\nrole = \"input\"\n", "a value is finite"),
            ("paper = [-inf, inf]\nrole = \"input\"\n", "one end of a range is finite"),
            ("paper = 1.0\nrole = \"prediction\"\n", "inputs and conditional numbers have no tolerance"),
            ("paper = 1.0\nrole = \"prediction\"\ntolerance = 0.1\nwithin = 0.1\n", "exclude one another"),
            ("paper = 1.0\nrole = \"prediction\"\ntolerance = -0.1\n", "tolerances are not negative"),
            ("paper = 1.0\nrole = \"known-miss\"\ntolerance = 0.1\n", "has a `reason`"),
            ("paper = 1.0\nrole = \"conditional\"\n", "has `needs`"),
        ] {
            let message = error(&one(rest));
            assert!(message.starts_with("`e.toml`: number `lmc a`") && message.contains(rule), "{message}");
        }
        let missing = Expected::read(Path::new("/nonexistent")).unwrap_err().to_string();
        assert!(missing.starts_with("cannot read `/nonexistent/expected.toml`: "), "{missing}");
    }

    #[test]
    fn errors_are_relative_to_the_nearest_end() {
        assert!((Published::Value(2.0).error(1.5).unwrap() + 0.25).abs() < 1e-15);
        let range = Published::Range([1.0, 2.0]);
        assert_eq!([0.5, 1.0, 1.7, 3.0].map(|ours| range.error(ours).unwrap()), [-0.5, 0.0, 0.0, 0.5]);
        let bound = Published::Range([f64::NEG_INFINITY, 0.6]);
        assert_eq!((bound.error(0.1), bound.distance(0.7) > 0.0), (Some(0.0), true));
        assert_eq!(Published::Value(0.0).error(1.0), None);
        assert_eq!(Published::Range([-0.05, 0.05]).error(0.1), None);
    }

    #[test]
    fn gains_are_speedups_less_one() {
        let error = Published::Value(1.06).gain_error(1.0).unwrap();
        assert!((error + 1.0).abs() < 1e-12, "no speedup misses all of the gain: {error}");
        assert!((Published::Value(1.25).gain_error(1.30).unwrap() - 0.2).abs() < 1e-12);
        let range = Published::Range([1.4, 1.5]);
        assert!(range.gain_error(1.45) == Some(0.0) && (range.gain_error(1.6).unwrap() - 0.2).abs() < 1e-12);
        assert_eq!(Published::Value(1.0).gain_error(1.1), None);
        assert_eq!(Published::Range([1.02, f64::INFINITY]).gain_error(1.1), None);
    }
}
