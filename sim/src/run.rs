//! Runs a plan in virtual time: the machines of all ranks on one event queue.

use std::ops::Range;
use std::sync::Arc;

use zipwire_cluster::{NetworkModel, Topology, TransferStart};
use zipwire_schedule::machine::{Capabilities, Machine};
use zipwire_schedule::plan::Program;
use zipwire_schedule::{CostModel, Deadlines, Durations, Fault, FiredFaults, OpId, Plan, Rank, RunFailure};
use zipwire_timeline::{IterationTime, Timeline};

use crate::iteration::Iteration;
use crate::meter::Meter;
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
    let mut timeline =
        Timeline { rank_count: plan.rank_count(), segments: plan.segments.clone(), ..Timeline::default() };
    let mut begin_s = 0.0;
    let mut meter = Meter::new(setup.topology);
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
        let length_s = Iteration::new(setup, index, machines, spans, &mut meter).run(proceed)?;
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
