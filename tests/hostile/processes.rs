//! Systems that refuse threads, and launchers that start no ranks.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use libtest_mimic::Trial;
use tempfile::TempDir;

use crate::common::{Case, Ended, SCENARIO, can, zipwire};
use crate::trial;

/// A user without processes: limits of their number do not bind root.
const USER: [&str; 5] = ["--reuid", "54321", "--regid", "54321", "--clear-groups"];
/// Two points.
const SWEEP: &str = "[sweep]\n\"cluster.gpu_bandwidth\" = [\"1 GB/s\", \"2 GB/s\"]\n";

pub(crate) fn trials() -> Vec<Trial> {
    let has_limits = can("setpriv", &[&USER[..], &["prlimit", "--nproc=1", "true"]].concat());
    vec![
        trial("without_threads_nothing_panics", without_threads_nothing_panics)
            .with_ignored_flag(!has_limits),
        trial("no_pool_has_a_hundred_thousand_threads", no_pool_has_a_hundred_thousand_threads),
        trial("a_launcher_that_starts_no_rank_is_no_success", a_launcher_that_starts_no_rank_is_no_success)
            .with_ignored_flag(!can("true", &[])),
    ]
}

/// Runs the program as a user who may have so many processes, of which it is one.
fn with_processes(program: &Path, limit: u32, args: &[&str], folder: &Path) -> Ended {
    let mut command = Command::new("setpriv");
    command.args(USER).args(["prlimit", &format!("--nproc={limit}")]).arg(program).args(args);
    command.current_dir(folder).env("NO_COLOR", "1").env("RAYON_NUM_THREADS", "4").env("TMPDIR", folder);
    Ended::of(command)
}

/// With one process there is none for signals, with two none for the pool, and with more than that some work alone or with fewer threads.
fn without_threads_nothing_panics() {
    let folder = TempDir::new().unwrap();
    let path = |name: &str| folder.path().join(name);
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o777)).unwrap();
    fs::copy(env!("CARGO_BIN_EXE_zipwire"), path("program")).unwrap();
    fs::write(path("a.toml"), SCENARIO).unwrap();
    fs::write(path("sweep.toml"), format!("{SCENARIO}{SWEEP}")).unwrap();
    let samples = Path::new(env!("CARGO_MANIFEST_DIR")).join("traces/samples");
    fs::copy(samples.join("train_late_kv.bf16.safetensors"), path("m.safetensors")).unwrap();
    let commands: [(&str, &[&str]); 9] = [
        ("run", &["run", "a.toml", "--out", "run"]),
        ("sweep", &["run", "sweep.toml", "--out", "sweep"]),
        ("threads", &["run", "a.toml", "--on", "threads", "--out", "threads"]),
        ("validate", &["validate", "a.toml", "--variant", "native"]),
        ("compress", &["compress", "m.safetensors", "-o", "c.zw.safetensors", "--threads", "4", "--force"]),
        ("verify", &["verify", "c.zw.safetensors", "--threads", "4"]),
        ("inspect", &["inspect", "m.safetensors"]),
        ("profile", &["--profile", "profile.json", "ls", "m.safetensors"]),
        ("held", &["bench", "held", "m.safetensors"]),
    ];
    let mut worked = Vec::new();
    for limit in 1..=4 {
        for (name, args) in &commands {
            let ended = with_processes(&path("program"), limit, args, folder.path());
            let said = format!("{name} with {limit}: {:?}: {}", ended.code, ended.error);
            assert!(!ended.error.contains("panicked") && matches!(ended.code, Some(0 | 1)), "{said}");
            assert!(ended.code == Some(0) || ended.error.contains("ulimit -u"), "{said}");
            if ended.code == Some(0) {
                worked.push((limit, *name));
            }
        }
    }
    assert!(worked.iter().all(|(limit, _)| *limit > 1), "{worked:?}");
    for which in [(2, "compress"), (2, "verify"), (2, "inspect"), (3, "run"), (3, "sweep")] {
        assert!(worked.contains(&which), "{which:?} of {worked:?}");
    }
}

fn no_pool_has_a_hundred_thousand_threads() {
    let case = Case::new(&format!("{SCENARIO}{SWEEP}"));
    let mut sweep = case.command(&[]);
    sweep.env("RAYON_NUM_THREADS", "100000");
    // In time, which `Ended` sees to.
    Ended::of(sweep).expect(0, "");
}

fn a_launcher_that_starts_no_rank_is_no_success() {
    let case = Case::new(SCENARIO);
    let (out, file) = (case.path("out"), case.path("hosts.toml"));
    let (scenario, out) = (case.path("hostile.toml"), out.to_str().unwrap());
    let scenario = scenario.to_str().unwrap();
    let commands: [&[&str]; 4] = [
        &["run", scenario, "--on", "sim,mpi", "--out", out],
        &["validate", scenario, "--on", "mpi"],
        &["calibrate", "probe", "--gpus-per-node", "2", "-o", file.to_str().unwrap()],
        &["bench", "collective", "--cluster", "h100-8x", "--op", "all_reduce", "--on", "mpi"],
    ];
    for args in commands {
        let mut command = zipwire(args);
        let refused = Ended::of({
            command.args(["--launcher", "true"]);
            command
        });
        refused.expect(1, "no rank has begun: `true` has ended");
        refused.expect(1, "`srun -n {ranks}`");
    }
    assert_eq!(case.names("."), ["hostile.toml"]);
}
