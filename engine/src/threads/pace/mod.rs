//! Paced runs: the links, compute phases and codecs of a cluster at a fraction of their speed, so that this machine
//! keeps up and what it measures stands for the cluster.

mod permits;
mod ports;
mod wire;

pub(super) use permits::Permits;
pub(super) use wire::{Parcel, Wire};

use zipwire_schedule::{CodecCost, Durations, HostCost, Topology};

/// The cluster that a paced run stands for.
#[derive(Clone, Debug)]
pub struct Pace {
    /// Links and latencies.
    pub topology: Topology,
    /// Launch and synchronisation cost.
    pub host: HostCost,
    /// Declared cost of codec ops; needed by coded plans.
    pub codec: Option<CodecCost>,
    /// Seconds of compute phases.
    pub durations: Durations,
    /// Seconds of this machine for a second of the cluster, at least 1.
    pub dilation: f64,
}

impl Pace {
    /// Declared seconds of a codec op on `bytes` raw bytes at the speed that `speed` picks.
    pub(super) fn codec_s(&self, bytes: u64, speed: impl FnOnce(&CodecCost) -> f64) -> f64 {
        let cost = self.codec.as_ref().expect("coded plans come with codec costs");
        cost.launch_s + bytes as f64 / speed(cost)
    }
}
