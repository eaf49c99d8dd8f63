//! The accuracy board, with a few of the logs that are committed.

use std::path::Path;

#[allow(dead_code, reason = "the example has the rest")]
#[path = "../../examples/accuracy/board.rs"]
mod board;

use board::{Board, Last, entries};

fn board(prefixes: &[&str]) -> Board {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../traces/samples/nccl-tests");
    Board::of(prefixes.iter().flat_map(|prefix| entries(&folder, prefix)).collect())
}

/// All-Gathers of H100: one node, ten nodes of one GPU and of two, and a slow network.
const LOGS: [&str; 5] = ["002", "007", "012", "017", "110"];

#[test]
fn the_board_has_each_log_with_its_predictions() {
    let page = board(&LOGS).document(&Last::default());
    let row = |begin: &str| {
        page.lines().find(|line| line.starts_with(begin)).unwrap_or_else(|| panic!("{begin}: {page}"))
    };
    assert!(row("| presets, on hardware of their own | 4 | ").contains("| 6 % |"));
    assert!(row("| H100 | 400 Gb/s | all_gather | 10 | 2 | ").ends_with("- |"));
    assert!(row("| 110-gh200-2x4-all_reduce | all_reduce | 2 x 4 | BROKEN by design | ").contains('%'));
    // Ten nodes are the fewest above one here, so nothing is of more.
    assert!(row("| calibrated with few nodes, on more | 0 | - |").ends_with("| 0 |"));
}

/// Other figures than those of the last release are no regression up to a point, nor where they are better.
#[test]
fn what_is_worse_than_in_the_last_release_is_named() {
    let board = board(&LOGS);
    let figures = board.figures();
    assert_eq!(board.worse_than(&Last::parse(&figures)), Vec::<String>::new());
    let moved = |by: f64| {
        let lines = figures.lines().enumerate().map(|(at, line)| {
            let mut fields: Vec<String> = line.split(',').map(str::to_owned).collect();
            if at > 0 {
                fields[5] = format!("{}", fields[5].parse::<f64>().unwrap() + by);
            }
            fields.join(",") + "\n"
        });
        board.worse_than(&Last::parse(&lines.collect::<String>()))
    };
    assert_eq!(moved(0.9), Vec::<String>::new());
    assert_eq!(moved(-0.9), Vec::<String>::new());
    let worse = moved(-1.1);
    assert!(
        worse.iter().any(|line| line.starts_with("H100 | 400 Gb/s | all_gather | 10, by preset: ")),
        "{worse:?}"
    );
    assert!(!worse.iter().any(|line| line.starts_with("GH200")), "broken ones do not count: {worse:?}");
}

/// The page that is committed has a row for each log of the last release, and the goals.
#[test]
fn the_page_and_its_figures_are_of_the_same_logs() {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
    let read = |name: &str| std::fs::read_to_string(docs.join(name)).unwrap();
    let (page, figures) = (read("accuracy.md"), read("accuracy.csv"));
    for line in figures.lines().skip(1) {
        let log = line.split(',').next().unwrap();
        assert!(page.contains(&format!("| {log} | ")), "{log}");
    }
    assert!(page.starts_with("# Accuracy of a library's collectives"));
}
