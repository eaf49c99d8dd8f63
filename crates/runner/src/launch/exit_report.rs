//! Report of how the processes of a job ended: which rank failed first, and what the others were doing.

use std::process::ExitStatus;

use zipwire_engine::mpi::{Outcome, Status};

use super::StartError;
use crate::STOPPED;

/// Ranks whose last status is shown, beside the one that failed first.
const SHOWN: usize = 8;

/// Everything that is known when the launcher has ended.
#[derive(Debug, Default)]
pub(super) struct ExitReport {
    /// The program that was to start ranks.
    pub(super) launcher: String,
    pub(super) statuses: Vec<Status>,
    /// Ranks of this host in the order in which their processes ended.
    pub(super) ended: Vec<u32>,
    pub(super) exit: Option<ExitStatus>,
    /// Text of the launcher itself.
    pub(super) notices: String,
    /// Whether rank 0 was heard to say that all is done.
    pub(super) is_done: bool,
    pub(super) was_stopped: bool,
}

/// A process that has ended badly, as a launcher names it.
#[derive(Debug, PartialEq, Eq)]
struct Named {
    rank: Option<u32>,
    process: Option<u32>,
    /// Words that follow its name.
    how: String,
}

impl ExitReport {
    /// The error that this process ends with, if the job has failed.
    pub(super) fn verdict(&self, ranks: u32) -> Result<(), StartError> {
        let code = self.exit.and_then(|exit| exit.code());
        if self.was_stopped || code == Some(STOPPED.into()) {
            return Err(StartError::Stopped);
        }
        match self.status(0).map(Status::outcome) {
            Some(Outcome::Done(Some(0))) => Ok(()),
            Some(Outcome::Done(Some(code))) => Err(StartError::Said(code)),
            // It is on another host.
            None if self.is_done && code == Some(0) => Ok(()),
            _ => Err(StartError::RanksEnded(self.text(ranks))),
        }
    }

    fn status(&self, rank: u32) -> Option<&Status> {
        self.statuses.iter().find(|status| status.rank == rank)
    }

    fn text(&self, ranks: u32) -> String {
        if self.statuses.is_empty() {
            let notices = if self.notices.is_empty() { "it has said nothing" } else { &self.notices };
            let (launcher, exit) = (&self.launcher, self.exit_text());
            let help = "`--launcher` is a command that starts ranks and waits for them, as `mpirun -n {ranks}` and `srun -n {ranks}` do; \
                        `sbatch` only queues a script, which is where `srun` belongs, or this command. What ranks print has to come through it";
            return format!("no rank has begun: `{launcher}` has ended ({exit}): {notices}\nhelp: {help}");
        }
        let (first, how) = self.first_failed(ranks);
        let mut lines = vec![match first.map(|rank| (rank, self.status(rank))) {
            Some((rank, Some(Status { process, host, doing, .. }))) => {
                format!("rank {rank} (process {process} on `{host}`) {how}; at that time it {doing}")
            }
            Some((rank, None)) => format!("rank {rank} {how}"),
            None if self.gave_up() => "all ranks gave up, and none says for which one they waited".to_owned(),
            None => format!("a rank {how}, and the launcher does not say which one"),
        }];
        let is_other =
            |status: &&Status| Some(status.rank) != first && !matches!(status.outcome(), Outcome::Done(_));
        let others: Vec<&Status> = self.statuses.iter().filter(is_other).collect();
        lines.extend(
            others.iter().take(SHOWN).map(|status| format!("  rank {} {}", status.rank, status.doing)),
        );
        if others.len() > SHOWN {
            lines.push(format!("  and {} more", others.len() - SHOWN));
        }
        let begun = self.statuses.len();
        if begun < ranks as usize {
            let missing = (0..ranks).filter(|rank| self.status(*rank).is_none());
            let mut missing: Vec<String> = missing.take(SHOWN + 1).map(|rank| rank.to_string()).collect();
            if missing.len() > SHOWN {
                missing[SHOWN] = "others".to_owned();
            }
            lines.push(format!(
                "{begun} of {ranks} ranks have begun on hosts that can be seen from here; not: {}",
                missing.join(", ")
            ));
        }
        if first.is_none() && !self.notices.is_empty() {
            lines.push(format!("the launcher has said: {}", self.notices));
        }
        lines.push("all ranks have ended; nothing was written".to_owned());
        lines.join("\n")
    }

    /// The first rank that failed, and how, in words that follow its name. Ranks that say how their run ended were there after that, so
    /// they are not to blame. Open MPI names the first rank that it saw end; MPICH names whichever process it has collected first, so the
    /// order in which processes ended counts. If ranks have given up, the one for which most of them waited is to blame: a launcher ends
    /// all when the first one gives up, and some before they can say that they have.
    fn first_failed(&self, ranks: u32) -> (Option<u32>, String) {
        let is_suspect =
            |rank: &u32| self.status(*rank).is_none_or(|status| status.outcome() == Outcome::Unknown);
        let suspects = || self.statuses.iter().map(|status| status.rank).filter(is_suspect);
        // A rank that nobody has seen may be on another host: it is to blame if others, which would have seen it there, name it.
        let unseen = || (0..ranks).filter(|rank| self.status(*rank).is_none() && self.awaited(*rank) > 0);
        let gave_up = self.gave_up();
        let named = named(&self.notices);
        let named_rank = named.as_ref().and_then(|named| {
            let of_process = |process| self.statuses.iter().find(|status| status.process == process);
            named.rank.or_else(|| Some(of_process(named.process?)?.rank)).filter(is_suspect)
        });
        let rank = named_rank
            .filter(|_| named.as_ref().is_some_and(|named| named.rank.is_some()))
            .or_else(|| match gave_up {
                true => suspects().rev().chain(unseen()).max_by_key(|rank| self.awaited(*rank)),
                false => self.ended.iter().copied().find(is_suspect),
            })
            .or(named_rank)
            .or_else(|| suspects().next());
        let how = match named {
            Some(named) if rank.is_none() || rank == named_rank => named.how,
            _ if gave_up && rank.is_some_and(|rank| self.status(rank).is_none()) => {
                "had not come up when others gave up".to_owned()
            }
            _ if gave_up => "was silent when others gave up".to_owned(),
            Some(_) => "was the first to end".to_owned(),
            None => format!("has ended ({})", self.exit_text()),
        };
        (rank, how)
    }

    /// Whether a rank has itself given up.
    fn gave_up(&self) -> bool {
        self.statuses.iter().any(|status| status.outcome() == Outcome::Failed)
    }

    /// Number of other ranks whose last status names a rank as the one that they waited for.
    fn awaited(&self, rank: u32) -> usize {
        let names = |text: &str| text.split("rank ").skip(1).any(|rest| leading_number(rest) == Some(rank));
        self.statuses.iter().filter(|status| status.rank != rank && names(&status.doing)).count()
    }

    fn exit_text(&self) -> String {
        self.exit.map_or_else(|| "it cannot be asked how".to_owned(), |exit| exit.to_string())
    }
}

fn leading_number(text: &str) -> Option<u32> {
    let digits: String = text.chars().take_while(char::is_ascii_digit).collect();
    digits.parse().ok()
}

/// The process that a launcher's notices name: Open MPI names a rank, MPICH a process.
fn named(notices: &str) -> Option<Named> {
    let after = |begin: &str| notices.split_once(begin).map(|(_, rest)| rest);
    let number = |begin: &str| after(begin).and_then(|rest| leading_number(rest.trim_start()));
    let killed = |signal: u32| format!("was killed by signal {signal}");
    let exited = |code: u32| format!("has ended with exit code {code}");
    let silent = || "has ended without a word".to_owned();
    if let Some(rank) = number("noticed that process rank ") {
        let how = number("exited on signal ").map_or_else(silent, killed);
        return Some(Named { rank: Some(rank), process: number("with PID "), how });
    }
    if let Some(rest) = after("Process name: [") {
        // The rank is behind the last comma, as in `[[57019,1],5]`.
        let name = rest.split_whitespace().next().unwrap_or_default();
        let rank = name.rsplit(',').next().and_then(leading_number);
        return Some(Named { rank, process: None, how: number("Exit code:").map_or_else(silent, exited) });
    }
    let process = number("PID ")?;
    let how = number("(signal ").map(killed).or_else(|| number("EXIT CODE: ").map(exited));
    Some(Named {
        rank: None,
        process: Some(process),
        how: how.unwrap_or_else(|| "has ended badly".to_owned()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn statuses(doing: &[&str]) -> Vec<Status> {
        let status = |(rank, doing): (u32, &&str)| {
            let (host, doing) = ("here".to_owned(), (*doing).to_owned());
            Status { rank, process: 100 + rank, host, doing }
        };
        (0..).zip(doing).map(status).collect()
    }

    fn first_failed(doing: &[&str], ended: Vec<u32>) -> (Option<u32>, String) {
        let statuses = statuses(doing);
        let ranks = u32::try_from(statuses.len()).unwrap();
        ExitReport { statuses, ended, ..ExitReport::default() }.first_failed(ranks)
    }

    #[cfg(unix)]
    fn exit(code: i32) -> Option<ExitStatus> {
        Some(std::os::unix::process::ExitStatusExt::from_raw(code << 8))
    }

    /// A launcher that says that all went well, and has started nothing.
    #[cfg(unix)]
    #[test]
    fn without_a_word_of_rank_0_nothing_is_done() {
        let report = |doing: &[&str], is_done| ExitReport {
            launcher: "sbatch".to_owned(),
            statuses: statuses(doing),
            exit: exit(0),
            is_done,
            ..ExitReport::default()
        };
        let refused = report(&[], false).verdict(2).unwrap_err().to_string();
        assert!(
            refused.contains("no rank has begun: `sbatch` has ended") && refused.contains("srun"),
            "{refused}"
        );
        assert!(report(&["has begun", "is done"], false).verdict(2).is_err());
        assert!(report(&["is done with 0", "is done"], false).verdict(2).is_ok());
        // Rank 0 is on another host, and was heard.
        assert!(report(&[], true).verdict(2).is_ok());
        assert!(report(&["has begun"], true).verdict(2).is_err(), "it has said nothing here");
    }

    /// A process that ends without MPI keeps all others from coming up.
    #[test]
    fn a_rank_that_never_came_up_is_to_blame() {
        let doing =
            ["has failed after 3.1 s in MPI_Init: rank 2 had not come up", "had been in MPI_Init for 3.0 s"];
        let report = ExitReport { statuses: statuses(&doing), ..ExitReport::default() };
        assert_eq!(report.first_failed(3), (Some(2), "had not come up when others gave up".to_owned()));
        let text = report.text(3);
        assert!(text.starts_with("rank 2 had not come up") && text.contains("not: 2"), "{text}");
        // One that was stopped there.
        let doing = [
            doing[0],
            "has failed after 3.1 s in MPI_Init: rank 2 had not come up",
            "had been in MPI_Init for 0.4 s",
        ];
        assert_eq!(first_failed(&doing, vec![0, 1, 2]).0, Some(2));
    }

    /// A launcher that ends a stopped process lets it go on first: it may hear then that others gave up, and say so.
    #[test]
    fn a_rank_that_stood_still_is_to_blame() {
        let gave_up = "has failed in `a`: rank 1 made no progress";
        let doing = ["stood still for 2.1 s, and failed in `a`: rank 1 made no progress", gave_up, gave_up];
        let how = "was silent when others gave up".to_owned();
        assert_eq!(first_failed(&doing, vec![1, 0, 2]), (Some(0), how));
    }

    /// A launcher ends all when the first rank gives up: some have not said anything then.
    #[test]
    fn a_rank_that_was_killed_before_it_gave_up_is_not_blamed() {
        let doing = [
            "is in op `%9`, iteration 50",
            "has failed in `a`: rank 1 made no progress for 2.0 s: waits to receive from rank 0",
            "waits to receive from rank 1, rank 0",
        ];
        let how = "was silent when others gave up".to_owned();
        assert_eq!(first_failed(&doing, vec![1, 2, 0]), (Some(0), how));
        // No rank has given up: the first one to end is to blame.
        assert_eq!(first_failed(&[doing[0], doing[2], doing[2]], vec![1, 2, 0]).0, Some(1));
    }

    /// A launcher ends all when one was killed: a rank that hears that tells the others, which were well, too.
    #[test]
    fn a_rank_that_was_told_to_end_is_not_blamed() {
        let told = "was told to end in `a`: rank 1 was cancelled: it waits to receive from rank 0";
        let doing = ["is in op `%9`, iteration 55", told, "is in op `%9`, iteration 55"];
        assert_eq!(first_failed(&doing, vec![2, 0, 1]).0, Some(2));
    }

    #[test]
    fn launchers_name_the_first_process_to_end() {
        let open_mpi =
            "prterun noticed that process rank 2 with PID 26362 on node vm exited on signal 9 (Killed).";
        let how = "was killed by signal 9".to_owned();
        assert_eq!(named(open_mpi), Some(Named { rank: Some(2), process: Some(26_362), how: how.clone() }));
        let exit = "prterun detected that one or more processes exited with non-zero status. The first process to do so was: \
            Process name: [prterun-vm-26421@1,2] Exit code: 3";
        let exited = "has ended with exit code 3".to_owned();
        assert_eq!(named(exit), Some(Named { rank: Some(2), process: None, how: exited }));
        let old = "Process name: [[57019,1],5] Exit code: 3";
        assert_eq!(named(old).unwrap().rank, Some(5));
        let mpich = "BAD TERMINATION OF ONE OF YOUR APPLICATION PROCESSES PID 13409 RUNNING AT vm EXIT CODE: 9 \
            CLEANING UP REMAINING PROCESSES YOU CAN IGNORE THE BELOW CLEANUP MESSAGES \
            YOUR APPLICATION TERMINATED WITH THE EXIT STRING: Killed (signal 9)";
        assert_eq!(named(mpich), Some(Named { rank: None, process: Some(13_409), how }));
        assert_eq!(named(""), None);
    }
}
