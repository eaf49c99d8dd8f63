//! Plans in which some ranks stand for all, because ranks of a large job are alike and stay so.

use zipwire_cluster::{NetworkModel, TransferStart};
use zipwire_scenarios::{CodecChoice, Experiment, Variant};
use zipwire_schedule::{Job, Plan, PlanSize, Symmetry, plan_folded};

use crate::choices::choices;

/// Ranks up to which a job is planned and simulated whole, and its timeline has all of them.
const WHOLE_RANKS: u32 = 64;

/// The plan of a variant with the programs of those ranks only that stand for others.
#[derive(Debug)]
pub(crate) struct Folded {
    pub(crate) plan: Plan,
    /// The job that it is the plan of.
    pub(crate) job: Job,
}

impl Folded {
    /// `None` if ranks are not alike, or few, or it is not known that they stay so: then all of them are planned. `goes_on` is asked after each
    /// program; after a no there is no plan.
    pub(crate) fn of(
        experiment: &Experiment,
        variant: &Variant,
        goes_on: impl FnMut(&PlanSize) -> bool,
    ) -> Option<Self> {
        let iterations = experiment.as_iterations().filter(|_| !variant.is_adaptive())?;
        let is_stated = |choice: &CodecChoice| choice.ratio.is_some();
        let is_steady = iterations.job.rank_count > WHOLE_RANKS
            && experiment.codec_of(variant).is_none_or(is_stated)
            && experiment.faults().is_empty()
            && experiment.drifts().is_empty()
            && experiment.start == TransferStart::Rendezvous
            // Flows there have whole links, whatever else crosses these.
            && experiment.model != NetworkModel::AlphaBeta
            && iterations.cycle.is_none();
        let symmetries = is_steady.then(|| experiment.topology.symmetries(&iterations.layout))?;
        let are_alike = |symmetry: &Symmetry| iterations.durations.are_alike(symmetry);
        let symmetries: Vec<Symmetry> = symmetries.into_iter().filter(are_alike).collect();
        let (job, choices) = (iterations.job.evened()?, choices(experiment, variant));
        let plan = plan_folded(
            &job,
            &choices.iter().collect::<Vec<_>>(),
            &symmetries,
            Some(&experiment.topology),
            goes_on,
        )?;
        Some(Self { plan, job })
    }
}
