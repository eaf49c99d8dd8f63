//! Logs as text: what a program of nccl-tests prints.

use crate::error::LogError;
use crate::header::Header;
use crate::log::{Given, Log, shape};
use crate::row::{self, Row};
use crate::series::{Series, points};

/// Characters of a line that an error shows.
const SHOWN: usize = 60;

/// Lines at the end and between runs that are neither comments nor rows, and say nothing of what was measured: programs that start
/// others add them.
fn is_chatter(line: &str) -> bool {
    !line.starts_with(|c: char| c.is_ascii_digit() || c.is_whitespace())
}

pub(crate) fn parse(file: &str, text: &str, given: Given) -> Result<Log, LogError> {
    let mut header = Header::default();
    let mut rows: Vec<(usize, Row)> = Vec::new();
    let mut chatter = None;
    for (index, line) in text.lines().enumerate() {
        let number = index + 1;
        let trimmed = line.trim_start();
        if let Some(comment) = trimmed.strip_prefix('#') {
            header.read(comment);
        } else if let Some(row) = row::parse(trimmed) {
            rows.push((number, row));
        } else if !trimmed.is_empty() {
            trimmed.split_whitespace().for_each(|word| header.read_program(word));
            if !is_chatter(line) {
                chatter.get_or_insert((number, trimmed));
            }
        }
    }
    let shown = |line: &str| line.chars().take(SHOWN).collect();
    let Some((first, _)) = rows.first() else {
        let first =
            text.lines().enumerate().find(|(_, line)| !line.trim().is_empty() && !line.starts_with('#'));
        return Err(match first {
            Some((index, line)) => {
                LogError::NotARow { file: file.to_owned(), line: index + 1, text: shown(line.trim()) }
            }
            None => LogError::Empty { file: file.to_owned(), lines: text.lines().count().max(1) },
        });
    };
    let (operation, nodes, gpus_per_node) = shape(file, *first, &header, given)?;
    let mut notes = Vec::new();
    if let Some((line, text)) = chatter {
        notes.push(format!("{file}:{line}: no row of nccl-tests, and left out: `{}`", shown(text)));
    }
    let odd = rows.iter().filter(|(_, row)| row.bytes > 0 && !row.first.fits(row.bytes));
    notes.extend(odd.map(|(line, row)| {
        format!(
            "{file}:{line}: an algorithm bandwidth of {} GB/s does not fit {} bytes in {} us; the time is taken",
            row.first.algbw, row.bytes, row.first.us
        )
    }));
    let dtype = rows[0].1.dtype.clone();
    let measured = rows.iter().filter(|(_, row)| row.first.us > 0.0);
    let points = points(measured.map(|(_, row)| {
        let in_place = row.second.filter(|second| second.us > 0.0);
        (row.bytes, row.first.us * 1e-6, in_place.map(|second| second.us * 1e-6))
    }));
    let nics = header.nics_of(gpus_per_node);
    let gpu = header.gpu;
    let series = Series { file: file.to_owned(), operation, nodes, gpus_per_node, gpu, nics, dtype, points };
    Ok(Log { series: vec![series], notes })
}
