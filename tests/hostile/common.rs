//! A scenario in a folder of its own, and the program run on it with a deadline.

use std::fs;
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;

/// Time for anything here: a program that takes longer hangs.
const DEADLINE: Duration = Duration::from_secs(60);

/// Four ranks, two variants.
pub(crate) const SCENARIO: &str = r#"name = "hostile"
seed = 3
iterations = 2
[cluster]
nodes = 2
gpus_per_node = 2
gpu_bandwidth = "25 GB/s"
nic_bandwidth = "25 GB/s"
latency_intra = "5 us"
latency_inter = "10 us"
[workload]
kind = "moe"
model = { experts = 8, top_k = 2, hidden = 256, tokens_per_rank = 64 }
routing = { dirichlet = 4.0 }
payload = { gaussian = 0.02 }
[codec]
id = "window7"
speed = { encode = "180 GB/s", decode = "260 GB/s" }
[[variant]]
name = "native"
[[variant]]
name = "static-first"
protocol = "static-first"
"#;

/// A folder with a scenario.
pub(crate) struct Case {
    folder: TempDir,
}

impl Case {
    pub(crate) fn new(scenario: &str) -> Self {
        let folder = TempDir::new().unwrap();
        fs::write(folder.path().join("hostile.toml"), scenario).unwrap();
        Self { folder }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Puts a file there.
    pub(crate) fn put(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path(name);
        fs::write(&path, content).unwrap();
        path
    }

    /// `zipwire run` of the scenario into `out`.
    pub(crate) fn run(&self, args: &[&str]) -> Ended {
        Ended::of(self.command(args))
    }

    pub(crate) fn command(&self, args: &[&str]) -> Command {
        let mut command = zipwire(&["run"]);
        command.arg(self.path("hostile.toml")).arg("--out").arg(self.path("out")).args(args);
        command
    }

    /// `zipwire run` below a limit of the shell.
    pub(crate) fn limited(&self, limit: &str, args: &[&str]) -> Ended {
        limited(limit, &self.command(args))
    }

    /// Names in a folder, in order.
    pub(crate) fn names(&self, folder: &str) -> Vec<String> {
        let entries = fs::read_dir(self.path(folder)).unwrap();
        let mut names: Vec<String> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }
}

/// The program.
pub(crate) fn zipwire(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_zipwire"));
    command.args(args).current_dir(env!("CARGO_MANIFEST_DIR")).env("NO_COLOR", "1");
    command
}

/// A command below a limit of the shell, from the same folder as [`zipwire`].
pub(crate) fn limited(limit: &str, run: &Command) -> Ended {
    let mut command = Command::new("sh");
    command.args(["-c", &format!("{limit} && exec \"$0\" \"$@\"")]).arg(run.get_program());
    command.args(run.get_args()).current_dir(env!("CARGO_MANIFEST_DIR")).env("NO_COLOR", "1");
    Ended::of(command)
}

/// A program that has ended in time.
pub(crate) struct Ended {
    pub(crate) code: Option<i32>,
    pub(crate) out: String,
    pub(crate) error: String,
}

impl Ended {
    #[track_caller]
    pub(crate) fn of(mut command: Command) -> Self {
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        Self::wait(command.spawn().unwrap())
    }

    /// Waits for a child whose output is piped and short.
    #[track_caller]
    pub(crate) fn wait(mut child: Child) -> Self {
        let begin = Instant::now();
        while child.try_wait().unwrap().is_none() {
            if begin.elapsed() > DEADLINE {
                child.kill().unwrap();
                panic!("it hangs: {:?}", child.wait_with_output());
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        let Output { status, stdout, stderr } = child.wait_with_output().unwrap();
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        Self { code: status.code(), out: text(stdout), error: text(stderr) }
    }

    /// It has this exit code and says this on stderr.
    #[track_caller]
    pub(crate) fn expect(&self, code: i32, message: &str) {
        assert_eq!(self.code, Some(code), "{}", self.error);
        assert!(self.error.contains(message), "`{message}` in:\n{}", self.error);
    }
}

/// Whether a command exists and succeeds.
pub(crate) fn can(program: &str, args: &[&str]) -> bool {
    let mut command = Command::new(program);
    command.args(args).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}
