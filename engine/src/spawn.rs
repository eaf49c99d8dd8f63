//! A thread for every rank of this process.

use zipwire_schedule::{Failure, FailureKind, Rank, RankEnd};

use crate::control::{Control, Envelope};
use crate::report::RankReport;
use crate::sync::mpsc::Receiver;

/// Runs every rank on a thread of its own; what each returns. Should the system refuse a thread, the run ends, and ranks that
/// have none report why.
pub(crate) fn run_all<N: Send, R: Send>(
    control: &Control<'_, N>,
    inboxes: Vec<Receiver<Envelope<N>>>,
    run: impl Fn(Rank, Receiver<Envelope<N>>) -> R + Sync,
) -> Vec<R> {
    let run = &run;
    let rank_count = u32::try_from(inboxes.len()).expect("ranks are counted in 32 bits");
    std::thread::scope(|scope| {
        let mut threads = Vec::new();
        for (rank, inbox) in (0..).map(Rank).zip(inboxes) {
            let thread = std::thread::Builder::new().name(format!("rank {rank}"));
            match thread.spawn_scoped(scope, move || run(rank, inbox)) {
                Ok(thread) => threads.push(thread),
                Err(error) => {
                    give_up(control, rank..Rank(rank_count), &error);
                    break;
                }
            }
        }
        let join =
            |thread: std::thread::ScopedJoinHandle<'_, _>| thread.join().expect("ranks catch their panics");
        threads.into_iter().map(join).collect()
    })
}

/// Ranks from the first one on, which the system refuses a thread, do not start.
fn give_up<N>(control: &Control<'_, N>, ranks: std::ops::Range<Rank>, error: &std::io::Error) {
    control.abort();
    for rank in (ranks.start.0..ranks.end.0).map(Rank) {
        let (kind, detail) = if rank == ranks.start {
            (FailureKind::Device, format!("the system refuses a thread for it: {error}"))
        } else {
            (FailureKind::Cancelled, "it was not started".to_owned())
        };
        let end = RankEnd { failure: Failure::new(rank, None, kind, detail), status: None };
        control.deposit(RankReport::failed(rank, control.now_s(), end));
    }
}
