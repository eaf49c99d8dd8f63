//! How the processes of a job have ended: which was the first to end badly, and what all were doing.

use std::path::Path;
use std::process::ExitStatus;

use zipwire::engine::mpi::{Status, has_failed, is_done, is_witness, read_statuses, reported};
use zipwire::{ExecuteError, STOPPED};

use super::watch::Seen;
use crate::error::CliError;

/// Ranks whose last words are shown, beside those of the first to end.
const SHOWN: usize = 8;

/// What is known when the launcher has ended.
#[derive(Debug)]
pub(super) struct Obituary {
    statuses: Vec<Status>,
    /// What was seen of the ranks of this host.
    seen: Seen,
    exit: Option<ExitStatus>,
    notices: String,
    was_stopped: bool,
}

/// A process that has ended badly, as a launcher names it.
#[derive(Debug, PartialEq, Eq)]
struct Named {
    rank: Option<u32>,
    process: Option<u32>,
    /// In words that follow its name.
    how: String,
}

impl Obituary {
    /// Whose files are in the folder.
    pub(super) fn new(folder: &Path, seen: Seen) -> Self {
        // Without the folder nothing is known of the ranks.
        let statuses = read_statuses(folder).unwrap_or_default();
        Self { statuses, seen, exit: None, notices: String::new(), was_stopped: false }
    }

    /// What the launcher has come to, and what it wrote.
    pub(super) fn heard(&mut self, exit: Option<ExitStatus>, notices: &str, was_stopped: bool) {
        (self.exit, self.notices, self.was_stopped) = (exit, notices.trim().to_owned(), was_stopped);
    }

    /// What this process ends with.
    pub(super) fn verdict(&self, ranks: u32) -> Result<(), CliError> {
        let code = self.exit.and_then(|exit| exit.code());
        if self.was_stopped || code == Some(STOPPED.into()) {
            return Err(ExecuteError::Cancelled.into());
        }
        let first = self.statuses.iter().find(|status| status.rank == 0);
        if let Some(code) = first.and_then(|first| reported(&first.doing)) {
            return if code == 0 { Ok(()) } else { Err(CliError::Said(code)) };
        }
        if self.statuses.is_empty() && code == Some(0) {
            // On other hosts, or with a program that is no rank of this one.
            return Ok(());
        }
        Err(CliError::RanksEnded(self.text(ranks)))
    }

    fn text(&self, ranks: u32) -> String {
        if self.statuses.is_empty() {
            let notices = if self.notices.is_empty() { "it has said nothing" } else { &self.notices };
            return format!("no rank has begun: the launcher has ended ({}): {notices}", self.exit_text());
        }
        let (culprit, how) = self.culprit();
        let place = |status: &Status| format!("process {} on `{}`", status.process, status.host);
        let of = |rank: u32| self.statuses.iter().find(|status| status.rank == rank);
        let mut lines = Vec::new();
        match culprit.map(|rank| (rank, of(rank))) {
            Some((rank, Some(status))) => lines.push(format!(
                "rank {rank} ({}) {}; at that time it {}",
                place(status),
                how,
                status.doing
            )),
            Some((rank, None)) => lines.push(format!("rank {rank} {how}")),
            None => lines.push(format!("a rank {how}, and the launcher does not say which one")),
        }
        let others =
            || self.statuses.iter().filter(|status| Some(status.rank) != culprit && !is_done(&status.doing));
        lines.extend(others().take(SHOWN).map(|status| format!("  rank {} {}", status.rank, status.doing)));
        if others().count() > SHOWN {
            lines.push(format!("  and {} more", others().count() - SHOWN));
        }
        let begun = self.statuses.len();
        if begun < ranks as usize {
            lines.push(format!("{begun} of {ranks} ranks have begun on hosts that can be seen from here"));
        }
        lines.push("all ranks have ended; nothing was written".to_owned());
        lines.join("\n")
    }

    /// The first rank to end badly, and how, in words that follow its name. Those that say themselves what became of their run were there
    /// after that. Whom Open MPI names is the first that it has seen; MPICH names whichever process it has collected first, so who was
    /// seen to end first counts. When ranks have given up, that was for lack of one that was stopped, or else of whom they waited for
    /// most: a launcher ends all when the first one gives up, and some before they can say that they have.
    fn culprit(&self) -> (Option<u32>, String) {
        let of = |rank: u32| self.statuses.iter().find(|status| status.rank == rank);
        let is_suspect = |rank: u32| of(rank).is_none_or(|status| !is_witness(&status.doing));
        let rank_of = |process: u32| self.statuses.iter().find(|status| status.process == process);
        let named = named(&self.notices);
        let named_rank = named.as_ref().and_then(|named| {
            named.rank.or_else(|| Some(rank_of(named.process?)?.rank)).filter(|rank| is_suspect(*rank))
        });
        let is_sure = named_rank.is_some() && named.as_ref().is_some_and(|named| named.rank.is_some());
        let suspects = || self.statuses.iter().map(|status| status.rank).filter(|rank| is_suspect(*rank));
        let gave_up = self.statuses.iter().any(|status| has_failed(&status.doing));
        let stopped = self.seen.stopped.first().filter(|_| suspects().count() < self.statuses.len()).copied();
        let awaited = || suspects().rev().max_by_key(|rank| self.awaited(*rank));
        let ended = || self.seen.ended.iter().copied().find(|rank| is_suspect(*rank));
        let rank = named_rank
            .filter(|_| is_sure)
            .or(stopped)
            .or_else(|| if gave_up { awaited() } else { ended() })
            .or(named_rank)
            .or_else(|| suspects().next());
        let how = match named {
            // Others have ended the job, for lack of this one; how the launcher ended it then says nothing.
            _ if !is_sure && rank.is_some() && rank == stopped => {
                "was stopped when others gave up".to_owned()
            }
            Some(named) if rank.is_some() && rank == named_rank => named.how,
            _ if gave_up => "was silent when others gave up".to_owned(),
            Some(_) if rank.is_some() => "was the first to end".to_owned(),
            Some(named) => named.how,
            None => format!("has ended ({})", self.exit_text()),
        };
        (rank, how)
    }

    /// How many other ranks said at last that they waited for a rank, or had given up for lack of it.
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

/// Whom a launcher's notices name: Open MPI a rank and its process, MPICH a process.
fn named(notices: &str) -> Option<Named> {
    let after = |begin: &str| notices.split_once(begin).map(|(_, rest)| rest);
    let killed = |signal: u32| format!("was killed by signal {signal}");
    if let Some(rest) = after("noticed that process rank ") {
        let process = after("with PID ").and_then(leading_number);
        let how = match after("exited on signal ").and_then(leading_number) {
            Some(signal) => killed(signal),
            None => "has ended without a word".to_owned(),
        };
        return Some(Named { rank: leading_number(rest), process, how });
    }
    if let Some(rest) = after("Process name: [") {
        // Behind the last comma, with any leading_number of brackets around it.
        let name = rest.split_whitespace().next().unwrap_or_default().trim_end_matches(']');
        let rank = name.rsplit(',').next().and_then(leading_number);
        let how = match after("Exit code:").and_then(|text| leading_number(text.trim_start())) {
            Some(code) => format!("has ended with exit code {code}"),
            None => "has ended without a word".to_owned(),
        };
        return Some(Named { rank, process: None, how });
    }
    if let Some(rest) = after("PID ") {
        let signal = after("(signal ").and_then(leading_number);
        let code = after("EXIT CODE: ").and_then(leading_number);
        let how = match (signal, code) {
            (Some(signal), _) => killed(signal),
            (None, Some(code)) => format!("has ended with exit code {code}"),
            (None, None) => "has ended badly".to_owned(),
        };
        return Some(Named { rank: None, process: leading_number(rest), how });
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn obituary(doing: &[&str], seen: Seen) -> Obituary {
        let statuses = (0..).zip(doing).map(|(rank, doing)| {
            let (host, doing) = ("here".to_owned(), (*doing).to_owned());
            Status { rank, process: 100 + rank, host, doing }
        });
        let statuses = statuses.collect();
        Obituary { statuses, seen, exit: None, notices: String::new(), was_stopped: false }
    }

    /// A launcher that ends a stopped process lets it go on first: it may hear then that others gave up, and say so.
    #[test]
    fn whoever_stood_still_is_no_witness() {
        let gave_up = "has failed in `a`: rank 1 made no progress";
        let doing = ["stood still for 2.1 s, and failed in `a`: rank 1 made no progress", gave_up, gave_up];
        let seen = Seen { ended: vec![1, 0, 2], stopped: Vec::new() };
        let how = "was silent when others gave up".to_owned();
        assert_eq!(obituary(&doing, seen).culprit(), (Some(0), how));
    }

    /// A launcher ends all when the first rank gives up: some have not said anything then.
    #[test]
    fn whoever_was_killed_before_it_gave_up_is_not_blamed() {
        let doing = [
            "is in op `%9`, iteration 50",
            "has failed in `a`: rank 1 made no progress for 2.0 s: waits to receive from rank 0",
            "waits to receive from rank 1, rank 0",
        ];
        let ended = || vec![1, 2, 0];
        let silent = obituary(&doing, Seen { ended: ended(), stopped: Vec::new() });
        assert_eq!(silent.culprit(), (Some(0), "was silent when others gave up".to_owned()));
        let stopped = obituary(&doing, Seen { ended: ended(), stopped: vec![0] });
        assert_eq!(stopped.culprit(), (Some(0), "was stopped when others gave up".to_owned()));
        // Nobody gave up, or said anything: whoever ended first is to blame, whatever was stopped.
        let doing = [doing[0], doing[2], doing[2]];
        let first = obituary(&doing, Seen { ended: ended(), stopped: vec![0] });
        assert_eq!(first.culprit().0, Some(1));
    }

    /// A launcher ends all when one was killed: whoever hears that tells the others, which were well, too.
    #[test]
    fn whoever_was_told_to_end_is_a_witness() {
        let told = "was told to end in `a`: rank 1 was cancelled: it waits to receive from rank 0";
        let doing = ["is in op `%9`, iteration 55", told, "is in op `%9`, iteration 55"];
        let seen = Seen { ended: vec![2, 0, 1], stopped: Vec::new() };
        assert_eq!(obituary(&doing, seen).culprit().0, Some(2));
    }

    #[test]
    fn launchers_name_who_ended_first() {
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
