//! Predicted against measured times: on the diagonal they are equal, and a band around it holds errors up to some percent.

use crate::plots::svg::{Anchor, LINE, PUBLISHED, QUIET, Scale, Svg, colour};

/// Pixels.
const WIDTH: f64 = 760.0;
const SIDE: f64 = 360.0;
const LEFT: f64 = 84.0;
/// Points that are drawn, and letters of their names.
const MOST_POINTS: usize = 20;
const MOST_LETTERS: usize = 36;

/// Pairs of times.
#[derive(Clone, Debug)]
pub struct Agreement {
    /// Name, predicted and measured seconds of each, of which there is at least one.
    pub points: Vec<(String, f64, f64)>,
    /// Half of the width of the band, as a part of the predicted time.
    pub band: f64,
}

impl Agreement {
    /// The picture.
    pub fn svg(&self) -> String {
        let (mut svg, top) = Svg::new(WIDTH, "");
        let bottom = top + SIDE;
        let shown = self.shown();
        let most = shown.iter().map(|(_, a, b)| a.max(*b)).fold(0.0, f64::max);
        let (per, unit) = match most {
            most if most < 1e-3 => (1e6, "us"),
            most if most < 1.0 => (1e3, "ms"),
            _ => (1.0, "s"),
        };
        let points: Vec<[f64; 2]> = shown.iter().map(|(_, a, b)| [a * per, b * per]).collect();
        let x = Scale::of(points.iter().flatten().copied(), LEFT, LEFT + SIDE);
        let y = Scale::of(points.iter().flatten().copied(), bottom, top);
        let [least, most] = x.ends();
        let (low, high) = (1.0 - self.band, 1.0 + self.band);
        let band = [
            [least, least],
            [least, (least * high).min(most)],
            [most / high, most],
            [most, most],
            [most, most * low],
            [least / low, least],
        ];
        svg.area(&band.map(|[a, b]| [x.at(a), y.at(b)]), colour(0), 0.15);
        for (value, text) in x.marks() {
            svg.grid([x.at(value), top], [x.at(value), bottom]);
            svg.grid([LEFT, y.at(value)], [LEFT + SIDE, y.at(value)]);
            svg.text(x.at(value), bottom + LINE, Anchor::Middle, QUIET, &text);
            svg.text(LEFT - 8.0, y.at(value) + 4.0, Anchor::Left, QUIET, &text);
        }
        svg.line([LEFT, bottom], [LEFT + SIDE, top], QUIET, true);
        svg.upright(24.0, f64::midpoint(top, bottom), &format!("measured, {unit}"));
        let title = format!("predicted, {unit}");
        svg.text(LEFT + SIDE / 2.0, bottom + 2.5 * LINE, Anchor::Middle, PUBLISHED, &title);
        let legend = LEFT + SIDE + 30.0;
        for (index, ([a, b], (name, ..))) in points.iter().zip(&shown).enumerate() {
            svg.mark(x.at(*a), y.at(*b), index);
            let at = top + 8.0 + (LINE + 4.0) * index as f64;
            svg.mark(legend, at, index);
            svg.text(legend + 14.0, at + 4.0, Anchor::Right, PUBLISHED, &shortened(name));
        }
        let more = self.points.len() - shown.len();
        if more > 0 {
            let at = top + 12.0 + (LINE + 4.0) * shown.len() as f64;
            svg.text(legend, at, Anchor::Right, QUIET, &format!("{more} more are nearer to the line"));
        }
        let listed = top + (LINE + 4.0) * (shown.len() as f64 + 2.0);
        svg.finish((bottom + 3.5 * LINE).max(listed))
    }

    /// Points that are drawn, in their order: those that are furthest from the line.
    fn shown(&self) -> Vec<&(String, f64, f64)> {
        let off = |(_, (_, a, b)): &(usize, &(String, f64, f64))| (libm::log(*b) - libm::log(*a)).abs();
        let mut all: Vec<_> = self.points.iter().enumerate().collect();
        all.sort_by(|a, b| off(b).total_cmp(&off(a)));
        all.truncate(MOST_POINTS);
        all.sort_by_key(|(index, _)| *index);
        all.into_iter().map(|(_, point)| point).collect()
    }
}

/// A name without its middle if it is longer than the room beside the picture.
fn shortened(name: &str) -> String {
    let letters: Vec<char> = name.chars().collect();
    if letters.len() <= MOST_LETTERS {
        return name.to_owned();
    }
    let half = MOST_LETTERS / 2;
    let [begin, end] = [&letters[..half], &letters[letters.len() + 1 + half - MOST_LETTERS..]];
    begin.iter().chain(&['…']).chain(end).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_points_are_cut_to_the_worst_and_long_names_shortened() {
        let point = |index: u32| (format!("p{index}."), 1e-3, 1e-3 * (1.0 + f64::from(index) / 1000.0));
        let text = Agreement { points: (0..50).map(point).collect(), band: 0.05 }.svg();
        assert!(
            text.contains("30 more")
                && !text.contains(">p29.<")
                && text.contains(">p30.<")
                && text.contains(">p49.<")
        );
        let name = "a".repeat(50) + &"b".repeat(50);
        let short = shortened(&name);
        assert_eq!(short.chars().count(), MOST_LETTERS);
        assert!(short.starts_with("aaa") && short.ends_with("bbb") && short.contains('…'));
    }

    #[test]
    fn equal_times_are_on_the_diagonal_and_units_fit() {
        let points = vec![("a".to_owned(), 1e-3, 1e-3), ("b".to_owned(), 2e-3, 2.2e-3)];
        let text = Agreement { points, band: 0.05 }.svg();
        assert!(text.contains("predicted, ms") && text.contains("measured, ms"));
        let dot = text.split("<circle cx=\"").nth(1).unwrap();
        let (x, y) = dot.split_once("\" cy=\"").unwrap();
        let (x, y): (f64, f64) = (x.parse().unwrap(), y.split('"').next().unwrap().parse().unwrap());
        let (_, top) = Svg::new(WIDTH, "");
        assert!((x - LEFT - (top + SIDE - y)).abs() < 0.2, "{x} {y}");
    }
}
