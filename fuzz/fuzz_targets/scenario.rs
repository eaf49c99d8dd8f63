//! Scenario files, a file that they name, and arguments of `--set`: an experiment, or an error that can be printed.

#![no_main]

use libfuzzer_sys::fuzz_target;
use zipwire_fuzz::scratch_file;
use zipwire_scenarios::{Source, load};

fuzz_target!(|text: &str| {
    // Between zeros: the scenario, the file `input`, arguments.
    let mut parts = text.split('\0');
    let text = parts.next().unwrap_or_default();
    let file = scratch_file(parts.next().unwrap_or_default().as_bytes());
    let mut sets: Vec<String> = parts.take(3).map(str::to_owned).collect();
    // Draws for each iteration and rank are made in advance: few, so that the time goes into reading.
    sets.push("iterations=1".to_owned());
    let base = file.parent().expect("the file is in a folder");
    let source = Source::from_text("input.toml", text, base);
    let _ = source.description();
    if let Err(error) = load(&source, &sets, None) {
        assert!(!error.to_string().is_empty());
        for colour in [false, true] {
            assert!(!error.render(colour).is_empty());
        }
    }
});
