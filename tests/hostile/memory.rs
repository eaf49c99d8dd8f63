//! Too little memory: what does not fit is refused before it is taken, and what the system refuses is an error and no abort.

use std::fs::File;

use libtest_mimic::Trial;
use tempfile::TempDir;

use crate::common::{Case, Ended, SCENARIO, can, limited, zipwire};
use crate::trial;

pub(crate) fn trials() -> Vec<Trial> {
    let has_limits = can("sh", &["-c", "ulimit -v 1000000"]);
    vec![
        trial("memory_holds_for_encoding", memory_holds_for_encoding),
        trial("memory_holds_for_checks", memory_holds_for_checks),
        trial("a_routing_file_that_never_ends", a_routing_file_that_never_ends),
        trial("simulating_in_a_small_address_space", simulating_in_a_small_address_space)
            .with_ignored_flag(!has_limits),
        trial("an_error_in_a_long_line_is_short", an_error_in_a_long_line_is_short)
            .with_ignored_flag(!has_limits),
        trial("running_in_a_small_address_space", running_in_a_small_address_space)
            .with_ignored_flag(!has_limits),
    ]
}

/// Two ranks that send each other so much.
fn matrix(bytes: &str) -> String {
    let cluster =
        SCENARIO.split("[workload]").next().unwrap().replace("gpus_per_node = 2", "gpus_per_node = 1");
    let codec = SCENARIO.split("[codec]").nth(1).unwrap();
    format!(
        "{cluster}[workload]\nkind = \"collective\"\ncollective = \"all-to-all\"\n\
         matrix = [[0, \"{bytes}\"], [\"{bytes}\", 0]]\npayload = \"noise\"\n[codec]{codec}"
    )
}

fn memory_holds_for_encoding() {
    let case = Case::new(&matrix("1 GiB"));
    let refused = case.run(&["--memory", "64 MiB"]);
    refused.expect(2, "variant `static-first` on `sim` needs 2.1");
    refused.expect(2, "`--memory` allows 67.11 MB");
    assert!(!case.path("out").exists());
    // More than any machine that runs this has, without a word about memory.
    let case = Case::new(&matrix("512 GiB"));
    case.run(&[]).expect(2, "are available");
    // What is not encoded takes none: neither does `native`, nor a stated ratio.
    case.run(&["--variant", "native", "--memory", "64 MiB"]).expect(0, "");
    case.run(&["--set", "codec.ratio=1.3", "--memory", "64 MiB"]).expect(0, "");
    // Fewer at a time, and the same lengths.
    let summary = |memory: &str| {
        let case = Case::new(&matrix("16 MiB"));
        let run = case.run(&["--json", "--memory", memory]);
        run.expect(0, "");
        run.out
    };
    assert_eq!(summary("40 MiB"), summary("4 GiB"));
}

fn memory_holds_for_checks() {
    let mesh = SCENARIO.replace("nodes = 2\ngpus_per_node = 2", "nodes = 256\ngpus_per_node = 8");
    let mesh = mesh.replace("experts = 8", "experts = 2048").replace("dirichlet = 4.0", "dirichlet = 1000.0");
    let case = Case::new(&mesh);
    let path = case.path("hostile.toml");
    let check =
        |memory: &str| Ended::of(zipwire(&["scenario", "check", path.to_str().unwrap(), "--memory", memory]));
    check("16 MiB").expect(2, "the plans of all variants take at least");
    let small = Case::new(SCENARIO);
    let path = small.path("hostile.toml");
    let check =
        |memory: &str| Ended::of(zipwire(&["scenario", "check", path.to_str().unwrap(), "--memory", memory]));
    check("16 MiB").expect(0, "");
    check("1 KiB").expect(2, "the longest timeline");
}

/// A hole of a terabyte is one line of zeros.
fn a_routing_file_that_never_ends() {
    let routing = "{ matrix = \"endless.jsonl\", layer = 0, sharding = \"domain\" }";
    let case = Case::new(&SCENARIO.replace("{ dirichlet = 4.0 }", routing));
    let file = File::create(case.path("endless.jsonl")).unwrap();
    for (bytes, said) in
        [(1_u64 << 40, "files of this kind have at most"), (1 << 30, "the line has more than")]
    {
        if file.set_len(bytes).is_err() {
            // No file here can be so long: the next one can.
            continue;
        }
        case.run(&[]).expect(2, said);
    }
}

/// Traces and flows that are one long line: what an error shows of it takes no multiple of it.
fn an_error_in_a_long_line_is_short() {
    let long = "[".repeat(64 << 20);
    let cluster = SCENARIO.split("[workload]").next().unwrap().replace("iterations = 2\n", "");
    let serving = "kind = \"serving\"\nmodel = \"llama3-8b\"\nprefill = { instances = 2, tensor_parallel = 1, kv_memory = \"40 GB\" }\n\
                   decode = { instances = 2, tensor_parallel = 1, kv_memory = \"40 GB\" }\ntrace = { file = \"long\", format = \"mooncake\" }\n\
                   [compute]\ndense = \"400 TFLOP/s\"\nmemory = \"3 TB/s\"\n";
    let flows = "kind = \"transfers\"\nfile = \"long\"\n";
    for workload in [serving, flows] {
        let case = Case::new(&format!("{cluster}[workload]\n{workload}[[variant]]\nname = \"native\"\n"));
        case.put("long", &long);
        let refused = case.limited("ulimit -v 900000", &[]);
        refused.expect(2, "long:1:1");
        assert!(refused.error.len() < 3000, "{} bytes of error", refused.error.len());
    }
    // In the middle of a scenario, the column is that of the file.
    let case = Case::new(&format!("{SCENARIO}\n[[variant]]\nname = \"{}\"\nx = 1\n", "n".repeat(1 << 20)));
    let refused = case.run(&[]);
    assert_eq!(refused.code, Some(2));
    assert!(refused.error.len() < 3000, "{} bytes of error", refused.error.len());
    case.put("hostile.toml", format!("a = [{} @]\n", "1, ".repeat(100_000)));
    let refused = case.run(&[]);
    refused.expect(2, "hostile.toml:1:300007");
    assert!(refused.error.len() < 3000 && refused.error.contains("...1, 1,"), "{}", refused.error);
}

fn simulating_in_a_small_address_space() {
    for kibibytes in [200_000, 400_000, 800_000] {
        let quickstart = |args: &[&str]| {
            let case = Case::new(&matrix("1 GiB"));
            case.limited(&format!("ulimit -v {kibibytes}"), args)
        };
        let refused = quickstart(&[]);
        assert!(matches!(refused.code, Some(1 | 2)), "{:?}: {}", refused.code, refused.error);
        assert!(refused.error.contains("memory"), "{}", refused.error);
        // Allowed by the user, refused by the system.
        let refused = quickstart(&["--memory", "100 GiB"]);
        refused.expect(1, "the system refuses");
    }
}

/// Buffers of 16 ranks, of which the system gives some: no rank begins, and nothing aborts.
fn running_in_a_small_address_space() {
    for kibibytes in [200_000, 400_000, 800_000] {
        let folder = TempDir::new().unwrap();
        let mut run =
            zipwire(&["run", "scenarios/quickstart.toml", "--on", "threads", "--memory", "100 GiB"]);
        run.arg("--out").arg(folder.path().join("out"));
        let refused = limited(&format!("ulimit -v {kibibytes}"), &run);
        refused.expect(1, "bytes for its buffers");
        refused.expect(1, "nothing was written");
        assert!(!folder.path().join("out").exists());
    }
}
