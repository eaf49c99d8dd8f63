//! The interface of a real executor's backend, and the loop that drives a program on it.

use zipwire_schedule::machine::{Capabilities, Input, Machine, Step, TransferId};
use zipwire_schedule::plan::TransferKey;
use zipwire_schedule::{Failure, FailureKind, OpId, SizeId};
use zipwire_timeline::Span;

/// Something to carry out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Start an op; an exchange is only opened.
    Issue(OpId),
    /// Tell a receiver that it may offer its end.
    Announce(TransferId),
    /// Offer one end of a transfer.
    Transfer(TransferId),
    /// Finish an exchange whose transfers have ended.
    Close(OpId),
}

/// The op, transfer or call that has ended, with the sizes it defined.
#[derive(Clone, Debug, PartialEq)]
pub enum Outcome {
    /// An op, and the sizes that it defined.
    Op(OpId, Vec<(SizeId, u64)>),
    /// A transfer, and the size that it brought.
    Transfer(TransferId, Option<u64>),
    /// A call of a library.
    Call(Call),
}

/// A call of a library that has ended.
#[derive(Clone, Debug, PartialEq)]
pub struct Call {
    /// The op.
    pub op: OpId,
    /// The sizes that came with what it moved.
    pub sizes: Vec<(SizeId, u64)>,
    /// When the last rank had issued it, in the backend's own time as those of [`Completion`].
    pub met_s: f64,
    /// When it had moved everything.
    pub moved_s: f64,
}

/// An event that wakes a waiting rank.
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    /// Something has ended.
    Ended(Completion),
    /// A peer is ready for a transfer: [`Input::PeerReady`]. Due where the order of the exchange follows peers.
    PeerReady(TransferKey),
}

/// Something that has ended, in the backend's own time in seconds since the start of the run.
#[derive(Clone, Debug, PartialEq)]
pub struct Completion {
    /// The thing that ended.
    pub outcome: Outcome,
    /// When it began.
    pub begin_s: f64,
    /// When it ended.
    pub end_s: f64,
}

/// Carries out the ops of one rank.
pub trait Backend {
    /// Capabilities of the executor.
    fn capabilities(&self) -> Capabilities;

    /// Seconds since the start of the run.
    fn now_s(&self) -> f64;

    /// Starts something. Does not wait for peers. An error ends the rank.
    fn submit(&mut self, machine: &Machine, action: Action) -> Result<(), Failure>;

    /// Waits for something to happen; `None` when `until_s` has come first. An error ends the rank.
    fn wait(&mut self, machine: &Machine, until_s: Option<f64>) -> Result<Option<Event>, Failure>;

    /// Tells the peers and releases what is in flight.
    fn abort(&mut self, failure: &Failure);
}

/// Runs one iteration of one rank to its end and appends its spans.
///
/// # Errors
/// The first failure of the rank; its peers have been told.
///
/// # Panics
/// If the machine was made for another kind of executor.
pub fn run_program(
    machine: &mut Machine,
    backend: &mut dyn Backend,
    iteration: u32,
    spans: &mut Vec<Span>,
) -> Result<(), Failure> {
    assert_eq!(machine.capabilities(), backend.capabilities(), "the machine fits its executor");
    loop {
        let action = match machine.poll(backend.now_s()) {
            Step::Issue(op) => Action::Issue(op),
            Step::Announce(send) => Action::Announce(send),
            Step::Transfer(transfer) => Action::Transfer(transfer),
            Step::Close(op) => Action::Close(op),
            Step::Wait { until_s } => {
                match backend.wait(machine, until_s) {
                    Ok(Some(Event::Ended(completion))) => take_in(machine, iteration, completion, spans),
                    Ok(Some(Event::PeerReady(key))) => machine.handle(Input::PeerReady { key }),
                    Ok(None) => {}
                    Err(failure) => fail(machine, failure),
                }
                continue;
            }
            Step::Done => return Ok(()),
            Step::Abort(failure) => {
                backend.abort(&failure);
                return Err(failure);
            }
        };
        if let Err(failure) = backend.submit(machine, action) {
            fail(machine, failure);
        }
    }
}

fn fail(machine: &mut Machine, failure: Failure) {
    machine.handle(Input::Failed(failure));
}

fn take_in(machine: &mut Machine, iteration: u32, completion: Completion, spans: &mut Vec<Span>) {
    let Completion { outcome, begin_s, end_s } = completion;
    let span = match outcome {
        Outcome::Call(Call { op, sizes, met_s, moved_s }) => {
            machine.handle(Input::Completed { op, sizes });
            spans.extend(Span::of_call(machine, iteration, machine.op(op), met_s, moved_s));
            Span::of_op(machine, iteration, machine.op(op), begin_s, end_s)
        }
        Outcome::Op(op, sizes) => {
            machine.handle(Input::Completed { op, sizes });
            Span::of_op(machine, iteration, machine.op(op), begin_s, end_s)
        }
        Outcome::Transfer(id, size) => {
            machine.handle(Input::Transferred { transfer: id, size });
            let (transfer, exchange) = machine.transfer(id);
            let (rank, op) = (machine.program().rank, machine.op(id.op));
            let bytes = machine.transfer_bytes(transfer);
            Span::of_transfer(rank, iteration, op, exchange, transfer, id.direction, bytes, begin_s, end_s)
        }
    };
    spans.push(span);
}

pub(crate) fn failure(
    machine: &Machine,
    op: Option<OpId>,
    kind: FailureKind,
    detail: impl Into<String>,
) -> Failure {
    Failure::new(machine.program().rank, op, kind, detail)
}
