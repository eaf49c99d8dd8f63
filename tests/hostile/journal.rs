//! Journals of sweeps that were damaged between two runs. Every bit and every place of a failure: `crates/runner/src/sweep/tests.rs`.

use std::fs;

use libtest_mimic::Trial;

use crate::common::{Case, SCENARIO};
use crate::trial;

/// 40 points.
fn scenario() -> String {
    let seeds: Vec<String> = (11..51).map(|seed| seed.to_string()).collect();
    format!("{SCENARIO}[sweep]\nseed = [{}]\n\"cluster.nic_bandwidth\" = [\"5 GB/s\"]\n", seeds.join(", "))
}

pub(crate) fn trials() -> Vec<Trial> {
    vec![trial("a_damaged_journal_changes_no_row", a_damaged_journal_changes_no_row)]
}

fn a_damaged_journal_changes_no_row() {
    let whole = Case::new(&scenario());
    whole.run(&[]).expect(0, "");
    let files = |case: &Case| {
        ["summary.json", "sweep.csv"].map(|name| fs::read(case.path("out").join(name)).unwrap())
    };
    // Left by a process that is killed after some points.
    let case = Case::new(&scenario());
    let mut journal = String::new();
    while journal.lines().count() < 4 {
        let mut child = case.command(&["--jobs", "1"]).spawn().unwrap();
        while journal.lines().count() < 4 && child.try_wait().unwrap().is_none() {
            journal = fs::read_to_string(case.path("out/sweep.partial.jsonl")).unwrap_or_default();
        }
        child.kill().unwrap();
        child.wait().unwrap();
    }
    let journal = journal.split_inclusive('\n').take(4).collect::<String>();
    let lines: Vec<&str> = journal.lines().collect();
    let altered = journal.replacen("\"mean\":0.", "\"mean\":1.", 1);
    let swapped = journal.replacen("\"point\":0", "\"point\":9", 1).replacen("\"point\":1", "\"point\":0", 1);
    let empty =
        journal.replacen("\"set\":{\"seed\":11,\"cluster.nic_bandwidth\":\"5 GB/s\"}", "\"set\":{}", 1);
    let missing = format!("{}\n{}\n", lines[0], lines[2]);
    for (name, text, is_said) in [
        ("altered", altered, true),
        ("swapped", swapped, true),
        ("empty", empty, true),
        ("missing", missing, false),
    ] {
        assert_ne!(text, journal, "{name}");
        let case = Case::new(&scenario());
        fs::create_dir(case.path("out")).unwrap();
        case.put("out/sweep.partial.jsonl", &text);
        let resumed = case.run(&[]);
        resumed.expect(0, if is_said { "of the journal: damaged" } else { "" });
        assert_eq!(resumed.error.contains("damaged"), is_said, "{name}: {}", resumed.error);
        assert!(files(&case) == files(&whole), "{name}: the rows are others");
    }
}
