//! Duration of an op by itself on a cluster, for the simulator, paced ranks, validation and the switcher. Waiting for peers
//! and traffic on links are left to callers that know the time.

use zipwire_cluster::library::{Activity, Sends};
use zipwire_cluster::{CodecCost, HostCost, Topology};

use crate::Rank;
use crate::plan::{Exchange, Library, LocalKind, OpKind, Transfer};

/// Declared costs of a cluster and of a codec on it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CostModel {
    /// Launches, sums, calls of a library.
    pub host: HostCost,
    /// Codec ops and copies; needed by coded plans.
    pub codec: Option<CodecCost>,
}

/// Seconds of an op.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct OpCost {
    /// From its issue until it begins to work.
    pub launch_s: f64,
    /// Duration of its own work.
    pub work_s: f64,
}

impl OpCost {
    /// Both, one after the other.
    pub fn seconds(self) -> f64 {
        self.launch_s + self.work_s
    }
}

impl CostModel {
    /// Duration of an op by itself. The work of a compute phase is outside the plan ([`Durations`](crate::Durations)), that of an
    /// exchange is on links, and so is that of a call of a library ([`call`](Self::call)): of these
    /// three only the launch is counted, and none for calls, whose latency includes it.
    ///
    /// # Panics
    /// If it is an op of a coded plan and the cost of the codec is not known.
    pub fn of(&self, kind: &OpKind) -> OpCost {
        let (launch_s, work_s) = match kind {
            OpKind::Compute(_) => (self.host.launch_s, 0.0),
            OpKind::Local(local) => {
                let (launch_s, bytes_per_s) = self.rate(local.kind());
                (if local.is_launched() { launch_s } else { 0.0 }, local.bytes() as f64 / bytes_per_s)
            }
            OpKind::Exchange(exchange) => (if exchange.fused { 0.0 } else { self.host.launch_s }, 0.0),
            OpKind::Library(_) => (0.0, 0.0),
        };
        OpCost { launch_s, work_s }
    }

    /// A call of a library in which each rank of its group moves `ring_bytes`, from when the last rank has issued it, as its links see it. What is
    /// measured as its latency has the launch in it.
    ///
    /// # Panics
    /// If no cost of the collective is known.
    pub fn call(&self, call: &Library, topology: &Topology, ring_bytes: u64) -> Activity {
        let activity = self.host.library.activity_among(call.collective, topology, &call.group, ring_bytes);
        activity.expect("plans that call a library come with its costs")
    }

    /// Seconds of that call where nothing else moves.
    ///
    /// # Panics
    /// If no cost of the collective is known.
    pub fn call_s(&self, call: &Library, topology: &Topology, ring_bytes: u64) -> f64 {
        self.call(call, topology, ring_bytes).alone_s(&topology.capacities())
    }

    /// Grouped sends of a rank in an exchange, `bytes` of each transfer; `None` if they are no library's, or nothing is known of it.
    pub fn sends(
        &self,
        exchange: &Exchange,
        rank: Rank,
        topology: &Topology,
        bytes: impl Fn(&Transfer) -> u64,
    ) -> Option<Sends> {
        let (model, group) = (self.host.library.model.as_ref()?, exchange.grouped?);
        let part = topology.part(&group)?;
        let (mut all, mut beyond) = (0, 0);
        for send in &exchange.sends {
            let bytes = bytes(send);
            all += bytes * u64::from(send.times);
            beyond += send.times * u32::from(bytes > 0 && !topology.is_near(rank, send.peer));
        }
        Some(model.sends_among(topology, &part, all, beyond))
    }

    /// Seconds of a launch, and bytes per second ([`Local::bytes`](crate::plan::Local::bytes)), of what a rank does by itself.
    ///
    /// # Panics
    /// If it is codec work or a copy and the cost of the codec is not known.
    pub fn rate(&self, kind: LocalKind) -> (f64, f64) {
        let codec = || self.codec.as_ref().expect("plans that code or copy come with codec costs");
        match kind {
            LocalKind::Split => (codec().launch_s, codec().split_bytes_per_s()),
            LocalKind::Encode => (codec().launch_s, codec().encode_bytes_per_s),
            LocalKind::Decode => (codec().launch_s, codec().decode_bytes_per_s),
            LocalKind::GatherRows => (codec().launch_s, codec().gather_bytes_per_s()),
            LocalKind::Reduce => (self.host.launch_s, self.host.reduce_bytes_per_s),
        }
    }
}
