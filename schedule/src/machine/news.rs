//! What executors report of ops and transfers, once or more often.
//!
//! News that comes again changes nothing, whenever it comes: transports that deliver at least once tell some of it twice. News that
//! contradicts what came first is a failure of the rank. What was never handed out cannot have ended: that is a bug of the executor.

use super::{Machine, State, TransferId};
use crate::plan::TransferKey;
use crate::{Failure, FailureKind, OpId, Readiness, SizeId};

impl Machine {
    pub(super) fn op_has_ended(&mut self, op: OpId, sizes: Vec<(SizeId, u64)>) {
        match self.states[op.index()] {
            State::Issued => {}
            State::Completed => {
                let other = sizes.into_iter().find(|&(size, value)| self.size(size) != Some(value));
                if let Some((size, value)) = other {
                    let detail = format!(
                        "it has ended twice, with {} and {value} bytes of size {size}",
                        self.known_size(size)
                    );
                    self.contradicted(op, None, FailureKind::Device, detail);
                }
                return;
            }
            State::Pending => panic!("op {op} completed without being issued"),
        }
        sizes.into_iter().for_each(|(size, value)| self.sizes.define(size, value));
        self.states[op.index()] = State::Completed;
        self.completed += 1;
        self.in_flight[self.op(op).kind.lane() as usize] -= 1;
        self.exchanges.retain(|open| open.op != op);
        if self.capabilities.readiness == Readiness::Completed {
            self.unblock(op);
        }
    }

    pub(super) fn transfer_has_ended(&mut self, id: TransferId, value: Option<u64>) {
        let brings = self.transfer(id).0.content.brings();
        let brought =
            value.map(|value| (brings.unwrap_or_else(|| panic!("transfer {id:?} carries no size")), value));
        assert_ne!(
            self.states[id.op.index()],
            State::Pending,
            "transfer {id:?} ended without being on offer"
        );
        // Of an exchange that is over, all transfers have ended.
        let open = self.exchanges.iter_mut().find(|open| open.op == id.op);
        let progress = open.map(|open| open.progress(id.direction));
        let Some(progress) = progress.filter(|progress| !progress.has_ended(id.index)) else {
            if let Some((size, value)) = brought.filter(|&(size, value)| self.size(size) != Some(value)) {
                let known = self.size(size).map_or("no".to_owned(), |known| known.to_string());
                let detail = format!("a transfer has ended twice, with {known} and {value} bytes of a size");
                self.contradicted(id.op, Some(self.key(id)), FailureKind::Transport, detail);
            }
            return;
        };
        assert!(progress.has_offered(id.index), "transfer {id:?} ended without being on offer");
        progress.open -= 1;
        progress.ended[id.index as usize] = true;
        if let Some((size, value)) = brought {
            self.sizes.define(size, value);
        }
        self.stir(id);
        if self.has_joins {
            self.release(id);
        }
    }

    /// Something was reported twice, and not alike.
    fn contradicted(&mut self, op: OpId, transfer: Option<TransferKey>, kind: FailureKind, detail: String) {
        let failure = Failure::new(self.program.rank, Some(op), kind, detail);
        self.failure.get_or_insert(Failure { transfer, ..failure });
    }
}
