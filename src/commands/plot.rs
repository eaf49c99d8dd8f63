//! `zipwire plot`: a picture of a result, in the terminal or as a file; and the pictures of the commands that make results.

use std::io::{Write, stdout};
use std::path::Path;

use zipwire::Cancel;
use zipwire::report::{PLOT_MARK, PNG_MARK, PNG_MARK_AT, Plot, ReportError, bytes};
use zipwire::traces::read_chrome;

use super::marked::Marked;
use super::report;
use crate::cli::PlotArgs;
use crate::error::CliError;
use crate::{style, table};

const SVG: Marked = Marked { mark: PLOT_MARK.as_bytes(), at: 0, command: "plot" };
const PNG: Marked = Marked { mark: PNG_MARK, at: PNG_MARK_AT, command: "plot" };

/// Characters of a line where there is no terminal, and pixels of a PNG.
const LINE_WIDTH: usize = 100;
const PNG_WIDTH: u32 = 1600;

pub(crate) fn run(args: &PlotArgs, cancel: &Cancel) -> Result<(), CliError> {
    let kind = args.out.as_deref().map(kind_of).transpose()?;
    if let (Some(kind), Some(file)) = (kind, &args.out) {
        kind.refuse_others(file)?;
        if kind.at == 0 && args.width.is_some() {
            let reason = "`--width` has no effect on an SVG\nhelp: it fits any width: leave the option out";
            return Err(CliError::Usage(reason.to_owned()));
        }
    }
    let plot = plot(&args.result, args.picture.as_deref(), args.x.as_deref())?;
    let (Some(kind), Some(file)) = (kind, &args.out) else {
        return draw(&plot, args.width.map(|width| width as usize));
    };
    let content =
        if kind.at == 0 { plot.svg().into_bytes() } else { plot.png(args.width.unwrap_or(PNG_WIDTH))? };
    kind.write(file, cancel, |out| out.write_all(&content))?;
    say!("the picture is in {} ({})", file.display(), bytes(content.len() as f64));
    Ok(())
}

/// Prints the picture of the result that is in a folder, as wide as the terminal.
pub(super) fn of_folder(folder: &Path) -> Result<(), CliError> {
    draw(&plot(folder, None, None)?, None)
}

/// Kind of a picture's file, by its ending.
fn kind_of(file: &Path) -> Result<Marked, CliError> {
    let ending = file.extension().map(|ending| ending.to_string_lossy().to_ascii_lowercase());
    match ending.as_deref() {
        Some("svg") => Ok(SVG),
        Some("png") => Ok(PNG),
        _ => Err(CliError::Usage(format!(
            "`{}` is neither `.svg` nor `.png`\nhelp: the ending says what is written",
            file.display()
        ))),
    }
}

fn plot(path: &Path, picture: Option<&str>, x: Option<&str>) -> Result<Plot, CliError> {
    let name = path.display().to_string();
    let of_timeline =
        || -> Result<Plot, CliError> { Ok(Plot::of_timeline(&name, &read_chrome(path)?, picture, x)?) };
    if name.ends_with(".trace.json") && path.exists() {
        return of_timeline();
    }
    match report::result(path, &name) {
        Ok((outcome, _)) => Ok(Plot::of(&outcome, picture, x)?),
        // A timeline of another name.
        Err(CliError::Report(ReportError::Foreign { name })) => {
            of_timeline().map_err(|_| CliError::Report(ReportError::Foreign { name }))
        }
        Err(error) => Err(error),
    }
}

fn draw(plot: &Plot, width: Option<usize>) -> Result<(), CliError> {
    let mut out = stdout().lock();
    let width = width.or_else(table::terminal_width).unwrap_or(LINE_WIDTH);
    // Names are escaped where they are drawn: what is left are colours.
    out.write_all(plot.text(width, style::is_coloured(&out)).as_bytes())?;
    Ok(out.flush()?)
}
