//! Ranks that exchange messages above a fake NCCL and a fake driver, without the library and with it in each mode: the same bytes arrive.

#[path = "../common/mod.rs"]
mod common;

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::time::Duration;

use libtest_mimic::Trial;
use serde_json::Value;
use tempfile::TempDir;
use zipwire_codec::DType;
use zipwire_emulation::{BuildError, Emulation};

use common::{compiler, library, run};

/// The fake libraries with the kernels of some codecs; `None` on machines that have no C++ compiler.
fn emulation() -> Option<&'static Emulation> {
    static EMULATION: OnceLock<Option<Emulation>> = OnceLock::new();
    let build = || {
        let sources = zipwire_kernels::sources();
        let is_used = |name| ["tiered", "window7"].contains(&name);
        let sources =
            sources.iter().filter(|source| is_used(source.name) && source.dtype == Some(DType::Bf16));
        let texts: Vec<&str> = sources.map(|source| source.text.as_str()).collect();
        match Emulation::build(&texts, "tests") {
            Err(why) if BuildError::is_absence(&why) => {
                eprintln!("tests below the emulation are ignored: {why}");
                None
            }
            built => Some(built.expect("the kernels compile")),
        }
    };
    EMULATION.get_or_init(build).as_ref()
}

/// All tests, ignored where nothing can be emulated.
pub(crate) fn trials() -> Vec<Trial> {
    /// A test with the name of its function.
    macro_rules! trials {
        ($($test:ident,)*) => { [$((stringify!($test), $test as fn())),*] };
    }
    let tests = trials![
        bytes_are_the_same_in_all_modes,
        ranks_with_other_settings_compress_nothing,
        a_rank_without_memory_gets_the_same_bytes,
        kernels_that_are_missing_or_do_nothing_change_no_byte,
        captured_messages_are_not_compressed,
        waits_end_with_their_communicator,
        communicators_that_do_not_block_are_not_asked,
        messages_are_compressed_beside_a_capture_and_without_a_context,
        a_group_without_memory_for_lengths_fails,
        many_different_messages_wait_for_no_other_stream,
        devices_of_one_process_exchange_messages,
        a_damaged_frame_is_an_error,
        a_rank_that_waits_too_long_says_for_what,
        bytes_are_the_same_in_ten_thousand_groups,
    ];
    let trial = |(name, test): (&str, fn())| {
        let is_ignored = name == "bytes_are_the_same_in_ten_thousand_groups" || emulation().is_none();
        let run = move || {
            test();
            Ok(())
        };
        Trial::test(name, run).with_ignored_flag(is_ignored)
    };
    tests.map(trial).into()
}

/// A folder with the program of a rank.
struct Job {
    folder: TempDir,
    emulation: &'static Emulation,
}

/// How a job ended.
struct End {
    digests: Vec<String>,
    told: String,
    journals: Vec<Vec<Value>>,
}

impl Job {
    fn new() -> Self {
        let emulation = emulation().expect("tests are ignored without it");
        let folder = tempfile::tempdir().expect("there is a folder for temporary files");
        let libraries = libraries(emulation);
        run(compiler()
            .args(["-O2", "-pthread", "-o"])
            .arg(folder.path().join("exchange"))
            .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/exchange.c"))
            .args([libraries.join("libcuda.so.1"), libraries.join("libnccl.so.2")]));
        Self { folder, emulation }
    }

    /// Runs ranks of `what`: `environment` gives variables to each.
    fn run(&self, what: &[&str], environment: &[&[(&str, &str)]]) -> End {
        let ranks = self.start(what, environment);
        let mut end = End { digests: Vec::new(), told: String::new(), journals: Vec::new() };
        let mut failed = false;
        for rank in ranks {
            let output = rank.wait_with_output().expect("it has been started");
            failed |= !output.status.success();
            end.told += &String::from_utf8_lossy(&output.stderr);
            end.digests.push(String::from_utf8_lossy(&output.stdout).into_owned());
        }
        assert!(!failed, "{what:?}: {}", end.told);
        end.journals = self.take_journals();
        end
    }

    fn start(&self, what: &[&str], environment: &[&[(&str, &str)]]) -> Vec<Child> {
        let id = self.folder.path().join("id");
        _ = fs::remove_file(&id);
        let rank = |(rank, own): (usize, &&[(&str, &str)])| {
            let mut command = Command::new(self.folder.path().join("exchange"));
            command.arg(what[0]).args([rank, environment.len()].map(|number| number.to_string())).arg(&id);
            command.args(&what[1..]).envs(self.emulation.environment()).current_dir(self.folder.path());
            // Ranks on one GPU: each of a host of its own.
            command.env("NCCL_HOSTID", rank.to_string()).env("RANK", rank.to_string());
            if !own.is_empty() {
                command.env("LD_PRELOAD", library()).envs(own.iter().copied());
            }
            command
                .stdout(Stdio::piped())
                .stderr(Stdio::piped())
                .spawn()
                .expect("the program has been compiled")
        };
        environment.iter().enumerate().map(rank).collect()
    }

    fn take_journals(&self) -> Vec<Vec<Value>> {
        let entries = fs::read_dir(self.folder.path()).expect("the folder is there");
        let paths: Vec<PathBuf> = entries.map(|entry| entry.expect("it can be read").path()).collect();
        let is_journal = |path: &&PathBuf| path.extension().is_some_and(|ending| ending == "jsonl");
        let read = |path: &PathBuf| {
            let text = fs::read_to_string(path).expect("it can be read");
            fs::remove_file(path).expect("it can be removed");
            text.lines().map(|line| serde_json::from_str(line).expect(line)).collect()
        };
        paths.iter().filter(is_journal).map(read).collect()
    }
}

fn libraries(emulation: &Emulation) -> PathBuf {
    let paths = emulation.environment().into_iter().find(|(name, _)| name == "LD_LIBRARY_PATH");
    let (_, paths) = paths.expect("libraries are found by it");
    std::env::split_paths(&paths).next().expect("the fake ones are first")
}

const SYNC: [(&str, &str); 3] =
    [("ZIPWIRE_NCCL", "sync"), ("ZIPWIRE_NCCL_MIN_BYTES", "2000"), ("ZIPWIRE_NCCL_LOG", "log-%r-%p.jsonl")];
const STATS: [(&str, &str); 4] = [
    ("ZIPWIRE_NCCL", "stats"),
    ("ZIPWIRE_NCCL_MIN_BYTES", "2000"),
    ("ZIPWIRE_NCCL_LOG", "log-%r-%p.jsonl"),
    ("ZIPWIRE_NCCL_SAMPLE", "2"),
];

/// Lines of compressed messages, and how many of them came once more.
fn compressed(end: &End) -> (usize, usize) {
    let lines = || end.journals.iter().flatten().filter(|line| line.get("wire_bytes").is_some());
    (lines().count(), lines().filter(|line| line["resent"] == true).count())
}

fn same_bytes_in_all_modes(ranks: usize, rounds: &str, seeds: std::ops::Range<u64>) {
    let job = Job::new();
    for seed in seeds {
        let what = ["rounds", &seed.to_string(), rounds];
        let plain = job.run(&what, &vec![&[][..]; ranks]);
        for (name, mode) in [("off", &[("ZIPWIRE_NCCL", "off")][..]), ("stats", &STATS), ("sync", &SYNC)] {
            let end = job.run(&what, &vec![mode; ranks]);
            assert_eq!(end.digests, plain.digests, "{name}, seed {seed}");
            let (all, resent) = compressed(&end);
            match name {
                "sync" => {
                    assert!(all > resent && resent > 0, "seed {seed}: {all} messages, {resent} once more");
                }
                _ => assert_eq!(all, 0, "{name}"),
            }
            if name == "stats" {
                let sampled = end.journals.iter().flatten().filter(|line| line.get("sample").is_some());
                let ratios = sampled.filter_map(|line| line["sample"]["ratio"].as_f64());
                assert!(ratios.into_iter().any(|ratio| ratio < 0.8), "messages are sampled");
            }
        }
    }
}

fn bytes_are_the_same_in_all_modes() {
    same_bytes_in_all_modes(3, "60", 1..2);
}

fn bytes_are_the_same_in_ten_thousand_groups() {
    same_bytes_in_all_modes(3, "1000", 1..6);
    same_bytes_in_all_modes(2, "1000", 6..11);
}

/// Ranks that decide otherwise would take one another's bytes for what they are not: they see so, say so once, and compress nothing.
fn ranks_with_other_settings_compress_nothing() {
    let job = Job::new();
    let what = ["rounds", "3", "10"];
    let plain = job.run(&what, &[&[], &[]]);
    let other = [&SYNC[..], &[("ZIPWIRE_NCCL_CODEC", "window7")]].concat();
    let end = job.run(&what, &[&SYNC, &other]);
    assert_eq!(end.digests, plain.digests);
    assert_eq!(compressed(&end).0, 0);
    // Once for each of two communicators.
    assert_eq!(
        end.told.matches("is not compressed: ranks 0 and 1 have different").count(),
        2,
        "{}",
        end.told
    );
    // The same of both is another codec for both.
    let end = job.run(&what, &[&other, &other]);
    assert_eq!((end.digests == plain.digests, compressed(&end).0 > 0), (true, true), "{}", end.told);
}

/// A rank without memory for messages sends them as they are, and decodes what it receives on the CPU.
fn a_rank_without_memory_gets_the_same_bytes() {
    let job = Job::new();
    let what = ["rounds", "4", "40"];
    let plain = job.run(&what, &[&[], &[]]);
    // The program has 64 MiB of it, the places for lengths of two communicators 128 KiB.
    let poor = [&SYNC[..], &[("EXCHANGE_MEMORY", "65736")]].concat();
    let end = job.run(&what, &[&SYNC, &poor]);
    assert_eq!(end.digests, plain.digests, "{}", end.told);
    let (all, resent) = compressed(&end);
    assert!(resent * 4 > all, "{all} messages, {resent} once more");
}

/// A rank without kernels says so when the communicator is made. An encoder that does nothing leaves a length that says so;
/// decoders that do nothing are noticed by the checksum, and the CPU decodes.
fn kernels_that_are_missing_or_do_nothing_change_no_byte() {
    let job = Job::new();
    let what = ["rounds", "5", "20"];
    let plain = job.run(&what, &[&[], &[]]);
    let without = [&SYNC[..], &[("FAKECUDA_MODULES", "")]].concat();
    let end = job.run(&what, &[&SYNC, &without]);
    assert_eq!((&end.digests, compressed(&end).0), (&plain.digests, 0), "{}", end.told);
    assert_eq!(end.told.matches("is not compressed: rank 1 cannot: ").count(), 2, "{}", end.told);
    for kernel in ["tiered_encode_bf16", "tiered_decode_bf16", "tiered_open_bf16"] {
        let fault = format!("skip:{kernel}");
        let faulty = [&SYNC[..], &[("FAKECUDA_FAULT", fault.as_str())]].concat();
        let end = job.run(&what, &[&SYNC, &faulty]);
        assert_eq!(end.digests, plain.digests, "{kernel}: {}", end.told);
        let (all, resent) = compressed(&end);
        let is_encoder = kernel == "tiered_encode_bf16";
        assert!(all > 0 && (resent * 3 > all) == is_encoder, "{kernel}: {all} messages, {resent} once more");
    }
}

/// A captured stream cannot be waited for: its messages go as they are, and are neither sampled nor taken for others.
fn captured_messages_are_not_compressed() {
    let job = Job::new();
    let plain = job.run(&["captured", "1", "1"], &[&[], &[]]);
    for mode in [&STATS[..], &SYNC] {
        let end = job.run(&["captured", "1", "1"], &[mode, mode]);
        assert_eq!(end.digests, plain.digests);
        let captured: Vec<&Value> =
            end.journals.iter().flatten().filter(|line| line["capturing"] == true).collect();
        assert_eq!(captured.len(), 6, "a send, a receive and an all-gather of two ranks");
        let is_plain = |line: &&Value| line.get("wire_bytes").or(line.get("sample")).is_none();
        assert!(captured.iter().all(is_plain), "{captured:?}");
        // Those before the capture are.
        assert_eq!(compressed(&end).0, if mode.len() == SYNC.len() { 4 } else { 0 });
    }
}

/// A call that waits for what never comes ends when its communicator is aborted or fails: with an error, and without a call of the communicator that
/// is gone.
fn waits_end_with_their_communicator() {
    let job = Job::new();
    for (what, result, cause) in [("aborted", 3, "(ncclResult_t 3)"), ("failed", 2, "(ncclResult_t 2)")] {
        let end = job.run(&[what, "1", "1"], &[&SYNC, &SYNC]);
        for call in ["send", "recv"] {
            let line = format!("{call} returns {result}\n");
            assert_eq!(end.told.matches(&line).count(), 2, "{what}, {call}: {}", end.told);
        }
        assert_eq!(end.told.matches(cause).count(), 4, "{what}: {}", end.told);
        assert!(!end.told.contains("unknown communicator"), "{}", end.told);
    }
}

/// Communicators that do not block take no part in the exchange of settings, also where one is done when its call returns.
fn communicators_that_do_not_block_are_not_asked() {
    let job = Job::new();
    let slow = [&SYNC[..], &[("FAKENCCL_LINGER_MS", "300")]].concat();
    let end = job.run(&["nonblocking", "1", "1"], &[&slow, &SYNC]);
    assert!(end.told.contains("rank 0 gets 0\n") && end.told.contains("rank 1 gets 7\n"), "{}", end.told);
    assert_eq!(compressed(&end).0, 0);
}

fn messages_are_compressed_beside_a_capture_and_without_a_context() {
    let job = Job::new();
    for what in ["beside", "contextless"] {
        let plain = job.run(&[what, "1", "1"], &[&[], &[]]);
        let end = job.run(&[what, "1", "1"], &[&SYNC, &SYNC]);
        assert_eq!(end.digests, plain.digests, "{what}");
        assert_eq!(compressed(&end).0, 4, "{what}");
    }
}

/// A rank that cannot say of a message that it is not coded sends none of its group, and says so.
fn a_group_without_memory_for_lengths_fails() {
    let job = Job::new();
    // As much memory as that of the messages and of the lengths of two communicators takes.
    let poor = [&SYNC[..], &[("EXCHANGE_MEMORY", "65700")]].concat();
    let end = job.run(&["many", "1", "1"], &[&poor, &SYNC]);
    assert!(
        end.told.contains("send returns 2\n") && end.told.contains("the group returns 4\n"),
        "{}",
        end.told
    );
}

/// Values of a frame that has come damaged are not handed over: the call fails.
fn a_damaged_frame_is_an_error() {
    let job = Job::new();
    // In front of it are the answers of two communicators and the length.
    let damaged = [&SYNC[..], &[("FAKENCCL_CORRUPT", "4")]].concat();
    let ranks = job.start(&["contextless", "1", "1"], &[&SYNC, &damaged]);
    let ends = ranks.into_iter().map(|rank| rank.wait_with_output().expect("it has been started"));
    let ends: Vec<(bool, String)> = ends
        .map(|output| (output.status.success(), String::from_utf8_lossy(&output.stderr).into_owned()))
        .collect();
    assert!(ends[0].0, "{ends:?}");
    assert!(!ends[1].0 && ends[1].1.contains("has come damaged"), "{ends:?}");
    assert!(ends[1].1.contains("ncclGroupEnd(): 3"), "{ends:?}");
}

/// Ranks of one thread, with a device for each.
fn devices_of_one_process_exchange_messages() {
    let job = Job::new();
    let sync = [&SYNC[..], &[("FAKECUDA_DEVICES", "2")]].concat();
    let end = job.run(&["devices", "1", "1"], &[&sync]);
    assert_eq!(compressed(&end), (4, 2), "one of two messages does not fit: {}", end.told);
}

/// Nothing is freed while a program runs: that would wait for all streams, of which one waits for the rank's next message.
fn many_different_messages_wait_for_no_other_stream() {
    let job = Job::new();
    let plain = job.run(&["full", "1", "1"], &[&[], &[]]);
    let end = job.run(&["full", "1", "1"], &[&SYNC, &SYNC]);
    assert_eq!(end.digests, plain.digests);
    assert_eq!(compressed(&end), (2 * (1100 + 80), 0));
}

/// Calls wait in mode `sync`, so ranks that only go on when others do hang in it. They say so, once, and hang on; without it they do not.
fn a_rank_that_waits_too_long_says_for_what() {
    let job = Job::new();
    job.run(&["crossed", "1", "1"], &[&[], &[]]);
    let sync = [&SYNC[..], &[("ZIPWIRE_NCCL_TIMEOUT", "0.3")]].concat();
    let ranks = job.start(&["crossed", "1", "1"], &[&sync, &sync]);
    for mut rank in ranks {
        let stderr = BufReader::new(rank.stderr.take().expect("it is piped"));
        let mut lines = stderr.lines().map(|line| line.expect("it is text"));
        let is_told = |line: &String| line.contains("still waiting for recv of 16384 values, peer");
        assert!(lines.by_ref().any(|line| is_told(&line)), "a rank ends without a word");
        // More than three times the time after which it tells.
        std::thread::sleep(Duration::from_secs(1));
        assert!(rank.try_wait().expect("it has been started").is_none(), "it hangs");
        rank.kill().expect("it is there");
        rank.wait().expect("it ends");
        assert_eq!(lines.filter(is_told).count(), 0, "it tells once");
    }
}
