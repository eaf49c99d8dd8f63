//! What papers publish: the numbers of `expected.toml`, each with its place in the paper, its role and its tolerance.

mod error;

pub use error::{ExpectedError, Fault};

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::Paper;

/// The file's name, in the folder of the papers' scenarios.
const FILE: &str = "expected.toml";

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
    /// What it is.
    pub quantity: String,
    /// Its value.
    pub paper: Published,
    /// Its unit; `x` is a ratio, of which more is better, and `none` a bare number.
    pub unit: String,
    /// What it is held against.
    pub role: Role,
    /// Relative error up to which it counts as reached.
    #[serde(default)]
    pub tolerance: Option<f64>,
    /// Absolute error up to which it counts as reached, in place of `tolerance`.
    #[serde(default)]
    pub within: Option<f64>,
    /// Why it is missed; of a known miss.
    #[serde(default)]
    pub reason: Option<String>,
    /// What it follows from and the text does not say; of a conditional number.
    #[serde(default)]
    pub needs: Option<String>,
    /// What is not there yet that it takes.
    #[serde(default)]
    pub pending: Option<String>,
    /// The words of the paper.
    #[serde(default)]
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

/// What a published number is to us.
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

    /// The same, relative to the end that is nearest; `None` if that is zero and missed.
    pub fn error(self, ours: f64) -> Option<f64> {
        let (distance, (least, most)) = (self.distance(ours), self.ends());
        let end = if ours < least { least } else { most };
        match distance {
            0.0 => Some(0.0),
            _ if end == 0.0 => None,
            _ => Some(distance / end.abs()),
        }
    }

    /// Whether it says one end only.
    pub fn is_bound(self) -> bool {
        let (least, most) = self.ends();
        least.is_infinite() || most.is_infinite()
    }

    /// The least and the most.
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
        match (self.within, self.tolerance) {
            (Some(within), _) => Some(self.paper.distance(ours).abs() <= within + ROUNDING),
            (None, Some(tolerance)) => {
                Some(self.paper.error(ours).is_some_and(|error| error.abs() <= tolerance + ROUNDING))
            }
            (None, None) => None,
        }
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
        match fs::read_to_string(&path) {
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

fn check(numbers: &BTreeMap<Paper, Vec<Number>>) -> Result<(), Fault> {
    for (paper, numbers) in numbers {
        let mut ids = BTreeSet::new();
        for number in numbers {
            let name = || format!("{} {}", paper.name(), number.id);
            if !ids.insert(&number.id) {
                return Err(Fault::Twice(name()));
            }
            check_number(number).map_err(|rule| Fault::Rule { number: name(), rule })?;
        }
    }
    let all = numbers.values().flatten();
    let calibrations = all.filter(|number| number.role == Role::Calibration).count();
    if calibrations == CALIBRATIONS { Ok(()) } else { Err(Fault::Calibrations(calibrations)) }
}

/// The rule that a number breaks.
fn check_number(number: &Number) -> Result<(), &'static str> {
    let Number { paper, tolerance, within, role, reason, needs, .. } = number;
    let (least, most) = paper.ends();
    let is_value = matches!(paper, Published::Value(_));
    let allowed = [tolerance, within].into_iter().flatten();
    let rules = [
        (least <= most, "the least comes before the most"),
        (!is_value || least.is_finite(), "a value is finite"),
        (least.is_finite() || most.is_finite(), "one end of a range is finite"),
        (tolerance.is_none() || within.is_none(), "`tolerance` and `within` exclude each other"),
        (
            allowed.into_iter().all(|allowed| (0.0..f64::INFINITY).contains(allowed)),
            "tolerances are not negative",
        ),
        (
            matches!(role, Role::Input | Role::Conditional) == (tolerance.is_none() && within.is_none()),
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
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../scenarios/paper");
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
            (
                "paper = 1.0\nrole = \"prediction\"\ntolerance = 0.1\nwithin = 0.1\n",
                "`tolerance` and `within` exclude",
            ),
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
    }
}
