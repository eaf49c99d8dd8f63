//! The processes of ranks on this host: which of them ends first, which are stopped, and that none is left.

use std::path::Path;
use std::time::Duration;

/// What was seen of the processes of ranks until the launcher had ended.
#[derive(Debug, Default)]
pub(super) struct Seen {
    /// Ranks that have ended, the first one first.
    pub(super) ended: Vec<u32>,
    /// Ranks that were stopped, as by SIGSTOP, until the first one ended or said what became of its run.
    pub(super) stopped: Vec<u32>,
}

/// How often the launcher is looked after.
const LOOK: Duration = Duration::from_millis(20);

#[cfg(target_os = "linux")]
pub(super) use linux::Watch;
#[cfg(not(target_os = "linux"))]
pub(super) use other::Watch;

#[cfg(target_os = "linux")]
mod linux {
    use std::collections::BTreeMap;
    use std::io;
    use std::mem::MaybeUninit;
    use std::os::fd::OwnedFd;
    use std::time::Instant;

    use rustix::event::{Timespec, epoll};
    use rustix::fs::{CWD, FileType, Mode, OFlags};
    use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
    use zipwire::engine::mpi::{alive_file, is_witness, read_statuses};

    use super::{Duration, LOOK, Path, Seen};

    /// How long processes may take to end when their launcher has, before they are killed.
    const PATIENCE: Duration = Duration::from_secs(3);
    /// Ends that are taken in at a time.
    const TAKEN: usize = 64;

    /// See the module.
    #[derive(Debug)]
    pub(crate) struct Watch {
        /// A pipe that each rank holds open while it is there. The system closes the files of a process before it says that this has ended, and
        /// a launcher that sees its own connections close ends all others then: so the order in which pipes close says who was first.
        queue: OwnedFd,
        pipes: BTreeMap<u32, OwnedFd>,
        /// Handles of processes, which no other process can take over.
        running: BTreeMap<u32, (Pid, OwnedFd)>,
        known: Vec<u32>,
        seen: Seen,
    }

    impl Watch {
        /// For so many ranks, which say what they are doing in this folder.
        ///
        /// # Errors
        /// If the system has no pipes left.
        pub(crate) fn new(folder: &Path, ranks: u32) -> io::Result<Self> {
            let queue = epoll::create(epoll::CreateFlags::CLOEXEC)?;
            let mut pipes = BTreeMap::new();
            for rank in 0..ranks {
                let path = folder.join(alive_file(rank));
                rustix::fs::mknodat(CWD, &path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0)?;
                let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
                let pipe = rustix::fs::open(&path, flags, Mode::empty())?;
                // Nothing is ever written, so all that can happen is that the rank's end is closed.
                let data = epoll::EventData::new_u64(rank.into());
                epoll::add(&queue, &pipe, data, epoll::EventFlags::HUP)?;
                pipes.insert(rank, pipe);
            }
            Ok(Self { queue, pipes, running: BTreeMap::new(), known: Vec::new(), seen: Seen::default() })
        }

        /// Waits a moment, or until a rank ends, and takes up ranks that have begun.
        pub(crate) fn look(&mut self, folder: &Path) {
            // Before what they say, so that whoever is found here was stopped before any other gave up. A launcher that then ends them
            // lets them go on first.
            let stopped = self.stopped();
            // Files that are being made are complete at the next look.
            let statuses = read_statuses(folder).unwrap_or_default();
            if self.seen.ended.is_empty() && !statuses.iter().any(|status| is_witness(&status.doing)) {
                self.seen.stopped = stopped;
            }
            for status in statuses {
                if !self.known.contains(&status.rank) && is_here(&status.host) {
                    self.known.push(status.rank);
                    let process = i32::try_from(status.process).ok().and_then(Pid::from_raw);
                    let held = process.and_then(|id| Some((id, pidfd_open(id, PidfdFlags::empty()).ok()?)));
                    // Without a handle it has ended already.
                    self.running.extend(held.map(|held| (status.rank, held)));
                }
            }
            self.wait();
        }

        /// Ranks whose processes are stopped now.
        fn stopped(&self) -> Vec<u32> {
            let is_stopped = |process: Pid| {
                let stat = std::fs::read_to_string(format!("/proc/{}/stat", process.as_raw_nonzero()));
                // The state follows the name, which is in brackets and may hold some.
                stat.is_ok_and(|stat| stat.rsplit(')').next().is_some_and(|rest| rest.starts_with(" T")))
            };
            let ranks = self.running.iter().filter(|(_, (process, _))| is_stopped(*process));
            ranks.map(|(rank, _)| *rank).collect()
        }

        /// Waits until a rank ends, or the time is over.
        fn wait(&mut self) {
            let mut events = [MaybeUninit::uninit(); TAKEN];
            let limit = Timespec::try_from(LOOK).ok();
            // A signal ends the waiting, too, and who looks next finds it.
            let Ok((events, _)) = epoll::wait(&self.queue, &mut events, limit.as_ref()) else { return };
            for event in events {
                let rank = u32::try_from(event.data.u64()).expect("it is a rank");
                // Dropped, it is out of the queue.
                if self.pipes.remove(&rank).is_some() {
                    self.seen.ended.push(rank);
                }
            }
        }

        /// Sees to it that no rank runs on when the launcher has ended; what was seen of all.
        pub(crate) fn end_all(mut self) -> Seen {
            let begin = Instant::now();
            let is_left = |watch: &Self| watch.running.keys().any(|rank| watch.pipes.contains_key(rank));
            while is_left(&self) && begin.elapsed() < PATIENCE {
                self.wait();
            }
            for (_, handle) in self.running.values() {
                // If it has ended, that is what was wanted.
                let _ = pidfd_send_signal(handle, Signal::KILL);
            }
            self.seen
        }
    }

    /// Whether a process of that host is one of this one's.
    fn is_here(host: &str) -> bool {
        let own = rustix::system::uname();
        own.nodename().to_str().is_ok_and(|own| own.split('.').next() == host.split('.').next())
    }
}

#[cfg(not(target_os = "linux"))]
mod other {
    use super::{LOOK, Path, Seen};

    /// Where processes cannot be held on to, it is left to the launcher to end them.
    #[derive(Debug)]
    pub(crate) struct Watch;

    impl Watch {
        pub(crate) fn new(_: &Path, _: u32) -> std::io::Result<Self> {
            Ok(Self)
        }

        pub(crate) fn look(&mut self, _: &Path) {
            std::thread::sleep(LOOK);
        }

        pub(crate) fn end_all(self) -> Seen {
            Seen::default()
        }
    }
}
