//! Reports: results of runs, sweeps, validations and advice as one HTML page that needs no other file and no network; and pictures as SVG and in
//! terminals.
//!
//! Texts go in and a text comes out: no files, no clock; but feature `png` reads the system's fonts. An [`Outcome`] is read from what a command wrote, gets its timelines as
//! [`TimelineSketch`]es, and [`report`] makes a page of one or several of them.

mod advice;
mod agreement;
mod board;
mod compare;
mod error;
mod html;
mod outcome;
mod page;
mod pictures;
mod plot;
pub mod plots;
mod quantity;
mod run;
mod sketch;
mod sweep;
mod timelines;
mod validation;

pub use error::ReportError;
pub use outcome::Outcome;
pub use page::report;
pub use plot::{PLOT_MARK, PNG_MARK, PNG_MARK_AT, Plot, shortened};
pub use quantity::{bytes, seconds};
pub use sketch::TimelineSketch;

/// First bytes of a report, and of no other file.
pub const REPORT_MARK: &str = "<!doctype html><!-- zipwire report -->";
