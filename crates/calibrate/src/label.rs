//! Labels that launchers, containers and terminals put before and into the lines of a log, left out.
//!
//! Known are those of `srun --label`, of `mpirun` with tags or timestamps, of `kubectl logs` with timestamps or prefixes, of
//! `stern`, `ts` and `docker compose`, and colours of terminals. Lines keep their numbers.

use crate::row::parse_row;

/// Most labels before one line.
const MOST_LABELS: usize = 6;
/// Most bytes of a label in brackets.
const LONGEST_TAG: usize = 120;
/// Most words of a label without brackets: a pod, its container and a bar.
const MOST_WORDS: usize = 3;

/// The text without labels, line by line.
pub(crate) fn without_labels(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    for line in text.lines() {
        plain.push_str(&without_tags(behind_labels(&without_colours(line))));
        plain.push('\n');
    }
    plain
}

/// The line without control sequences of terminals: an escape, `[`, parameters and a letter.
fn without_colours(line: &str) -> String {
    let mut plain = String::with_capacity(line.len());
    let mut chars = line.chars();
    while let Some(c) = chars.next() {
        if c != '\u{1b}' {
            plain.push(c);
            continue;
        }
        match chars.next() {
            // Parameters end with the first byte from `@` on.
            Some('[') => drop(chars.find(|c| ('@'..='~').contains(c))),
            // A set of characters follows.
            Some('(' | ')') => drop(chars.next()),
            _ => {}
        }
    }
    plain
}

/// Rest of a line behind the labels that it begins with: those with a form of their own, and words before more of them.
fn behind_labels(line: &str) -> &str {
    let rest = behind_forms(line);
    behind_words(rest).unwrap_or(rest)
}

fn behind_forms(line: &str) -> &str {
    let mut rest = line;
    for _ in 0..MOST_LABELS {
        let Some(next) = behind_label(rest.trim_start()) else { break };
        rest = next.trim_start();
    }
    rest
}

fn behind_label(line: &str) -> Option<&str> {
    behind_tag(line)
        .or_else(|| behind_task(line))
        .or_else(|| behind_stream(line))
        .or_else(|| behind_time(line))
}

/// Behind `[1,0]<stdout>:`, `[0]`, `[2026-11-24 10:01:02]` and the like.
fn behind_tag(line: &str) -> Option<&str> {
    let inner = line.strip_prefix('[')?;
    let end = inner.find(']').filter(|end| (1..=LONGEST_TAG).contains(end))?;
    let rest = &inner[end + 1..];
    Some(behind_stream(rest).unwrap_or(rest))
}

/// Behind the name of a stream: `<stdout>:` of `mpirun`, `stdout F` of containers.
fn behind_stream(line: &str) -> Option<&str> {
    if let Some(rest) = line.strip_prefix("<std") {
        let (_, rest) = rest.split_once('>')?;
        return Some(rest.strip_prefix(':').unwrap_or(rest));
    }
    let rest = line.strip_prefix("stdout ").or_else(|| line.strip_prefix("stderr "))?;
    rest.strip_prefix("F ").or_else(|| rest.strip_prefix("P "))
}

/// Behind the number of a task, as `12:` of `srun --label`.
fn behind_task(line: &str) -> Option<&str> {
    let rest = digits(line, 1, 7)?.strip_prefix(':')?;
    (rest.is_empty() || rest.starts_with([' ', '\t', '#', '{'])).then_some(rest)
}

/// Behind a date, a time of day, both of them in any usual form, or seconds since 1970 with a fraction.
fn behind_time(line: &str) -> Option<&str> {
    const DAYS: [&str; 7] = ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"];
    const MONTHS: [&str; 12] =
        ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let one_of = |line, names: &[&str]| -> Option<&str> {
        names.iter().find_map(|name| str::strip_prefix(line, name)).map(str::trim_start)
    };
    if let Some(rest) = date(line) {
        return clock(rest.strip_prefix('T').unwrap_or_else(|| rest.trim_start())).or(Some(rest));
    }
    if let Some(rest) = clock(line) {
        return Some(rest);
    }
    if let Some(rest) = digits(line, 9, 11).and_then(|rest| digits(rest.strip_prefix('.')?, 1, 9)) {
        return Some(rest);
    }
    let day = one_of(line, &DAYS);
    let rest = clock(digits(one_of(day.unwrap_or(line), &MONTHS)?, 1, 2)?.trim_start())?;
    let year = || digits(rest.trim_start(), 4, 4);
    if day.is_some() { year().or(Some(rest)) } else { Some(rest) }
}

/// Behind `2026-11-24` or `2026/11/24`.
fn date(line: &str) -> Option<&str> {
    let rest = digits(line, 4, 4)?;
    let separator = rest.chars().next().filter(|c| matches!(c, '-' | '/'))?;
    let rest = digits(rest.strip_prefix(separator)?, 2, 2)?;
    digits(rest.strip_prefix(separator)?, 2, 2)
}

/// Behind `10:01:02`, also with a fraction and a time zone.
fn clock(line: &str) -> Option<&str> {
    let rest = digits(digits(digits(line, 1, 2)?.strip_prefix(':')?, 2, 2)?.strip_prefix(':')?, 2, 2)?;
    let fraction = rest.strip_prefix(['.', ',']).and_then(|rest| digits(rest, 1, 9));
    let rest = fraction.unwrap_or(rest);
    let zone = || {
        let hours = digits(rest.strip_prefix(['+', '-'])?, 2, 2)?;
        digits(hours.strip_prefix(':').unwrap_or(hours), 2, 2)
    };
    Some(rest.strip_prefix('Z').or_else(zone).unwrap_or(rest))
}

/// Behind as many digits as there are, if they are so many.
fn digits(text: &str, least: usize, most: usize) -> Option<&str> {
    let count = text.bytes().take_while(u8::is_ascii_digit).count();
    (least..=most).contains(&count).then(|| &text[count..])
}

/// Behind a few words that name a pod or a task, if a comment or a row follows.
fn behind_words(line: &str) -> Option<&str> {
    let mut rest = line.trim_start();
    if rest.starts_with(['#', '{']) || parse_row(rest).is_some() {
        return None;
    }
    for _ in 0..MOST_WORDS {
        let (word, next) = rest.split_once(char::is_whitespace)?;
        rest = next.trim_start();
        let is_label = word.ends_with([':', '|', '>']) || word.contains(['-', '/']) || rest.starts_with("| ");
        // A command line with a comment behind it names its program.
        if !is_label || word.contains("_perf") {
            return None;
        }
        let behind = behind_forms(rest);
        if behind.starts_with('#') || parse_row(&without_tags(behind)).is_some() {
            return Some(behind);
        }
    }
    None
}

/// The line without tags in its middle, which are where a program has written in parts. In rows any bracket is one, elsewhere those with a
/// stream's name.
fn without_tags(line: &str) -> String {
    let is_row = line.trim_start().starts_with(|c: char| c.is_ascii_digit());
    let mut plain = String::with_capacity(line.len());
    let mut rest = line;
    while let Some(at) = rest.find('[') {
        plain.push_str(&rest[..at]);
        let tagged = &rest[at..];
        let behind = behind_tag(tagged).filter(|behind| {
            let tag = &tagged[..tagged.len() - behind.len()];
            !tag.contains(' ') && (is_row || tag.contains("]<std"))
        });
        rest = behind.unwrap_or_else(|| {
            plain.push('[');
            &tagged[1..]
        });
    }
    plain.push_str(rest);
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROW: &str = "1048576 262144 float sum -1 28.56 36.71 64.25 0 28.70 36.54 63.94 0";

    #[test]
    fn labels_before_lines_are_left_out() {
        for label in [
            "0: ",
            " 12: ",
            "[1,0]<stdout>:",
            "[prterun-node01-12@1,0]<stdout>: ",
            "[0]",
            "Mon Nov 24 10:01:02 2025[1,0]<stdout>:",
            "Mon Nov  3 10:01:02 2025<stdout>:",
            "2025-11-24T10:01:02.123456789Z ",
            "2025-11-24T10:01:02.123456789+01:00 stdout F ",
            "2025-11-24 10:01:02,123 ",
            "[2025-11-24 10:01:02] ",
            "Nov 24 10:01:02 ",
            "00:00:12 ",
            "1732442462.123456 ",
            "[pod/nccl-launcher-x7k2p/nccl] ",
            "nccl-launcher-x7k2p nccl-test ",
            "nccl-launcher-x7k2p: ",
            "worker-0  | ",
            "node1  | ",
            "10.0.0.1: ",
            "nccl-0 | [1,0]<stdout>:",
            "nccl-0  | 2025-11-24T10:01:02Z 0: ",
            "\u{1b}(B\u{1b}[m",
            "\u{1b}[32m",
            "\u{1b}[1;32m0: \u{1b}[0m",
        ] {
            for line in ["# Using devices", "#", ROW] {
                let plain = without_labels(&format!("{label}{line}\n{label}    {line}\u{1b}[0m\n"));
                let lines: Vec<&str> = plain.lines().map(str::trim).collect();
                assert_eq!(lines, [line, line], "{label}");
            }
        }
    }

    #[test]
    fn tags_within_lines_are_left_out() {
        let tagged =
            "[0]1048576 262144 float sum -1[0]  28.56 36.71 64.25 0[1,0]<stdout>: 28.70 36.54 63.94 0";
        let row = parse_row(without_labels(tagged).trim()).expect("a row");
        assert_eq!((row.first.us, row.second.map(|second| second.us)), (28.56, Some(28.70)));
        let rank = "#  Rank  0[1,0]<stdout>:  Group  0 Pid   1000 on n1 device  0 [0000:0f:00] NVIDIA H200";
        assert_eq!(without_labels(rank).trim(), rank.replace("[1,0]<stdout>:", ""));
    }

    #[test]
    fn lines_without_labels_stay_as_they_are() {
        let text = "# nccl-tests version 2.19.6\n#  Rank  0 Pid 1 on n1 device  0 [0x1a] NVIDIA H200\n\
                    NCCL version 2.29.2\n       1024 256 float sum -1 28.56 36.71 64.25 0 2026-02-03 12:13:14\n\n";
        assert_eq!(without_labels(text), text);
    }
}
