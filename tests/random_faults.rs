//! Scenarios with random faults, fourteen or two hundred, on the simulator and on threads: no run hangs, none accepts wrong
//! bytes, whoever is blamed is the culprit, and no thread is left behind.
//!
//! A process of its own: it looks at all threads.
#![allow(clippy::unwrap_used, reason = "in tests a panic is the report")]

#[path = "it/common/mod.rs"]
mod common;

use std::fmt::Write;
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use common::faults::{deadlines, failure_of, load_text};
use rand::seq::IndexedRandom;
use rand::{Rng, RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use zipwire::executors::{SIM, THREADS};
use zipwire::schedule::Rank;
use zipwire::{Cancel, Prepared};

/// Runs at a time: they sleep most of the time.
const AT_A_TIME: usize = 16;
/// Longer than any run takes on a busy machine, and than the 30 s after which a standstill ends by itself.
const HANG: Duration = Duration::from_secs(60);

/// A scenario and the ranks that its faults may be blamed on. Faults are far too small or far too large to survive, so
/// that no run depends on how busy the machine is.
fn scenario(seed: u64) -> (String, Vec<Rank>) {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let (nodes, gpus) = *[(1, 2), (1, 4), (2, 2), (2, 3), (1, 7), (2, 4)].choose(&mut random).unwrap();
    let ranks: u32 = nodes * gpus;
    let mut text = format!(
        "name = \"random-{seed}\"\nseed = {seed}\niterations = 2\n\
         [cluster]\nnodes = {nodes}\ngpus_per_node = {gpus}\ngpu_bandwidth = \"25 GB/s\"\n\
         latency_intra = \"5 us\"\n"
    );
    if nodes > 1 {
        text += "nic_bandwidth = \"10 GB/s\"\nlatency_inter = \"10 us\"\n";
    }
    text += "[codec]\nid = \"window7\"\nspeed = { encode = \"180 GB/s\", decode = \"260 GB/s\", launch = \"5 us\" }\n";
    let protocol = ["native", "size-first", "static-first"].choose(&mut random).unwrap();
    let (culprit, segment) = match random.random_range(0..5) {
        0 => (Rank(random.random_range(0..ranks)), gather(&mut text, &mut random, protocol, ranks)),
        1 => broadcast(&mut text, &mut random, protocol, ranks),
        _ => (Rank(random.random_range(0..ranks)), layer(&mut text, &mut random, protocol, ranks)),
    };
    let mut culprits = vec![culprit];
    fault(&mut text, &mut random, culprit, segment, ranks);
    // Some have several faults: of one rank, or of two.
    for _ in 0..[0, 0, 1, 2].choose(&mut random).copied().unwrap() {
        let other = Rank((culprit.0 + random.random_range(0..2)) % ranks);
        culprits.push(other);
        fault(&mut text, &mut random, other, segment, ranks);
    }
    (text, culprits)
}

/// A layer of experts, and one of the calls that a fault may hit.
fn layer(text: &mut String, random: &mut ChaCha8Rng, protocol: &str, ranks: u32) -> &'static str {
    *text += "[workload]\nkind = \"moe\"\nrouting = { dirichlet = 2.0 }\npayload = { gaussian = 0.02 }\n";
    let tokens = random.random_range(16..=64);
    writeln!(text, "model = {{ experts = {ranks}, top_k = 2, hidden = 512, tokens_per_rank = {tokens} }}")
        .unwrap();
    // Slow ranks have something to be slow at.
    *text += "[compute]\nexpert = \"50 us\"\n";
    let order = ["rotation", "shifted-rounds", "largest-first", "any-ready"].choose(random).unwrap();
    writeln!(text, "[[variant]]\nname = \"only\"\nprotocol = \"{protocol}\"\norder = \"{order}\"").unwrap();
    if *order != "shifted-rounds" && random.random() {
        writeln!(text, "window = {}", random.random_range(1..ranks)).unwrap();
    }
    ["dispatch", "combine"].choose(random).unwrap()
}

fn gather(text: &mut String, random: &mut ChaCha8Rng, protocol: &str, ranks: u32) -> &'static str {
    let kib = random.random_range(8..=64);
    *text +=
        "[workload]\nkind = \"collective\"\ncollective = \"all-gather\"\npayload = { gaussian = 0.02 }\n";
    writeln!(text, "bytes_per_rank = \"{kib} KiB\"\nstart = {:?}", vec!["20 us"; ranks as usize]).unwrap();
    let algorithms: &[&str] =
        if protocol == "native" { &["ring", "direct"] } else { &["ring", "padded-ring", "direct"] };
    let algorithm = algorithms.choose(random).unwrap();
    writeln!(text, "[[variant]]\nname = \"only\"\nprotocol = \"{protocol}\"\nalgorithm = \"{algorithm}\"")
        .unwrap();
    "all-gather"
}

/// The culprit is the root: it has something to send to everybody.
fn broadcast(text: &mut String, random: &mut ChaCha8Rng, protocol: &str, ranks: u32) -> (Rank, &'static str) {
    let (kib, root) = (random.random_range(8..=64), random.random_range(0..ranks));
    *text += "[workload]\nkind = \"collective\"\ncollective = \"broadcast\"\npayload = { gaussian = 0.02 }\n";
    writeln!(text, "bytes = \"{kib} KiB\"\nroot = {root}\nstart = {:?}", vec!["20 us"; ranks as usize])
        .unwrap();
    let algorithm = ["tree", "direct"].choose(random).unwrap();
    writeln!(text, "[[variant]]\nname = \"only\"\nprotocol = \"{protocol}\"\nalgorithm = \"{algorithm}\"")
        .unwrap();
    (Rank(root), "broadcast")
}

fn fault(text: &mut String, random: &mut ChaCha8Rng, culprit: Rank, segment: &str, ranks: u32) {
    let iteration = random.random_range(0..2);
    writeln!(text, "[[fault]]\niteration = {iteration}").unwrap();
    let large = random.random();
    match random.random_range(0..5) {
        0 => writeln!(text, "kind = \"drop\"\n{}", site(random, culprit, segment, ranks)).unwrap(),
        1 => {
            let by = if large { "1 s" } else { "2 us" };
            let site = site(random, culprit, segment, ranks);
            writeln!(text, "kind = \"delay\"\nby = \"{by}\"\n{site}").unwrap();
        }
        2 => {
            let byte = random.random::<u32>();
            let site = site(random, culprit, segment, ranks);
            writeln!(text, "kind = \"flipped-byte\"\nbyte = {byte}\n{site}").unwrap();
        }
        3 => {
            let factor = if large { 500.0 } else { 1.2 };
            writeln!(text, "kind = \"slow-rank\"\nrank = {culprit}\nfactor = {factor:?}").unwrap();
        }
        _ => {
            let at = if large { "0 s" } else { "10 s" };
            writeln!(text, "kind = \"dead-rank\"\nrank = {culprit}\nat = \"{at}\"").unwrap();
        }
    }
}

/// A transfer from the culprit to somebody.
fn site(random: &mut impl Rng, src: Rank, segment: &str, ranks: u32) -> String {
    let dst = (src.0 + random.random_range(1..ranks)) % ranks;
    format!("src = {src}\ndst = {dst}\nsegment = \"{segment}\"")
}

/// How a scenario ended.
#[derive(Clone, Copy, PartialEq)]
enum End {
    /// Uneven routing, a ring and a tree leave pairs without a transfer, and a fault without anything to hit.
    Refused,
    Survived,
    Failed,
}

/// Runs a scenario on both executors.
fn play(seed: u64) -> End {
    let (text, culprits) = scenario(seed);
    let experiment = load_text(&text);
    let cancel = Cancel::new();
    let mut prepared = match Prepared::new(&experiment, &cancel) {
        Ok(prepared) => prepared,
        Err(error) => {
            assert!(error.to_string().contains("hits no transfer"), "{error}\n{text}");
            return End::Refused;
        }
    };
    let last_s = deadlines(&experiment);
    let ends = [SIM, THREADS].map(|executor| {
        match prepared.run(0, executor, &cancel) {
            // On threads this says that every byte was compared with what was sent.
            Ok(outcome) => {
                assert_eq!(outcome.verified, (executor == THREADS).then_some(true));
                None
            }
            Err(error) => {
                let failure = failure_of(error);
                let context = format!("{executor}: {failure}\n{text}");
                assert!(culprits.contains(&failure.root_cause.rank), "{context}");
                let late = if executor == SIM { 1.000_001 } else { 1.5 };
                assert!(failure.after_s <= late * last_s[0][failure.iteration as usize], "{context}");
                Some((failure.iteration, failure.first.kind, failure.root_cause.op))
            }
        }
    });
    assert_eq!(ends[0], ends[1], "the simulator and threads differ\n{text}");
    if ends[0].is_none() { End::Survived } else { End::Failed }
}

/// Threads of this process that are named after ranks.
#[cfg(target_os = "linux")]
fn rank_threads() -> usize {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap().map(Result::unwrap);
    // A thread may end between the two calls.
    let names = tasks.filter_map(|task| std::fs::read_to_string(task.path().join("comm")).ok());
    names.filter(|name| name.starts_with("rank ")).count()
}

/// The first scenarios, without three whose deadlines are after 9 s.
#[test]
fn fourteen_random_faults() {
    play_all((0..17).filter(|seed| ![5, 7, 8].contains(seed)).collect());
}

mod whole {
    #[test]
    #[ignore = "half a minute: .ci/run runs it, and the short form is beside it"]
    fn two_hundred_random_faults() {
        super::play_all((0..200).collect());
    }
}

/// The scenarios of these seeds.
fn play_all(seeds: Vec<u64>) {
    // The other test would leave threads in this process for a while.
    static ALONE: Mutex<()> = Mutex::new(());
    let _alone = ALONE.lock();
    let scenarios = seeds.len();
    let next = Arc::new(Mutex::new(seeds.into_iter()));
    let (ends, results) = channel();
    let workers: Vec<_> = (0..AT_A_TIME)
        .map(|_| {
            let (next, ends) = (Arc::clone(&next), ends.clone());
            std::thread::spawn(move || {
                loop {
                    let seed = next.lock().unwrap().next();
                    let Some(seed) = seed else { break };
                    ends.send(play(seed)).unwrap();
                }
            })
        })
        .collect();
    drop(ends);
    let mut counts = [0; 3];
    // With so many at a time, one that hangs shows when the others have ended.
    for count in 0..scenarios {
        let end =
            results.recv_timeout(HANG).unwrap_or_else(|error| panic!("{count} have ended, then: {error}"));
        counts[end as usize] += 1;
    }
    workers.into_iter().for_each(|worker| worker.join().unwrap());
    let [refused, survived, failed] = counts;
    println!("{failed} failed, {survived} survived, {refused} had nothing to hit");
    let share = |count: usize| 100 * count / scenarios;
    assert!(share(failed) > 40 && share(survived) > 10 && share(refused) < 30, "{counts:?}");
    #[cfg(target_os = "linux")]
    assert_eq!(rank_threads(), 0, "threads are left behind");
}
