//! Errors of wrong scenarios: each case of `errors/*.txt` must lead to exactly the error that is written below it.
//!
//! Blocks of a file are separated by empty lines. `base NAME` alone chooses the valid scenario `errors/NAME.toml` for the cases that follow;
//! `# ...` and `=== ...` are comments and headings. A case is a block of lines, and the block after it its error:
//!
//! ```text
//! base NAME                        another base, for this case only
//! - a line of the base             replaced by the lines with `+` below it; lines with a blank in front stay
//! + a line in its place            with nothing to replace, it is added to the end of the scenario
//! ...                              between two places that signs do not tell apart
//! --set PATH=VALUE, --seed NUMBER  arguments
//! file NAME "CONTENT"              a file beside the scenario; the content is a JSON string
//! ```
//!
//! `ZIPWIRE_RENEW=1 cargo test -p zipwire-scenarios errors` writes the errors anew.

use std::env;
use std::fs;
use std::mem;
use std::path::PathBuf;

use insta::assert_snapshot;
use zipwire_scenarios::{Scenario, ScenarioError, Source, open};

use crate::common::{Folder, VALID, valid_with};

fn files(extension: &str) -> Vec<PathBuf> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/it/errors");
    let files = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mut files: Vec<PathBuf> = files.filter(|path| path.extension().unwrap() == extension).collect();
    assert!(!files.is_empty());
    files.sort();
    files
}

#[test]
fn errors_are_those_of_the_files() {
    let (mut wrong, mut cases) = (Vec::new(), 0);
    for path in files("txt") {
        let text = fs::read_to_string(&path).unwrap();
        let (mut renewed, mut base, mut open) = (Vec::new(), "valid", None);
        // The last case must have an error, too.
        for block in text.trim_end().split("\n\n").chain(["# end"]) {
            if let Some(case) = open.take() {
                let (found, is_error) = (error(case, base), block.starts_with("error: "));
                cases += 1;
                if !is_error || found != block {
                    let expected = if is_error { block } else { "an error, which is missing" };
                    wrong.push(format!(
                        "{}\n{case}\n\nexpected:\n{expected}\n\nfound:\n{found}",
                        path.display()
                    ));
                }
                renewed.push(found);
                if is_error {
                    continue;
                }
            }
            assert!(!block.starts_with("error: "), "{}: an error without a case\n{block}", path.display());
            match block.strip_prefix("base ") {
                Some(name) if !name.contains('\n') => base = name,
                _ if block.starts_with("# ") || block.starts_with("=== ") => {}
                _ => open = Some(block),
            }
            renewed.push(block.to_owned());
        }
        renewed.pop();
        if env::var_os("ZIPWIRE_RENEW").is_some() {
            fs::write(&path, renewed.join("\n\n") + "\n").unwrap();
        }
    }
    assert!(wrong.is_empty(), "{} of {cases} errors are others:\n\n{}", wrong.len(), wrong.join("\n\n"));
}

#[test]
fn bases_are_valid() {
    for path in files("toml") {
        let text = fs::read_to_string(&path).unwrap();
        Folder::new().try_load(&text, &[]).unwrap_or_else(|error| panic!("{}", error.render(false)));
    }
}

/// The rendered error of a case, with the folder's own path left out.
fn error(case: &str, base: &str) -> String {
    let (mut folder, mut base, mut edits, mut sets, mut seed) =
        (Folder::new(), base, Vec::new(), Vec::new(), None);
    for line in case.lines() {
        match line.split_once(' ').unwrap_or((line, "")) {
            ("base", name) => base = name,
            ("--set", argument) => sets.push(argument.to_owned()),
            ("--seed", number) => seed = Some(number.parse().unwrap()),
            ("file", file) => {
                let (name, content) = file.split_once(' ').unwrap();
                folder = folder.with(name, serde_json::from_str::<String>(content).unwrap());
            }
            ("-" | "+" | "" | "...", _) => edits.push(line),
            _ => panic!("`{line}` is no part of a case:\n{case}"),
        }
    }
    let base = match base {
        "nothing" => String::new(),
        name => fs::read_to_string(files("toml")[0].with_file_name(format!("{name}.toml"))).unwrap(),
    };
    let source = Source::from_text("test.toml", edited(base, &edits), folder.path());
    let error = refusal(&source, &sets, seed).unwrap_or_else(|| panic!("this case is no error:\n{case}"));
    folder.clean(&error.render(false))
}

/// The error of a scenario, of a sweep, or of the first point of a sweep that has one.
fn refusal(source: &Source, sets: &[String], seed: Option<u64>) -> Option<ScenarioError> {
    match open(source, sets, seed) {
        Err(error) => Some(error),
        Ok(Scenario::Sweep(sweep)) => (0..sweep.point_count()).find_map(|point| sweep.check(point).err()),
        Ok(Scenario::One(_)) => None,
    }
}

fn edited(mut text: String, edits: &[&str]) -> String {
    let (mut old, mut new) = (String::new(), String::new());
    let mut apply = |old: String, new: String| {
        if old.is_empty() {
            text += &new;
            return;
        }
        // Whole lines.
        let (all, old) = (format!("\n{text}"), format!("\n{old}"));
        assert_eq!(all.matches(&old).count(), 1, "the base has these lines once:{old}");
        text = all.replace(&old, &format!("\n{new}")).split_off(1);
    };
    let mut is_replaced = false;
    for edit in edits {
        let (sign, line) = edit.split_at(1);
        if sign == "." || (sign != "+" && is_replaced) {
            apply(mem::take(&mut old), mem::take(&mut new));
        }
        is_replaced = sign == "+";
        let line = format!("{}\n", line.strip_prefix(' ').unwrap_or(line));
        if matches!(sign, "-" | " ") {
            old += &line;
        }
        if matches!(sign, "+" | " ") {
            new += &line;
        }
    }
    apply(old, new);
    text
}

#[test]
fn positions_are_those_of_the_argument() {
    let error = Folder::new().try_load(VALID, &["cluster.nodes=0"]).unwrap_err();
    assert_eq!((error.line(), error.column()), (None, Some(21)));
    assert_eq!(error.to_string(), "`--set cluster.nodes=0`: `cluster.nodes` is out of range: `0`");
    let text = valid_with("nodes = 2", "nodes = 0");
    let error = Folder::new().try_load(&text, &[]).unwrap_err();
    assert_eq!((error.line(), error.column()), (Some(4), Some(9)));
    assert_eq!(error.to_string(), "test.toml:4:9: `cluster.nodes` is out of range: `0`");
}

#[test]
fn unknown_variant() {
    let mut experiment = Folder::new().load(VALID);
    let names = ["native".to_owned(), "static".to_owned()];
    assert_snapshot!(experiment.select(&names).unwrap_err().render(false), @r"
    error: unknown variant `static`
     |
     | --variant native,static
     |                  ^^^^^^
     |
     = help: did you mean `static-first`? it must be one of `native` and `static-first`
    ");
    assert_eq!(experiment.variants.len(), 2, "a refused selection changes nothing");
}

#[test]
fn colour_is_only_added() {
    let error = Folder::new().try_load(VALID, &["cluster.nodes=0"]).unwrap_err();
    let (plain, coloured) = (error.render(false), error.render(true));
    assert!(!plain.contains('\u{1b}') && coloured.contains("\u{1b}["));
    let mut stripped = String::new();
    let mut rest = coloured.as_str();
    while let Some((before, after)) = rest.split_once('\u{1b}') {
        stripped.push_str(before);
        rest = after.split_once('m').unwrap().1;
    }
    assert_eq!(stripped + rest, plain);
}

#[test]
fn a_folder_is_no_scenario() {
    let folder = zipwire_scenarios::Source::read(std::path::Path::new("tests")).unwrap_err();
    assert!(folder.to_string().contains("cannot read `tests`"), "{folder}");
    assert_eq!(folder.problem().help().as_deref(), Some("name a file in it"));
}
