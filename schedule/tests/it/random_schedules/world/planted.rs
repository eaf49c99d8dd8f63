//! Defects that are planted in machines and devices.

use zipwire_schedule::Lane;
use zipwire_schedule::plan::{OpKind, Program};

use super::World;

/// The same program with windows that admit one transfer more, in both directions.
pub(super) fn with_wider_windows(program: &Program) -> Program {
    let mut program = program.clone();
    for op in &mut program.ops {
        if let OpKind::Exchange(exchange) = &mut op.kind {
            exchange.window.sends += 1;
            exchange.window.receives += 1;
        }
    }
    program
}

impl World<'_> {
    /// Brings what has been issued on a lane of rank 0, and has not begun, into the opposite order.
    pub(super) fn reverse(&mut self, lane: Lane) {
        let state = &mut self.ranks[0];
        let running = &state.running;
        let queue = state.lanes[lane as usize].make_contiguous();
        let first = queue.iter().position(|op| !running.contains(op)).unwrap_or(queue.len());
        queue[first..].sort_by(|a, b| b.cmp(a));
    }
}
