//! Random schedules of random plans: whatever takes how long and whatever news comes twice, every op reads what it should, nothing is
//! overwritten that is in use, no window is exceeded, all ranks end, and who is blamed for a loss is to blame.
//!
//! `ZIPWIRE_SCHEDULES` is the number of schedules (a short run by default), or `ZIPWIRE_SECONDS` how long to play, and `ZIPWIRE_SEED` the
//! first seed. A schedule that fails prints the command that plays its plan again.

mod case;
mod memory;
mod planted;
mod world;

use std::collections::BTreeMap;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};

use case::Case;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use world::{Conditions, Defect, Fault, Outcome, Silence, play};
use zipwire_schedule::plan::Plan;
use zipwire_schedule::{Capabilities, Deadlines, Protocol, Readiness, Slack, TransferOrder};

/// Schedules of each plan: planning takes as long as some of them.
const OF_A_PLAN: u64 = if cfg!(miri) { 4 } else { 8 };
/// Schedules of a short run; Miri takes seconds for one.
const SHORT: u64 = if cfg!(miri) { 16 } else { 4_000 };

const ORDERED: Capabilities =
    Capabilities { readiness: Readiness::Completed, transfer_order: TransferOrder::Machine, timed: true };
const BY_LIBRARY: Capabilities = Capabilities { transfer_order: TransferOrder::Library, ..ORDERED };
const ON_DEVICES: Capabilities = Capabilities { readiness: Readiness::Issued, ..BY_LIBRARY };

/// A schedule without faults, repeated news or defects.
const HEALTHY: Conditions<'static> = Conditions {
    capabilities: ORDERED,
    timing: 0,
    fault: Fault::None,
    repeats: false,
    defect: Defect::None,
    deadlines: None,
};

/// All schedules of the plan of a seed, in a world with a defect.
fn of_plan(seed: u64, defect: Defect, counts: &mut Counts) -> Result<(), String> {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let Case { job, plan, protocols, fits_libraries, fits_devices } = Case::draw(&mut random);
    plan.validate_for(&job).map_err(|error| format!("{error}: {}", plan.text(None)))?;
    let mut kinds = vec![ORDERED];
    kinds.extend(fits_libraries.then_some(BY_LIBRARY));
    kinds.extend(fits_devices.then_some(ON_DEVICES));
    let mut expected = None;
    let mut healthy: Option<Outcome> = None;
    for number in 0..OF_A_PLAN {
        // The last one is what fewest plans fit.
        let kind = if random.random() { kinds.len() - 1 } else { random.random_range(0..kinds.len()) };
        let capabilities = kinds[kind];
        let timing = random.random();
        let fault = healthy.as_ref().map_or(Fault::None, |known| draw_fault(&mut random, &plan, known));
        // Later than anything takes.
        let slack = Slack { factor: 1.0, floor_s: 1.0 };
        let expected_s =
            healthy.iter().flat_map(|known| &known.ends_s).map(|&(rank, op, end_s)| (0, rank, op, end_s));
        let deadlines = Deadlines::new(&plan, 1, slack, expected_s);
        let deadlines = (fault != Fault::None).then_some(&deadlines);
        let repeats = random.random();
        let conditions = Conditions { capabilities, timing, fault, repeats, defect, deadlines };
        let complain = |error: &str| {
            let repeated = if repeats { ", some news twice" } else { "" };
            format!("schedule {number} ({capabilities:?}, {fault:?}{repeated}): {error}\n{}", plan.text(None))
        };
        let outcome = play(&plan, conditions).map_err(|error| complain(&error))?;
        counts.add(capabilities, &protocols, fault, &outcome);
        match &outcome.failure {
            None => {
                if *expected.get_or_insert(outcome.digest) != outcome.digest {
                    return Err(complain("other results"));
                }
                if fault == Fault::None {
                    healthy.get_or_insert(outcome);
                }
            }
            Some((failure, culprits)) => {
                if !culprits.is_empty() && !culprits.contains(&failure.root_cause.rank) {
                    return Err(complain(&format!("{failure}\nto blame is one of {culprits:?}")));
                }
            }
        }
    }
    Ok(())
}

/// Draws the fault of a schedule of a plan of which a healthy one is known: none, in two of five.
fn draw_fault(random: &mut ChaCha8Rng, plan: &Plan, known: &Outcome) -> Fault {
    let kind = random.random_range(0..5);
    let (rank, at) = (random.random_range(0..plan.programs.len()), random.random_range(0..=known.now));
    match kind {
        0 if known.begun > 0 => Fault::Loses(random.random_range(0..known.begun)),
        1 => Fault::Kills(rank, at),
        2 => {
            let silence = match random.random_range(0..3) {
                0 => Silence::ForEver,
                1 => Silence::UntilDue,
                _ => Silence::Until(at + random.random_range(1..=1 + known.now)),
            };
            Fault::Silences(rank, at, silence)
        }
        _ => Fault::None,
    }
}

#[allow(
    clippy::disallowed_methods,
    reason = "how much to play is up to whoever runs the test, and changes no result"
)]
fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().expect("a number"))
}

/// Whether there is time to go on; seconds since this was made.
#[allow(clippy::disallowed_types, clippy::disallowed_methods, reason = "how long to play changes no result")]
fn clock() -> impl Fn() -> u64 {
    let begin = std::time::Instant::now();
    move || begin.elapsed().as_secs()
}

#[test]
fn all_schedules_of_all_plans_are_alike() {
    let (first, count, seconds) =
        (number("ZIPWIRE_SEED").unwrap_or(0), number("ZIPWIRE_SCHEDULES"), number("ZIPWIRE_SECONDS"));
    let count = count.unwrap_or(if seconds.is_some() { u64::MAX } else { SHORT });
    let passed = clock();
    let mut counts = Counts::default();
    let mut seed = first;
    while counts.schedules < count && seconds.is_none_or(|seconds| passed() < seconds) {
        let played = catch_unwind(AssertUnwindSafe(|| of_plan(seed, Defect::None, &mut counts)));
        let error = match played {
            Ok(Ok(())) => {
                seed += 1;
                continue;
            }
            Ok(Err(error)) => error,
            Err(_) => "it panics, as said above".to_owned(),
        };
        panic!(
            "again with `ZIPWIRE_SEED={seed} ZIPWIRE_SCHEDULES=1 cargo test -p zipwire-schedule --test \
             random_schedules all_schedules`: {error}"
        );
    }
    println!("seeds {first} to {}, one plan each: {counts}", seed - 1);
    if count >= 4_000 && seconds.is_none() {
        counts.check();
    }
}

/// Plans whose schedules once failed: blame of a rank that joined exchanges behind a silent one on a device, of ranks in a circle with one
/// that had not heard of the end of what it had sent, of such a rank whose peer had finished, and of a rank that is to join an exchange that
/// waits for a dead one. And two plans that stood still: a gateway without anything to hand on in the first part joined the call before; and under `any-ready` a
/// receive of a later part took the room of one of an earlier part. What a
/// seed draws changes with `case`.
#[test]
#[cfg_attr(miri, ignore = "a single case is as good as another one under Miri")]
fn schedules_that_once_failed() {
    for seed in [1_000_442, 1_001_302, 1_020_980, 1_041_102, 1_795_402_627_011_722, 1_795_406_778_594_462] {
        of_plan(seed, Defect::None, &mut Counts::default()).unwrap();
    }
}

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
