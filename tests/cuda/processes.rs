//! Ranks of `nccl` as processes that meet by TCP, as torchrun starts them: they run scenarios, and whoever is killed ends all, named by rank 0.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::io::Read;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

const RANKS: usize = 4;
/// How often a rank is killed in a plain run; this variable says another number.
const KILLS: u64 = 3;
const KILLS_VARIABLE: &str = "ZIPWIRE_TEST_NCCL_KILLS";
/// How long a job may take to end when one of its processes is gone.
const ENDS_WITHIN: Duration = Duration::from_secs(40);

struct Job {
    ranks: Vec<Child>,
    folder: PathBuf,
}

impl Job {
    /// Starts all ranks, with the longest silence of one that the others bear.
    fn start(name: &str, arguments: &[&str], stall: &str) -> Self {
        let folder =
            Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("nccl-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&folder);
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let start = |rank: usize| {
            let mut command = Command::new(env!("CARGO_BIN_EXE_zipwire"));
            command.args(arguments).arg("--out").arg(&folder).args(["--stall", stall]);
            command.env("RANK", rank.to_string()).env("WORLD_SIZE", RANKS.to_string());
            command.env("MASTER_ADDR", "127.0.0.1").env("MASTER_PORT", port.to_string());
            command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap()
        };
        Self { ranks: (0..RANKS).map(start).collect(), folder }
    }

    /// Waits until all have ended: exit codes, and what rank 0 says.
    fn end(&mut self) -> (Vec<Option<i32>>, String) {
        let begin = Instant::now();
        let mut codes = vec![None; RANKS];
        while begin.elapsed() < ENDS_WITHIN {
            for (rank, code) in self.ranks.iter_mut().zip(&mut codes) {
                *code = code.or_else(|| Some(rank.try_wait().unwrap()?.code()));
            }
            if codes.iter().all(Option::is_some) {
                let mut said = String::new();
                self.ranks[0].stderr.take().unwrap().read_to_string(&mut said).unwrap();
                return (codes.into_iter().map(Option::unwrap).collect(), said);
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        panic!("ranks have not ended {ENDS_WITHIN:?} later: {codes:?}");
    }
}

impl Drop for Job {
    fn drop(&mut self) {
        for rank in &mut self.ranks {
            let _ = rank.kill();
            let _ = rank.wait();
        }
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

fn scenario(name: &str) -> String {
    format!("{}/scenarios/{name}", env!("CARGO_MANIFEST_DIR"))
}

pub(crate) fn run_together() {
    let file = scenario("switcher/small-2x2.toml");
    let arguments = ["run", &file, "--on", "nccl", "--set", "iterations=4"];
    let mut job = Job::start("together", &arguments, "30 s");
    let (codes, said) = job.end();
    assert_eq!(codes, [Some(0); RANKS], "{said}");
    assert!(said.contains("over TCP without MPI"), "{said}");
    let summary = std::fs::read(job.folder.join("summary.json")).unwrap();
    let summary: Value = serde_json::from_slice(&summary).unwrap();
    let variants = summary["executors"]["nccl"].as_object().unwrap();
    assert!(variants.contains_key("adaptive"), "{variants:?}");
    assert!(variants.values().all(|run| run["verified"] == true), "{variants:?}");
}

pub(crate) fn a_killed_rank_ends_all() {
    let count = std::env::var(KILLS_VARIABLE).map_or(KILLS, |text| text.parse().expect("a number"));
    let file = scenario("smoke/dp-2x2.toml");
    let arguments = ["run", &file, "--on", "nccl", "--set", "iterations=10000"];
    // A sequence that comes to all ranks and many moments.
    let mut state = 0x9e37_79b9_u64;
    for number in 0..count {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let (victim, pause_ms) = ((state >> 33) as usize % RANKS, (state >> 40) % 4000);
        let mut job = Job::start("killed", &arguments, "5 s");
        std::thread::sleep(Duration::from_millis(500 + pause_ms));
        job.ranks[victim].kill().unwrap();
        let (codes, said) = job.end();
        let what = format!("number {number}: rank {victim} killed after {pause_ms} ms: {codes:?}\n{said}");
        assert!(codes.iter().all(|code| *code != Some(0)), "{what}");
        let is_named = said.contains(&format!("rank {victim}"));
        assert!(victim == 0 || is_named, "{what}");
    }
}
