//! Flows at the coordinator: shards that are on their way.

use zipwire_schedule::{Failure, Rank};
use zipwire_serving::{Flow, FlowId, Input, RequestId};

use super::Coordinator;
use crate::serving::message::{Command, Order, ShardId};

/// A shard on its way.
#[derive(Clone, Copy, Debug)]
pub(super) struct Open {
    pub(super) flow: FlowId,
    pub(super) request: RequestId,
    pub(super) src: Rank,
    pub(super) dst: Rank,
    pub(super) bytes_raw: u64,
}

/// Shards of a flow that have not arrived, and when the last of the arrived ones did.
#[derive(Clone, Debug, Default)]
pub(super) struct Shards {
    shards: Vec<ShardId>,
    at_s: f64,
}

impl Coordinator<'_> {
    pub(super) fn begin_flow(&mut self, id: FlowId, flow: &Flow, at_s: f64) -> Result<(), Failure> {
        let setup = self.job.setup;
        let layers = setup.shards.layers_of(flow.group, setup.config.layer_groups);
        let layers = [layers.start, layers.end];
        let tokens = [flow.tokens.start, flow.tokens.end];
        let bytes_raw = self.job.raw_bytes(tokens[1] - tokens[0]) * u64::from(layers[1] - layers[0]);
        let agreed_s = &mut self.agreed_s[flow.request.index()];
        if flow.is_first {
            *agreed_s = at_s + self.job.declared_s(setup.handshake_s);
        }
        // A coded flow is launched with its first kernel.
        let launch_s = if setup.coding.is_some() { 0.0 } else { setup.host.launch_s };
        let at_s = at_s.max(*agreed_s) + self.job.declared_s(launch_s);
        let number = self.begun_flows;
        self.begun_flows = self.begun_flows.wrapping_add(1);
        if self.flows.len() <= id.index() {
            self.flows.resize_with(id.index() + 1, Shards::default);
        }
        self.flows[id.index()] = Shards { shards: Vec::new(), at_s };
        if bytes_raw == 0 {
            // More groups of layers than layers.
            self.machine.handle(Input::Moved(id));
            return Ok(());
        }
        for (part, &shard) in (0..).zip(setup.shards.list()) {
            let [src, dst] = setup.shards.ends(shard, flow.prefill, flow.decode);
            let tag = self.tags.entry((src, dst)).or_default();
            *tag += 1;
            let (shard, numbers) = (ShardId(self.next_shard), [number, *tag]);
            self.next_shard = self.next_shard.wrapping_add(1);
            self.open.insert(shard, Open { flow: id, request: flow.request, src, dst, bytes_raw });
            self.flows[id.index()].shards.push(shard);
            let request = flow.request;
            let order = Order { shard, request, part, dst, layers, tokens, at_s, numbers };
            self.tell(src, Command::Send(order))?;
        }
        Ok(())
    }

    /// A shard has arrived at its receiver.
    pub(super) fn arrived(&mut self, id: ShardId, at_s: f64, bytes_wire: u64) -> Result<(), Failure> {
        let Some(open) = self.open.remove(&id) else {
            // Nobody waited for it any more.
            return Ok(());
        };
        self.decided.bytes_raw += open.bytes_raw;
        self.decided.bytes_wire += bytes_wire;
        let flow = &mut self.flows[open.flow.index()];
        flow.shards.retain(|other| *other != id);
        flow.at_s = flow.at_s.max(at_s);
        if !flow.shards.is_empty() {
            return Ok(());
        }
        let at_s = flow.at_s;
        self.machine.handle(Input::Moved(open.flow));
        self.decide(at_s)
    }

    /// A flow is cancelled: its senders are told to stop.
    pub(super) fn stop_flow(&mut self, id: FlowId) -> Result<(), Failure> {
        let shards = std::mem::take(&mut self.flows[id.index()].shards);
        shards.into_iter().try_for_each(|shard| {
            let open = self.open.remove(&shard);
            open.map_or(Ok(()), |open| self.tell(open.src, Command::Stop(shard)))
        })
    }
}
