//! When explicit flows may start, and what is wrong with one of them.

use zipwire_schedule::{Flow, Rank};

use crate::problem::{FlowProblem, Problem};

/// A problem of a flow, by the part of the flow that it concerns.
pub(super) enum FlowError {
    Pair(Problem),
    Start(Problem),
}

/// Checks what concerns more than one column, and takes note of the sender's start.
pub(super) fn check(flow: &Flow, starts: &mut Starts) -> std::result::Result<(), FlowError> {
    if flow.src == flow.dst {
        return Err(FlowError::Pair(Problem::Flow(FlowProblem::SelfFlow { rank: flow.src.0 })));
    }
    starts.note(flow).map_err(FlowError::Start)
}

/// Start time of each sender so far, in seconds, if flows wait for ranks to be ready.
pub(super) struct Starts {
    ready_s: Option<Vec<Option<f64>>>,
}

impl Starts {
    /// No starts yet; `ranks` is given if flows wait for their ranks to be ready.
    pub(super) fn new(ranks: Option<u32>) -> Self {
        Self { ready_s: ranks.map(|ranks| vec![None; ranks as usize]) }
    }

    fn note(&mut self, flow: &Flow) -> std::result::Result<(), Problem> {
        let Some(ready_s) = &mut self.ready_s else { return Ok(()) };
        let (rank, second_s) = (flow.src.0, flow.not_before_s);
        match ready_s[flow.src.index()].replace(second_s) {
            Some(first_s) if first_s != second_s => {
                Err(Problem::Flow(FlowProblem::TwoStarts { rank, first_s, second_s }))
            }
            _ => Ok(()),
        }
    }

    /// A flow starts when both ends are ready; a rank that sends nothing is ready at 0.
    pub(super) fn apply(&self, flows: &mut [Flow]) {
        let Some(ready_s) = &self.ready_s else { return };
        let ready = |rank: Rank| ready_s[rank.index()].unwrap_or(0.0);
        for flow in flows {
            flow.not_before_s = ready(flow.src).max(ready(flow.dst));
        }
    }
}
