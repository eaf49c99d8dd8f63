//! All-Gathers and Reduce-Scatters whose blocks differ in length: each rank goes at its own pace, and each block takes what it has.

use zipwire_codec::DType;

use super::rounds::Rounds;
use super::{Call, Flow, Lockstep, longest, stages};
use crate::planner::{PART_ALIGN, range};
use crate::{Algorithm, Protocol, Rank};

/// Most pairs of ranks whose blocks are told apart: 1448 ranks.
const MOST_PAIRS: u64 = 1 << 21;
/// Most flows of all steps of a ring that are told apart.
const MOST_HOPS: u64 = 1 << 18;

/// Bytes of a size.
const SIZE: f64 = 8.0;

/// Whether blocks differ, and there are not too many to go through them one by one.
pub(super) fn differ(bytes: &[u64]) -> bool {
    let pairs = bytes.len() as u64 * bytes.len() as u64;
    pairs <= MOST_PAIRS && bytes.windows(2).any(|pair| pair[0] != pair[1])
}

impl Call<'_> {
    /// An All-Gather of blocks of these lengths.
    pub(super) fn uneven_gather(&self, dtype: DType, bytes: &[u64]) -> f64 {
        let (total, longest) = (bytes.iter().sum::<u64>(), longest(bytes));
        let size = |origin: u32| match bytes[origin as usize] {
            0 => 0.0,
            len => SIZE * self.pieces(len),
        };
        let sizes = || self.pairs().map(|(src, dst)| flow(src, dst, size(src)));
        let mut pace = Rounds::new(self.network);
        self.encode(&mut pace, |rank| bytes[rank.index()]);
        match self.way.algorithm {
            Algorithm::Ring if self.hops() <= MOST_HOPS => {
                let is_kernel = !self.choice.protocol.is_coded();
                let stage = |pace: &mut Rounds<'_>, share| self.ring_of_blocks(pace, bytes, share, is_kernel);
                self.travel(&mut pace, dtype, sizes, stage);
            }
            Algorithm::PaddedRing if self.hops() <= MOST_HOPS => {
                let padded = vec![longest; bytes.len()];
                let stage = |pace: &mut Rounds<'_>, share| self.ring_of_blocks(pace, &padded, share, true);
                self.travel(&mut pace, dtype, sizes, stage);
            }
            Algorithm::Library | Algorithm::Ring | Algorithm::PaddedRing => {
                self.travel(&mut pace, dtype, sizes, |_, _| {});
                pace.meet(self.gather(longest));
            }
            Algorithm::Hierarchical if self.has_levels() => {
                self.travel(&mut pace, dtype, sizes, |pace, share| {
                    let wire = |origin: u32| self.wire(bytes[origin as usize] as f64) * share;
                    let between = self.between().map(|(src, dst)| flow(src, dst, wire(src)));
                    pace.exchange(between, self.costs.host.launch_s);
                    let within = self.within().flat_map(|(src, dst)| {
                        self.of_place(src).map(move |origin| flow(src, dst, wire(origin)))
                    });
                    pace.exchange(within, self.costs.host.launch_s);
                });
            }
            _ => self.travel(&mut pace, dtype, sizes, |pace, share| {
                let wire = |origin: u32| self.wire(bytes[origin as usize] as f64) * share;
                let straight = self.pairs().map(|(src, dst)| flow(src, dst, wire(src)));
                pace.exchange(straight, self.costs.host.launch_s);
            }),
        }
        self.decode(&mut pace, |rank| total - bytes[rank.index()]);
        pace.seconds()
    }

    /// A Reduce-Scatter of shards of these lengths, as contributions.
    pub(super) fn uneven_scatter(&self, dtype: DType, shards: &[u64]) -> f64 {
        let (total, ranks) = (shards.iter().sum::<u64>(), self.ranks());
        let widths = self.choice.sums.of(dtype).width() as f64 / dtype.width() as f64;
        let of = |rank: Rank| shards[rank.index()];
        let size = |shard: u32| if shards[shard as usize] > 0 { SIZE } else { 0.0 };
        let mut pace = Rounds::new(self.network);
        match self.way.algorithm {
            Algorithm::Ring if self.hops() <= MOST_HOPS => {
                let widened_s = |len: u64| if widths == 1.0 { 0.0 } else { self.sum_s(len as f64) };
                let begin_s = |&len: &u64| widened_s(len) + self.costs.host.launch_s;
                return self.ring_of_partials(shards.iter().map(begin_s).collect(), shards, widths);
            }
            Algorithm::Library | Algorithm::Ring => return self.scatter(dtype, longest(shards)),
            Algorithm::Hierarchical if self.has_levels() => self.two_levels(&mut pace, dtype, shards),
            _ => {
                self.encode(&mut pace, |rank| total - of(rank));
                let sizes = || self.pairs().map(|(src, dst)| flow(src, dst, size(dst)));
                self.travel(&mut pace, dtype, sizes, |pace, share| {
                    let wire = |shard: u32| self.wire(shards[shard as usize] as f64) * share;
                    let straight = self.pairs().map(|(src, dst)| flow(src, dst, wire(dst)));
                    pace.exchange(straight, self.costs.host.launch_s);
                });
                self.decode(&mut pace, |rank| of(rank) * u64::from(ranks - 1));
                self.sum(&mut pace, |rank| of(rank) as f64 * f64::from(ranks));
            }
        }
        pace.seconds()
    }

    /// Contributions within nodes, and sums of nodes between them.
    fn two_levels(&self, pace: &mut Rounds<'_>, dtype: DType, shards: &[u64]) {
        let sums = self.choice.sums.of(dtype);
        let widths = sums.width() as f64 / dtype.width() as f64;
        let (launch_s, topology) = (self.costs.host.launch_s, self.costs.topology);
        let (nodes, gpus) = (topology.nodes, topology.gpus_per_node);
        let of = |rank: u32| shards[rank as usize];
        let of_place = |rank: u32| self.of_place(rank).map(of).sum::<u64>();
        let of_others = |rank: Rank| self.peers_within(rank.0).map(of_place).sum::<u64>();
        self.encode(pace, of_others);
        let size = |shard: u32| if of(shard) > 0 { SIZE } else { 0.0 };
        let sizes = || {
            self.within()
                .flat_map(|(src, dst)| self.of_place(dst).map(move |shard| flow(src, dst, size(shard))))
        };
        self.travel(pace, dtype, sizes, |pace, share| {
            let flows = self.within().flat_map(|(src, dst)| {
                self.of_place(dst).map(move |shard| flow(src, dst, self.wire(of(shard) as f64) * share))
            });
            pace.exchange(flows, launch_s);
        });
        self.decode(pace, |rank| of_place(rank.0) * u64::from(gpus - 1));
        self.sum(pace, |rank| of_place(rank.0) as f64 * f64::from(gpus));
        let wide = |bytes: u64| bytes as f64 * widths;
        self.encode(pace, |rank| wide(of_place(rank.0) - of(rank.0)) as u64);
        let sizes = || self.between().map(|(src, dst)| flow(src, dst, size(dst)));
        self.travel(pace, sums, sizes, |pace, share| {
            let flows = self.between().map(|(src, dst)| flow(src, dst, self.wire(wide(of(dst))) * share));
            pace.exchange(flows, launch_s);
        });
        self.decode(pace, |rank| wide(of(rank.0)) as u64 * u64::from(nodes - 1));
        self.sum(pace, |rank| wide(of(rank.0)) * f64::from(nodes));
    }

    /// Steps of all rings together, one for each flow.
    fn hops(&self) -> u64 {
        let ranks = u64::from(self.ranks());
        ranks * ranks * self.rings().len() as u64
    }

    /// Blocks around rings. Those of values are one kernel, and each step with frames is an exchange of its own.
    fn ring_of_blocks(&self, pace: &mut Rounds<'_>, bytes: &[u64], share: f64, is_kernel: bool) {
        let (ranks, rings, launch_s) = (self.ranks(), self.rings(), self.costs.host.launch_s);
        if is_kernel {
            pace.work(|_| launch_s);
        }
        let channels = rings.len() as u32;
        for step in 1..ranks {
            let flows = rings.iter().zip(0..).flat_map(|(order, channel)| {
                (0..ranks).map(move |position| {
                    let at = |position: u32| order.rank(position % ranks, ranks);
                    let len = bytes[at(position + ranks + 1 - step).index()];
                    let (begin, end) = range(len, channel, channels, PART_ALIGN);
                    let bytes = self.wire((end - begin) as f64) * share;
                    Flow { src: at(position), dst: at(position + 1), bytes }
                })
            });
            pace.exchange(flows, if is_kernel { 0.0 } else { launch_s });
        }
    }

    /// Partial sums around rings in slices, from when the kernel runs on each rank: exchanges follow one another, and so do sums; a
    /// slice goes on when it is added up.
    fn ring_of_partials(&self, begin_s: Vec<f64>, shards: &[u64], widths: f64) -> f64 {
        let (ranks, rings, slices) = (self.ranks(), self.rings(), self.way.slices);
        let parts = rings.len() as u32 * slices;
        let mut exchanged = Lockstep::new(self.network, 0.0);
        exchanged.wait(&begin_s);
        let mut sliced_s = vec![begin_s.clone(); slices as usize];
        let mut added_s = begin_s;
        let mut read = vec![0.0; ranks as usize];
        for step in 1..ranks {
            for (sliced_s, slice) in sliced_s.iter_mut().zip(0..) {
                let mut flows = Vec::new();
                for (order, channel) in rings.iter().zip(0..) {
                    for position in 0..ranks {
                        let at = |position: u32| order.rank(position % ranks, ranks);
                        let len = shards[at(position + ranks - step).index()];
                        let (begin, end) = range(len, channel * slices + slice, parts, PART_ALIGN);
                        let (raw, dst) = ((end - begin) as f64, at(position + 1));
                        flows.push(Flow { src: at(position), dst, bytes: raw * widths });
                        read[dst.index()] += raw * (1.0 + widths);
                    }
                }
                exchanged.wait(sliced_s);
                exchanged.step(flows.into_iter(), 1.0, 0.0);
                for (rank, read) in read.iter_mut().enumerate().filter(|(_, read)| **read > 0.0) {
                    let began_s = added_s[rank].max(exchanged.ready_s[rank]);
                    added_s[rank] = began_s + *read / self.costs.host.reduce_bytes_per_s;
                    (sliced_s[rank], *read) = (added_s[rank], 0.0);
                }
            }
        }
        added_s.into_iter().fold(exchanged.seconds(), f64::max)
    }

    /// Each rank encodes so many raw bytes, if it codes.
    fn encode(&self, pace: &mut Rounds<'_>, bytes: impl Fn(Rank) -> u64) {
        let Some(codec) = self.costs.codec.filter(|_| self.choice.protocol.is_coded()) else { return };
        pace.work(|rank| codec.launch_s + bytes(rank) as f64 / codec.encode_bytes_per_s);
    }

    fn decode(&self, pace: &mut Rounds<'_>, bytes: impl Fn(Rank) -> u64) {
        let Some(codec) = self.costs.codec.filter(|_| self.choice.protocol.is_coded()) else { return };
        pace.work(|rank| codec.launch_s + bytes(rank) as f64 / codec.decode_bytes_per_s);
    }

    /// Each rank adds up, reading so many bytes.
    fn sum(&self, pace: &mut Rounds<'_>, read: impl Fn(Rank) -> f64) {
        pace.work(|rank| if read(rank) > 0.0 { self.sum_s(read(rank)) } else { 0.0 });
    }

    /// The stages of a protocol, each with its share of the bytes, and the exchange of sizes.
    fn travel<'n, I: Iterator<Item = Flow>>(
        &self,
        pace: &mut Rounds<'n>,
        dtype: DType,
        sizes: impl Fn() -> I,
        mut stage: impl FnMut(&mut Rounds<'n>, f64),
    ) {
        let announce = |pace: &mut Rounds<'_>| {
            pace.exchange(sizes(), self.costs.host.launch_s);
            pace.work(|_| self.costs.host.sync_s);
        };
        let shares = stages(self.choice, Some(dtype), self.costs.ratio);
        let (last, before) = shares.split_last().expect("a call has a stage");
        before.iter().for_each(|share| stage(pace, *share));
        if matches!(self.choice.protocol, Protocol::SizeFirst | Protocol::StaticFirst) {
            announce(pace);
        }
        stage(pace, *last);
    }

    /// Every rank and each other one.
    fn pairs(&self) -> impl Iterator<Item = (u32, u32)> {
        let ranks = self.ranks();
        (0..ranks).flat_map(move |src| (0..ranks).filter(move |&dst| dst != src).map(move |dst| (src, dst)))
    }

    /// Every rank and those of its place in other nodes.
    fn between(&self) -> impl Iterator<Item = (u32, u32)> {
        let others = |src: u32| self.of_place(src).filter(move |&dst| dst != src);
        (0..self.ranks()).flat_map(move |src| others(src).map(move |dst| (src, dst)))
    }

    /// Every rank and the others of its node.
    fn within(&self) -> impl Iterator<Item = (u32, u32)> {
        (0..self.ranks()).flat_map(move |src| self.peers_within(src).map(move |dst| (src, dst)))
    }

    /// Ranks of a rank's place, in all nodes.
    fn of_place(&self, rank: u32) -> impl Iterator<Item = u32> + use<> {
        let size = self.costs.topology.gpus_per_node;
        (rank % size..self.ranks()).step_by(size as usize)
    }

    fn peers_within(&self, rank: u32) -> impl Iterator<Item = u32> + use<> {
        let first = rank / self.costs.topology.gpus_per_node * self.costs.topology.gpus_per_node;
        (first..first + self.costs.topology.gpus_per_node).filter(move |&peer| peer != rank)
    }
}

fn flow(src: u32, dst: u32, bytes: f64) -> Flow {
    Flow { src: Rank(src), dst: Rank(dst), bytes }
}
