//! `zipwire doctor`: what a machine offers.

use serde_json::Value;

use crate::common::process::{fails, output, text_of, zipwire};

/// Findings by their names.
fn findings(json: &[u8]) -> Vec<(String, Value)> {
    let all: Vec<Value> = serde_json::from_slice(json).unwrap();
    all.into_iter().map(|finding| (finding["part"].as_str().unwrap().to_owned(), finding)).collect()
}

#[test]
fn a_machine_with_nothing_is_told_what_to_install() {
    let mut doctor = zipwire(&["doctor", "--json"]);
    // Libraries of the system are found all the same, if it has them.
    doctor.env("PATH", "").env_remove("LD_LIBRARY_PATH").env_remove("VIRTUAL_ENV");
    let all = findings(&doctor.output().unwrap().stdout);
    let found = |part: &str| all.iter().find(|(name, _)| name == part).unwrap().1["found"].as_bool().unwrap();
    assert!(["zipwire", "processor", "SIMD", "memory", "sim", "threads"].into_iter().all(found));
    for (part, executor) in [("MPI", "mpi"), ("GPUs", "cuda")] {
        assert_eq!(found(part), found(executor), "{part}");
    }
    for (part, finding) in all.iter().take_while(|(part, _)| part != "sim") {
        let has_help = finding["help"].is_string();
        let may_lack = part == "memory";
        assert!(may_lack || has_help == (finding["found"] == false), "{part}: {finding}");
    }
}

#[test]
fn the_table_names_every_executor_and_the_help_a_remedy() {
    let text = text_of(&output(&["doctor"]).stdout).to_owned();
    assert!(
        ["sim", "threads", "mpi", "cuda", "nccl"].iter().all(|name| text.contains(&format!("\n{name} "))),
        "{text}"
    );
    assert!(text.lines().all(|line| !line.contains('\u{1b}')), "no colours where stdout is no terminal");
}

#[test]
fn new_scenarios_replace_nothing_and_name_what_is_near() {
    let folder = tempfile::TempDir::new().unwrap();
    let path = folder.path().join("mine.toml");
    let path = path.to_str().unwrap();
    assert!(output(&["scenario", "new", "-o", path]).status.success());
    fails(2, &["scenario", "new", "-o", path], &["mine.toml", "help: name another file"]);
    fails(2, &["scenario", "new", "--model", "llama3-80b"], &["similar", "'llama3-8b'"]);
    fails(2, &["scenario", "new", "--preset", "h100-x"], &["possible values", "'h100-8x'"]);
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        let made =
            std::fs::File::create(folder.path().join("other")).unwrap().metadata().unwrap().permissions();
        assert_eq!(std::fs::metadata(path).unwrap().permissions().mode(), made.mode(), "as any new file");
    }
    fails(
        2,
        &["scenario", "new", "--model", "llama3-8b", "--workload", "moe"],
        &["has no experts", "--workload fsdp"],
    );
    fails(2, &["help", "store", "ad"], &["did you mean `add`?"]);
    fails(2, &["comress"], &["similar", "compress"]);
}
