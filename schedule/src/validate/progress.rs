//! All ranks get to their ends: no cycle among what begins and ends, and no window that lets nothing through.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use petgraph::graph::{DiGraph, NodeIndex};

use super::library::Calls;
use super::transfers::Pair;
use crate::machine::{Capabilities, Direction, Input, Machine, Readiness, Step, TransferId, TransferOrder};
use crate::plan::{CallKey, OpKind, Plan, TransferKey};
use crate::validate::{Checked, PlanError};
use crate::{Channel, OpId, Rank};

/// Steps of machines between two looks at whether the caller wants to stop.
const STEPS_PER_CHECK: u32 = 1024;

/// Every op begins after its dependencies have ended, and an exchange ends after it and the exchanges of its
/// peers have begun, a call of a library after all ranks have issued it. A cycle among these events would never end.
pub(super) fn find_cycle(
    plan: &Plan,
    transfers: &BTreeMap<TransferKey, Pair>,
    calls: &Calls,
) -> Result<(), PlanError> {
    let mut graph: DiGraph<(Rank, OpId), ()> = DiGraph::new();
    let mut begins: Vec<Vec<NodeIndex>> = Vec::new();
    let mut ends: Vec<Vec<NodeIndex>> = Vec::new();
    for program in &plan.programs {
        let mut nodes = || program.ops.iter().map(|op| graph.add_node((program.rank, op.id))).collect();
        begins.push(nodes());
        ends.push(nodes());
        let (begins, ends) = (&begins[program.rank.index()], &ends[program.rank.index()]);
        let mut last: BTreeMap<Channel, NodeIndex> = BTreeMap::new();
        for op in &program.ops {
            if let OpKind::Exchange(exchange) = &op.kind {
                let before = last.insert(exchange.channel, begins[op.id.index()]);
                if let Some(before) = before.filter(|_| exchange.joins_previous) {
                    graph.add_edge(before, begins[op.id.index()], ());
                }
            }
            graph.add_edge(begins[op.id.index()], ends[op.id.index()], ());
            for dep in &op.deps {
                graph.add_edge(ends[dep.index()], begins[op.id.index()], ());
            }
        }
    }
    for (key, Pair { send, receive }) in transfers {
        let (src, dst) = (key.src.index(), key.dst.index());
        graph.add_edge(begins[src][send.index()], ends[dst][receive.index()], ());
        graph.add_edge(begins[dst][receive.index()], ends[src][send.index()], ());
    }
    for ops in calls.values() {
        let met = graph.add_node((Rank(0), ops[0]));
        for (rank, op) in ops.iter().enumerate() {
            graph.add_edge(begins[rank][op.index()], met, ());
            graph.add_edge(met, ends[rank][op.index()], ());
        }
    }
    match petgraph::algo::toposort(&graph, None) {
        Ok(_) => Ok(()),
        Err(cycle) => {
            let (rank, op) = graph[cycle.node_id()];
            Err(PlanError::Cycle { rank, op })
        }
    }
}

/// Plays the plan with machines that are never late and transfers that take no time. What stands still here stands
/// still everywhere: a transfer that could go on is never held back, and ending one opens windows and closes none.
///
/// Under [`Order::AnyReady`](crate::Order::AnyReady) news arrives at once; the module documentation of
/// [`machine`](crate::machine) says why it may take any time.
///
/// `proceed` is asked now and then; `false` ends the play.
pub(super) fn play(plan: &Plan, proceed: &dyn Fn() -> bool) -> Result<Checked, PlanError> {
    let capabilities = Capabilities {
        readiness: Readiness::Completed,
        transfer_order: TransferOrder::Machine,
        timed: false,
    };
    let machine = |program: &Arc<_>| Machine::new(Arc::clone(program), capabilities, 0.0);
    let mut machines: Vec<Machine> = plan.programs.iter().map(machine).collect();
    let mut calls: BTreeMap<CallKey, Vec<(usize, OpId)>> = BTreeMap::new();
    let mut open: Vec<Option<OpId>> = vec![None; machines.len()];
    let mut offers: HashMap<TransferKey, TransferId> = HashMap::new();
    let mut pending: Vec<usize> = (0..machines.len()).rev().collect();
    let mut done = vec![false; machines.len()];
    let mut steps = 0_u32;
    while let Some(rank) = pending.pop() {
        loop {
            steps = steps.wrapping_add(1);
            if steps.is_multiple_of(STEPS_PER_CHECK) && !proceed() {
                return Ok(Checked::Stopped);
            }
            match machines[rank].poll(0.0) {
                Step::Issue(op) => match &machines[rank].op(op).kind {
                    OpKind::Exchange(_) => open[rank] = Some(op),
                    OpKind::Library(library) => {
                        open[rank] = Some(op);
                        let call = calls.entry(library.key(machines[rank].op(op).segment)).or_default();
                        call.push((rank, op));
                        if call.len() < machines.len() {
                            continue;
                        }
                        for (rank, op) in std::mem::take(call) {
                            open[rank] = None;
                            let sizes = machines[rank].op(op).kind.effects().defines.into_iter();
                            let sizes = sizes.map(|size| (size, 1)).collect();
                            machines[rank].handle(Input::Completed { op, sizes });
                            pending.push(rank);
                        }
                    }
                    kind @ (OpKind::Compute(_) | OpKind::Local(_)) => {
                        let sizes = kind.effects().defines.into_iter().map(|size| (size, 1)).collect();
                        machines[rank].handle(Input::Completed { op, sizes });
                    }
                },
                Step::Announce(id) => {
                    let key = machines[rank].key(id);
                    machines[key.dst.index()].handle(Input::PeerReady { key });
                    pending.push(key.dst.index());
                }
                Step::Transfer(id) => {
                    let key = machines[rank].key(id);
                    let peer = machines[rank].transfer(id).0.peer.index();
                    let Some(other) = offers.remove(&key) else {
                        offers.insert(key, id);
                        machines[peer].handle(Input::PeerReady { key });
                        pending.push(peer);
                        continue;
                    };
                    for (rank, id) in [(rank, id), (peer, other)] {
                        let receives_size = id.direction == Direction::Receive
                            && machines[rank].transfer(id).0.content.brings().is_some();
                        machines[rank]
                            .handle(Input::Transferred { transfer: id, size: receives_size.then_some(1) });
                    }
                    pending.push(peer);
                }
                Step::Close(op) => {
                    open[rank] = None;
                    machines[rank].handle(Input::Completed { op, sizes: Vec::new() });
                }
                Step::Wait { .. } => break,
                Step::Done => {
                    done[rank] = true;
                    break;
                }
                Step::Abort(failure) => unreachable!("nothing was reported to fail: {failure}"),
            }
        }
    }
    let stuck = (0..).map(Rank).zip(done).zip(open).find(|((_, done), _)| !done);
    match stuck {
        None => Ok(Checked::Valid),
        Some(((rank, _), op)) => Err(PlanError::Blocked { rank, op: op.unwrap_or(OpId(0)) }),
    }
}
