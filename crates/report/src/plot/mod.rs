//! Pictures of results: bars of a run, curves of a sweep, predicted against measured of a validation, lanes of a timeline. Each is laid out once, on a sheet of columns and
//! lines, which is an SVG or the cells of a terminal.

mod agreement;
mod axis;
mod bars;
mod choice;
mod curves;
mod lanes;
mod png;
mod sheet;

use zipwire_traces::Trace;

use crate::ReportError;
use crate::agreement::Pair;
use crate::outcome::Outcome;
use agreement::draw_agreement;
use bars::Bars;
use curves::Curves;
use lanes::Lanes;
pub use png::{PNG_MARK, PNG_MARK_AT};
pub use sheet::shortened;
use sheet::{Anchor, Canvas, Ink, Sheet, SvgSheet};

/// First bytes of a picture as SVG, and of no other file.
pub const PLOT_MARK: &str = "<!-- zipwire plot -->";

/// Columns of a picture as text at the least.
const LEAST_COLUMNS: usize = 40;
/// And at the most.
const MOST_COLUMNS: usize = 400;

/// A picture of a result.
#[derive(Clone, Debug)]
pub struct Plot {
    title: String,
    /// Sentences below the title.
    notes: Vec<String>,
    kind: PlotKind,
}

#[derive(Clone, Debug)]
enum PlotKind {
    Bars(Bars),
    Curves(Curves),
    Agreement(Vec<Pair>),
    Lanes(Lanes),
}

impl Plot {
    /// The picture of a result that `picture` names, or the first one that it has; of a sweep over the path `x`, or the one with most numbers.
    ///
    /// # Errors
    /// If the result has no such picture, does not sweep that path, or lacks the numbers.
    pub fn of(outcome: &Outcome, picture: Option<&str>, x: Option<&str>) -> Result<Self, ReportError> {
        choice::plot(outcome, picture, x)
    }

    /// The picture of a timeline, which is called `name`.
    ///
    /// # Errors
    /// If `picture` or `x` are given and it has no such, or it holds no iteration.
    pub fn of_timeline(
        name: &str,
        trace: &Trace,
        picture: Option<&str>,
        x: Option<&str>,
    ) -> Result<Self, ReportError> {
        choice::one_of(name, "timeline", picture, &["lanes"])?;
        choice::refuse_axis(name, x)?;
        let lanes = Lanes::of(trace).ok_or_else(|| ReportError::NothingToDraw {
            name: name.to_owned(),
            reason: "no iteration of it has spans".to_owned(),
            help: "run it again, and give a `*.trace.json` of it",
        })?;
        let title = format!("{}: {} on {}", trace.meta.scenario, trace.meta.variant, trace.meta.executor);
        Ok(Self { title, notes: Vec::new(), kind: PlotKind::Lanes(lanes) })
    }

    /// The picture as the text of an SVG file, which needs no other file.
    pub fn svg(&self) -> String {
        let mut sheet = SvgSheet::new(&self.title);
        let lines = self.draw(&mut sheet, 0.0);
        let svg = sheet.finish(lines);
        format!("{PLOT_MARK}\n{svg}")
    }

    /// The picture as lines of at most `columns` letters, 40 of which it takes in any case; with sequences for colours if they are asked for.
    pub fn text(&self, columns: usize, is_coloured: bool) -> String {
        let mut canvas = Canvas::new(columns.clamp(LEAST_COLUMNS, MOST_COLUMNS));
        let title = shortened(&self.title, canvas.columns());
        canvas.text([0.0, 0.0], Anchor::Right, Ink::Plain, &title);
        self.draw(&mut canvas, 1.0);
        canvas.finish(is_coloured)
    }

    /// The picture as the bytes of a PNG file, `width` pixels wide, with letters of the system's fonts.
    ///
    /// # Errors
    /// If this is built without the feature `png`, the system has no fonts, or the picture does not fit into memory.
    pub fn png(&self, width: u32) -> Result<Vec<u8>, ReportError> {
        png::png(&self.svg(), width)
    }

    fn draw(&self, sheet: &mut dyn Sheet, top: f64) -> f64 {
        let mut line = top;
        for note in &self.notes {
            sheet.text([0.0, line], Anchor::Right, Ink::Quiet, note);
            line += 1.0;
        }
        match &self.kind {
            PlotKind::Bars(bars) => bars.draw(sheet, line),
            PlotKind::Curves(curves) => curves.draw(sheet, line),
            PlotKind::Agreement(pairs) => draw_agreement(pairs, sheet, line),
            PlotKind::Lanes(lanes) => lanes.draw(sheet, line),
        }
    }
}
