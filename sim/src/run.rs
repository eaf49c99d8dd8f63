//! Runs a plan in virtual time: the machines of all ranks on one event queue.

use std::ops::Range;
use std::sync::Arc;

use zipwire_cluster::{FoldedLinks, NetworkModel, Topology, TransferStart};
use zipwire_schedule::machine::{Capabilities, Machine};
use zipwire_schedule::plan::Program;
use zipwire_schedule::{CostModel, Deadlines, Durations, Fault, FiredFaults, OpId, Plan, Rank, RunFailure};
use zipwire_timeline::{IterationTime, Link, LinkUsage, Timeline};

use crate::iteration::Iteration;
use crate::network::Network;
use crate::sizes::FrameSizes;

/// All that a simulation depends on.
#[derive(Debug)]
pub struct SimSetup<'a> {
    /// The plan, validated.
    pub plan: &'a Plan,
    /// Links and routes; its rank count is the plan's.
    pub topology: &'a Topology,
    /// How rates follow from routes.
    pub model: NetworkModel,
    /// Whom a transfer waits for.
    pub start: TransferStart,
    /// Durations of ops by themselves.
    pub costs: CostModel,
    /// Lengths of frames.
    pub sizes: FrameSizes<'a>,
    /// Seconds of compute segments.
    pub durations: &'a Durations,
    /// Iterations, one after the other, with a barrier before each. Durations and faults are those of their numbers.
    pub iterations: Range<u32>,
    /// The executor to imitate.
    pub capabilities: Capabilities,
    /// Faults to suffer.
    pub faults: &'a [Fault],
    /// Record of the faults that had an effect; `None` if nobody asks.
    pub fired: Option<&'a FiredFaults>,
    /// Deadlines of ops; without them ranks wait for ever.
    pub deadlines: Option<&'a Deadlines>,
}

/// Why a simulation has no result.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
#[allow(missing_docs, reason = "fields are named by the messages")]
pub enum SimError {
    /// Ranks wait and nothing is under way that could wake them.
    #[error("a standstill: ranks wait for one another for ever: {}", waiting_text(.waiting))]
    Stalled {
        /// Each waiting rank and the ops that it has in flight.
        waiting: Vec<(Rank, Vec<OpId>)>,
    },
    /// Ranks that are alike by their programs are not while a call of the library moves something beside others.
    #[error(
        "a moment in which ranks are not alike: a call of the library asks links that are alike for unlike amounts while something else moves\n\
         help: `--unfolded` simulates every rank"
    )]
    Unlike,
    /// A rank failed, and with it the run.
    #[error(transparent)]
    Failed(#[from] Box<RunFailure>),
    /// The caller asked to stop.
    #[error("the simulation was cancelled")]
    Cancelled,
}

/// Simulates a plan. `proceed` is asked now and then; `false` ends the run with [`SimError::Cancelled`].
pub fn run(setup: &SimSetup<'_>, proceed: &dyn Fn() -> bool) -> Result<Timeline, SimError> {
    let plan = setup.plan;
    let _span = tracing::info_span!("simulate", iterations = setup.iterations.len()).entered();
    assert_eq!(plan.rank_count(), setup.topology.ranks(), "the plan has as many ranks as the cluster");
    let mut timeline = Timeline::of(plan);
    let mut begin_s = 0.0;
    let links = setup.topology.folded(&plan.symmetry);
    let mut meter = Meter::new(setup.topology, &links);
    for index in setup.iterations.clone() {
        let machine = |program: &Arc<Program>| {
            let machine = Machine::new(Arc::clone(program), setup.capabilities, 0.0);
            match setup.deadlines {
                Some(deadlines) => machine.with_deadlines(deadlines.of(index, program.rank)),
                None => machine,
            }
        };
        let machines = plan.programs.iter().map(machine).collect();
        meter.begin(begin_s);
        let spans = &mut timeline.spans;
        let length_s = Iteration::new(setup, index, machines, &links, spans, &mut meter).run(proceed)?;
        timeline.iterations.push(IterationTime { begin_s, length_s });
        begin_s += length_s;
    }
    timeline.link_usage = Some(meter.end(begin_s));
    Ok(timeline)
}

fn waiting_text(waiting: &[(Rank, Vec<OpId>)]) -> String {
    let rank = |(rank, ops): &(Rank, Vec<OpId>)| {
        let ops: Vec<String> = ops.iter().map(|op| format!("`{op}`")).collect();
        format!("rank {rank} in {}", ops.join(", "))
    };
    waiting.iter().map(rank).collect::<Vec<_>>().join("; ")
}

/// The series of a run, and the state of the network that is not in it yet.
pub(crate) struct Meter {
    usage: LinkUsage,
    /// How many transfers cross each link for one that the network has.
    crossed: Vec<f64>,
    /// Scratch space.
    rates: Vec<f64>,
    /// Seconds from the start of the run to the barrier before the iteration.
    barrier_s: f64,
    /// Since when the network has been as it is, in seconds since the barrier; `None` once that is in the series.
    since_s: Option<f64>,
}

impl Meter {
    pub(crate) fn new(topology: &Topology, folded: &FoldedLinks) -> Self {
        let links = folded.links().iter().map(|folded| {
            let (name, bytes_per_s) = (topology.link_name(folded.link), folded.bytes_per_s);
            // `gpu 3 up`; in graphs `gpu 3 -> left` and `left -> gpu 3`.
            let is_of_gpu = name.split(" -> ").any(|end| end.starts_with("gpu "));
            Link { name, bytes_per_s, is_of_gpu }
        });
        let crossed = folded.links().iter().map(|folded| f64::from(folded.crossed)).collect();
        Self {
            usage: LinkUsage::new(links.collect()),
            crossed,
            rates: Vec::new(),
            barrier_s: 0.0,
            since_s: None,
        }
    }

    /// An iteration begins, with no flows.
    pub(crate) fn begin(&mut self, barrier_s: f64) {
        (self.barrier_s, self.since_s) = (barrier_s, Some(0.0));
    }

    pub(crate) fn change(&mut self, now_s: f64) {
        self.since_s = Some(now_s);
    }

    /// Time passes until `until_s`, for a network in which nothing happens meanwhile.
    pub(crate) fn pass(&mut self, until_s: f64, network: &mut Network) {
        let Some(since_s) = self.since_s else { return };
        if until_s > since_s && self.usage.wants(self.barrier_s + until_s) {
            network.usage(&mut self.rates);
            self.rates.iter_mut().zip(&self.crossed).for_each(|(rate, crossed)| *rate *= crossed);
            self.usage.add(self.barrier_s + since_s, &self.rates);
            self.since_s = None;
        }
    }

    /// The series of a run that has ended: nothing moves any more.
    pub(crate) fn end(mut self, end_s: f64) -> LinkUsage {
        self.usage.add(end_s, &vec![0.0; self.usage.links().len()]);
        self.usage
    }
}
