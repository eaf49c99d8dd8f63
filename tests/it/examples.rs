//! Examples in the help of commands: each runs as it stands, in a folder with a model file and what the program carries.

use std::fs;

use crate::common::markdown::root;
use crate::common::pages::Place;
use crate::common::process::output;

/// Commands that take what tests of every machine have not, and what that is: their examples are only parsed, by a test beside the grammar.
const LEFT_OUT: [(&str, &str); 7] = [
    ("calibrate probe", "MPI"),
    ("bench gpu", "a GPU"),
    ("kernels compile", "NVRTC"),
    ("import flight", "dumps of a job"),
    ("import inspector", "logs of a job"),
    ("import chakra", "traces of a job"),
    ("import shim", "journals of a job"),
];

/// All examples, in the order of commands, each once.
fn examples() -> Vec<String> {
    let help = String::from_utf8(output(&["help", "--markdown"]).stdout).unwrap();
    let mut examples: Vec<String> = Vec::new();
    for block in help.split("\nExamples:\n").skip(1) {
        for line in block.lines().take_while(|line| line.starts_with("  zipwire ")) {
            let example = line.trim().to_owned();
            if !examples.contains(&example) {
                examples.push(example);
            }
        }
    }
    // Others use what these write.
    examples.sort_by_key(|example| !example.starts_with("zipwire scenario new "));
    examples
}

/// Examples that take seconds.
const SLOW: [&str; 4] = ["validate ", "bench codec ", "advise scenarios/", "scenario list"];

fn run(is_left_out: impl Fn(&str) -> bool) {
    let place = Place::new();
    fs::create_dir(place.at("logs")).unwrap();
    for log in ["026-h100-sxm-10x8-all_reduce.txt", "029-h100-sxm-10x8-alltoall.txt"] {
        fs::copy(root().join("traces/samples/nccl-tests").join(log), place.at("logs").join(log)).unwrap();
    }
    let examples = examples();
    assert!(examples.len() > 80, "{}", examples.len());
    for example in examples {
        let words = example.strip_prefix("zipwire ").unwrap();
        if let Some((command, needs)) = LEFT_OUT.iter().find(|(command, _)| words.starts_with(command)) {
            println!("left out: `{command}` takes {needs}");
            continue;
        }
        if !is_left_out(words) {
            place.run("the help", &example);
        }
    }
}

#[test]
fn examples_of_the_help_run() {
    // The report of a validation that has not run is left out with it.
    run(|words| SLOW.iter().any(|slow| words.starts_with(slow)) || words.contains("out/validation"));
}

mod whole {
    #[test]
    #[ignore = "some seconds: .ci/run runs it, and the short form is beside it"]
    fn every_example_of_the_help_runs() {
        super::run(|_| false);
    }
}
