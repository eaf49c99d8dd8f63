//! Ranks as threads of this process: real bytes and the real codec over memory copies, as fast as these or paced by the links
//! of a cluster.
//!
//! An unpaced run proves that a plan does what it says, bit for bit. Its times are not those of a cluster.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

use zipwire_schedule::{Rank, RunFailure};

use crate::control::{Control, give_up, run_all};
use crate::host::{self, Permits, run_rank_as};
use crate::iterations::of_first;
use crate::memory::Memory;
use crate::report::Hello;
use crate::sync::mpsc::channel;
use crate::transport::filter::Filtered;
use crate::transport::local::{Local, Process};
use crate::transport::paced::{Paced, Wire, mean_bytes};

pub use crate::host::{CallWork, CodecWork, Coding, HostSetup, Pace, RunReport};
pub use crate::report::STUCK_AFTER;

/// Runs a plan; every received byte is compared with what was sent. Setting `cancel` ends it early.
///
/// # Errors
/// If a rank fails, bytes are wrong, an op is overdue, nothing happens for too long, or the user stops the run.
pub fn run(setup: &HostSetup<'_>, cancel: &AtomicBool) -> Result<RunReport, Box<RunFailure>> {
    let hello = Hello::new(setup.plan);
    run_as(setup, &vec![hello; setup.plan.programs.len()], cancel)
}

fn run_as(
    setup: &HostSetup<'_>,
    hellos: &[Hello],
    cancel: &AtomicBool,
) -> Result<RunReport, Box<RunFailure>> {
    let plan = setup.plan;
    let memories = (0..plan.rank_count()).map(|rank| host::memory(plan, Rank(rank)));
    let memories: Vec<Arc<Memory>> = memories.collect::<Result<_, _>>()?;
    let (control, inboxes) = Control::new(memories.len(), Instant::now(), cancel);
    let process = Process { control: &control, memories: &memories };
    let permits = Permits::new(setup.cores);
    let results = std::thread::scope(|scope| {
        let (wire, parcels) = channel();
        if let Some(pace) = setup.pace {
            // Ends when the last end of the channel is dropped, behind all ranks.
            let links = Wire::new(&pace.topology, pace.dilation, mean_bytes(plan));
            let thread = std::thread::Builder::new().name("links".to_owned());
            let run = move || links.run(&parcels, process.control);
            if let Err(error) = thread.spawn_scoped(scope, run) {
                give_up(&control, Rank(0)..Rank(plan.rank_count()), &error);
                return Vec::new();
            }
        }
        run_all(&control, inboxes, |rank, inbox| {
            let mut local = Local::new(process, rank, inbox);
            let hello = &hellos[rank.index()];
            if setup.pace.is_none() {
                return run_rank_as(setup, &permits, hello, &mut local);
            }
            let mut paced = Filtered { inner: &mut local, filter: Paced::new(wire.clone()) };
            run_rank_as(setup, &permits, hello, &mut paced)
        })
    });
    of_first(results, &setup.iterations(), || control.collect())
}

#[cfg(test)]
mod tests {
    use zipwire_codec::DType;
    use zipwire_payload::{Payload, Rows};
    use zipwire_schedule::{CallKind, Choice, FailureKind, Job, Protocol, Segment, Slot, Work, plan};

    use super::*;

    #[test]
    fn ranks_that_are_to_run_different_plans_run_nothing() {
        let bytes = ndarray::Array2::from_elem((3, 3), 64);
        let work = Work::of_call(
            DType::Bf16,
            [Slot(0), Slot(1)],
            CallKind::AllToAll { bytes: bytes.into(), tokens: None },
        );
        let segments = vec![Segment::new("call", work)];
        let job = Job { name: "collective", rank_count: 3, slots: vec!["in", "out"], segments };
        let plan = plan(&job, &Choice::of(Protocol::Native, None));
        let payload = Payload::new(1, vec![Arc::new(Rows::gaussian(1.0, 1))]);
        let setup = HostSetup { cores: 1, ..HostSetup::new(&plan, &payload, 0..1) };
        let own = Hello::new(&plan);
        let other = Hello { plan: "another".to_owned(), ..own.clone() };
        let failure = run_as(&setup, &[own.clone(), own, other], &AtomicBool::new(false)).unwrap_err();
        assert_eq!(failure.first.kind, FailureKind::Mismatch);
        assert_eq!(failure.ranks.len(), 3, "{failure}");
        let text = failure.to_string();
        assert!(text.contains("`another`") && text.contains(&plan.digest()), "{text}");
    }
}
