//! The pages of `docs/`: all of them are in the book, their commands run as they stand, and their scenarios are accepted.

use std::collections::BTreeSet;
use std::path::{Component, Path, PathBuf};

use crate::common::markdown::{blocks, docs, read, root};

/// Entries of the summary that `tools/book` has the program make.
const MADE: [&str; 2] = ["All commands", "All keys of scenarios"];

/// Needs that a block of commands may have besides the folder in which those of all others run.
const NEEDS: [(&str, &str); 11] = [
    ("browser", "Chromium"),
    ("build", "Cargo, and minutes"),
    ("files", "files that stand for the reader's own"),
    ("gpu", "a GPU"),
    ("mpi", "an MPI library"),
    ("nccl-tests", "NCCL's tests and GPUs"),
    ("network", "packages of an index"),
    ("python", "packages for Python"),
    ("root", "root, for namespaces of the network"),
    ("slurm", "SLURM"),
    ("time", "minutes, or a machine of its own"),
];

/// Pages whose commands take more than a few seconds.
const LONG: [&str; 7] = [
    "docs/advice.md",
    "docs/howto/predict-my-cluster.md",
    "docs/report.md",
    "docs/serving.md",
    "docs/switcher.md",
    "docs/timelines.md",
    "docs/tutorial.md",
];

/// Pages of the summary, relative to the root; entries without a file are those that are made.
fn summary() -> Vec<String> {
    let text = read("docs/SUMMARY.md");
    let entries = text.split('[').skip(1).map(|rest| rest.split_once("](").unwrap());
    let mut made = Vec::new();
    let mut pages = Vec::new();
    for (title, rest) in entries {
        match rest.split(')').next().unwrap() {
            "" => made.push(title),
            target => pages.push(plain(&Path::new("docs").join(target))),
        }
    }
    assert_eq!(made, MADE, "entries of docs/SUMMARY.md without a file");
    pages
}

/// A path without `..`.
fn plain(path: &Path) -> String {
    let mut plain = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => assert!(plain.pop(), "{} leaves the repository", path.display()),
            part => plain.push(part),
        }
    }
    plain.to_str().unwrap().replace('\\', "/")
}

#[test]
fn the_summary_has_every_page() {
    let listed = summary();
    for page in &listed {
        assert!(root().join(page).is_file(), "docs/SUMMARY.md lists `{page}`, which is not there");
    }
    let unique: BTreeSet<&String> = listed.iter().collect();
    assert_eq!(unique.len(), listed.len(), "a page stands twice in docs/SUMMARY.md");
    for page in docs().iter().filter(|page| *page != "docs/SUMMARY.md") {
        assert!(unique.contains(page), "docs/SUMMARY.md has no entry for {page}");
    }
    for copied in ["README.md", "crates/python/README.md", "crates/c-api/README.md", "codec/README.md"] {
        assert!(unique.contains(&copied.to_owned()), "docs/SUMMARY.md has no entry for {copied}");
    }
}

#[test]
fn how_tos_are_short() {
    for page in docs().iter().filter(|page| page.starts_with("docs/howto/")) {
        let words = read(page).split_whitespace().count();
        assert!(words <= 500, "{page} has {words} words, at most 500 are allowed");
    }
}

/// Scenarios of pages for extenders need what these add: `tests/extending.rs` runs them.
#[cfg(unix)]
#[test]
fn whole_scenarios_are_accepted() {
    use crate::common::pages::Place;

    let place = Place::new();
    place.run("profile", "zipwire import kineto traces/samples/profiles -o profile.json");
    let mut checked = 0;
    for page in docs().iter().filter(|page| !page.starts_with("docs/extending/")) {
        let is_whole =
            |text: &str| ["name = ", "[cluster]", "[workload]"].iter().all(|key| text.contains(key));
        let scenarios = blocks(&read(page)).into_iter().filter(|block| block.language() == "toml");
        for block in scenarios.filter(|block| is_whole(&block.text)) {
            std::fs::write(place.at("scenario.toml"), &block.text).unwrap();
            place.run(&format!("{page}:{}", block.line), "zipwire scenario check scenario.toml");
            checked += 1;
        }
    }
    assert!(checked > 1, "{checked} scenarios");
}

#[cfg(unix)]
mod commands {
    use std::fs;
    use std::io::Write;

    use super::{LONG, NEEDS};
    use crate::common::markdown::{Block, blocks, docs, read};
    use crate::common::pages::Place;

    /// Runs the blocks of commands of a page in their order, in a folder of their own, and names those that are not run.
    fn runs(page: &str) {
        let all = blocks(&read(page)).into_iter().filter(|block| block.language() == "sh");
        let (left_out, run): (Vec<Block>, Vec<Block>) = all.partition(|block| block.needs().is_some());
        for block in left_out {
            let need = block.needs().unwrap();
            let known = NEEDS.iter().find(|(name, _)| *name == need);
            let (_, what) =
                known.unwrap_or_else(|| panic!("{page}:{}: nothing is called `{need}`", block.line));
            // Not `eprintln!`, of which a test that passes shows nothing.
            let line = format!("{page}:{}: skipped: it needs {what}\n", block.line);
            std::io::stderr().write_all(line.as_bytes()).unwrap();
        }
        let place = Place::new();
        prepare(page, &place);
        for block in run {
            place.run(&format!("{page}:{}", block.line), &block.text);
        }
    }

    /// Files that a page speaks of.
    fn prepare(page: &str, place: &Place) {
        let weights = |step: &str| place.at(&format!("traces/samples/train_{step}.bf16.safetensors"));
        let put = |from: &str, to: &str| {
            let to = place.at(to);
            fs::create_dir_all(to.parent().unwrap()).unwrap();
            fs::copy(weights(from), to).unwrap();
        };
        if page == "docs/files.md" {
            put("late_weights", "Llama-3-8B/model.safetensors");
            for (from, step) in [("step370_weights", "100"), ("step375_weights", "200")] {
                put(from, &format!("step-{step}.safetensors"));
                put(from, &format!("step-{step}/model.safetensors"));
            }
            put("step370_weights", "out/step-1000/model.safetensors");
            put("step375_weights", "out/step-1100/model.safetensors");
        }
    }

    #[test]
    fn of_short_pages_run() {
        for page in docs().iter().filter(|page| !LONG.contains(&page.as_str())) {
            runs(page);
        }
    }

    mod whole {
        use super::*;

        #[test]
        #[ignore = "a minute of computing: .ci/run runs it"]
        fn of_long_pages_run() {
            LONG.into_iter().for_each(runs);
        }
    }
}
