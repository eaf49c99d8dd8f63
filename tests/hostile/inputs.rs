//! Inputs that are no files, that are damaged, or whose text is meant for a terminal.

use std::fs;
use std::path::Path;

use libtest_mimic::Trial;

use crate::common::{Case, Ended, SCENARIO, can, zipwire};
use crate::trial;

pub(crate) fn trials() -> Vec<Trial> {
    let has_fifos = can("mkfifo", &["--version"]);
    vec![
        trial("a_pipe_is_no_input", a_pipe_is_no_input).with_ignored_flag(!has_fifos),
        trial("control_characters_do_not_reach_the_terminal", control_characters_do_not_reach_the_terminal),
        trial("names_of_files_do_not_reach_the_terminal_as_they_are", names_of_files_are_escaped)
            .with_ignored_flag(!cfg!(unix)),
        trial("a_tensor_is_there_once", a_tensor_is_there_once),
        trial("a_long_value_is_cut", a_long_value_is_cut),
        trial("costs_have_a_length", costs_have_a_length),
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
    let tensors = case.put("own.safetensors", safetensors("{}", &[]));
    for costs in [name, "/dev/zero"] {
        refused(&["inspect", tensors.to_str().unwrap(), "--costs", costs]);
    }
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

fn names_of_files_are_escaped() {
    let case = Case::new(SCENARIO);
    let header = r#"{"a":{"dtype":"BF16","shape":[4],"data_offsets":[0,8]}}"#;
    let file = case.put("\u{1b}[31m\u{7}.safetensors", safetensors(header, &[0; 8]));
    let (file, folder) = (file.to_str().unwrap(), case.path("\u{1b}[31m"));
    let folder = folder.to_str().unwrap();
    // Rows that are left out are in notes.
    let sample = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("traces/samples/nccl-tests/006-h100-sxm-1x8-all_reduce.txt");
    let log = fs::read_to_string(sample).unwrap();
    let row = log.lines().rev().find(|line| !line.starts_with('#') && !line.trim().is_empty()).unwrap();
    let words: Vec<&str> = row.split_whitespace().take(5).collect();
    let left_out = format!("{}  \u{1b}]0;title\u{7}  1.0\n", words.join("  "));
    let log = case.put("\u{1b}[31m.txt", log.replace(row, &format!("{row}\n{left_out}")));
    let log = log.to_str().unwrap();
    let scenario = case.put("\u{1b}[31m.toml", "a = [@]\n");
    let commands: [(i32, &[&str]); 7] = [
        (2, &["run", scenario.to_str().unwrap()]),
        (0, &["ls", file]),
        (0, &["inspect", file]),
        (0, &["scenario", "unpack", folder]),
        (2, &["run", folder]),
        (0, &["calibrate", "nccl-tests", log]),
        (2, &["run", "scenarios/quickstart.toml", "--out", file]),
    ];
    for (code, args) in commands {
        let shown = Ended::of(zipwire(args));
        let text = format!("{}{}", shown.out, shown.error);
        assert_eq!(shown.code, Some(code), "{args:?}: {text:?}");
        assert!(!text.contains(['\u{1b}', '\u{7}']) && text.contains("\\u{1b}[31m"), "{args:?}: {text:?}");
    }
}

fn costs_have_a_length() {
    let case = Case::new(SCENARIO);
    let tensors = case.put("own.safetensors", safetensors("{}", &[]));
    let costs = case.path("costs.json");
    fs::File::create(&costs).unwrap().set_len(1 << 30).unwrap();
    let inspect = zipwire(&["inspect", tensors.to_str().unwrap(), "--costs", costs.to_str().unwrap()]);
    Ended::of(inspect).expect(2, "files of this kind have at most");
}

fn a_tensor_is_there_once() {
    let case = Case::new(SCENARIO);
    let twice = r#"{"a":{"dtype":"BF16","shape":[4],"data_offsets":[0,8]},"a":{"dtype":"BF16","shape":[4],"data_offsets":[0,8]}}"#;
    let file = case.put("twice.safetensors", safetensors(twice, &[0; 8]));
    Ended::of(zipwire(&["inspect", file.to_str().unwrap()])).expect(2, "the key `a` is there twice");
    let inside = r#"{"a":{"dtype":"BF16","shape":[4],"shape":[4],"data_offsets":[0,8]}}"#;
    fs::write(&file, safetensors(inside, &[0; 8])).unwrap();
    Ended::of(zipwire(&["inspect", file.to_str().unwrap()])).expect(2, "duplicate field `shape`");
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
