//! The processes of ranks on this host: which of them ends first, and that none is left.

use std::path::Path;
use std::time::Duration;

/// How often the launcher is looked after.
const LOOK: Duration = Duration::from_millis(20);

#[cfg(target_os = "linux")]
pub(super) use linux::Watch;
#[cfg(not(target_os = "linux"))]
pub(super) use other::Watch;

#[cfg(target_os = "linux")]
mod linux {
    use std::collections::BTreeMap;
    use std::mem::MaybeUninit;
    use std::os::fd::OwnedFd;
    use std::time::Instant;

    use rustix::event::{Timespec, epoll};
    use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
    use zipwire::engine::mpi::read_statuses;

    use super::{Duration, LOOK, Path};

    /// How long processes may take to end when their launcher has, before they are killed.
    const PATIENCE: Duration = Duration::from_secs(3);
    /// Ends that are taken in at a time.
    const TAKEN: usize = 64;

    /// See the module.
    #[derive(Debug, Default)]
    pub(crate) struct Watch {
        /// Handles of processes, which no other process can take over. It says in which order they end: a launcher ends all others as soon as
        /// it has noticed the first. `None` until there is a rank, or if the system has none of these.
        queue: Option<OwnedFd>,
        running: BTreeMap<u32, OwnedFd>,
        known: Vec<u32>,
        /// Ranks that have ended, the first one first.
        ended: Vec<u32>,
    }

    impl Watch {
        /// Waits a moment, or until a rank ends, and takes up ranks that have begun.
        pub(crate) fn look(&mut self, folder: &Path) {
            // Files that are being made are complete at the next look.
            for status in read_statuses(folder).unwrap_or_default() {
                if !self.known.contains(&status.rank) && is_here(&status.host) {
                    self.known.push(status.rank);
                    if self.hold(status.rank, status.process).is_none() {
                        // It has ended before anybody looked.
                        self.ended.push(status.rank);
                    }
                }
            }
            self.wait();
        }

        fn hold(&mut self, rank: u32, process: u32) -> Option<()> {
            if self.queue.is_none() {
                self.queue = epoll::create(epoll::CreateFlags::CLOEXEC).ok();
            }
            let process = i32::try_from(process).ok().and_then(Pid::from_raw)?;
            let handle = pidfd_open(process, PidfdFlags::empty()).ok()?;
            let data = epoll::EventData::new_u64(rank.into());
            epoll::add(self.queue.as_ref()?, &handle, data, epoll::EventFlags::IN).ok()?;
            self.running.insert(rank, handle);
            Some(())
        }

        /// Waits until a rank ends, or the time is over.
        fn wait(&mut self) {
            let Some(queue) = self.queue.as_ref().filter(|_| !self.running.is_empty()) else {
                std::thread::sleep(LOOK);
                return;
            };
            let mut events = [MaybeUninit::uninit(); TAKEN];
            let limit = Timespec::try_from(LOOK).ok();
            // A signal ends the waiting, too, and who looks next finds it.
            let Ok((events, _)) = epoll::wait(queue, &mut events, limit.as_ref()) else { return };
            for event in events {
                let rank = u32::try_from(event.data.u64()).expect("it is a rank");
                // Dropped, it is out of the queue.
                if self.running.remove(&rank).is_some() {
                    self.ended.push(rank);
                }
            }
        }

        /// Sees to it that no rank runs on when the launcher has ended; all, in the order in which they ended.
        pub(crate) fn end_all(mut self) -> Vec<u32> {
            let begin = Instant::now();
            while !self.running.is_empty() && begin.elapsed() < PATIENCE {
                self.wait();
            }
            for handle in self.running.values() {
                // If it has just ended, that is what was wanted.
                let _ = pidfd_send_signal(handle, Signal::KILL);
            }
            self.ended
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
    use super::{LOOK, Path};

    /// Where processes cannot be held on to, it is left to the launcher to end them.
    #[derive(Debug, Default)]
    pub(crate) struct Watch;

    impl Watch {
        pub(crate) fn look(&mut self, _: &Path) {
            std::thread::sleep(LOOK);
        }

        pub(crate) fn end_all(self) -> Vec<u32> {
            Vec::new()
        }
    }
}
