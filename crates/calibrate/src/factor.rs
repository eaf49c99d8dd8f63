//! The factor between bus and algorithm bandwidth, which says which operation ran on how many ranks (nccl-tests, `doc/PERFORMANCE.md`).

use std::ops::RangeInclusive;

use zipwire_cluster::library::Operation;

use crate::cluster_file::significant;
use crate::error::LogError;
use crate::row::Row;

/// Relative slack of a factor, for programs that round more than once.
const SLACK: f64 = 2e-4;
/// Width of a factor's range from which on it says too little to count.
const VAGUE: f64 = 0.1;
/// Most ranks that a factor is held to mean.
const MOST_RANKS: f64 = 65536.0;

/// Factor of a row, as far as the digits of its bandwidths tell.
#[derive(Clone, Debug, PartialEq)]
struct Factor {
    range: RangeInclusive<f64>,
    line: usize,
    algbw: f64,
    busbw: f64,
}

impl Factor {
    /// The factor of a row, if both bandwidths are there with digits enough, and the algorithm bandwidth is that of the time: else a
    /// program other than nccl-tests has written them.
    fn of(row: &Row) -> Option<Self> {
        let (algbw, busbw) = (row.first.algbw?, row.first.busbw?);
        if row.bytes == 0 || !row.first.fits(row.bytes) || algbw.value <= 2.0 * algbw.half {
            return None;
        }
        let low = (busbw.value - busbw.half) / (algbw.value + algbw.half) * (1.0 - SLACK);
        let high = (busbw.value + busbw.half) / (algbw.value - algbw.half) * (1.0 + SLACK);
        let factor = Self { range: low..=high, line: row.line, algbw: algbw.value, busbw: busbw.value };
        (factor.width() < VAGUE).then_some(factor)
    }

    fn width(&self) -> f64 {
        self.range.end() - self.range.start()
    }

    fn printed(&self) -> f64 {
        self.busbw / self.algbw
    }

    /// Operations and ranks that have this factor.
    fn meaning(&self, operation: Operation, ranks: u32) -> String {
        if *self.range.start() <= 0.0 {
            return "of one rank alone, which exchanges nothing".to_owned();
        }
        let others = named(Operation::ALL.into_iter().filter(|other| self.is_of(*other, ranks)));
        let mut meant: Vec<String> =
            others.into_iter().map(|names| format!("{names} on {ranks} ranks")).collect();
        if let Some(count) = self.ranks(operation) {
            meant.push(format!("{} on {count} ranks", operation.name()));
        }
        if meant.is_empty() {
            "of no operation that is known here".to_owned()
        } else {
            format!("of {}", meant.join(", or of "))
        }
    }

    fn is_of(&self, operation: Operation, ranks: u32) -> bool {
        self.range.contains(&operation.bus_factor(ranks))
    }

    /// The one number of ranks on which an operation has this factor.
    fn ranks(&self, operation: Operation) -> Option<u32> {
        // The factor is k (n - 1) / n, so n is k / (k - factor).
        let k = 2.0 * operation.bus_factor(2);
        if operation.bus_factor(4) == operation.bus_factor(2) {
            return None;
        }
        let of = |factor: f64| if factor < k { k / (k - factor) } else { MOST_RANKS };
        let (least, most) = (of(*self.range.start()).ceil(), of(*self.range.end()).floor());
        (least == most && (2.0..MOST_RANKS).contains(&least)).then_some(least as u32)
    }
}

/// `all_gather, reduce_scatter or alltoall`; none without operations.
pub(crate) fn named(operations: impl Iterator<Item = Operation>) -> Option<String> {
    let names: Vec<&str> = operations.map(Operation::name).collect();
    let (last, others) = names.split_last()?;
    Some(if others.is_empty() { (*last).to_owned() } else { format!("{} or {last}", others.join(", ")) })
}

/// Holds the factors of rows against that of an operation among so many ranks. One row that is off is a damaged one, and remarked;
/// two are another measurement.
///
/// # Errors
/// If rows have another factor.
pub(crate) fn check(
    file: &str,
    rows: &[Row],
    operation: Operation,
    ranks: u32,
    notes: &mut Vec<String>,
) -> Result<(), LogError> {
    let factors: Vec<Factor> = rows.iter().filter_map(Factor::of).collect();
    let off: Vec<&Factor> = factors.iter().filter(|factor| !factor.is_of(operation, ranks)).collect();
    // The one whose digits say most.
    let Some(worst) = off.iter().min_by(|a, b| a.width().total_cmp(&b.width())) else { return Ok(()) };
    let (line, algbw, busbw) = (worst.line, worst.algbw, worst.busbw);
    let expected = significant(operation.bus_factor(ranks));
    let printed = significant(worst.printed());
    if off.len() == 1 && factors.len() > 2 {
        notes.push(format!(
            "{file}:{line}: bus over algorithm bandwidth is {printed} ({busbw} over {algbw} GB/s) in this row alone, and {expected} in \
             others; the time is taken"
        ));
        return Ok(());
    }
    Err(LogError::Factor {
        file: file.to_owned(),
        line,
        printed: format!("{printed} ({busbw} over {algbw} GB/s)"),
        claimed: format!("{expected} for {} on {ranks} ranks", operation.name()),
        meaning: worst.meaning(operation, ranks),
    })
}

/// Operations among so many ranks that the factors of all rows allow; all of them if no row says.
pub(crate) fn allowed(rows: &[Row], ranks: u32) -> Vec<Operation> {
    let factors: Vec<Factor> = rows.iter().filter_map(Factor::of).collect();
    let is_allowed = |operation: &Operation| factors.iter().all(|factor| factor.is_of(*operation, ranks));
    Operation::ALL.into_iter().filter(is_allowed).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::row::parse_row;

    fn rows(factor: f64) -> Vec<Row> {
        let row = |index: u32| {
            let bytes = 1_u64 << index;
            let us = 20.0 + bytes as f64 / 200e3;
            let gbps = bytes as f64 / us / 1e3;
            parse_row(&format!(
                "{bytes} {} float sum -1 {us:.2} {gbps:.2} {:.2} 0 {us:.2} {gbps:.2} {:.2} 0",
                bytes / 4,
                gbps * factor,
                gbps * factor
            ))
            .unwrap()
        };
        (3..34).map(row).collect()
    }

    #[test]
    fn digits_that_are_cut_off_are_no_other_factor() {
        for ranks in [2, 3, 8, 12, 72, 1440] {
            for operation in Operation::ALL {
                let mut notes = Vec::new();
                let rows = rows(operation.bus_factor(ranks));
                assert_eq!(check("f", &rows, operation, ranks, &mut notes), Ok(()), "{operation:?} {ranks}");
                assert_eq!(notes, Vec::<String>::new());
            }
        }
    }

    #[test]
    fn another_factor_is_refused_with_its_meaning() {
        let meaning = |factor: f64, operation, ranks| match check(
            "f",
            &rows(factor),
            operation,
            ranks,
            &mut Vec::new(),
        ) {
            Err(LogError::Factor { meaning, .. }) => meaning,
            other => panic!("{other:?}"),
        };
        let gather = "of all_gather, reduce_scatter or alltoall on 8 ranks";
        assert!(meaning(0.875, Operation::AllReduce, 8).starts_with(gather));
        assert_eq!(meaning(1.75, Operation::AllReduce, 16), "of all_reduce on 8 ranks");
        assert_eq!(meaning(0.875, Operation::AllGather, 16), "of all_gather on 8 ranks");
        assert_eq!(meaning(1.75, Operation::SendRecv, 8), "of all_reduce on 8 ranks");
        assert_eq!(meaning(0.0, Operation::AllGather, 8), "of one rank alone, which exchanges nothing");
        assert_eq!(meaning(3.0, Operation::AllGather, 8), "of no operation that is known here");
    }

    #[test]
    fn one_damaged_row_is_remarked() {
        let mut damaged = rows(1.75);
        damaged[25].first.busbw = damaged[25].first.algbw;
        let mut notes = Vec::new();
        assert_eq!(check("f", &damaged, Operation::AllReduce, 8, &mut notes), Ok(()));
        assert!(notes.len() == 1 && notes[0].contains("in this row alone"), "{notes:?}");
        damaged[24].first.busbw = damaged[24].first.algbw;
        assert!(check("f", &damaged, Operation::AllReduce, 8, &mut notes).is_err());
    }

    #[test]
    fn factors_tell_operations_apart_as_far_as_they_go() {
        assert_eq!(allowed(&rows(1.75), 8), [Operation::AllReduce]);
        let ring = [Operation::AllGather, Operation::ReduceScatter, Operation::AllToAll];
        assert_eq!(allowed(&rows(0.875), 8), ring);
        assert_eq!(allowed(&[], 8), Operation::ALL);
    }
}
