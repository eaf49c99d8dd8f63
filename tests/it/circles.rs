//! Modules of the codec library: none is in a circle of more than two.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// Names behind `crate::` in a source without its tests and comments: `crate::a::b` and `crate::{a::b, c}`.
fn names_used(text: &str) -> Vec<String> {
    let code: Vec<&str> = text.lines().take_while(|line| *line != "#[cfg(test)]").collect();
    let code: String = code.iter().map(|line| line.split("//").next().unwrap_or_default()).collect();
    let mut names = Vec::new();
    for behind in code.split("crate::").skip(1) {
        let Some(list) = behind.strip_prefix('{') else {
            names.push(first_word(behind));
            continue;
        };
        let (mut depth, mut item) = (0, String::new());
        for letter in list.chars() {
            match letter {
                '{' => depth += 1,
                '}' if depth == 0 => break,
                '}' => depth -= 1,
                ',' if depth == 0 => names.push(first_word(&std::mem::take(&mut item))),
                letter if depth == 0 => item.push(letter),
                _ => {}
            }
        }
        names.push(first_word(&item));
    }
    names
}

fn first_word(text: &str) -> String {
    text.trim_start().chars().take_while(|letter| letter.is_alphanumeric() || *letter == '_').collect()
}

/// The module that each name of the crate's root is of: `pub use module::{Name, ...};`.
fn exports(lib: &str) -> BTreeMap<String, String> {
    let mut exports = BTreeMap::new();
    for statement in lib.split("pub use ").skip(1) {
        let statement = statement.split(';').next().unwrap_or_default();
        let Some((module, names)) = statement.split_once("::") else { continue };
        for name in names.split(|letter: char| !letter.is_alphanumeric() && letter != '_') {
            exports.insert(name.to_owned(), module.to_owned());
        }
    }
    exports
}

/// Modules of the crate that each of them names.
fn uses(source: &Path) -> BTreeMap<String, BTreeSet<String>> {
    let read = |path: &Path| std::fs::read_to_string(path).expect("sources are UTF-8");
    let exports = exports(&read(&source.join("lib.rs")));
    let mut uses: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    let mut left = vec![source.to_owned()];
    while let Some(path) = left.pop() {
        if path.is_dir() {
            left.extend(
                std::fs::read_dir(&path).expect("it is a folder").map(|entry| entry.expect("it is").path()),
            );
            continue;
        }
        let below = path.strip_prefix(source).expect("the walk stays below").to_string_lossy().into_owned();
        let module = below.split('/').next().unwrap_or_default().trim_end_matches(".rs").to_owned();
        if module == "lib" || below.contains("tests") {
            continue;
        }
        for name in names_used(&read(&path)) {
            let of = exports.get(&name).cloned().unwrap_or(name);
            uses.entry(module.clone()).or_default().insert(of);
        }
    }
    uses
}

/// Modules that are reached from this one.
fn reached<'a>(uses: &'a BTreeMap<String, BTreeSet<String>>, from: &str) -> BTreeSet<&'a str> {
    let (mut reached, mut left) = (BTreeSet::new(), vec![from.to_owned()]);
    while let Some(module) = left.pop() {
        for next in uses.get(&module).into_iter().flatten() {
            if reached.insert(next.as_str()) {
                left.push(next.clone());
            }
        }
    }
    reached
}

#[test]
fn modules_of_the_codec_library_are_in_no_circle_of_more_than_two() {
    let uses = uses(&Path::new(env!("CARGO_MANIFEST_DIR")).join("codec/src"));
    assert!(uses.len() > 20 && uses["registry"].contains("tiered"), "the modules are found: {uses:?}");
    for module in uses.keys() {
        let others = reached(&uses, module);
        let circle: Vec<&str> = others
            .iter()
            .copied()
            .filter(|other| other != module && reached(&uses, other).contains(module.as_str()))
            .collect();
        assert!(circle.len() <= 1, "`{module}` is in a circle with {circle:?}");
    }
}
