//! Ranks of a test. Each prints its last word, which the test looks at.

use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use zipwire_engine::host::HostSetup;
use zipwire_engine::mpi::{TcpMeeting, World, WorldError};
use zipwire_payload::Payload;
use zipwire_schedule::plan::Plan;
use zipwire_schedule::{Choice, Job, Protocol, Rank, Segment, Slot, Work, plan};

use crate::common::{RANKS, job, payload, payload_of};

/// Patience of ranks in tests where somebody is missing.
pub(crate) const PATIENCE: Duration = Duration::from_secs(3);

/// Whatever a case has come to.
type Said = Result<String, WorldError>;

pub(crate) fn run(name: &str) -> ExitCode {
    let meeting = TcpMeeting::from_environment().unwrap().expect("the test says where to meet");
    let patience = (name != "meet").then_some(PATIENCE);
    let mut world = match World::begin(meeting, patience, Arc::new(AtomicBool::new(false))) {
        Ok(world) => world,
        Err(error) => {
            println!("not begun: {error}");
            return ExitCode::FAILURE;
        }
    };
    let said = match name {
        "meet" => meet(&mut world),
        "transfers" => transfers(&mut world),
        "dies" => without_rank_2(&mut world, || std::process::exit(9)),
        "stops" => without_rank_2(&mut world, stop),
        "refuses" => refuses(&mut world),
        other => panic!("there is no case `{other}`"),
    };
    println!("{}", said.unwrap_or_else(|error| format!("failed: {error}")));
    world.finish().unwrap();
    ExitCode::SUCCESS
}

/// A plan in which all compute, and nobody sends.
fn computing() -> Plan {
    let work = Work::Compute { phase: "phase", reads: vec![], writes: vec![Slot(0)] };
    let segments = vec![Segment::new("phase", work)];
    let job = Job { name: "computing", rank_count: RANKS, slots: vec!["values"], segments };
    plan(&job, &Choice::of(Protocol::Native, None))
}

fn run_plan(world: &mut World, plan: &Plan, payload: &Payload) -> Said {
    let setup = HostSetup { stuck_after: PATIENCE, ..HostSetup::new(plan, payload, 0..3) };
    Ok(match world.run("a plan", &setup)? {
        Ok(Some(report)) => format!("ran {} iterations", report.timeline.iterations.len()),
        Ok(None) => "ran".to_owned(),
        Err(failure) => format!("failed: {failure}"),
    })
}

/// Longer than a frame.
fn task() -> Vec<u8> {
    (0..50_000_u32).map(|place| place as u8).collect()
}

/// Tasks, clocks, barriers and reports.
fn meet(world: &mut World) -> Said {
    assert_eq!(world.size(), RANKS);
    assert!(!world.carries_bytes());
    if world.rank() == Rank(0) {
        let members = world.members();
        let processes: std::collections::BTreeSet<u32> =
            members.iter().map(|member| member.process).collect();
        assert_eq!((members.len(), processes.len()), (RANKS as usize, RANKS as usize));
        world.tell(&task())?;
        let aligned_s = world.align()?.expect("all are there");
        assert!(aligned_s < 0.1, "{aligned_s} s on one host");
    } else {
        assert_eq!(world.next_task()?, Some(task()));
    }
    let plan = computing();
    let said = run_plan(world, &plan, &payload_of(1))?;
    if world.rank() != Rank(0) {
        assert_eq!(world.next_task()?, None, "the job is over when rank 0 says so");
    }
    Ok(said)
}

fn transfers(world: &mut World) -> Said {
    run_plan(world, &plan(&job(), &Choice::of(Protocol::Native, None)), &payload())
}

/// Runs a plan on all ranks but one, which does something else.
fn without_rank_2(world: &mut World, instead: fn()) -> Said {
    // All are connected.
    let plan = computing();
    run_plan(world, &plan, &payload_of(1))?;
    if world.rank() == Rank(2) {
        instead();
    }
    run_plan(world, &plan, &payload_of(1))
}

/// Suspends this process, as a debugger or a host without memory does.
fn stop() {
    let own = std::process::id().to_string();
    std::process::Command::new("kill").args(["-STOP", &own]).status().unwrap();
}

fn refuses(world: &mut World) -> Said {
    if world.rank() == Rank(0) {
        world.tell(&task())?;
        world.align()?;
    } else {
        world.next_task()?;
    }
    if world.rank() == Rank(1) {
        world.refuse("it has no GPU");
        return Ok("refused".to_owned());
    }
    run_plan(world, &computing(), &payload_of(1))
}
