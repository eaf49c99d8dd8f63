//! Axes of pictures: linear or logarithmic scales with round ticks, swept values as numbers, and quantities with their units.

use serde_json::Value;

use crate::plots::svg::Scale;
use crate::sweep::value_text;

/// Widest over narrowest value from which on an axis may be logarithmic.
const WIDE: f64 = 4.0;
/// Ticks of a logarithmic axis at most.
const MOST_TICKS: usize = 6;

/// A scale from values to places on a sheet.
#[derive(Clone, Copy, Debug)]
pub(super) struct Axis {
    scale: Scale,
    is_log: bool,
}

impl Axis {
    /// An axis that holds all finite `values`, with room at both ends; a logarithmic one those that are positive.
    pub(super) fn of(values: impl Iterator<Item = f64>, is_log: bool, [from, to]: [f64; 2]) -> Self {
        let place = |value: f64| if is_log { libm::log10(value) } else { value };
        Self { scale: Scale::of(values.map(place), from, to), is_log }
    }

    pub(super) fn between([least, most]: [f64; 2], [from, to]: [f64; 2]) -> Self {
        Self { scale: Scale::between(least, most, from, to), is_log: false }
    }

    /// Place of a value; what is beyond an end is at it.
    pub(super) fn at(self, value: f64) -> f64 {
        self.scale.at(if self.is_log { libm::log10(value) } else { value })
    }

    /// Values at both ends of a linear axis.
    pub(super) fn ends(self) -> [f64; 2] {
        self.scale.ends()
    }

    /// Round numbers on the axis, with their texts.
    pub(super) fn ticks(self) -> Vec<(f64, String)> {
        if !self.is_log {
            return self.scale.marks();
        }
        let [least, most] = self.scale.ends().map(|end| libm::pow(10.0, end));
        if !(least > 0.0 && most.is_finite()) {
            return Vec::new();
        }
        let [first, last] = self.scale.ends().map(|end| end.floor() as i32);
        let ticks = |factors: &[f64], every: usize| -> Vec<f64> {
            let decades = (first..=last).step_by(every).map(|decade| libm::pow(10.0, f64::from(decade)));
            let all = decades.flat_map(|decade| factors.iter().map(move |factor| factor * decade));
            all.filter(|value| (least..=most).contains(value)).collect()
        };
        let every = 1 + (last - first) as usize / MOST_TICKS;
        let found = [&[1.0, 2.0, 5.0][..], &[1.0, 3.0], &[1.0]].into_iter().map(|factors| ticks(factors, 1));
        let found = found.into_iter().find(|found| found.len() <= MOST_TICKS);
        let found = found.unwrap_or_else(|| ticks(&[1.0], every));
        found.into_iter().map(|value| (value, number(value))).collect()
    }
}

/// Whether an axis of these numbers, in their order, is logarithmic: they are spread by factors, and their logarithms more evenly than they are.
pub(super) fn is_spread_by_factors(numbers: &[f64]) -> bool {
    let (least, most) = ends(numbers.iter().copied());
    let logarithms: Vec<f64> = numbers.iter().map(|&number| libm::log(number)).collect();
    least > 0.0 && most >= WIDE * least && unevenness(&logarithms) < unevenness(numbers)
}

/// The widest gap between neighbours over the narrowest.
fn unevenness(numbers: &[f64]) -> f64 {
    let (least, most) = ends(numbers.windows(2).map(|pair| (pair[1] - pair[0]).abs()));
    most / least
}

/// The least and the most of some numbers.
pub(super) fn ends(numbers: impl Iterator<Item = f64>) -> (f64, f64) {
    numbers.fold((f64::INFINITY, f64::NEG_INFINITY), |(least, most), next| (least.min(next), most.max(next)))
}

/// A number with three digits that count.
pub(super) fn number(value: f64) -> String {
    let decade = if value == 0.0 { 0.0 } else { libm::log10(value.abs()).floor() };
    let decimals = (2.0 - decade).clamp(0.0, 12.0) as usize;
    let text = format!("{value:.decimals$}");
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
}

/// Quantity of an axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Quantity {
    Seconds,
    Factor,
    Share,
    Rate,
}

impl Quantity {
    /// Unit in which values of up to `most` are written, and how many of it are one of the base unit.
    pub(super) fn unit(self, most: f64) -> (f64, &'static str) {
        match self {
            Self::Seconds if most < 1e-3 => (1e6, "us"),
            Self::Seconds if most < 1.0 => (1e3, "ms"),
            Self::Seconds => (1.0, "s"),
            Self::Factor => (1.0, "x"),
            Self::Share => (100.0, "%"),
            Self::Rate => (1.0, "/s"),
        }
    }
}

/// Values of a swept path.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Swept {
    pub(super) path: String,
    /// Each value once, as a text, in the order of the sweep; ascending if they are numbers.
    pub(super) texts: Vec<String>,
    /// The same as numbers of the last one's unit; `None` if they are no numbers of one dimension.
    pub(super) numbers: Option<Vec<f64>>,
    /// That unit; empty without one.
    pub(super) unit: String,
}

impl Swept {
    pub(super) fn of(path: &str, values: &[&Value]) -> Self {
        let mut distinct: Vec<&Value> = Vec::new();
        for value in values {
            if !distinct.contains(value) {
                distinct.push(value);
            }
        }
        let mut swept = Self {
            path: path.to_owned(),
            texts: distinct.iter().map(|value| value_text(value)).collect(),
            numbers: None,
            unit: String::new(),
        };
        let quantities: Option<Vec<(f64, &str, f64)>> =
            distinct.iter().map(|value| quantity(value)).collect();
        let Some(quantities) = quantities.filter(|found| found.windows(2).all(|two| two[0].1 == two[1].1))
        else {
            return swept;
        };
        let mut ascending: Vec<usize> = (0..quantities.len()).collect();
        ascending.sort_by(|&a, &b| quantities[a].0.total_cmp(&quantities[b].0));
        let Some(&last) = ascending.last() else { return swept };
        let per = quantities[last].2;
        if distinct[last].is_string() {
            swept.unit = swept.texts[last].trim_start_matches(is_of_number).trim().to_owned();
        }
        swept.numbers = Some(ascending.iter().map(|&index| quantities[index].0 / per).collect());
        swept.texts = ascending.iter().map(|&index| swept.texts[index].clone()).collect();
        swept
    }

    /// A number with the unit.
    pub(super) fn with_unit(&self, value: f64) -> String {
        format!("{} {}", number(value), self.unit).trim_end().to_owned()
    }
}

fn is_of_number(letter: char) -> bool {
    letter.is_ascii_digit() || matches!(letter, '.' | '+' | '-')
}

/// A value in its base unit, the name of that, and how much of it the value's own unit is.
fn quantity(value: &Value) -> Option<(f64, &'static str, f64)> {
    let Some(text) = value.as_str() else { return Some((value.as_f64()?, "", 1.0)) };
    let unit = text.trim().trim_start_matches(is_of_number);
    let number: f64 = text.trim().strip_suffix(unit)?.parse().ok()?;
    let (base, per) = unit_of(unit.trim())?;
    (number * per).is_finite().then_some((number * per, base, per))
}

/// Base unit of a unit, and how much of it that is.
fn unit_of(unit: &str) -> Option<(&'static str, f64)> {
    const BASES: [(&str, &str, f64); 9] = [
        ("FLOP/s", "FLOP/s", 1.0),
        ("B/s", "B/s", 1.0),
        ("b/s", "B/s", 0.125),
        ("B", "B", 1.0),
        ("/s", "/s", 1.0),
        ("/min", "/s", 1.0 / 60.0),
        ("/h", "/s", 1.0 / 3600.0),
        ("s", "s", 1.0),
        ("", "", 1.0),
    ];
    let (prefix, base, per) =
        BASES.iter().find_map(|(suffix, base, per)| Some((unit.strip_suffix(suffix)?, *base, per)))?;
    let kibi = 1024.0_f64;
    let factor = match prefix {
        "" => 1.0,
        "n" => 1e-9,
        "u" | "\u{b5}" | "\u{3bc}" => 1e-6,
        "m" => 1e-3,
        "k" | "K" => 1e3,
        "M" => 1e6,
        "G" => 1e9,
        "T" => 1e12,
        "P" => 1e15,
        "Ki" => kibi,
        "Mi" => kibi.powi(2),
        "Gi" => kibi.powi(3),
        "Ti" => kibi.powi(4),
        _ => return None,
    };
    (!base.is_empty() || prefix.is_empty()).then_some((base, factor * per))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn texts(axis: Axis) -> Vec<String> {
        axis.ticks().into_iter().map(|(_, text)| text).collect()
    }

    #[test]
    fn ticks_are_round_on_both_kinds_of_axes() {
        // Values and 8 % of what they span at both ends: from -0.8 to 10.8, and 11.6 / 6 is no more than 2.
        assert_eq!(
            texts(Axis::of([0.0, 10.0].into_iter(), false, [0.0, 1.0])),
            ["0", "2", "4", "6", "8", "10"]
        );
        // From 10^-0.16 to 10^2.16: 1, 2, 5 are seven ticks, one too many.
        let wide = Axis::of([1.0, 100.0].into_iter(), true, [0.0, 232.0]);
        assert_eq!(texts(wide), ["1", "3", "10", "30", "100"]);
        assert_eq!([1.0, 10.0, 100.0].map(|value| wide.at(value).round()), [16.0, 116.0, 216.0]);
        assert_eq!(texts(Axis::of([1.0, 10.0].into_iter(), true, [0.0, 1.0])), ["1", "2", "5", "10"]);
        // Twelve decades: every third.
        let all = texts(Axis::of([1e-6, 1e6].into_iter(), true, [0.0, 1.0]));
        assert!(all.len() <= MOST_TICKS && all.len() > 2, "{all:?}");
        assert!(texts(Axis::of([0.0].into_iter(), true, [0.0, 1.0])).is_empty());
    }

    #[test]
    fn factors_make_a_logarithmic_axis() {
        assert!(is_spread_by_factors(&[12.5, 25.0, 50.0, 100.0]));
        for even in [&[4.0, 8.0, 12.0, 16.0, 20.0][..], &[1.05, 1.15, 1.3, 1.42], &[0.0, 1.0, 10.0], &[3.0]] {
            assert!(!is_spread_by_factors(even), "{even:?}");
        }
    }

    #[test]
    fn numbers_have_three_digits() {
        let shown = [0.0, 14.23, 0.8451, 1050.4, 50.0, 1.0 / 3.0e5].map(number);
        assert_eq!(shown, ["0", "14.2", "0.845", "1050", "50", "0.00000333"]);
    }

    #[test]
    fn swept_values_of_one_dimension_are_numbers() {
        let of = |values: &[Value]| Swept::of("p", &values.iter().collect::<Vec<_>>());
        let sizes = of(&[json!("1 MiB"), json!("64 KiB"), json!("1 MiB")]);
        assert_eq!((sizes.numbers, sizes.unit.as_str()), (Some(vec![0.0625, 1.0]), "MiB"));
        assert_eq!(sizes.texts, ["64 KiB", "1 MiB"]);
        let speeds = of(&[json!("10 Gb/s"), json!("2.5 GB/s")]);
        assert_eq!((speeds.numbers, speeds.unit.as_str()), (Some(vec![1.25, 2.5]), "GB/s"));
        let speeds = of(&[json!("1.25 GB/s"), json!("20 Gb/s")]);
        assert_eq!(
            (speeds.numbers.clone(), speeds.with_unit(10.0)),
            (Some(vec![10.0, 20.0]), "10 Gb/s".to_owned())
        );
        assert_eq!(of(&[json!(2), json!(1.5)]).numbers, Some(vec![1.5, 2.0]));
        assert_eq!(of(&[json!("6 /min"), json!("1 /s")]).numbers, Some(vec![0.1, 1.0]));
        for names in
            [vec![json!("ring"), json!("tree")], vec![json!("1 s"), json!("1 B")], vec![json!({ "tp": 8 })]]
        {
            assert_eq!(of(&names).numbers, None, "{names:?}");
        }
    }
}
