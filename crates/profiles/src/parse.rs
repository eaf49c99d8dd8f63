//! Profiles that were written before, checked: everything behind this can rely on their places and numbers.

use thiserror::Error;

use crate::profile::{GroupRecord, OpRecord, PROFILE_MARK, PROFILE_VERSION, Profile};

/// Most ranks of a job.
const MOST_RANKS: u32 = 1 << 16;

/// Times that no profile shows, in nanoseconds: begins, and durations of a call. A million of the latter can be added up.
const LATEST_NS: i64 = 1 << 60;
const LONGEST_NS: i64 = 10_000_000_000_000;

/// Most bytes of a call.
const MOST_BYTES: u64 = 1 << 48;

/// Reasons for which a text is no profile.
#[derive(Debug, Error)]
#[non_exhaustive]
#[allow(missing_docs, reason = "fields are named by the messages")]
pub enum ParseError {
    #[error("it is no profile")]
    Foreign,
    #[error("it is a profile of version {found}, and this is version {PROFILE_VERSION}")]
    Version { found: String },
    #[error("it is damaged: {0}")]
    Json(#[from] serde_json::Error),
    #[error("it is damaged: {what} of {place} {number} does not fit the rest")]
    Misfit { what: &'static str, place: &'static str, number: usize },
}

impl Profile {
    /// The profile that a text is.
    ///
    /// # Errors
    /// If it is none or of another version, or its rows do not fit together.
    pub fn parse(text: &str) -> Result<Self, ParseError> {
        let rest = text.strip_prefix(PROFILE_MARK).ok_or(ParseError::Foreign)?;
        let found: String = rest.chars().take_while(char::is_ascii_digit).collect();
        if found != PROFILE_VERSION.to_string() {
            return Err(ParseError::Version { found });
        }
        let profile: Self = serde_json::from_str(text)?;
        profile.check_ranks()?;
        for (number, group) in profile.groups.iter().enumerate() {
            fits(is_group(group), "the list of ranks", "group", number)?;
        }
        for (number, op) in profile.ops.iter().enumerate() {
            profile.check_op(op, number)?;
        }
        Ok(profile)
    }

    fn check_ranks(&self) -> Result<(), ParseError> {
        fits((1..=MOST_RANKS).contains(&self.world_size), "the number of ranks", "job", 0)?;
        fits(!self.ranks.is_empty(), "the list of ranks", "job", 0)?;
        let mut least = 0;
        for (number, rank) in self.ranks.iter().enumerate() {
            fits((least..self.world_size).contains(&rank.rank), "the number", "rank", number)?;
            least = rank.rank + 1;
            let is_time = (0..=LATEST_NS).contains(&rank.compute_after_ns);
            fits(is_time, "a time", "rank", number)?;
        }
        for (number, missing) in self.ranks_missing.iter().enumerate() {
            let has_twin = self.ranks.iter().any(|rank| rank.rank == missing.twin);
            let is_range = missing.from <= missing.to && missing.to < self.world_size;
            fits(has_twin && is_range, "the range or the twin", "missing ranks", number)?;
        }
        Ok(())
    }

    fn check_op(&self, op: &OpRecord, number: usize) -> Result<(), ParseError> {
        let is_own = self.ranks.get(op.source).is_some_and(|rank| rank.rank == op.rank);
        fits(is_own, "the rank", "call", number)?;
        fits(op.group < self.groups.len(), "the group", "call", number)?;
        fits(op.peer.is_none_or(|peer| peer < self.world_size), "the peer", "call", number)?;
        let bytes = [op.bytes_in, op.bytes_out].into_iter().flatten().chain(op.splits_in.iter().copied());
        fits(bytes.max().is_none_or(|most| most <= MOST_BYTES), "a size", "call", number)?;
        let times = [op.duration_ns, op.transfer_ns, op.stall_ns, op.compute_before_ns];
        let are_times = times.iter().all(|time| (0..=LONGEST_NS).contains(time));
        let is_begin = (-LATEST_NS..=LATEST_NS).contains(&op.start_ns);
        fits(are_times && is_begin, "a time", "call", number)
    }
}

/// Whether a group has some ranks, each once and in order, if it names them.
fn is_group(group: &GroupRecord) -> bool {
    let ranks = group.ranks.as_deref();
    group.size != Some(0)
        && ranks.is_none_or(|ranks| !ranks.is_empty() && ranks.windows(2).all(|pair| pair[0] < pair[1]))
}

fn fits(does: bool, what: &'static str, place: &'static str, number: usize) -> Result<(), ParseError> {
    does.then_some(()).ok_or(ParseError::Misfit { what, place, number })
}
