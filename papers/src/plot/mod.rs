//! Pictures of a report, as SVG. Numbers are written in the order of the report and with fixed precision, so that the same
//! report gives the same bytes.

mod axis;
mod curve;
mod numbers;

use super::{Report, Row};

/// Names and texts of SVG files: one for each curve, and one for each figure that has several numbers of a unit, of which at
/// least one is measured.
pub fn plots(report: &Report) -> Vec<(String, String)> {
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
        groups.iter().map(|group| (file_name(&[paper, &group[0].figure]), numbers::plot(paper, group)));
    let curves = report.curves.iter().map(|curve| (file_name(&[paper, curve.name]), curve::plot(curve)));
    numbers.chain(curves).collect()
}

/// The head of a picture.
fn begin(width: f64, height: f64, title: &str) -> String {
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" font-family=\"sans-serif\" \
         font-size=\"12\">\n<rect width=\"{width}\" height=\"{height}\" fill=\"white\"/>\n\
         <text x=\"12\" y=\"24\" font-size=\"15\">{}</text>\n",
        escaped(title)
    )
}

/// `zipccl-fig-9.svg`.
fn file_name(parts: &[&str]) -> String {
    let words = parts.join(" ").to_lowercase();
    let words: Vec<&str> =
        words.split(|sign: char| !sign.is_alphanumeric()).filter(|word| !word.is_empty()).collect();
    format!("{}.svg", words.join("-"))
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_words() {
        assert_eq!(file_name(&["zipccl", "Fig. 9"]), "zipccl-fig-9.svg");
        assert_eq!(file_name(&["splitzip", "by link"]), "splitzip-by-link.svg");
        assert_eq!(escaped("a < b & c"), "a &lt; b &amp; c");
    }
}
