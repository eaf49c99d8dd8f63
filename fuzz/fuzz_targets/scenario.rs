//! Scenario files and arguments of `--set`: an experiment, or an error that can be printed.

#![no_main]

use std::path::Path;

use libfuzzer_sys::fuzz_target;
use zipwire_scenarios::{Source, load};

fuzz_target!(|text: &str| {
    // What follows the first zero are arguments.
    let mut parts = text.split('\0');
    let text = parts.next().unwrap_or_default();
    let mut sets: Vec<String> = parts.take(3).map(str::to_owned).collect();
    // Draws for each iteration and rank are made in advance: few, so that the time goes into reading.
    sets.push("iterations=1".to_owned());
    let source = Source::from_text("input.toml", text, Path::new("/nonexistent"));
    let _ = source.description();
    if let Err(error) = load(&source, &sets, None) {
        assert!(!error.to_string().is_empty());
        assert!(error.line().is_none_or(|line| line <= text.split('\n').count()));
        for colour in [false, true] {
            assert!(!error.render(colour).is_empty());
        }
    }
});
