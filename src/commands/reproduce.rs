//! `zipwire reproduce`: what a paper publishes, beside what comes out here.

use std::fmt::Write as _;

use zipwire::papers::{
    Constant, Curve, Errors, Extent, NullModel, Origin, PaperReport, Published, Role, Row, Score,
    Sensitivity, count, pictures, reproduce, signed_percent,
};
use zipwire::{Cancel, Output};

use super::{print, print_json};
use crate::cli::ReproduceArgs;
use crate::error::CliError;
use crate::progress::Progress;
use crate::{shipped, table};

pub(crate) fn run(args: &ReproduceArgs, cancel: &Cancel) -> Result<(), CliError> {
    let _hold = cancel.hold();
    super::refuse_store(args.out.as_deref())?;
    let output = args.out.as_deref().map(Output::create_beside).transpose()?;
    let unpacked;
    let folder = match &args.scenarios {
        Some(folder) => folder.clone(),
        None => {
            unpacked = shipped::unpacked()?;
            unpacked.path().join("scenarios/paper")
        }
    };
    let extent = Extent { seeds: args.seeds, has_sensitivity: args.sensitivity };
    let progress = Progress::new(count(args.paper, &folder, extent)?);
    // One more has begun, so one more has ended, up to those that run side by side.
    let begin = |number: &str| progress.next(number);
    let report = reproduce(args.paper, &folder, extent, cancel, &begin)?;
    drop(progress);
    // The pictures of several papers share a folder.
    if let Some(mut output) = output {
        for (name, svg) in pictures(&report) {
            output.write(&name, |out| out.write_all(svg.as_bytes()))?;
        }
        output.commit()?;
    }
    if args.json { print_json(&report) } else { print(text(&report)) }
}

fn text(report: &PaperReport) -> String {
    let mut text = format!("{}\n\n{}\n", report.paper.title(), table::text(&numbers(&report.rows)));
    let remarks: Vec<String> = report.rows.iter().filter_map(remark).collect();
    if !remarks.is_empty() {
        let _ = write!(text, "\n{}\n", remarks.join("\n"));
    }
    for curve in &report.curves {
        let _ = write!(text, "\n{}\n\n{}\n", curve.about.title, table::text(&points(curve)));
    }
    if !report.constants.is_empty() {
        let _ =
            write!(text, "\nassumed by the scenarios\n\n{}\n", table::text(&constants(&report.constants)));
    }
    if let Some(sensitivity) = &report.sensitivity {
        text.push_str(&moved(sensitivity, &report.rows));
    }
    let _ = write!(text, "\n{}\n", verdict(report));
    text
}

fn numbers(rows: &[Row]) -> table::Table {
    let has_gains = rows.iter().any(|row| row.null.is_some());
    let gains: &[&str] = if has_gains { &["of the gain", "null model"] } else { &[] };
    let header = [&["number", "unit", "paper", "ours", "error"], gains, &["role", "", "quantity"]].concat();
    let words = 5 + gains.len();
    let mut numbers = table::new(&header, &[0, 1, words, words + 1, words + 2]);
    for row in rows {
        let ours = match row.ours_range {
            Some([least, most]) => format!("{} to {}", short(least), short(most)),
            None => row.ours.map_or_else(dash, short),
        };
        let error = row.error_pct.map_or_else(dash, signed_percent);
        let reached = match row.reached {
            Some(true) => "ok",
            Some(false) if row.role == Role::KnownMiss => "known",
            Some(false) => "MISS",
            None if row.pending.is_some() => "pending",
            None => "",
        };
        let unit = if row.unit == "none" { "" } else { &row.unit };
        let mut cells = vec![row.id.clone(), unit.to_owned(), published(row.paper), ours, error];
        if has_gains {
            cells.push(row.gain_error_pct.map_or_else(dash, |percent| format!("{percent:+.0} %")));
            cells.push(row.null.map_or_else(dash, short));
        }
        let dependent = if row.independent == Some(false) { " *" } else { "" };
        cells.extend([format!("{}{dependent}", row.role.name()), reached.to_owned(), row.quantity.clone()]);
        numbers.add_row(cells);
    }
    numbers
}

/// Remark on a number: its pending work and its notes.
fn remark(row: &Row) -> Option<String> {
    let pending = row.pending.as_ref().map(|pending| format!("waits for {pending}"));
    let remarks: Vec<String> = pending.into_iter().chain(row.note.clone()).collect();
    (!remarks.is_empty()).then(|| format!("{}: {}", row.id, remarks.join("; ")))
}

fn published(paper: Published) -> String {
    match paper {
        Published::Value(value) => short(value),
        Published::Range([least, most]) if least.is_infinite() => format!("<= {}", short(most)),
        Published::Range([least, most]) if most.is_infinite() => format!(">= {}", short(least)),
        Published::Range([least, most]) => format!("{} to {}", short(least), short(most)),
    }
}

fn points(curve: &Curve) -> table::Table {
    let columns: Vec<&str> = curve.about.columns.iter().map(String::as_str).collect();
    let mut points = table::new(&columns, &[]);
    for point in &curve.points {
        points.add_row(point.iter().copied().map(short));
    }
    points
}

fn constants(constants: &[Constant]) -> table::Table {
    let mut rows = table::new(&["constant", "value", "origin", "how", "files"], &[0, 1, 2, 3, 4]);
    for Constant { files, path, value, origin, how, .. } in constants {
        let value = value.trim_matches('"');
        rows.add_row([path.as_str(), value, origin.name(), how.as_str(), &files.join(", ")]);
    }
    rows
}

/// A table for each figure: what each constant does to its numbers.
fn moved(sensitivity: &Sensitivity, rows: &[Row]) -> String {
    let figure_of = |id: &str| rows.iter().find(|row| row.id == id).map_or("", |row| &row.figure);
    let mut figures: Vec<(&str, Vec<usize>)> = Vec::new();
    for (index, id) in sensitivity.numbers.iter().enumerate() {
        match figures.iter_mut().find(|(figure, _)| *figure == figure_of(id)) {
            Some((_, numbers)) => numbers.push(index),
            None => figures.push((figure_of(id), vec![index])),
        }
    }
    figures.iter().map(|(figure, numbers)| moved_in(sensitivity, figure, numbers)).collect()
}

/// Sensitivity table of one figure; `numbers` are the positions of its numbers.
fn moved_in<'s>(sensitivity: &'s Sensitivity, figure: &str, numbers: &[usize]) -> String {
    // What ids of a figure begin with says nothing in its own table.
    let short_id = |id: &'s str| id.split_once('-').map_or(id, |(_, rest)| rest);
    let ids = numbers.iter().map(|&index| short_id(&sensitivity.numbers[index]));
    let header: Vec<&str> = ["constant", "value"].into_iter().chain(ids).collect();
    let mut changes = table::new(&header, &[0, 1]);
    let unchanged = numbers.iter().map(|&index| short(sensitivity.unchanged[index]));
    changes.add_row(["as it is".to_owned(), String::new()].into_iter().chain(unchanged));
    for moved in &sensitivity.rows {
        let change = |&index: &usize| 100.0 * (moved.results[index] / sensitivity.unchanged[index] - 1.0);
        if numbers.iter().all(|index| change(index).abs() < 0.005) {
            continue;
        }
        let cells = numbers.iter().map(|index| signed_percent(change(index)));
        changes.add_row([moved.path.clone(), moved.value.clone()].into_iter().chain(cells));
    }
    let title = "with one fitted constant a fifth smaller, and larger, in short runs; what changes nothing is left out";
    format!("\n{figure}: {title}\n\n{}\n", table::text(&changes))
}

/// Summary of the table: errors of all predictions, of the independent ones beside the null model, and how free the model was.
fn verdict(report: &PaperReport) -> String {
    let Score { predictions, independent, bounds, missed, pending } = &report.score;
    let mut lines = Vec::new();
    if let Some(errors) = errors(predictions) {
        lines.push(format!("{} predictions, known misses among them: {errors}", predictions.rows));
    }
    if let Some(errors) = errors(independent).filter(|_| independent.rows < predictions.rows) {
        lines.push(format!(
            "{} of them independent (all others have * beside the role): {errors}",
            independent.rows
        ));
    }
    if let Some(NullModel { part, independent, .. }) = &report.null_model
        && let Some(errors) = errors(independent)
    {
        let part = 100.0 * part;
        lines.push(format!(
            "the null model, Amdahl's law with {part:.0} % of communication in every iteration, fitted to the independent ones: {errors}"
        ));
    }
    let fitted = report.constants.iter().filter(|constant| constant.origin == Origin::Fitted).count();
    let calibrations = report.rows.iter().filter(|row| row.role == Role::Calibration).count();
    if fitted > 0 {
        lines.push(format!(
            "{fitted} constants were fitted by hand, and {calibrations} published numbers are known to be what they were fitted to: more freedom than data"
        ));
    }
    lines.push(format!(
        "{bounds} predictions of a bound; {missed} numbers beyond their tolerance; {pending} pending"
    ));
    lines.join("\n")
}

/// Mean and worst errors of some rows, if there are any.
fn errors(errors: &Errors) -> Option<String> {
    let mut text =
        format!("mean error {:.2} %, worst {:.2} %", errors.mean_error_pct?, errors.worst_error_pct?);
    if let (Some(mean), Some(worst)) = (errors.mean_gain_error_pct, errors.worst_gain_error_pct) {
        let _ = write!(text, "; of the gain {mean:.0} %, worst {worst:.0} %");
    }
    Some(text)
}

/// Up to five significant digits, without zeros that say nothing.
fn short(value: f64) -> String {
    // Digits before the point, or zeros behind it.
    let digits = if value == 0.0 { 0 } else { libm::floor(libm::log10(value.abs())) as i32 };
    let decimals = (3 - digits).clamp(0, 6) as usize;
    let text = format!("{value:.decimals$}");
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
}

fn dash() -> String {
    "-".to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short_at_any_scale() {
        let shown = [0.0, 1.0, 1.3178, 0.017_209, 613.3, 2181.8, -5.360_66, 29.949].map(short);
        assert_eq!(shown, ["0", "1", "1.318", "0.01721", "613.3", "2182", "-5.361", "29.95"]);
    }

    #[test]
    fn bounds_and_ranges_say_what_they_are() {
        let range = |least, most| published(Published::Range([least, most]));
        assert_eq!(range(1.25, 1.37), "1.25 to 1.37");
        assert_eq!(range(97.0, f64::INFINITY), ">= 97");
        assert_eq!(range(f64::NEG_INFINITY, 0.6), "<= 0.6");
        assert_eq!(published(Published::Value(1.32)), "1.32");
    }
}
