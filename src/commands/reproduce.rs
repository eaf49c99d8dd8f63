//! `zipwire reproduce`: what a paper publishes, beside what comes out here.

use std::fmt::Write as _;

use zipwire::papers::{
    Constant, Curve, Published, Report, Role, Row, Score, Sensitivity, count, plots, reproduce,
    signed_percent,
};
use zipwire::{Cancel, Output};

use super::{print, print_json};
use crate::cli::ReproduceArgs;
use crate::error::CliError;
use crate::progress::Progress;
use crate::table;

pub(crate) fn run(args: &ReproduceArgs, cancel: &Cancel) -> Result<(), CliError> {
    let _hold = cancel.hold();
    let output = args.out.as_deref().map(Output::create_beside).transpose()?;
    let progress = Progress::new(count(args.paper, &args.scenarios, args.sensitivity)?);
    // One more has begun, so one more has ended, up to those that run side by side.
    let begin = |number: &str| progress.next(number.to_owned());
    let report = reproduce(args.paper, &args.scenarios, args.sensitivity, cancel, &begin)?;
    drop(progress);
    // The pictures of several papers share a folder.
    if let Some(mut output) = output {
        for (name, svg) in plots(&report) {
            output.write(&name, |out| out.write_all(svg.as_bytes()))?;
        }
        output.commit()?;
    }
    if args.json { print_json(&report) } else { print(text(&report)) }
}

fn text(report: &Report) -> String {
    let mut text = format!("{}\n\n{}\n", report.paper.title(), table::text(&numbers(&report.rows)));
    let remarks: Vec<String> = report.rows.iter().filter_map(remark).collect();
    if !remarks.is_empty() {
        let _ = write!(text, "\n{}\n", remarks.join("\n"));
    }
    for curve in &report.curves {
        let _ = write!(text, "\n{}\n\n{}\n", curve.title, table::text(&points(curve)));
    }
    if !report.constants.is_empty() {
        let _ =
            write!(text, "\nassumed by the scenarios\n\n{}\n", table::text(&constants(&report.constants)));
    }
    if let Some(sensitivity) = &report.sensitivity {
        text.push_str(&moved(sensitivity, &report.rows));
    }
    let _ = write!(text, "\n{}\n", verdict(&report.score));
    text
}

fn numbers(rows: &[Row]) -> comfy_table::Table {
    let header = ["number", "quantity", "unit", "paper", "ours", "error", "role", ""];
    let mut numbers = table::new(&header, &[0, 1, 2, 6, 7]);
    for row in rows {
        let ours = row.ours.map_or_else(dash, short);
        let error = row.error_pct.map_or_else(dash, signed_percent);
        let reached = match row.reached {
            Some(true) => "ok",
            Some(false) if row.role == Role::KnownMiss => "known",
            Some(false) => "MISS",
            None if row.pending.is_some() => "pending",
            None => "",
        };
        let unit = if row.unit == "none" { "" } else { &row.unit };
        numbers.add_row(vec![
            row.id.clone(),
            row.quantity.clone(),
            unit.to_owned(),
            published(row.paper),
            ours,
            error,
            row.role.name().to_owned(),
            reached.to_owned(),
        ]);
    }
    numbers
}

/// What is to be known about a number: what it waits for, and its notes.
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

fn points(curve: &Curve) -> comfy_table::Table {
    let mut points = table::new(curve.columns, &[]);
    for point in &curve.points {
        points.add_row(point.iter().copied().map(short));
    }
    points
}

fn constants(constants: &[Constant]) -> comfy_table::Table {
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

/// Of one figure, whose numbers have these positions.
fn moved_in(sensitivity: &Sensitivity, figure: &str, numbers: &[usize]) -> String {
    // What ids of a figure begin with says nothing in its own table.
    let short_id = |id: &'static str| id.split_once('-').map_or(id, |(_, rest)| rest);
    let ids = numbers.iter().map(|&index| short_id(sensitivity.numbers[index]));
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

fn verdict(score: &Score) -> String {
    let mut parts = Vec::new();
    if let (Some(mean), Some(worst)) = (score.mean_error_pct, score.worst_error_pct) {
        let count = score.predictions;
        parts.push(format!("{count} predictions: mean absolute error {mean:.2} %, worst {worst:.2} %"));
    }
    if score.bounds > 0 {
        parts.push(format!("{} predictions of a bound", score.bounds));
    }
    parts.push(format!("{} beyond their tolerance", score.missed));
    parts.push(format!("{} numbers pending", score.pending));
    parts.join("; ")
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
