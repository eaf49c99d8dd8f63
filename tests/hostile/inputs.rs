//! Inputs that are no files, that are damaged, or whose text is meant for a terminal.

use std::fs;

use libtest_mimic::Trial;

use crate::common::{Case, Ended, SCENARIO, can, zipwire};
use crate::trial;

pub(crate) fn trials() -> Vec<Trial> {
    let has_fifos = can("mkfifo", &["--version"]);
    vec![
        trial("a_pipe_is_no_input", a_pipe_is_no_input).with_ignored_flag(!has_fifos),
        trial("control_characters_do_not_reach_the_terminal", control_characters_do_not_reach_the_terminal),
        trial("a_tensor_is_there_once", a_tensor_is_there_once),
        trial("a_long_value_is_cut", a_long_value_is_cut),
    ]
}

/// A safetensors file.
fn safetensors(header: &str, data: &[u8]) -> Vec<u8> {
    [&(header.len() as u64).to_le_bytes(), header.as_bytes(), data].concat()
}

fn a_pipe_is_no_input() {
    let case = Case::new(SCENARIO);
    let pipe = case.path("pipe");
    assert!(can("mkfifo", &[pipe.to_str().unwrap()]));
    let name = pipe.to_str().unwrap();
    let refused = |args: &[&str]| Ended::of(zipwire(args)).expect(2, "it is a pipe or a device");
    refused(&["run", name]);
    refused(&["scenario", "check", name]);
    refused(&["scenario", "check", "/dev/zero"]);
    refused(&["inspect", name]);
    refused(&["diff", name, name]);
    refused(&["bench", "codec", "--table", name]);
    for routing in ["{ matrix = \"pipe\", layer = 0, sharding = \"domain\" }", "{ trace = \"pipe\" }"] {
        case.put("hostile.toml", SCENARIO.replace("{ dirichlet = 4.0 }", routing));
        case.run(&[]).expect(2, "it is a pipe or a device");
    }
    let tensors = "{ file = \"pipe\", dispatch = \"a\", combine = \"a\" }";
    case.put("hostile.toml", SCENARIO.replace("{ gaussian = 0.02 }", tensors));
    case.run(&[]).expect(2, "it is a pipe or a device");
    let flows = "[workload]\nkind = \"transfers\"\nfile = \"pipe\"\n[[variant]]\nname = \"native\"\n";
    let cluster = SCENARIO.split("[workload]").next().unwrap();
    case.put("hostile.toml", format!("{cluster}{flows}"));
    case.run(&[]).expect(2, "it is a pipe or a device");
    assert!(!case.path("out").exists());
}

fn control_characters_do_not_reach_the_terminal() {
    let case = Case::new(SCENARIO);
    let header = r#"{"a\u001b]0;title\u0007\u001b[31m":{"dtype":"BF16","shape":[4],"data_offsets":[0,8]}}"#;
    let file = case.put("names.safetensors", safetensors(header, &[0; 8]));
    let shown = Ended::of(zipwire(&["inspect", file.to_str().unwrap()]));
    shown.expect(0, "");
    assert!(shown.out.contains("a\\u{1b}]0;title\\u{7}\\u{1b}[31m"), "{}", shown.out);
    // The same name in an error, and one of a scenario.
    let tensors = "{ file = \"names.safetensors\", dispatch = \"b\", combine = \"b\" }";
    case.put("hostile.toml", SCENARIO.replace("{ gaussian = 0.02 }", tensors));
    let error = case.run(&[]);
    error.expect(2, "\\u{1b}[31m");
    let variant = SCENARIO.replace("protocol = \"static-first\"", "protocol = \"\\u001b[31m\\u0007\"");
    case.put("hostile.toml", variant);
    let unknown = case.run(&[]);
    unknown.expect(2, "\\u{1b}[31m");
    for text in [shown.out, shown.error, error.error, unknown.error] {
        assert!(!text.contains(['\u{1b}', '\u{7}']), "{text:?}");
    }
}

fn a_tensor_is_there_once() {
    let case = Case::new(SCENARIO);
    let twice = r#"{"a":{"dtype":"BF16","shape":[4],"data_offsets":[0,8]},"a":{"dtype":"BF16","shape":[4],"data_offsets":[0,8]}}"#;
    let file = case.put("twice.safetensors", safetensors(twice, &[0; 8]));
    Ended::of(zipwire(&["inspect", file.to_str().unwrap()])).expect(2, "the key `a` is there twice");
    let inside = r#"{"a":{"dtype":"BF16","shape":[4],"shape":[4],"data_offsets":[0,8]}}"#;
    fs::write(&file, safetensors(inside, &[0; 8])).unwrap();
    Ended::of(zipwire(&["inspect", file.to_str().unwrap()])).expect(2, "the key `shape` is there twice");
}

fn a_long_value_is_cut() {
    let case = Case::new(SCENARIO);
    let long = "x".repeat(100_000);
    case.put("hostile.toml", SCENARIO.replace("\"window7\"", &format!("\"{long}\"")));
    let in_file = case.run(&[]);
    in_file.expect(2, "unknown");
    case.put("hostile.toml", SCENARIO);
    let in_argument = case.run(&["--set", &format!("codec.id={long}")]);
    in_argument.expect(2, "unknown");
    let variant = case.run(&["--variant", &long]);
    variant.expect(2, "characters left out");
    for ended in [in_file, in_argument, variant] {
        assert!(ended.error.len() < 10_000, "{} bytes of error", ended.error.len());
    }
}
