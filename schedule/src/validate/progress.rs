//! All ranks get to their ends: no cycle among what begins and ends, and no window that lets nothing through.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;

use petgraph::graph::{DiGraph, NodeIndex};

use super::library::Calls;
use super::transfers::Pair;
use crate::machine::{Capabilities, Direction, Input, Machine, Readiness, Step, TransferId, TransferOrder};
use crate::plan::{CallKey, OpKind, Plan, PlanError, TransferKey};
use crate::validate::Checked;
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
    let mut graph: DiGraph<Option<(Rank, OpId)>, ()> = DiGraph::new();
    let mut begins: Vec<Vec<NodeIndex>> = Vec::new();
    let mut ends: Vec<Vec<NodeIndex>> = Vec::new();
    for program in &plan.programs {
        let mut nodes = || program.ops.iter().map(|op| graph.add_node(Some((program.rank, op.id)))).collect();
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
        let met = graph.add_node(None);
        for (rank, op) in ops {
            graph.add_edge(begins[rank.index()][op.index()], met, ());
            graph.add_edge(met, ends[rank.index()][op.index()], ());
        }
    }
    match petgraph::algo::toposort(&graph, None) {
        Ok(_) => Ok(()),
        Err(cycle) => Err(PlanError::Cycle { ops: circle(&graph, cycle.node_id()) }),
    }
}

/// Ops on a shortest circle through a node, in the order in which each waits for the one before; each once.
fn circle(graph: &DiGraph<Option<(Rank, OpId)>, ()>, node: NodeIndex) -> Vec<(Rank, OpId)> {
    let mut before: HashMap<NodeIndex, NodeIndex> = HashMap::new();
    let mut queue = VecDeque::from([node]);
    while let Some(from) = queue.pop_front().filter(|_| !before.contains_key(&node)) {
        for to in graph.neighbors(from) {
            before.entry(to).or_insert_with(|| {
                queue.push_back(to);
                from
            });
        }
    }
    let steps = std::iter::successors(before.get(&node), |at| before.get(at).filter(|_| **at != node));
    let mut ops: Vec<(Rank, OpId)> = steps.filter_map(|step| graph[*step]).collect();
    ops.reverse();
    ops.dedup();
    if ops.len() > 1 && ops.first() == ops.last() {
        ops.pop();
    }
    ops
}

/// Plays the plan with machines that are never late and transfers that take no time. What stands still here stands
/// still everywhere: a transfer that could go on is never held back, and ending one opens windows and closes none.
///
/// Under [`Order::AnyReady`](crate::Order::AnyReady) news arrives at once; the module documentation of
/// [`machine`](crate::machine) says why it may take any time.
///
/// `proceed` is asked now and then; `false` ends the play.
pub(super) fn play(plan: &Plan, proceed: &dyn Fn() -> bool) -> Result<Checked, PlanError> {
    let mut play = Play::new(plan);
    let mut steps = 0_u32;
    while let Some(rank) = play.pending.pop() {
        loop {
            steps = steps.wrapping_add(1);
            if steps.is_multiple_of(STEPS_PER_CHECK) && !proceed() {
                return Ok(Checked::Stopped);
            }
            let step = play.machines[rank].poll(0.0);
            if !play.carry_out(rank, step) {
                break;
            }
        }
    }
    let stuck = (0..).map(Rank).zip(play.done).zip(play.open).find(|((_, done), _)| !done);
    match stuck {
        None => Ok(Checked::Valid),
        Some(((rank, _), op)) => Err(PlanError::Blocked { rank, op: op.unwrap_or(OpId(0)) }),
    }
}

struct Play {
    machines: Vec<Machine>,
    /// Ranks that have issued a call of a library, and their ops.
    calls: BTreeMap<CallKey, Vec<(usize, OpId)>>,
    /// The last exchange or call of each rank that is open.
    open: Vec<Option<OpId>>,
    offers: HashMap<TransferKey, TransferId>,
    pending: Vec<usize>,
    done: Vec<bool>,
}

impl Play {
    fn new(plan: &Plan) -> Self {
        let capabilities = Capabilities {
            readiness: Readiness::Completed,
            transfer_order: TransferOrder::Machine,
            timed: false,
        };
        let machine = |program: &Arc<_>| Machine::new(Arc::clone(program), capabilities, 0.0);
        let machines: Vec<Machine> = plan.programs.iter().map(machine).collect();
        Self {
            calls: BTreeMap::new(),
            open: vec![None; machines.len()],
            offers: HashMap::new(),
            pending: (0..machines.len()).rev().collect(),
            done: vec![false; machines.len()],
            machines,
        }
    }

    /// Carries out a step of a rank. Returns whether it may have another one.
    fn carry_out(&mut self, rank: usize, step: Step) -> bool {
        match step {
            Step::Issue(op) => self.issue(rank, op),
            Step::Announce(id) => {
                let key = self.machines[rank].key(id);
                self.machines[key.dst.index()].handle(Input::PeerReady { key });
                self.pending.push(key.dst.index());
            }
            Step::Transfer(id) => self.offer(rank, id),
            Step::Close(op) => {
                self.open[rank] = None;
                self.machines[rank].handle(Input::Completed { op, sizes: Vec::new() });
            }
            Step::Wait { .. } => return false,
            Step::Done => {
                self.done[rank] = true;
                return false;
            }
            Step::Abort(failure) => unreachable!("nothing was reported to fail: {failure}"),
        }
        true
    }

    fn issue(&mut self, rank: usize, op: OpId) {
        let machine = &self.machines[rank];
        match &machine.op(op).kind {
            OpKind::Exchange(_) => self.open[rank] = Some(op),
            OpKind::Library(library) => {
                self.open[rank] = Some(op);
                let call = self.calls.entry(library.key(machine.op(op).segment)).or_default();
                call.push((rank, op));
                if call.len() < library.group.count as usize {
                    return;
                }
                for (rank, op) in std::mem::take(call) {
                    self.open[rank] = None;
                    self.complete(rank, op);
                    self.pending.push(rank);
                }
            }
            OpKind::Compute(_) | OpKind::Local(_) => self.complete(rank, op),
        }
    }

    /// An op ends with sizes of 1.
    fn complete(&mut self, rank: usize, op: OpId) {
        let sizes = self.machines[rank].op(op).kind.effects().defines.into_iter();
        let sizes = sizes.map(|size| (size, 1)).collect();
        self.machines[rank].handle(Input::Completed { op, sizes });
    }

    /// A transfer ends as soon as both ends are on offer.
    fn offer(&mut self, rank: usize, id: TransferId) {
        let key = self.machines[rank].key(id);
        let peer = self.machines[rank].transfer(id).0.peer.index();
        self.pending.push(peer);
        let Some(other) = self.offers.remove(&key) else {
            self.offers.insert(key, id);
            self.machines[peer].handle(Input::PeerReady { key });
            return;
        };
        for (rank, transfer) in [(rank, id), (peer, other)] {
            let machine = &mut self.machines[rank];
            let receives_size = transfer.direction == Direction::Receive
                && machine.transfer(transfer).0.content.brings().is_some();
            machine.handle(Input::Transferred { transfer, size: receives_size.then_some(1) });
        }
    }
}
