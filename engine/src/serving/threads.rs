//! Ranks as threads of this process, and the coordinator on another one beside them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use super::coordinator::coordinate;
use super::job::{Job, ROOM};
use super::processes::refused;
use super::rank::run_rank;
use super::served::conclude;
use super::{ServeError, Served, Setup, stream};
use crate::control::Control;
use crate::host::Permits;
use crate::memory::Memory;
use crate::spawn::run_all;
use crate::sync::mpsc::channel;
use crate::transport::filter::Filtered;
use crate::transport::local::{Local, Process};
use crate::transport::paced::{Paced, Wire};

/// Serves all requests with ranks that are threads. Setting `cancel` ends it early.
///
/// # Errors
/// If the setup does not fit together, a rank fails, bytes are wrong, nothing happens for too long, or the user stops the run.
pub fn run(setup: &Setup<'_>, cancel: &AtomicBool) -> Result<Served, ServeError> {
    let _span = tracing::info_span!("serve", requests = setup.requests.len()).entered();
    let job = Job::new(setup)?;
    let ranks = job.ranks as usize;
    let memories: Vec<Arc<Memory>> = (0..ranks).map(|_| Arc::new(Memory::with_room(ROOM))).collect();
    let (control, mut inboxes) = Control::with_listeners(ranks, 1, Instant::now(), cancel);
    let own = inboxes.pop().expect("there is one for the coordinator");
    let process = Process { control: &control, memories: &memories };
    let (permits, hello, job) = (Permits::new(setup.cores), job.hello(), &job);
    let (decided, results) = std::thread::scope(|scope| {
        let (wire, parcels) = channel();
        if let Some(pace) = setup.pace {
            let mean_bytes = job.raw_bytes(setup.geometry.group_tokens());
            let links = Wire::new(pace.topology, pace.dilation, mean_bytes);
            // Ends when the last end of the channel is dropped, behind all ranks.
            scope.spawn(move || links.run(&parcels, process.control));
        }
        let coordinator = std::thread::Builder::new().name("coordinator".to_owned());
        let coordinator = coordinator
            .spawn_scoped(scope, move || coordinate(job, &mut Local::new(process, job.coordinator(), own)));
        if coordinator.is_err() {
            control.abort();
        }
        let results = run_all(&control, inboxes, |rank, inbox| {
            let mut local = Local::new(process, rank, inbox);
            if setup.pace.is_none() {
                return run_rank(job, &permits, &hello, &mut local);
            }
            let filter = Paced::of_streams(wire.clone(), stream::stream);
            run_rank(job, &permits, &hello, &mut Filtered { inner: &mut local, filter })
        });
        let decided = match coordinator {
            Ok(coordinator) => coordinator.join().expect("the coordinator catches its panics"),
            Err(error) => Err(refused(&error)),
        };
        (decided, results)
    });
    // Rank 0 knows what has become of all.
    let first = results.into_iter().next().and_then(Result::ok).flatten();
    let reports = first.unwrap_or_else(|| control.collect());
    conclude(job, decided, reports, cancel.load(Ordering::Relaxed))
}
