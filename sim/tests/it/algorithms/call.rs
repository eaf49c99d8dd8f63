//! One call on one cluster.

use zipwire_cluster::{CodecCost, HostCost, Topology};
use zipwire_codec::DType;
use zipwire_schedule::estimate::{Costs, Way, best};
use zipwire_schedule::{
    Algorithm, CallKind, Choice, CostModel, Durations, Plan, Protocol, Rank, RankRange, Slot, SumType, Work,
    plan,
};
use zipwire_sim::{FrameSizes, SimSetup, run};
use zipwire_timeline::Timeline;

pub(crate) use crate::common::assert_close;
use crate::common::{self, call, job, setup};

/// Bytes per second of a GPU's link, of a NIC, and at which values are added up.
pub(crate) const GPU: f64 = 100e9;
pub(crate) const NIC: f64 = 12.5e9;
pub(crate) const REDUCE: f64 = 400e9;
/// Seconds before the first byte within a node, between nodes, and of a launch.
pub(crate) const INTRA_S: f64 = 5e-6;
pub(crate) const INTER_S: f64 = 10e-6;
pub(crate) const LAUNCH_S: f64 = 4e-6;
pub(crate) const SYNC_S: f64 = 20e-6;
pub(crate) const RATIO: f64 = 1.3;
pub(crate) const CODEC: CodecCost =
    CodecCost { encode_bytes_per_s: 180e9, decode_bytes_per_s: 260e9, launch_s: 20e-6 };

#[derive(Clone, Debug)]
pub(crate) struct Call {
    pub(crate) topology: Topology,
    pub(crate) work: Work,
    pub(crate) choice: Choice,
    pub(crate) launch_s: f64,
    /// Bytes per second at which values are added up.
    pub(crate) reduce: f64,
}

pub(crate) fn nodes(nodes: u32, gpus: u32, nics: u32) -> Topology {
    Topology { nics_per_node: nics, ..common::nodes(nodes, gpus, [GPU, NIC], [INTRA_S, INTER_S]) }
}

pub(crate) fn all_gather(ranks: u32, shard: u64) -> Work {
    call(CallKind::AllGather { bytes: vec![shard; ranks as usize] })
}

pub(crate) fn reduce_scatter(ranks: u32, dtype: DType, shard: u64) -> Work {
    Work::of_call(dtype, [Slot(0), Slot(1)], CallKind::ReduceScatter { bytes: vec![shard; ranks as usize] })
}

pub(crate) fn all_reduce(ranks: u32, dtype: DType, shard: u64) -> Work {
    Work::of_call(dtype, [Slot(0), Slot(1)], CallKind::AllReduce { bytes: u64::from(ranks) * shard })
}

pub(crate) fn broadcast(ranks: u32, bytes: u64, root: u32) -> Work {
    broadcast_to(RankRange::all(ranks), bytes, root)
}

pub(crate) fn broadcast_to(to: RankRange, bytes: u64, root: u32) -> Work {
    call(CallKind::Broadcast { bytes, root: Rank(root), to })
}

impl Call {
    /// Native, without launches, partial sums in FP32, around as many rings as nodes have NICs.
    pub(crate) fn new(topology: Topology, work: Work, algorithm: Algorithm) -> Self {
        let choice = Choice {
            algorithm: Some(algorithm),
            ranks_per_node: topology.gpus_per_node,
            channels: topology.ring_channels(),
            ..Choice::of(Protocol::Native, None)
        };
        Self { topology, work, choice, launch_s: 0.0, reduce: REDUCE }
    }

    pub(crate) fn launched(self) -> Self {
        Self { launch_s: LAUNCH_S, ..self }
    }

    pub(crate) fn slices(mut self, slices: u32) -> Self {
        self.choice.slices = slices;
        self
    }

    pub(crate) fn sums(mut self, sums: SumType) -> Self {
        self.choice.sums = sums;
        self
    }

    pub(crate) fn coded(mut self) -> Self {
        self.choice = Choice { protocol: Protocol::SizeFirst, codec: Some(crate::window7()), ..self.choice };
        self
    }

    pub(crate) fn way(mut self, way: Way) -> Self {
        let Way { algorithm, channels, slices, .. } = way;
        self.choice = Choice { algorithm: Some(algorithm), channels, slices, ..self.choice };
        self
    }

    fn host(&self) -> HostCost {
        HostCost {
            launch_s: self.launch_s,
            sync_s: if self.launch_s > 0.0 { SYNC_S } else { 0.0 },
            reduce_bytes_per_s: self.reduce,
            ..HostCost::default()
        }
    }

    pub(crate) fn plan(&self) -> Plan {
        let job = job(self.topology.ranks(), [("call", self.work.clone())]);
        let plan = plan(&job, &self.choice);
        plan.validate().unwrap_or_else(|error| panic!("{self:?}: {error}"));
        plan
    }

    pub(crate) fn timeline(&self) -> Timeline {
        let (plan, durations) = (self.plan(), Durations::zeros(1, 1, self.topology.ranks()));
        let is_coded = self.choice.protocol.is_coded();
        let setup = SimSetup {
            costs: CostModel { host: self.host(), codec: is_coded.then_some(CODEC) },
            sizes: if is_coded { FrameSizes::Ratio(RATIO) } else { FrameSizes::None },
            ..setup(&plan, &self.topology, &durations)
        };
        run(&setup, &|| true).unwrap_or_else(|error| panic!("{self:?}: {error}"))
    }

    pub(crate) fn seconds(&self) -> f64 {
        self.timeline().iterations[0].length_s
    }

    /// The way that is predicted to take least time among those that the arguments leave, and its seconds.
    pub(crate) fn best(&self, algorithm: Option<Algorithm>, slices: Option<u32>) -> Option<(Way, f64)> {
        let host = self.host();
        let codec = self.choice.protocol.is_coded().then_some(CODEC);
        let costs = Costs { topology: &self.topology, host: &host, codec, ratio: RATIO };
        let choice = Choice { algorithm, ..self.choice.clone() };
        best(&self.work, &choice, &costs, (None, slices), false)
    }

    pub(crate) fn predicted_s(&self) -> f64 {
        let (way, seconds) = self.best(self.choice.algorithm, Some(self.choice.slices)).unwrap();
        assert_eq!(Some(way.algorithm), self.choice.algorithm);
        seconds
    }
}

/// That a closed form is what is simulated and, to the digits that a choice needs, what is predicted.
#[track_caller]
pub(crate) fn assert_takes(call: &Call, expected: f64) {
    assert_close(call.seconds(), expected);
    let predicted = call.predicted_s();
    let error = (predicted - expected).abs() / expected;
    assert!(error <= 1e-6, "predicted {predicted}, expected {expected}, relative error {error:e}");
}
