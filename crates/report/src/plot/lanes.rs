//! States of ranks over the slowest iteration of a timeline: what each computes, codes and moves, and when it waits.

use zipwire_schedule::Lane;
use zipwire_traces::Trace;

use crate::pictures::{cover, runs};
use crate::plot::axis::{Axis, Quantity};
use crate::plot::sheet::{Anchor, Area, Ink, Paint, Sheet, key};
use crate::quantity::seconds;
use crate::sketch::{Intervals, held_iterations, spread, united};

/// Ranks that are drawn, evenly spread over those of the trace.
const RANKS: usize = 8;
/// Columns left of the lanes.
const LEFT: f64 = 18.0;

/// States in the order in which they are drawn, later ones over earlier ones: lane, name, letters where it lasts for at least half of a cell and where not.
const STATES: [(usize, &str, [char; 2]); 6] = [
    (0, "compute", ['█', '▄']),
    (1, "encode", ['E', 'e']),
    (1, "decode", ['D', 'd']),
    (1, "other codec work", ['O', 'o']),
    (2, "wait", ['·', '·']),
    (2, "send or receive", ['━', '╌']),
];
const LANES: [&str; 3] = ["compute", "codec", "links"];

/// Lanes of some ranks.
#[derive(Clone, Debug)]
pub(super) struct Lanes {
    /// Number of each rank that is drawn, and when it is in each of the states.
    ranks: Vec<(u32, [Intervals; STATES.len()])>,
    length_ns: i64,
    note: String,
}

impl Lanes {
    /// The slowest iteration of a trace; `None` if it holds none.
    pub(super) fn of(trace: &Trace) -> Option<Self> {
        let held = held_iterations(trace);
        let slowest = (0..held.len()).rev().max_by_key(|&index| trace.iterations_ns[index])?;
        let mut all: std::collections::BTreeMap<u32, [Intervals; STATES.len()]> = Default::default();
        for span in trace.spans.iter().filter(|span| span.iteration == held[slowest]) {
            let state = match (span.lane, &*span.name) {
                (Lane::Compute, _) => 0,
                (Lane::Codec, "encode") => 1,
                (Lane::Codec, "decode") => 2,
                (Lane::Codec, _) => 3,
                (Lane::Tx | Lane::Rx, _) => 5,
                (Lane::Exchange | Lane::Control | Lane::Background | Lane::BackgroundControl, _) => 4,
            };
            let states = all.entry(span.rank.0).or_default();
            states[state].push([span.begin_ns, span.end_ns.max(span.begin_ns)]);
        }
        let all: Vec<(u32, [Intervals; STATES.len()])> =
            all.into_iter().map(|(rank, states)| (rank, states.map(united))).collect();
        let ranks: Vec<_> = spread(&all, RANKS).cloned().collect();
        let length_ns = trace.iterations_ns[slowest].max(1);
        let mut note = format!("{} long", seconds(length_ns as f64 / 1e9));
        if held.len() > 1 {
            note += &format!(", the slowest of {} iterations", held.len());
        }
        if ranks.len() < trace.rank_count as usize {
            note += &format!(", {} of {} ranks", ranks.len(), trace.rank_count);
        }
        (!ranks.is_empty()).then_some(Self { ranks, length_ns, note })
    }

    /// Draws them from a line on; returns the line below.
    pub(super) fn draw(&self, sheet: &mut dyn Sheet, top: f64) -> f64 {
        sheet.text([0.0, top], Anchor::Right, Ink::Quiet, &self.note);
        let is_there = |state: usize| self.ranks.iter().any(|(_, states)| !states[state].is_empty());
        let paint = |state: usize, is_pale: bool| {
            let letter = STATES[state].2[usize::from(is_pale)];
            Paint { series: [2, 1, 3, 4, 4, 0][state], letter, is_pale: is_pale || state == 4 }
        };
        let states: Vec<usize> = (0..STATES.len()).filter(|&state| is_there(state)).collect();
        let keys = states.iter().map(|&state| (STATES[state].1, Some(paint(state, false))));
        let first = key(sheet, top + 1.0, keys) + 1.0;
        let used: Vec<usize> =
            (0..LANES.len()).filter(|lane| states.iter().any(|&s| STATES[s].0 == *lane)).collect();
        let width = sheet.columns() as f64 - LEFT;
        let cells = (width - 1.0) as usize * sheet.cells_per_column();
        let scale = (width - 1.0) / cells as f64;
        let bottom = first + (self.ranks.len() * used.len()) as f64;
        let area = Area { left: LEFT, right: LEFT + width, top: first, bottom };
        let length_s = self.length_ns as f64 / 1e9;
        let (per, unit) = Quantity::Seconds.unit(length_s);
        let x = Axis::between([0.0, per * length_s], [LEFT, LEFT + width - 1.0]);
        let ticks = x.ticks();
        let places: Vec<f64> = ticks.iter().map(|(value, _)| x.at(*value)).collect();
        let below = sheet.frame(area, &places, &[]);
        let mut line = first;
        for (rank, of_rank) in &self.ranks {
            sheet.text([0.0, line], Anchor::Right, Ink::Plain, &format!("rank {rank}"));
            for &lane in &used {
                sheet.text([LEFT - 2.2, line], Anchor::Left, Ink::Quiet, LANES[lane]);
                for &state in states.iter().filter(|&&state| STATES[state].0 == lane) {
                    let runs = runs(&cover(&of_rank[state], cells, self.length_ns));
                    for shade in 1..=2 {
                        let own = runs.iter().filter(|(found, ..)| *found == shade);
                        let ends =
                            own.map(|&(_, from, to)| [from, to].map(|cell| LEFT + scale * cell as f64));
                        sheet.bars(line, &ends.collect::<Vec<_>>(), paint(state, shade == 1));
                    }
                }
                line += 1.0;
            }
        }
        for (place, (_, text)) in places.iter().zip(&ticks) {
            sheet.text([*place, below], Anchor::Middle, Ink::Quiet, text);
        }
        sheet.text([area.right, below + 1.0], Anchor::Left, Ink::Quiet, &format!("time, {unit}"));
        below + 2.0
    }
}
