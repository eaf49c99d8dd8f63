//! Plans in which some ranks stand for all, and sizes of plans that are not made.

use std::collections::HashMap;
use std::sync::Arc;

use zipwire_cluster::{Groups, Topology};

use super::{Choice, Planner, exclusive_slots};
use crate::builder::ProgramBuilder;
use crate::merge::Ways;
use crate::plan::{MergedBytes, Plan, PlanSize, bytes_delivered, bytes_reduced};
use crate::validate::{Deliveries, check_program};
use crate::{CallKind, Job, Rank, Segment, Symmetry, Work, symmetry};

/// Ranks whose programs are counted, at the most.
const MOST_COUNTED: u32 = 1024;

/// Kind of the segment before the first.
const NONE: usize = usize::MAX;

/// The first of some symmetries under which the ranks of a job are alike: in what they contribute and get, and, as far as a few of them show, in their
/// programs, which are checked, too. `goes_on` is asked now and then; after a no there is none.
///
/// Programs are compared and checked for a job without repetitions: layers and micro-batches repeat. What ops do is alike in the whole job if it is
/// there. What they wait for is as far as that goes back no further than the segments by which repetitions are told.
///
/// # Panics
/// In the same cases as [`plan_each`](super::plan_each), and if a symmetry is one of another number of ranks.
pub fn folding(
    job: &Job,
    choices: &[&Choice],
    symmetries: &[Symmetry],
    mut goes_on: impl FnMut() -> bool,
) -> Option<Symmetry> {
    if choices.iter().any(|choice| choice.order.reorders()) {
        return None;
    }
    let short = Short::of(job, choices);
    let mut alike = symmetries.iter().copied().filter(|symmetry| short.job.is_alike(symmetry));
    alike.find(|symmetry| short.has_alike_programs(symmetry, &mut goes_on))
}

/// [`plan_each`](super::plan_each) with programs of the ranks that stand for others under a symmetry, which is one of [`folding`]. With a topology, one
/// transfer stands for those that are like it: for simulations. `None` if `goes_on`, which is asked after each program, says no.
///
/// # Panics
/// In the same cases as [`plan_each`](super::plan_each), and if the symmetry is one of another number of ranks.
pub fn plan_folded(
    job: &Job,
    choices: &[&Choice],
    symmetry: Symmetry,
    topology: Option<&Topology>,
    mut goes_on: impl FnMut() -> bool,
) -> Option<Plan> {
    let planner = Planner::new(job, choices);
    let ways = topology.map(|topology| Ways::new(topology, symmetry));
    let (mut merged, mut programs) = (MergedBytes::default(), Vec::new());
    for member in symmetry.each_member() {
        let program = planner.program_with(member, |ops, maxima| {
            merged.delivered += bytes_delivered(ops, member);
            merged.reduced += bytes_reduced(ops);
            ways.iter().for_each(|ways| ways.merge(member, ops, maxima));
        });
        if !goes_on() {
            return None;
        }
        programs.push(Arc::new(program));
    }
    let plan = planner.plan(symmetry, programs);
    Some(Plan { merged: ways.map(|_| merged), ..plan })
}

impl PlanSize {
    /// Size of the plan of a job ([`plan_each`](super::plan_each)), which is not made: the planners run, rank by rank, for segments that differ, and nothing
    /// that they push is kept. Of more than 1024 ranks, one of so many that stand side by side is counted, each time in another place, and stands for all of them; explicit flows, which differ from rank to rank, are all counted.
    /// `goes_on` is asked after each rank; after a no, the count so far is returned.
    ///
    /// # Panics
    /// In the same cases as [`plan_each`](super::plan_each).
    pub fn count(job: &Job, choices: &[&Choice], mut goes_on: impl FnMut(&Self) -> bool) -> Self {
        let short = Short::of(job, choices);
        let (planner, mut size) = (short.planner(), Self::default());
        let has_flows = job.segments.iter().any(|segment| matches!(segment.work, Work::Transfers { .. }));
        let step = if has_flows { 1 } else { job.rank_count.div_ceil(MOST_COUNTED) };
        let times: Arc<[u64]> = short.times.iter().map(|times| times * u64::from(step)).collect();
        for block in 0..job.rank_count.div_ceil(step) {
            let rank = Rank((block * step + block % step).min(job.rank_count - 1));
            let mut builder = ProgramBuilder::counting(rank, size, Arc::clone(&times));
            planner.build_program(&mut builder, |_, _| {});
            size = builder.counted();
            if !goes_on(&size) {
                break;
            }
        }
        size
    }

    /// Sizes of [`plan_folded`], which is not made: without a topology, and with this one.
    ///
    /// # Panics
    /// In the same cases as [`plan_folded`].
    pub fn count_folded(
        job: &Job,
        choices: &[&Choice],
        symmetry: Symmetry,
        topology: &Topology,
    ) -> [Self; 2] {
        let short = Short::of(job, choices);
        let (planner, ways) = (short.planner(), Ways::new(topology, symmetry));
        let mut sizes = [Self::default(); 2];
        for member in symmetry.each_member() {
            planner.program_with(member, |ops, maxima| {
                let times = ops.first().map_or(0, |op| short.times[op.segment.index()]);
                ops.iter().for_each(|op| sizes[0].add(&op.kind, times));
                ways.merge(member, ops, maxima);
                ops.iter().for_each(|op| sizes[1].add(&op.kind, times));
            });
        }
        sizes
    }
}

/// A job without repetitions: a segment is left out if an earlier one is like it in all but its name and its buffers, and so are those that stand before
/// both, which share ranks, memory or a channel with them.
struct Short<'a> {
    job: Job,
    choices: Vec<&'a Choice>,
    /// Segments that each stands for, itself among them.
    times: Vec<u64>,
    /// Slots of the whole job: see [`exclusive_slots`].
    exclusive: Vec<bool>,
}

/// Kinds of the segments before one, latest first: of any, of those of the same groups of ranks, and of calls of the same channel, whose frames take turns in two
/// buffers or as many as there are arenas.
type Before = ([usize; 1], [usize; 2], [usize; 3]);

impl<'a> Short<'a> {
    fn of(job: &Job, choices: &[&'a Choice]) -> Self {
        let empty = Job { segments: Vec::new(), slots: job.slots.clone(), ..*job };
        let exclusive = exclusive_slots(job);
        let mut short = Self { job: empty, choices: Vec::new(), times: Vec::new(), exclusive };
        // Few are distinct.
        let mut kinds: Vec<(&Segment, &Choice)> = Vec::new();
        let mut places: HashMap<(usize, Before), usize> = HashMap::new();
        let mut last = [NONE; 1];
        let mut of_groups: HashMap<Option<Groups>, [usize; 2]> = HashMap::new();
        let mut of_channels: HashMap<bool, [usize; 3]> = HashMap::new();
        for (segment, &choice) in job.segments.iter().zip(choices) {
            let is_like = |known: &(&Segment, &Choice)| are_like(known.0, segment) && known.1 == choice;
            let kind = kinds.iter().position(is_like).unwrap_or_else(|| {
                kinds.push((segment, choice));
                kinds.len() - 1
            });
            let of_group = of_groups.entry(segment.among).or_insert([NONE; 2]);
            let of_channel = of_channels.entry(segment.channel.is_background()).or_insert([NONE; 3]);
            let place = *places.entry((kind, (last, *of_group, *of_channel))).or_insert(short.times.len());
            match short.times.get_mut(place) {
                Some(times) => *times += 1,
                None => {
                    short.job.segments.push(segment.clone());
                    short.choices.push(choice);
                    short.times.push(1);
                }
            }
            last = [kind];
            *of_group = [kind, of_group[0]];
            if segment.work.communicates() {
                *of_channel = [kind, of_channel[0], of_channel[1]];
            }
        }
        short
    }

    fn planner(&self) -> Planner<'_> {
        Planner { exclusive: self.exclusive.clone(), ..Planner::new(&self.job, &self.choices) }
    }

    /// Whether programs of some ranks are those of the ranks that stand for them, and these have nothing wrong with them: what that would be is told by the
    /// whole plan.
    fn has_alike_programs(&self, symmetry: &Symmetry, mut goes_on: impl FnMut() -> bool) -> bool {
        let planner = self.planner();
        let (samples, deliveries) = (symmetry.samples(), Deliveries::new(&self.job));
        symmetry.each_member().enumerate().all(|(place, member)| {
            let program = planner.program(member);
            let mut images = samples.iter().filter(|rank| symmetry.member(**rank) == member);
            goes_on()
                && images.all(|&rank| symmetry::is_image(&planner.program(rank), &program, symmetry))
                && check_program(place, &program, symmetry, Some(&deliveries)).is_ok()
        })
    }
}

/// Whether segments differ in their names and buffers alone.
fn are_like(one: &Segment, other: &Segment) -> bool {
    one.channel == other.channel
        && one.among == other.among
        && match (&one.work, &other.work) {
            (
                Work::Compute { phase, reads, writes },
                Work::Compute { phase: other_phase, reads: other_reads, writes: other_writes },
            ) => {
                phase == other_phase && (reads.len(), writes.len()) == (other_reads.len(), other_writes.len())
            }
            (Work::Call { dtype, kind, .. }, Work::Call { dtype: other_dtype, kind: other_kind, .. }) => {
                dtype == other_dtype && are_calls_like(kind, other_kind)
            }
            // Flows are listed one by one.
            _ => false,
        }
}

fn are_calls_like(one: &CallKind, other: &CallKind) -> bool {
    match (one, other) {
        (CallKind::AllToAll { bytes, tokens: None }, CallKind::AllToAll { bytes: other, tokens: None })
            if (bytes.as_ptr(), bytes.strides()) == (other.as_ptr(), other.strides()) =>
        {
            bytes.dim() == other.dim()
        }
        _ => one == other,
    }
}
