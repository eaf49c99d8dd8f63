//! Pictures of a report: the numbers of each figure, and its curves.

use crate::plots::{Bars, Level, Lines, Rows, Series, Value};

use crate::{Curve, CurveAbout, PaperReport, Row, signed_percent};

/// Names and texts of SVG files: one for each curve, and one for each figure that has several numbers of a unit, of which at
/// least one is measured.
pub fn pictures(report: &PaperReport) -> Vec<(String, String)> {
    let paper = report.paper.name();
    let mut groups: Vec<Vec<&Row>> = Vec::new();
    for row in &report.rows {
        let same = |group: &&mut Vec<&Row>| group[0].figure == row.figure && group[0].unit == row.unit;
        match groups.iter_mut().find(same) {
            Some(group) => group.push(row),
            None => groups.push(vec![row]),
        }
    }
    groups.retain(|group| group.len() > 1 && group.iter().any(|row| row.ours.is_some()));
    let numbers =
        groups.iter().map(|group| (file_name(&[paper, &group[0].figure]), numbers(report, group).svg()));
    let curves =
        report.curves.iter().map(|curve| (file_name(&[paper, &curve.about.name]), drawn(report, curve)));
    numbers.chain(curves).collect()
}

/// The numbers of a figure that have one unit.
fn numbers(report: &PaperReport, rows: &[&Row]) -> Rows {
    let common = common_end(rows);
    let unit = match rows[0].unit.as_str() {
        "x" => "ratio",
        "none" => "number",
        unit => unit,
    };
    let is_speedup = unit == "ratio";
    Rows {
        title: format!("{}, {}", report.paper.title(), rows[0].figure),
        x_title: common.map_or_else(|| unit.to_owned(), |common| format!("{common}, {unit}")),
        base: is_speedup.then_some(1.0),
        rows: rows.iter().map(|row| number(row, common)).collect(),
    }
}

/// Common ending of all quantities, after the first colon or the last comma: the title of their axis.
fn common_end<'r>(rows: &[&'r Row]) -> Option<&'r str> {
    let ends = |split: fn(&str) -> Option<(&str, &str)>| {
        let (_, end) = split(&rows[0].quantity)?;
        rows.iter().all(|row| split(&row.quantity).is_some_and(|(_, other)| other == end)).then_some(end)
    };
    ends(|quantity| quantity.split_once(": ")).or_else(|| ends(|quantity| quantity.rsplit_once(", ")))
}

fn number(row: &Row, common: Option<&str>) -> crate::plots::Row {
    let name = row.quantity.as_str();
    let name = common
        .and_then(|end| Some(name.strip_suffix(end)?.trim_end_matches([':', ',', ' '])))
        .unwrap_or(name);
    let (least, most) = row.paper.ends();
    let role = row.role.name();
    let beside = match (row.gain_error_pct, row.error_pct, &row.pending) {
        // Bars of speedups are gains.
        (Some(error), ..) if error.abs() < 0.5 => format!("{role}, gain 0 %"),
        (Some(error), ..) => format!("{role}, gain {error:+.0} %"),
        (None, Some(error), _) => format!("{role}, {}", signed_percent(error)),
        (None, None, Some(_)) => format!("{role}, pending"),
        (None, None, None) => role.to_owned(),
    };
    crate::plots::Row {
        name: name.to_owned(),
        published: [least, most],
        ours: row.ours.map(|value| Value { value, range: row.ours_range }),
        beside,
    }
}

/// A curve: bars where its points have names, lines elsewhere.
fn drawn(report: &PaperReport, curve: &Curve) -> String {
    let values = |column: usize| -> Vec<Value> {
        let value = |(index, point): (usize, &Vec<f64>)| {
            let range = curve.ranges.as_ref().map(|ranges| ranges[index][column]);
            Value { value: point[column], range: range.filter(|[least, most]| least < most) }
        };
        curve.points.iter().enumerate().map(value).collect()
    };
    let CurveAbout { title, columns, axes: [x_title, y_title], groups, published, .. } = curve.about.clone();
    let levels = published.iter().filter_map(|published| {
        let (least, most) = report.rows.iter().find(|row| row.id == published.id)?.paper.ends();
        let value = if least.is_finite() { least } else { most };
        let name = format!("{} ({value})", published.name);
        Some(Level { value, name, series: published.column.map(|column| column - 1) })
    });
    let levels = levels.collect();
    let series = columns
        .into_iter()
        .enumerate()
        .skip(1)
        .map(|(column, name)| Series { name, values: values(column) })
        .collect();
    if groups.is_empty() {
        let x = curve.points.iter().map(|point| point[0]).collect();
        return Lines { title, x_title, y_title, x, series, levels }.svg();
    }
    // Curves with names are speedups: a bar is the gain.
    Bars { title, x_title, y_title, base: 1.0, groups, series, levels }.svg()
}

/// `zipccl-fig-9.svg`.
fn file_name(parts: &[&str]) -> String {
    let words = parts.join(" ").to_lowercase();
    let words: Vec<&str> =
        words.split(|sign: char| !sign.is_alphanumeric()).filter(|word| !word.is_empty()).collect();
    format!("{}.svg", words.join("-"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_words() {
        assert_eq!(file_name(&["zipccl", "Fig. 9"]), "zipccl-fig-9.svg");
        assert_eq!(file_name(&["splitzip", "by link"]), "splitzip-by-link.svg");
    }
}
