//! Each rank in a process of its own, over pipes that delay and reorder transfers and messages: what executors promise must not
//! depend on ranks sharing memory, or on their luck.

mod hub;
mod pipe;
mod rank;
mod wire;

use std::path::Path;
use std::process::ExitCode;

use libtest_mimic::{Arguments, Failed, Trial};
use zipwire::engine::host::RunResult;
use zipwire::schedule::{FailureKind, RunFailure};

use hub::{Hub, Mischief};

/// One run of all variants of a scenario.
struct Case {
    file: &'static str,
    sets: &'static [&'static str],
}

/// All bytes of the quickstart take a while without optimisation: `.ci/run` does that, with it.
const WHOLE: Case = Case { file: "quickstart.toml", sets: &["iterations=1"] };

const CASES: [Case; 10] = [
    Case { file: "quickstart.toml", sets: &["iterations=1", "workload.model.hidden=256"] },
    Case { file: "smoke/protocols-2x3.toml", sets: &[] },
    Case { file: "smoke/orders-moe-2x4.toml", sets: &[] },
    Case { file: "smoke/fsdp-library-2x2.toml", sets: &[] },
    Case { file: "smoke/library-all-reduce-2x3.toml", sets: &[] },
    Case { file: "smoke/library-all-gather-2x3.toml", sets: &[] },
    Case { file: "smoke/reduce-scatter-algorithms-2x3.toml", sets: &[] },
    Case { file: "smoke/dedup-2x3.toml", sets: &[] },
    Case { file: "smoke/transfers-sendrecv-1x4.toml", sets: &[] },
    Case { file: "smoke/weight-sync-parts-2x3.toml", sets: &[] },
];

fn main() -> ExitCode {
    // This program is its own rank: the hub starts it again.
    if let Some(task) = rank::task() {
        return rank::run(&task);
    }
    let mut trials: Vec<Trial> = CASES
        .iter()
        .map(|case| {
            let name = case.file.trim_end_matches(".toml").replace('/', "::");
            Trial::test(name, move || verified(case)).with_kind("processes")
        })
        .collect();
    let whole = Trial::test("quickstart::whole", || verified(&WHOLE));
    trials.push(whole.with_kind("processes").with_ignored_flag(true));
    trials.push(Trial::test("a_rank_that_is_killed_ends_all", killed).with_kind("processes"));
    trials.push(Trial::test("a_rank_with_another_plan_runs_nothing", other_plan).with_kind("processes"));
    trials.push(Trial::test("a_byte_that_flips_in_a_pipe_is_noticed", flipped).with_kind("processes"));
    // Each of them is many processes.
    let arguments = Arguments { test_threads: Some(1), ..Arguments::from_args() };
    libtest_mimic::run(&arguments, trials).exit_code()
}

fn scenario(file: &str) -> String {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("scenarios").join(file).display().to_string()
}

fn play(file: &str, sets: &[&str], mischief: Mischief) -> Vec<RunResult> {
    Hub { file: scenario(file), sets: sets.iter().map(|set| (*set).to_owned()).collect(), mischief }.run()
}

/// Every variant ends well, rank 0 has the timelines of all ranks, and they are those of the same ranks as threads.
fn verified(case: &Case) -> Result<(), Failed> {
    let results = play(case.file, case.sets, Mischief::default());
    let sets: Vec<String> = case.sets.iter().map(|set| (*set).to_owned()).collect();
    let expected = rank::as_threads(&scenario(case.file), &sets)?;
    if results.len() != expected.len() {
        return Err(format!("{} of {} variants have a result", results.len(), expected.len()).into());
    }
    for (result, (name, expected)) in results.into_iter().zip(expected) {
        let report = result.map_err(|failure| format!("{name}: {failure}"))?.ok_or("rank 0 reports")?;
        if report.bytes_verified != expected.bytes_verified {
            let (found, wanted) = (report.bytes_verified, expected.bytes_verified);
            return Err(format!("{name}: {found} of {wanted} bytes were verified").into());
        }
        let (found, wanted) = (spans(&report.timeline), spans(&expected.timeline));
        if found != wanted {
            return Err(
                format!("{name}: {} spans, as threads {}, or others", found.len(), wanted.len()).into()
            );
        }
    }
    Ok(())
}

/// Spans without their times, for comparison.
fn spans(timeline: &zipwire::timeline::Timeline) -> Vec<String> {
    let span = |span: &zipwire::timeline::Span| {
        let zipwire::timeline::Span {
            iteration,
            segment,
            rank,
            lane,
            op,
            stage,
            peer,
            name,
            bytes,
            bytes_coded,
            ..
        } = span;
        format!(
            "{iteration} {segment:?} {rank} {lane:?} {op} {stage:?} {peer:?} {name} {bytes} {bytes_coded:?}"
        )
    };
    let mut spans: Vec<String> = timeline.spans.iter().map(span).collect();
    spans.sort();
    spans
}

/// The failure of the only variant that ran.
fn failure(results: Vec<RunResult>) -> Result<Box<RunFailure>, Failed> {
    match results.into_iter().next() {
        Some(Err(failure)) => Ok(failure),
        Some(Ok(_)) => Err("the run ended well".into()),
        None => Err("rank 0 has said nothing".into()),
    }
}

fn killed() -> Result<(), Failed> {
    let mischief = Mischief { killed: Some((2, 12)), ..Mischief::default() };
    let failure = failure(play("smoke/orders-moe-2x4.toml", &[], mischief))?;
    let text = failure.to_string();
    let lost = failure.ranks.iter().filter(|end| end.to_string().contains("rank 2 is gone")).count();
    let is_named = failure.root_cause.rank.0 == 2 && failure.first.kind == FailureKind::PeerLost;
    // It has not reported; all others have.
    if is_named && failure.ranks.len() == 8 && lost > 0 { Ok(()) } else { Err(text.into()) }
}

fn other_plan() -> Result<(), Failed> {
    let mischief = Mischief { odd: Some((1, "workload.model.hidden=128")), ..Mischief::default() };
    let failure = failure(play("smoke/orders-moe-2x4.toml", &[], mischief))?;
    if failure.first.kind == FailureKind::Mismatch { Ok(()) } else { Err(failure.to_string().into()) }
}

fn flipped() -> Result<(), Failed> {
    let mischief = Mischief { flipped: Some((0, 1)), ..Mischief::default() };
    let failure = failure(play("smoke/orders-moe-2x4.toml", &[], mischief))?;
    let is_named = failure.root_cause.rank.0 == 0 && failure.first.rank.0 == 1;
    if failure.first.kind == FailureKind::Corrupt && is_named {
        Ok(())
    } else {
        Err(failure.to_string().into())
    }
}
