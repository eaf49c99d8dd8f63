//! Pictures of timelines: time of each rank, lanes of an iteration, links over time. Letters are HTML, so that they keep their size
//! on any screen; shapes are strips that stretch.

use std::fmt::Write as _;

use crate::html::{escape, legend, strip};
use crate::quantity::{percent, seconds};
use crate::sketch::{Intervals, LINK_COLUMNS, LinkHeat, RankLanes, TimelineSketch};

/// Pixels of a rank's three lanes in a timeline, gap included, and of the row of a link.
const RANK_HEIGHT: f64 = 22.0;
const LANE_HEIGHT: f64 = 6.0;
const LINK_HEIGHT: f64 = 16.0;
/// Columns of a timeline: the first of these with which it takes no more than [`MOST_BYTES`].
const COLUMNS: [usize; 4] = [800, 400, 200, 100];
const MOST_BYTES: usize = 24 << 10;
/// Shades of a heat map.
const SHADES: usize = 10;

/// Kinds of a rank's time, by class and in words.
const KINDS: [(&str, &str); 5] = [
    ("compute", "compute"),
    ("moving", "data moves, beside no compute"),
    ("waiting", "a call is open, and neither"),
    ("codec", "codec, and no call is open"),
    ("idle", "done, or nothing to do"),
];

/// Bars of the time of each rank, all to the same scale.
pub(crate) fn rank_bars(sketch: &TimelineSketch, longest_s: f64) -> String {
    let mut html = String::from("<div class=\"rows\">\n");
    for times in &sketch.times {
        let mut at = 0.0;
        let parts = [times.compute_s, times.moving_s, times.waiting_s, times.codec_s, times.idle_s];
        let mut shapes = String::new();
        for ((class, _), part_s) in KINDS.iter().zip(parts) {
            let width = 1000.0 * part_s / longest_s;
            if width >= 0.05 {
                let _ = write!(
                    shapes,
                    "<rect class=\"{class}\" x=\"{at:.1}\" width=\"{width:.1}\" height=\"12\"/>"
                );
            }
            at += width;
        }
        let share = times.exposed_s() / times.sum_s().max(f64::MIN_POSITIVE);
        let _ = writeln!(
            html,
            "<span>rank {}</span>{}<span class=\"n\">{} exposed, {}</span>",
            times.rank,
            strip("strip", 1000.0, 12.0, &shapes),
            seconds(times.exposed_s()),
            percent(share)
        );
    }
    html + "</div>\n"
}

/// Meaning of the colours of [`rank_bars`].
pub(crate) fn rank_legend() -> String {
    legend(&KINDS)
}

/// Lanes of some ranks over an iteration; the picture is `longest_ns` wide.
pub(crate) fn gantt(sketch: &TimelineSketch, longest_ns: i64) -> String {
    let height = RANK_HEIGHT * sketch.lanes.len() as f64;
    let mut shapes = String::new();
    for columns in COLUMNS {
        shapes = lanes(&sketch.lanes, columns, longest_ns);
        if shapes.len() <= MOST_BYTES {
            break;
        }
    }
    let rules: String =
        (1..sketch.lanes.len()).map(|row| format!("M0 {}h1000", RANK_HEIGHT * row as f64)).collect();
    let shapes = format!("<path class=\"rule\" d=\"{rules}\"/>{shapes}");
    let names: String = sketch.lanes.iter().map(|lanes| format!("<div>rank {}</div>", lanes.rank)).collect();
    let picture = strip("strip", 1000.0, height, &shapes);
    format!(
        "<div class=\"gantt\"><div class=\"names\">{names}</div><div>{picture}{}</div></div>\n",
        axis(longest_ns as f64 / 1e9)
    )
}

/// Meaning of the colours of [`gantt`].
pub(crate) fn gantt_legend() -> String {
    legend(&[
        ("compute", "compute"),
        ("codec", "codec"),
        ("moving", "data moves"),
        ("open", "a call is open and no data moves"),
    ])
}

/// Paths of all lanes, one for each kind and shade.
fn lanes(ranks: &[RankLanes], columns: usize, longest_ns: i64) -> String {
    let mut shapes = String::new();
    for (lane, class) in [(0, "compute"), (1, "codec"), (2, "open"), (2, "moving")] {
        let (mut full, mut part) = (String::new(), String::new());
        for (row, rank) in ranks.iter().enumerate() {
            let intervals = match class {
                "compute" => &rank.compute,
                "codec" => &rank.codec,
                "open" => &rank.open,
                _ => &rank.moving,
            };
            let y = RANK_HEIGHT * row as f64 + 2.0 + LANE_HEIGHT * (f64::from(lane) + 0.5);
            let scale = 1000.0 / columns as f64;
            for (shade, from, to) in runs(&cover(intervals, columns, longest_ns)) {
                let path = if shade == 2 { &mut full } else { &mut part };
                let (x, width) = (scale * from as f64, scale * (to - from) as f64);
                let _ = write!(path, "M{x} {y}h{width}");
            }
        }
        for (path, shade) in [(full, ""), (part, " part")] {
            if !path.is_empty() {
                let _ = write!(
                    shapes,
                    "<path class=\"{class}{shade}\" stroke-width=\"{LANE_HEIGHT}\" d=\"{path}\"/>"
                );
            }
        }
    }
    shapes
}

/// For each column 0 where the lane is free, 2 where it is busy for at least half of the time, and 1 between.
pub(crate) fn cover(intervals: &Intervals, columns: usize, longest_ns: i64) -> Vec<u8> {
    let mut busy = vec![0.0; columns];
    let scale = columns as f64 / longest_ns.max(1) as f64;
    for &[begin, end] in intervals {
        let (from, to) = ((begin.max(0) as f64) * scale, (end.min(longest_ns) as f64) * scale);
        for (column, busy) in busy.iter_mut().enumerate().take(to.ceil() as usize).skip(from as usize) {
            *busy += to.min(column as f64 + 1.0) - from.max(column as f64);
        }
    }
    busy.into_iter().map(|part: f64| u8::from(part > 0.02) + u8::from(part >= 0.5)).collect()
}

/// Columns of one shade that follow each other: shade, from, and until; shade 0 is left out.
pub(crate) fn runs(shades: &[u8]) -> Vec<(u8, usize, usize)> {
    let mut runs: Vec<(u8, usize, usize)> = Vec::new();
    for (column, &shade) in shades.iter().enumerate() {
        match runs.last_mut() {
            Some((last, _, until)) if *last == shade && *until == column => *until += 1,
            _ if shade > 0 => runs.push((shade, column, column + 1)),
            _ => {}
        }
    }
    runs
}

/// Begin, middle and end of a time axis.
fn axis(end_s: f64) -> String {
    let times = [0.0, end_s / 2.0, end_s].map(|time_s| format!("<span>{}</span>", seconds(time_s)));
    format!("<div class=\"axis\">{}</div>", times.concat())
}

/// Heat map of the links of a timeline: a row each, and its mean.
pub(crate) fn heat_map(sketch: &TimelineSketch) -> String {
    let shades: Vec<Vec<u8>> = sketch.links.iter().map(shades).collect();
    let mut shapes = String::new();
    for shade in 1..=SHADES as u8 {
        let mut path = String::new();
        for (row, columns) in shades.iter().enumerate() {
            let y = LINK_HEIGHT * (row as f64 + 0.5);
            for (_, from, to) in runs(columns).into_iter().filter(|(found, ..)| *found == shade) {
                let _ = write!(path, "M{from} {y}h{}", to - from);
            }
        }
        if !path.is_empty() {
            let opacity = f64::from(shade) / SHADES as f64;
            let _ = write!(
                shapes,
                "<path class=\"heat\" stroke-opacity=\"{opacity}\" stroke-width=\"14\" d=\"{path}\"/>"
            );
        }
    }
    let names = sketch
        .links
        .iter()
        .map(|link| format!("<div>{} <small>{}</small></div>", escape(&link.name), escape(&link.capacity)));
    let means = sketch.links.iter().map(|link| format!("<div>{}</div>", percent(link.mean)));
    let height = LINK_HEIGHT * sketch.links.len() as f64;
    format!(
        "<div class=\"gantt links\"><div class=\"names\">{}</div><div>{}{}</div><div class=\"means\">{}</div></div>\n",
        names.collect::<String>(),
        strip("strip", LINK_COLUMNS as f64, height, &shapes),
        axis(sketch.drawn_ns as f64 / 1e9),
        means.collect::<String>()
    )
}

/// Tenths of the capacity in use, rounded up, so that any use is seen.
fn shades(link: &LinkHeat) -> Vec<u8> {
    link.columns
        .iter()
        .map(|used| (used * SHADES as f64 - 1e-6).ceil().clamp(0.0, SHADES as f64) as u8)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_full_in_part_or_free() {
        assert_eq!(cover(&vec![[0, 15], [22, 24]], 4, 40), [2, 2, 1, 0]);
        assert_eq!(cover(&vec![[30, 60]], 4, 40), [0, 0, 0, 2], "cut at the end of the picture");
        assert_eq!(runs(&[0, 2, 2, 1, 0, 0, 1]), [(2, 1, 3), (1, 3, 4), (1, 6, 7)]);
    }

    #[test]
    fn a_timeline_of_many_pieces_is_drawn_coarser() {
        // At the finest every other column is busy.
        let pieces: Intervals = (0..400).map(|index| [2500 * index, 2500 * index + 1250]).collect();
        let rank = RankLanes {
            rank: 0,
            compute: pieces.clone(),
            codec: pieces.clone(),
            moving: pieces.clone(),
            open: pieces,
        };
        let sketch = TimelineSketch {
            scenario: "s".to_owned(),
            seed: 0,
            plan_digest: "0".to_owned(),
            executor: "sim".to_owned(),
            variant: "v".to_owned(),
            codec: None,
            sampled: None,
            iterations: 1,
            drawn_ns: 1_000_000,
            rank_count: 12,
            times: Vec::new(),
            lanes: vec![rank; 12],
            links: Vec::new(),
            link_count: 0,
            codec_work: std::collections::BTreeMap::new(),
            codec_s: None,
        };
        let finest = lanes(&sketch.lanes, COLUMNS[0], 1_000_000).len();
        assert!(finest > 2 * MOST_BYTES, "{finest}");
        let around = 2 << 10;
        let drawn = gantt(&sketch, 1_000_000).len();
        assert!(drawn <= MOST_BYTES + around, "{drawn}");
    }
}
