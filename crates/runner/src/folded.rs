//! Variants in which some ranks stand for all, because ranks of a large job are alike and stay so.

use std::fmt;

use zipwire_cluster::{NetworkModel, Topology, TransferStart};
use zipwire_scenarios::{CodecChoice, Experiment, Variant};
use zipwire_schedule::{Choice, Job, Plan, PlanSize, Symmetry, folding, plan_folded};

use crate::choices::choices;
use crate::execute::plan;
use crate::memory;

/// Ranks up to which a job is planned and simulated whole, and its timeline has all of them, if that takes no more than [`WHOLE_BYTES`]. Jobs with random
/// lateness are simulated whole up to that size, however many ranks they have: for larger ones it is estimated.
pub(crate) const WHOLE_RANKS: u32 = 64;

/// Bytes of a plan and its timeline: seconds to plan, check and simulate.
pub(crate) const WHOLE_BYTES: u64 = 700_000_000;

/// A variant that is planned and simulated with the programs of those ranks only that stand for others.
#[derive(Debug)]
pub(crate) struct Folded {
    /// The job that is planned.
    pub(crate) job: Job,
    choices: Vec<Choice>,
    pub(crate) symmetry: Symmetry,
    /// Whether ranks that are alike but for how long they compute are simulated as if they computed for the mean.
    pub(crate) is_on_time: bool,
}

impl Folded {
    /// The symmetry under which ranks of a variant are alike and stay so, unless all of them are soon simulated; `goes_on` is asked now and then.
    ///
    /// # Errors
    /// Why no rank stands for another one.
    pub(crate) fn of(
        experiment: &Experiment,
        variant: &Variant,
        mut goes_on: impl FnMut() -> bool,
    ) -> Result<Self, Whole> {
        let is_small = experiment.topology.ranks() <= WHOLE_RANKS;
        if is_small && is_quick(experiment, variant, experiment.iterations, &mut goes_on) {
            return Err(Whole::Quick);
        }
        let folded = Self::whatever_the_size(experiment, variant, &mut goes_on)?;
        // Variants are compared, so lateness is estimated of all or of none, however many iterations there are.
        let mut others = experiment.variants.iter().filter(|variant| !variant.is_adaptive());
        if folded.is_on_time && others.all(|other| is_quick(experiment, other, 1, &mut goes_on)) {
            return Err(if goes_on() { Whole::Quick } else { Whole::Stopped });
        }
        Ok(folded)
    }

    /// The same, however few ranks there are.
    ///
    /// # Errors
    /// Why no rank stands for another one.
    pub(crate) fn whatever_the_size(
        experiment: &Experiment,
        variant: &Variant,
        mut goes_on: impl FnMut() -> bool,
    ) -> Result<Self, Whole> {
        let iterations = experiment.as_iterations().ok_or(Whole::Serving)?;
        let is_stated = |choice: &CodecChoice| choice.ratio.is_some();
        let whole = [
            (variant.is_adaptive(), Whole::Adaptive),
            (variant.is_coded() && !experiment.codec_of(variant).is_none_or(is_stated), Whole::Measured),
            (!experiment.faults().is_empty(), Whole::Faults),
            (!experiment.drifts().is_empty(), Whole::Drift),
            (experiment.start != TransferStart::Rendezvous, Whole::Start),
            // Flows there have whole links, whatever else crosses these.
            (experiment.model == NetworkModel::AlphaBeta, Whole::Model),
            (iterations.cycle.is_some(), Whole::Cycle),
        ];
        if let Some((_, reason)) = whole.into_iter().find(|(applies, _)| *applies) {
            return Err(reason);
        }
        let all = experiment.topology.symmetries(&iterations.layout);
        if all.is_empty() {
            return Err(Whole::Cluster);
        }
        let are_alike = |symmetry: &&Symmetry| iterations.durations.are_alike(symmetry);
        let alike: Vec<Symmetry> = all.iter().filter(are_alike).copied().collect();
        let is_on_time = alike.is_empty();
        if is_on_time && iterations.job.name == "collective" {
            return Err(Whole::Starts);
        }
        let symmetries = if is_on_time { &all } else { &alike };
        let choices = choices(experiment, variant);
        let chosen: Vec<&Choice> = choices.iter().collect();
        let job = iterations.job.evened().ok_or(Whole::Shares)?;
        match folding(&job, &chosen, symmetries, &mut goes_on) {
            Some(symmetry) => Ok(Self { symmetry, job, choices, is_on_time }),
            None => Err(if goes_on() { Whole::Shares } else { Whole::Stopped }),
        }
    }

    /// Sizes of the plan: before and after transfers that are alike are merged.
    pub(crate) fn sizes(&self, topology: &Topology) -> [PlanSize; 2] {
        PlanSize::count_folded(&self.job, &self.choices(), self.symmetry, topology)
    }

    /// The plan; `None` if `goes_on`, which is asked now and then, says no.
    pub(crate) fn plan(&self, topology: &Topology, goes_on: impl FnMut() -> bool) -> Option<Plan> {
        plan_folded(&self.job, &self.choices(), self.symmetry, Some(topology), goes_on)
    }

    fn choices(&self) -> Vec<&Choice> {
        self.choices.iter().collect()
    }
}

/// Whether all ranks are soon planned and simulated.
fn is_quick(
    experiment: &Experiment,
    variant: &Variant,
    iterations: u32,
    mut goes_on: impl FnMut() -> bool,
) -> bool {
    let is_quick = |size: &PlanSize| size.bytes() + memory::span_bytes(size, iterations) <= WHOLE_BYTES;
    is_quick(&count(experiment, variant, |size| is_quick(size) && goes_on()))
}

/// Size of the plan of a variant with all ranks, which is not made; `goes_on` is asked with the size so far, and after a no, the size is that so far.
pub(crate) fn count(
    experiment: &Experiment,
    variant: &Variant,
    goes_on: impl FnMut(&PlanSize) -> bool,
) -> PlanSize {
    let Some(iterations) = experiment.as_iterations() else {
        return PlanSize::of(&plan(experiment, variant));
    };
    let choices = choices(experiment, variant);
    PlanSize::count(&iterations.job, &choices.iter().collect::<Vec<_>>(), goes_on)
}

/// Why each rank of a variant is planned and simulated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Whole {
    Asked,
    Stopped,
    Serving,
    Quick,
    Adaptive,
    Measured,
    Faults,
    Drift,
    Start,
    Model,
    Cycle,
    Cluster,
    Starts,
    Shares,
}

impl fmt::Display for Whole {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Asked => "`--unfolded` or an executor beside `sim` asks for that",
            Self::Stopped => "the search for others was stopped",
            Self::Serving => "requests are served one by one",
            Self::Quick => "that is quick",
            Self::Adaptive => "the variant chooses anew as it runs",
            Self::Measured => "frames are as long as the codec makes them of each rank's payload (a stated `codec.ratio` makes them alike)",
            Self::Faults => "faults hit some of them",
            Self::Drift => "`drift` changes what it says in the course of the run",
            Self::Start => "`cluster.start` is `barrier`",
            Self::Model => "`cluster.model` is `alpha-beta`",
            Self::Cycle => "iterations differ",
            Self::Cluster => "the cluster has one node, is a graph, has links of other bandwidths than the rest, or relays over `pxn`, or no dimension of the job fits its nodes, leaves or domains",
            Self::Starts => "they begin at times of their own (`start`)",
            Self::Shares => "they send and get amounts of their own, or by an algorithm or an order in which they differ",
        })
    }
}
