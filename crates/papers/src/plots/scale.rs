//! The scale of an axis, with marks at round numbers.

/// Marks of an axis at most.
const MARKS: f64 = 6.0;
/// Room beside the outermost values, as a part of what they span; and what a span is at least, as a part of a value.
const MARGIN: f64 = 0.08;
const NARROW: f64 = 0.02;

/// A linear scale from values to pixels.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scale {
    least: f64,
    most: f64,
    /// Pixels of both ends.
    from: f64,
    to: f64,
}

impl Scale {
    /// An axis that holds all finite `values`, of which there is at least one, with room at both ends.
    pub(crate) fn of(values: impl Iterator<Item = f64>, from: f64, to: f64) -> Self {
        let ends = |(least, most): (f64, f64), value: f64| (least.min(value), most.max(value));
        let finite = values.filter(|value| value.is_finite());
        let (least, most) = finite.fold((f64::INFINITY, f64::NEG_INFINITY), ends);
        let room = MARGIN * (most - least).max(NARROW * most.abs().max(least.abs()));
        Self { least: least - room, most: most + room, from, to }
    }

    /// An axis between two values.
    pub(crate) fn between(least: f64, most: f64, from: f64, to: f64) -> Self {
        Self { least, most, from, to }
    }

    /// Pixels; what is beyond an end is at it.
    pub(crate) fn at(self, value: f64) -> f64 {
        let part = (value.clamp(self.least, self.most) - self.least) / (self.most - self.least);
        self.from + (self.to - self.from) * part
    }

    /// Round numbers on the axis, as texts that tell them apart.
    pub(crate) fn marks(self) -> Vec<(f64, String)> {
        let (step, decimals) = step((self.most - self.least) / MARKS);
        let first = (self.least / step).ceil() as i64;
        let values = (first..).map(|index| index as f64 * step).take_while(|value| *value <= self.most);
        values.map(|value| (value, format!("{value:.decimals$}"))).collect()
    }
}

/// The next 1, 2 or 5 times a power of ten that is at least `raw`, and its decimals.
fn step(raw: f64) -> (f64, usize) {
    let (mut power, mut decimals) = (1.0, 0);
    while power > raw {
        (power, decimals) = (power / 10.0, decimals + 1);
    }
    while 10.0 * power <= raw {
        power *= 10.0;
    }
    let factor = [1.0, 2.0, 5.0].into_iter().find(|factor| factor * power >= raw).unwrap_or(10.0);
    (factor * power, if factor == 10.0 && decimals > 0 { decimals - 1 } else { decimals })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_round_and_have_their_decimals() {
        let near = |(step, decimals): (f64, usize), expected: (f64, usize)| {
            assert!(
                (step - expected.0).abs() < 1e-12 * expected.0 && decimals == expected.1,
                "{step} {decimals}"
            );
        };
        near(step(0.03), (0.05, 2));
        near(step(0.06), (0.1, 1));
        near(step(0.7), (1.0, 0));
        near(step(14.0), (20.0, 0));
        near(step(100.0), (100.0, 0));
    }

    #[test]
    fn an_axis_holds_its_values_and_ends_hold_all_others() {
        let axis = Scale::of([1.0, 2.0, f64::INFINITY].into_iter(), 100.0, 216.0);
        assert_eq!([1.0, 2.0].map(|value| axis.at(value).round()), [108.0, 208.0]);
        assert_eq!([f64::NEG_INFINITY, f64::INFINITY].map(|value| axis.at(value)), [100.0, 216.0]);
        let texts: Vec<String> = axis.marks().into_iter().map(|(_, text)| text).collect();
        assert_eq!(texts, ["1.0", "1.2", "1.4", "1.6", "1.8", "2.0"]);
    }
}
