//! Plans in which some ranks stand for all.

use std::sync::Arc;

use zipwire_cluster::Topology;

use super::{Choice, Planner};
use crate::merge::Ways;
use crate::plan::{MergedBytes, Op, Plan, PlanSize, bytes_delivered, bytes_reduced};
use crate::validate::{Deliveries, check_program};
use crate::{CallKind, Job, Segment, Symmetry, Work, symmetry};

/// [`plan_each`](super::plan_each) with programs of the ranks that stand for others under the first of some symmetries under which ranks are alike: in what
/// they contribute and get, and, as far as a few of them show, in their programs. `None` if they are alike under none, or `goes_on`, which is asked after each
/// program with the size so far, says no. With a topology, one transfer stands for those that are like it: for simulations.
///
/// Whether programs are alike and what is wrong with them is looked up in those of a job without repetitions: segments that are like earlier ones, and
/// follow one like that which these follow, are left out.
///
/// # Panics
/// In the same cases as [`plan_each`](super::plan_each), and if a symmetry is one of another number of ranks.
pub fn plan_folded(
    job: &Job,
    choices: &[&Choice],
    symmetries: &[Symmetry],
    topology: Option<&Topology>,
    mut goes_on: impl FnMut(&PlanSize) -> bool,
) -> Option<Plan> {
    if choices.iter().any(|choice| choice.order.reorders()) {
        return None;
    }
    let (short, short_choices) = without_repetitions(job, choices);
    let alike = symmetries.iter().filter(|symmetry| short.is_alike(symmetry));
    let symmetry = alike.copied().find(|symmetry| are_alike(&short, &short_choices, symmetry))?;
    let planner = Planner::new(job, choices);
    let ways = topology.map(|topology| Ways::new(topology, symmetry));
    let (mut size, mut merged) = (PlanSize::default(), MergedBytes::default());
    let mut programs = Vec::new();
    for member in symmetry.each_member() {
        if let Some(ways) = &ways {
            ways.begin();
        }
        let program = planner.program_with(member, |ops: &mut [Op], maxima| {
            merged.delivered += bytes_delivered(ops, member);
            merged.reduced += bytes_reduced(ops);
            // A maximum is one of all sizes.
            if let Some(ways) = ways.as_ref().filter(|_| maxima.is_empty()) {
                ways.merge(member, ops);
            }
            ops.iter().for_each(|op| size.add(&op.kind));
        });
        if !goes_on(&size) {
            return None;
        }
        programs.push(Arc::new(program));
    }
    let plan = planner.plan(symmetry, programs);
    Some(Plan { merged: ways.map(|_| merged), ..plan })
}

/// Whether programs of some ranks are those of the ranks that stand for them, and these have nothing wrong with them: what that would be is told by the
/// whole plan.
fn are_alike(job: &Job, choices: &[&Choice], symmetry: &Symmetry) -> bool {
    let planner = Planner::new(job, choices);
    let (samples, deliveries) = (symmetry.samples(), Deliveries::new(job));
    symmetry.each_member().enumerate().all(|(place, member)| {
        let program = planner.program(member);
        let mut images = samples.iter().filter(|rank| symmetry.member(**rank) == member);
        images.all(|&rank| symmetry::is_image(&planner.program(rank), &program, symmetry))
            && check_program(place, &program, symmetry, Some(&deliveries)).is_ok()
    })
}

/// The job and its choices without segments that are like one that is kept, if so are those before them.
fn without_repetitions<'a>(job: &Job, choices: &[&'a Choice]) -> (Job, Vec<&'a Choice>) {
    // Few are distinct.
    let mut kinds: Vec<(&Segment, &Choice)> = Vec::new();
    let mut follows: Vec<(usize, usize)> = Vec::new();
    let mut last = usize::MAX;
    let (mut segments, mut kept) = (Vec::new(), Vec::new());
    for (segment, &choice) in job.segments.iter().zip(choices) {
        let is_like = |known: &(&Segment, &Choice)| known.1 == choice && are_like(known.0, segment);
        let kind = kinds.iter().position(is_like).unwrap_or_else(|| {
            kinds.push((segment, choice));
            kinds.len() - 1
        });
        if !follows.contains(&(last, kind)) {
            follows.push((last, kind));
            segments.push(segment.clone());
            kept.push(choice);
        }
        last = kind;
    }
    (Job { segments, slots: job.slots.clone(), ..*job }, kept)
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
            if bytes.as_ptr() == other.as_ptr() =>
        {
            bytes.dim() == other.dim()
        }
        _ => one == other,
    }
}
