//! How many schedules of which kind ended how.

use std::collections::BTreeMap;
use std::fmt;

use zipwire_schedule::{Capabilities, Protocol, Readiness, TransferOrder};

use crate::random_schedules::world::{Fault, Outcome, Silence};

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum End {
    /// All ranks got to the end of their programs.
    Complete,
    /// So they did although something was wrong.
    Survived,
    Lost,
    Dead,
    /// A rank was silent for ever.
    Silent,
    /// A rank had heard of nothing until something was due.
    Deaf,
}

impl End {
    const ALL: [Self; 6] = [Self::Complete, Self::Survived, Self::Lost, Self::Dead, Self::Silent, Self::Deaf];

    fn of(fault: Fault, outcome: &Outcome) -> Self {
        match fault {
            Fault::None => Self::Complete,
            _ if outcome.failure.is_none() => Self::Survived,
            Fault::Loses(_) => Self::Lost,
            Fault::Kills(..) => Self::Dead,
            Fault::Silences(_, _, Silence::ForEver) => Self::Silent,
            Fault::Silences(..) => Self::Deaf,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Complete => "complete",
            Self::Survived => "survived",
            Self::Lost => "lost",
            Self::Dead => "dead",
            Self::Silent => "silent",
            Self::Deaf => "deaf",
        }
    }
}

#[derive(Debug, Default)]
pub(crate) struct Counts {
    pub(crate) schedules: u64,
    transfers: u64,
    repeated: u64,
    /// Schedules in which a rank that heard of nothing was blamed itself, and not a peer that it waited for.
    exact: u64,
    /// By who orders what, and by protocol; a plan has several.
    rows: BTreeMap<(&'static str, End), u64>,
}

impl Counts {
    pub(crate) fn add(
        &mut self,
        capabilities: Capabilities,
        protocols: &[Protocol],
        fault: Fault,
        outcome: &Outcome,
    ) {
        let end = End::of(fault, outcome);
        self.schedules += 1;
        self.transfers += outcome.begun;
        self.repeated += outcome.repeated;
        if let (End::Deaf, Some((failure, culprits))) = (end, &outcome.failure) {
            self.exact += u64::from(culprits.first() == Some(&failure.root_cause.rank));
        }
        let rows = std::iter::once(by(capabilities)).chain(protocols.iter().map(|protocol| protocol.name()));
        for row in rows {
            *self.rows.entry((row, end)).or_default() += 1;
        }
    }

    fn of(&self, end: End) -> u64 {
        KINDS.iter().filter_map(|kind| self.rows.get(&(kind, end))).sum()
    }

    /// A run of some length has enough of everything to mean something.
    pub(crate) fn check(&self) {
        for end in End::ALL {
            assert!(self.of(end) * 50 > self.schedules, "{}: {self}", end.name());
        }
        assert!(self.transfers > 50 * self.schedules && self.repeated > self.schedules, "{self}");
        assert!(self.exact * 4 > self.of(End::Deaf), "{self}");
        for row in KINDS.into_iter().chain(Protocol::ALL.map(Protocol::name)) {
            for end in End::ALL {
                assert!(self.rows.contains_key(&(row, end)), "{row}, {}: {self}", end.name());
            }
        }
    }
}

const KINDS: [&str; 3] = ["threads", "library", "devices"];

fn by(capabilities: Capabilities) -> &'static str {
    match (capabilities.readiness, capabilities.transfer_order) {
        (Readiness::Completed, TransferOrder::Machine) => KINDS[0],
        (Readiness::Completed, TransferOrder::Library) => KINDS[1],
        (Readiness::Issued, _) => KINDS[2],
    }
}

impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { schedules, transfers, repeated, exact, .. } = self;
        write!(f, "{schedules} schedules, {transfers} transfers, {repeated} news twice, ")?;
        writeln!(f, "{exact} of {} deaf ranks blamed themselves", self.of(End::Deaf))?;
        write!(f, "{:16}", "")?;
        End::ALL.iter().try_for_each(|end| write!(f, "{:>11}", end.name()))?;
        for row in KINDS.into_iter().chain(Protocol::ALL.map(Protocol::name)) {
            write!(f, "\n{row:16}")?;
            for end in End::ALL {
                write!(f, "{:>11}", self.rows.get(&(row, end)).copied().unwrap_or_default())?;
            }
        }
        Ok(())
    }
}
