//! Whatever is written, the answer is an experiment or an error that points into the text; never a panic.

use crate::common::{Folder, flat, valid_with};
use rand::RngExt;
use zipwire_payload::stream;
use zipwire_scenarios::{Scenario, Source, open};

/// Pieces that are likely to go wrong where they do not belong.
const PIECES: [&str; 24] = [
    "",
    "0",
    "-1",
    "1e308",
    "nan",
    "inf",
    "99999999999999999999999",
    "\"\"",
    "\"5 us\"",
    "\"-5 us\"",
    "\"1e400 s\"",
    "\"9e99 TiB\"",
    "[]",
    "{}",
    "[[]]",
    "[[1]]",
    "true",
    "1979-05-27",
    "\"uniform\"",
    "=",
    "\n",
    "\u{b5}",
    "\"",
    ".",
];

/// Replaces one word or sign of `text` by a piece, or swaps it with another one.
fn broken(text: &str, rng: &mut impl rand::Rng) -> String {
    let is_word = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '.' | '"' | '/');
    let mut tokens: Vec<String> = Vec::new();
    for c in text.chars() {
        match tokens.last_mut() {
            Some(last) if is_word(c) && last.ends_with(is_word) => last.push(c),
            _ => tokens.push(c.to_string()),
        }
    }
    let at = rng.random_range(0..tokens.len());
    if rng.random_bool(0.3) {
        let other = rng.random_range(0..tokens.len());
        tokens.swap(at, other);
    } else {
        tokens[at] = PIECES[rng.random_range(0..PIECES.len())].to_owned();
    }
    tokens.concat()
}

/// A coded scenario that needs no payload to be drawn, which would be most of the time of these tests.
fn coded() -> String {
    valid_with("payload = { gaussian = 0.02 }\n", "").replace("[codec]", "[codec]\nratio = 1.3")
}

fn check(text: &str, sets: &[&str]) -> bool {
    let Err(error) = Folder::new().try_load(text, sets) else { return true };
    assert!(!error.to_string().is_empty() && !error.render(false).is_empty());
    if let Some(line) = error.line() {
        assert!((1..=text.lines().count() + 1).contains(&line), "{error}");
    }
    error.problem().help();
    false
}

#[test]
fn broken_files() {
    let transfers = "kind = \"transfers\"\nstart = \"rank-ready\"\norder = \"chain\"\n\
        flows = [{ src = 0, dst = 1, bytes = \"1 KiB\", start = \"2 us\" }, { src = 2, dst = 0, bytes = \"7 B\" }]";
    let collective = "kind = \"collective\"\ncollective = \"all-to-all\"\nstart = [\"0 s\", \"1 ms\", \"0 s\", \"0 s\"]\n\
        matrix = [[0, 2, 4, 6], [2, 0, 2, 2], [2, 2, 0, 2], [\"1 KiB\", 0, 0, 0]]";
    let mut refused = 0;
    for (index, text) in [coded(), flat(transfers), flat(collective)].into_iter().enumerate() {
        for case in 0..200 {
            let mut rng = stream(1, "broken file", [index as u64, case, 0]);
            refused += u32::from(!check(&broken(&text, &mut rng), &[]));
        }
    }
    assert!(
        (300..600).contains(&refused),
        "{refused} of 600 refused: the changes are not what they should be"
    );
}

#[test]
fn broken_sweeps() {
    let table = "[sweep]\n\"cluster.nodes\" = [2, 4]\nseed = [1, 2]\n'variant.\"static-first\".window' = [1, 3]\n\
        \"workload.routing\" = [{ zipf = 1.0 }, \"uniform\"]\n";
    let mut refused = 0;
    for case in 0..200 {
        let mut rng = stream(1, "broken sweep", [0, case, 0]);
        let text = coded() + &broken(table, &mut rng);
        let sweep = match open(&Source::from_text("test.toml", text.as_str(), "."), &[], None) {
            Ok(Scenario::One(_)) => continue,
            Ok(Scenario::Sweep(sweep)) => sweep,
            Err(error) => {
                refused += 1;
                assert!(!error.to_string().is_empty() && !error.render(false).is_empty());
                continue;
            }
        };
        let wrong: Vec<_> = (0..sweep.point_count()).filter_map(|point| sweep.check(point).err()).collect();
        refused += u32::from(!wrong.is_empty());
        for error in wrong {
            assert!(error.render(false).contains("at point"), "{error}");
            // What is wrong with a point is in the table.
            assert!(error.line().is_some_and(|line| line > coded().lines().count()), "{error}");
        }
    }
    assert!(
        (60..200).contains(&refused),
        "{refused} of 200 refused: the changes are not what they should be"
    );
}

#[test]
fn broken_arguments() {
    let arguments = ["cluster.nodes=4", "variant.static-first.window=2", "workload.routing={ zipf = 1.0 }"];
    let mut refused = 0;
    for (index, argument) in arguments.into_iter().enumerate() {
        for case in 0..60 {
            let mut rng = stream(1, "broken argument", [index as u64, case, 0]);
            refused += u32::from(!check(&coded(), &[&broken(argument, &mut rng)]));
        }
    }
    assert!(
        (90..180).contains(&refused),
        "{refused} of 180 refused: the changes are not what they should be"
    );
}
