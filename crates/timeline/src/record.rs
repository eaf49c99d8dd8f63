//! Spans of ops and transfers: one way to describe them for every executor, so that timelines compare.

use zipwire_schedule::machine::Direction;
use zipwire_schedule::plan::{Block, Exchange, Op, OpKind, Transfer};
use zipwire_schedule::{Lane, Machine, Rank};

use crate::Span;

impl Span {
    /// A finished op of `machine`'s program.
    pub fn of_op(machine: &Machine, iteration: u32, op: &Op, begin_s: f64, end_s: f64) -> Self {
        let (bytes, bytes_coded) = match &op.kind {
            OpKind::Compute(_) => (0, None),
            OpKind::Local(local) => {
                let coded = local.framed().map(|batch| {
                    let frame = |block: &Block| {
                        let dynamic = machine.size(block.size).expect("a finished codec op knows its sizes");
                        block.known_len() + dynamic
                    };
                    batch.blocks.iter().map(frame).sum()
                });
                (local.bytes(), coded)
            }
            OpKind::Library(_) => (machine.ring_bytes(op.id), None),
            OpKind::Exchange(exchange) => {
                (exchange.sends.iter().map(|transfer| machine.transfer_bytes(transfer)).sum(), None)
            }
        };
        Self {
            iteration,
            segment: op.segment,
            rank: machine.program().rank,
            lane: op.kind.lane(),
            op: op.id,
            stage: op.kind.stage(),
            peer: None,
            tag: 0,
            name: op.kind.name(),
            begin_s,
            end_s,
            bytes,
            bytes_coded,
        }
    }

    /// What this rank sends and gets in a finished call of a library, from when the last rank had issued it: as many bytes each
    /// way as a ring moves. There is no peer.
    pub fn of_call(machine: &Machine, iteration: u32, op: &Op, begin_s: f64, end_s: f64) -> [Self; 2] {
        let call = Self::of_op(machine, iteration, op, begin_s, end_s);
        [(Lane::Tx, "send"), (Lane::Rx, "receive")].map(|(lane, name)| Self { lane, name, ..call.clone() })
    }

    /// One end of a finished transfer of `bytes` bytes; `begin_s` is the start of its latency.
    #[expect(clippy::too_many_arguments, reason = "each is one fact about the span")]
    pub fn of_transfer(
        rank: Rank,
        iteration: u32,
        op: &Op,
        exchange: &Exchange,
        transfer: &Transfer,
        direction: Direction,
        bytes: u64,
        begin_s: f64,
        end_s: f64,
    ) -> Self {
        let (lane, name) = match direction {
            Direction::Send => (Lane::Tx, "send"),
            Direction::Receive => (Lane::Rx, "receive"),
        };
        Self {
            iteration,
            segment: op.segment,
            rank,
            lane,
            op: op.id,
            stage: Some(exchange.stage),
            peer: Some(transfer.peer),
            tag: transfer.number,
            name,
            begin_s,
            end_s,
            bytes,
            bytes_coded: None,
        }
    }
}
