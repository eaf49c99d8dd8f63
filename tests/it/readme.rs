//! The README's uses: every block of commands runs as it stands, in a folder with the scenarios, the samples and a model file.

#[cfg(unix)]
use crate::common::{markdown::blocks, pages::Place};

/// Words of the README at the most.
const MOST_WORDS: usize = 900;

const README: &str = include_str!("../../README.md");

#[test]
fn it_is_short() {
    let words = README.split_whitespace().count();
    assert!(words <= MOST_WORDS, "README.md has {words} words, at most {MOST_WORDS} are allowed");
}

#[cfg(unix)]
#[test]
fn its_uses_run() {
    let place = Place::new();
    let is_use = |text: &str| text.starts_with("zipwire ");
    let uses = blocks(README).into_iter().filter(|block| block.language() == "sh" && is_use(&block.text));
    let uses: Vec<_> = uses.collect();
    assert_eq!(uses.len(), 6, "uses in README.md");
    for block in uses {
        let commands = &block.text;
        assert!(commands.lines().count() <= 3, "a use has three commands at most:\n{commands}");
        place.run(&format!("README.md:{}", block.line), commands);
    }
    let read = |name: &str| std::fs::read(place.at(name)).unwrap();
    let model = read("model.safetensors");
    assert!(read("again.safetensors") == model);
    assert!(read("restored/model.safetensors") == model);
}
