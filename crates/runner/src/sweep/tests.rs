//! Rows that a journal gives back, whatever call fails, wherever the process or the power ends, and whatever becomes of its bytes.

use std::path::Path;

use serde_json::{Map, json};
use zipwire_scenarios::{Source, Sweep, open};

use super::journal::{Found, Header, Journal, JournalError, Line, NAME};
use super::{SweepRow, SweepSetup};
use crate::executors::SIM;
use crate::storage::simulated::{Failure, Simulated};
use crate::storage::{Open, Storage};

/// Power failures that are drawn for each place.
const SEEDS: u64 = 6;

const SCENARIO: &str = r#"name = "swept"
[cluster]
nodes = 2
gpus_per_node = 1
gpu_bandwidth = "25 GB/s"
nic_bandwidth = "25 GB/s"
latency_intra = "5 us"
latency_inter = "10 us"
[workload]
kind = "collective"
collective = "all-to-all"
matrix = [[0, 2], [4, 0]]
payload = "noise"
[[variant]]
name = "native"
[sweep]
seed = [11, 12, 13, 14]
"#;

struct Case {
    sweep: Sweep,
    header: Header,
}

impl Case {
    fn new() -> Self {
        let source = Source::from_text("swept.toml", SCENARIO, "");
        let sweep = open(&source, &[], None).unwrap().into_sweep().unwrap();
        let setup = SweepSetup {
            sweep: &sweep,
            executors: &[SIM],
            variants: &[],
            jobs: 1,
            folder: Path::new(""),
            timelines: false,
            explains: true,
            fresh: false,
            memory: None,
            verifies: true,
            folds: false,
            shown: 0,
        };
        let header = Header::of(&setup, "swept");
        Self { sweep, header }
    }

    fn open<'a>(&'a self, storage: &'a dyn Storage) -> Result<(Journal<'a>, Found), JournalError> {
        Journal::open(storage, Path::new(""), &self.header, &self.sweep, false)
    }

    /// The row of a point, in these tests.
    fn row(&self, point: usize) -> SweepRow {
        let set = self.sweep.paths().map(str::to_owned).zip(self.sweep.values(point)).collect();
        let executors = [("sim".to_owned(), json!({ "iteration_s": 0.1 + point as f64 }))];
        SweepRow { set, executors: Map::from_iter(executors), failed: Vec::new() }
    }

    /// Runs all points that are open, as far as it gets.
    fn work(&self, storage: &Simulated) -> Result<Found, JournalError> {
        let (journal, found) = self.open(storage)?;
        for point in journal.open_points() {
            journal.append(point, &self.row(point))?;
        }
        journal.sync()?;
        Ok(found)
    }

    /// Whatever the journal gives back is what was written, and the sweep can be brought to its end.
    fn check(&self, storage: &Simulated, place: &str) -> Result<(), String> {
        for _ in 0..2 {
            let wrong = |error: JournalError| format!("{place}: {error}");
            let (journal, _) = self.open(storage).map_err(wrong)?;
            let open = journal.open_points();
            for point in (0..self.sweep.point_count()).filter(|point| !open.contains(point)) {
                let row = journal.read(point).map_err(wrong)?;
                if row != self.row(point) {
                    return Err(format!("{place}: point {point} is another one: {row:?}"));
                }
            }
            drop(journal);
            self.work(storage).map_err(wrong)?;
        }
        Ok(())
    }

    fn text(storage: &Simulated) -> String {
        String::from_utf8(storage.files()[NAME].clone()).unwrap()
    }

    /// A journal of all points, changed.
    fn changed(&self, change: impl FnOnce(&str) -> String) -> Simulated {
        let storage = Simulated::new();
        self.work(&storage).unwrap();
        let text = change(&Self::text(&storage));
        storage.put(NAME, text.as_bytes());
        storage
    }
}

#[test]
fn wherever_it_is_interrupted_no_row_is_wrong() {
    let case = Case::new();
    for failure in [Failure::Error, Failure::End] {
        for at in 1.. {
            let storage = Simulated::new().copy(failure(at));
            // Whether it fails is looked at from outside.
            let _ = case.work(&storage);
            let Some(what) = storage.failed_at() else { break };
            let place = format!("{:?} ({what})", failure(at));
            case.check(&storage.killed(), &place).unwrap();
            for seed in 0..SEEDS {
                case.check(&storage.without_power(seed), &format!("{place}, power failure {seed}")).unwrap();
            }
        }
    }
}

#[test]
fn a_flipped_bit_anywhere_costs_a_point_and_changes_none() {
    let case = Case::new();
    let whole = case.changed(str::to_owned);
    let bytes = whole.files()[NAME].clone();
    let header = bytes.iter().position(|byte| *byte == b'\n').unwrap() + 1;
    for at in header..bytes.len() {
        for bit in [0, 6] {
            let mut flipped = bytes.clone();
            flipped[at] ^= 1 << bit;
            let storage = Simulated::new();
            storage.put(NAME, &flipped);
            let (journal, found) = case.open(&storage).unwrap();
            let lost = case.sweep.point_count() - journal.done();
            assert!((1..=2).contains(&lost), "byte {at}: {lost} points");
            assert!(found.dropped || found.damaged > 0, "byte {at}");
            drop(journal);
            case.check(&storage, &format!("byte {at}, bit {bit}")).unwrap();
        }
    }
}

#[test]
fn lines_in_each_others_place_are_noticed() {
    let case = Case::new();
    // Points 0 and 1 swapped by their numbers; a digit altered; a line without its values; a line removed.
    let swapped = |text: &str| {
        let swapped = text.replace("\"point\":0", "\"point\":x").replace("\"point\":1", "\"point\":0");
        swapped.replace("\"point\":x", "\"point\":1")
    };
    let altered = |text: &str| text.replace("\"iteration_s\":2.1", "\"iteration_s\":2.2");
    let empty = |text: &str| text.replace("\"set\":{\"seed\":13}", "\"set\":{}");
    type Change = fn(&str) -> String;
    for (change, damaged) in [(swapped as Change, 2), (altered, 1), (empty, 1)] {
        let storage = case.changed(change);
        let (journal, found) = case.open(&storage).unwrap();
        assert_eq!(found, Found { dropped: false, damaged });
        assert_eq!(journal.done(), case.sweep.point_count() - damaged);
        drop(journal);
        case.check(&storage, "changed").unwrap();
    }
    let removed = |text: &str| text.lines().take(4).map(|line| format!("{line}\n")).collect();
    let storage = case.changed(removed);
    assert_eq!(case.open(&storage).unwrap().0.open_points(), [3]);
}

/// A line that is whole, with a checksum that is right, and of another sweep or without its values.
#[test]
fn a_whole_line_of_something_else_is_noticed() {
    let case = Case::new();
    let identity = |point: usize| super::journal::identity(&case.sweep, &case.header.digest, point);
    let foreign = Line { point: 1, identity: identity(2), row: case.row(1) };
    let empty = Line { point: 1, identity: identity(1), row: SweepRow { set: Map::new(), ..case.row(1) } };
    let beyond = Line { point: 99, identity: identity(1), row: case.row(1) };
    let right = Line { point: 1, identity: identity(1), row: case.row(1) };
    for (line, damaged) in [(foreign, 1), (empty, 1), (beyond, 1), (right, 0)] {
        let storage = Simulated::new();
        drop(case.open(&storage).unwrap());
        let text = Case::text(&storage) + std::str::from_utf8(&line.to_bytes()).unwrap();
        storage.put(NAME, text.as_bytes());
        assert_eq!(case.open(&storage).unwrap().1.damaged, damaged);
        case.check(&storage, "one line").unwrap();
    }
}

/// The journal is damaged after it was opened, before the report reads it.
#[test]
fn a_row_that_rots_while_it_waits_is_an_error() {
    let case = Case::new();
    let storage = case.changed(str::to_owned);
    let (journal, _) = case.open(&storage).unwrap();
    let mut file = storage.open(Path::new(NAME), Open::Create).unwrap();
    std::io::Write::write_all(&mut file, &vec![b'x'; 100_000]).unwrap();
    assert!(matches!(journal.read(2), Err(JournalError::Damaged { point: 3, .. })));
}

/// A file that is called as journals are, and is none, is not emptied: neither as one that was not written to its end, nor because the sweep begins anew.
#[test]
fn a_file_of_others_is_not_emptied() {
    let case = Case::new();
    for text in ["letters\n", "letters", "{}\n"] {
        for fresh in [false, true] {
            let storage = Simulated::new();
            storage.put(NAME, text.as_bytes());
            let opened = Journal::open(&storage, Path::new(""), &case.header, &case.sweep, fresh);
            assert!(matches!(opened, Err(JournalError::NotJournal(_))), "{text}");
            assert_eq!(Case::text(&storage), text);
        }
    }
}

#[test]
fn these_tests_can_fail() {
    let case = Case::new();
    let storage = case.changed(str::to_owned);
    let other = SweepRow { executors: Map::new(), ..case.row(2) };
    let journal = case.open(&storage).unwrap().0;
    journal.append(2, &other).unwrap();
    drop(journal);
    assert!(case.check(&storage, "a wrong row").unwrap_err().contains("point 2 is another one"));
}
