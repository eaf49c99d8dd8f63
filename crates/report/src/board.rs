//! Board of accuracy: how good predictions of collectives were on clusters of one kind, from public logs; and words of the glossary.

use crate::html::{Cell, escape, paragraph, prose, table};

// Links to pages of the documentation, which a package has as files.
const ACCURACY: &str = include_str!("accuracy.md");
const GLOSSARY: &str = include_str!("glossary.md");

/// First cells of the tables that are looked for.
const BY_HARDWARE: &str = "| GPU | NICs | operation |";
const IN_ALL: &str = "| healthy logs | logs | mean |";

/// Columns of the table by hardware that are shown: a title, its place, and whether it has two numbers, of now and of the last release.
const COLUMNS: [(&str, usize, bool); 8] = [
    ("operation", 2, false),
    ("NIC of a GPU", 1, false),
    ("nodes", 3, false),
    ("logs", 4, false),
    ("preset off by", 5, true),
    ("calibrated off by", 6, true),
    ("on few nodes only", 7, true),
    ("on other operations", 8, true),
];

/// Rows of the board for hardware that is called like `kinds`, such as names of presets: `h100-8x`, `8 x H100`.
pub(crate) fn accuracy(kinds: &[&str]) -> String {
    let rows = rows(BY_HARDWARE);
    let gpus = rows.iter().filter_map(|row| row.first().copied());
    let lead = "How far bus bandwidths of the library's collectives were off, in the mean, for messages of 32 MiB and more, against public \
                logs of nccl-tests. A preset knows only the generation of the GPU; a calibration knows other logs of the cluster.";
    let Some(gpu) = named(gpus, kinds) else {
        let of_all: Vec<Vec<Cell>> = self::rows(IN_ALL)
            .iter()
            .map(|row| [0, 1, 2, 4].map(|column| cell(row.get(column).copied().unwrap_or_default())).to_vec())
            .collect();
        let none = "The board has no logs of this kind of cluster, or the result does not say which it is. All healthy logs together:";
        let header = ["healthy logs", "logs", "mean", "worst"];
        return format!("{}{}{}", paragraph(lead), paragraph(none), table(&header, &of_all));
    };
    let of_gpu = rows.iter().filter(|row| row.first() == Some(&gpu)).map(|row| {
        let column = |(_, place, has_two): (&str, usize, bool)| {
            let text = row.get(place).copied().unwrap_or_default();
            cell(if has_two { text.split(" / ").next().unwrap_or_default() } else { text })
        };
        COLUMNS.map(column).to_vec()
    });
    let which = format!("Healthy logs of clusters with {gpu}:");
    let header = COLUMNS.map(|(title, ..)| title);
    format!("{}{}{}", paragraph(lead), paragraph(&which), table(&header, &of_gpu.collect::<Vec<_>>()))
}

/// GPU all of whose words are in one of these kinds; of several the one with most words, and the first of those.
fn named<'a>(gpus: impl Iterator<Item = &'a str>, kinds: &[&str]) -> Option<&'a str> {
    let kinds: Vec<Vec<String>> = kinds.iter().map(|kind| words(kind)).collect();
    let is_in = |gpu: &[String]| kinds.iter().any(|kind| gpu.iter().all(|word| kind.contains(word)));
    let found = gpus.map(|gpu| (words(gpu), gpu)).filter(|(gpu, _)| !gpu.is_empty() && is_in(gpu));
    let best = found.reduce(|best, next| if next.0.len() > best.0.len() { next } else { best });
    best.map(|(_, gpu)| gpu)
}

/// Words of a name in small letters: `8 x H100-SXM` has `h100`.
fn words(name: &str) -> Vec<String> {
    let words = name.split(|letter: char| !letter.is_ascii_alphanumeric());
    words.filter(|word| !word.is_empty()).map(str::to_lowercase).collect()
}

/// A cell that is sorted as a number if it begins with one, and after all others if it is a dash.
fn cell(text: &str) -> Cell {
    match text.split(' ').next().and_then(|number| number.parse().ok()) {
        Some(number) => Cell::number(Some(number), |_| text.to_owned()),
        None if text == "-" => Cell::number(None, |_| String::new()),
        None => Cell::text(text),
    }
}

/// Cells of the rows of the table of the board whose header begins like this.
fn rows(header: &str) -> Vec<Vec<&'static str>> {
    let lines = ACCURACY.lines().skip_while(|line| !line.starts_with(header)).skip(2);
    let lines = lines.take_while(|line| line.starts_with('|'));
    lines.map(|line| line.trim_matches('|').split('|').map(str::trim).collect()).collect()
}

/// Meanings of some words, in the order of the glossary.
pub(crate) fn glossary(words: &[&str]) -> String {
    let entry = |line: &str| {
        let (word, meaning) = line.strip_prefix("| ")?.strip_suffix(" |")?.split_once(" | ")?;
        let meaning = without_links(meaning);
        words.contains(&word).then(|| format!("<dt>{}</dt><dd>{}</dd>\n", escape(word), prose(&meaning)))
    };
    format!("<dl>\n{}</dl>\n", GLOSSARY.lines().filter_map(entry).collect::<String>())
}

/// Text of Markdown without its links, and without those in brackets that name a file: the files are not there.
fn without_links(text: &str) -> String {
    let mut plain = String::new();
    let without_files: String = text
        .split(" ([")
        .map(|part| {
            part.split_once("))").filter(|(link, _)| link.contains(".md](")).map_or(part, |(_, rest)| rest)
        })
        .collect();
    let mut rest = without_files.as_str();
    while let Some((before, link)) = rest.split_once('[') {
        let Some(((name, _), after)) =
            link.split_once(')').and_then(|(link, after)| Some((link.split_once("](")?, after)))
        else {
            break;
        };
        plain += before;
        plain += name;
        rest = after;
    }
    plain + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn boards_are_those_of_the_hardware() {
        let h100 = accuracy(&["h100-8x"]);
        assert!(h100.contains("clusters with H100:") && h100.contains("alltoall"), "{h100}");
        assert!(!h100.contains(" / "), "the last release is left out");
        let given = accuracy(&["my cluster", "4 x 8 B200"]);
        assert!(given.contains("clusters with B200:"));
        assert!(
            accuracy(&["a6000-8x8"]).contains("no logs of this kind")
                && accuracy(&[]).contains("calibrated with")
        );
    }

    #[test]
    fn names_of_several_words_are_found() {
        let gpus = ["A100", "A100 PCIE", "H100", "RTX PRO 6000"];
        let found = |kind: &str| named(gpus.into_iter(), &[kind]);
        assert_eq!(found("a100-pcie-8x"), Some("A100 PCIE"));
        assert_eq!(found("8 x A100-SXM4"), Some("A100"));
        assert_eq!(found("4 x RTX PRO 6000 Blackwell"), Some("RTX PRO 6000"));
        assert_eq!([found("rtx-6000"), found("")], [None, None]);
        assert!(accuracy(&["2 x A100 PCIE"]).contains("clusters with A100 PCIE:"));
    }

    #[test]
    fn words_have_their_meanings_without_links() {
        let html = glossary(&["frame", "raw, wire"]);
        assert_eq!(html.matches("<dt>").count(), 2);
        assert!(html.contains("a compressed message") && !html.contains("]("), "{html}");
        assert_eq!(without_links("a [b](c.md) d ([e.md](e.md)) [e] f"), "a b d [e] f");
    }
}
