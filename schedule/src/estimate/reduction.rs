//! Reductions: what is moved and what is added up between.

use zipwire_codec::DType;

use super::{Call, longest};
use crate::Algorithm;

impl Call<'_> {
    /// Seconds of reading so many bytes to add them up, in a kernel that is launched.
    fn sum_s(&self, bytes_read: f64) -> f64 {
        self.costs.host.launch_s + bytes_read / self.costs.host.reduce_bytes_per_s
    }

    /// A Reduce-Scatter of shards of so many bytes, as contributions.
    pub(super) fn scatter(&self, dtype: DType, shard: u64) -> f64 {
        let (ranks, topology) = (f64::from(self.ranks()), self.costs.topology);
        let nodes = f64::from(topology.nodes);
        let sums = self.choice.sums.of(dtype);
        let widths = sums.width() as f64 / dtype.width() as f64;
        let (raw, sum) = (shard as f64, shard as f64 * widths);
        match self.way.algorithm {
            Algorithm::Library => {
                let widened = if widths == 1.0 { 0.0 } else { self.sum_s(raw * ranks) };
                widened + self.call_s(sum, u64::from(self.ranks() - 1))
            }
            Algorithm::Ring => {
                let widened = if widths == 1.0 { 0.0 } else { self.sum_s(raw) };
                widened + self.costs.host.launch_s + self.ring_of_sums(shard, widths)
            }
            Algorithm::Hierarchical if self.has_levels() => {
                let of_node = shard * u64::from(topology.nodes);
                let within = of_node * u64::from(topology.gpus_per_node - 1);
                let between = (sum * (nodes - 1.0)) as u64;
                let sizes = 8.0 * nodes;
                self.coding(within, within, || self.network.within(sizes))
                    + self.steps(1, false, self.network.within(self.wire(of_node as f64)))
                    + self.sum_s(raw * ranks)
                    + self.coding(between, between, || self.network.between(8.0))
                    + self.steps(1, false, self.network.between(self.wire(sum)))
                    + self.sum_s(sum * nodes)
            }
            _ => {
                let others = shard * u64::from(self.ranks() - 1);
                self.coding(others, others, || self.network.pairs(8.0))
                    + self.steps(1, false, self.network.pairs(self.wire(raw)))
                    + self.sum_s(raw * ranks)
            }
        }
    }

    /// Shards of so many raw bytes around rings in slices, whose partial sums are `widths` times as wide: one kernel, without its launch.
    fn ring_of_sums(&self, shard: u64, widths: f64) -> f64 {
        let slices = self.parts(shard, self.way.slices);
        let times = slices.iter().map(|raw| {
            let sums: Vec<f64> = raw.iter().map(|raw| raw * widths).collect();
            let read: f64 = raw.iter().chain(&sums).sum();
            (self.around(&sums).seconds(), read / self.costs.host.reduce_bytes_per_s)
        });
        let times: Vec<(f64, f64)> = times.collect();
        // Exchanges follow one another, and so do sums; a slice goes on when it is added up.
        let (mut exchanged_s, mut added_s) = (0.0_f64, 0.0_f64);
        let mut ready_s = vec![0.0_f64; times.len()];
        for _ in 1..self.ranks() {
            for (&(exchange_s, add_s), ready_s) in times.iter().zip(&mut ready_s) {
                exchanged_s = exchanged_s.max(*ready_s) + exchange_s;
                added_s = added_s.max(exchanged_s) + add_s;
                *ready_s = added_s;
            }
        }
        exchanged_s.max(added_s)
    }

    pub(super) fn all_reduce(&self, dtype: DType, bytes: u64) -> f64 {
        let shard = longest(&self.work.shards(self.ranks()));
        match self.way.algorithm {
            Algorithm::Library => {
                let ranks = u64::from(self.ranks());
                self.call_s((2 * (ranks - 1) * bytes).div_ceil(ranks) as f64, 1)
            }
            Algorithm::Tree => self.tree(dtype, shard),
            Algorithm::Ring => self.scatter(dtype, shard) + self.gather(shard) - self.costs.host.launch_s,
            _ => self.scatter(dtype, shard) + self.coded_gather(shard),
        }
    }
}
