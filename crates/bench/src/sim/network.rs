//! Flows straight into the network: what a simulator does at the least, without plans, machines and timelines.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::path::Path;

use rand::seq::SliceRandom;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use zipwire_cluster::Topology;
use zipwire_runner::Cancel;
use zipwire_scenarios::{Experiment, Source, load};
use zipwire_schedule::{Flow, Pace, Rank, Work};
use zipwire_sim::{FlowId, Network};

use super::simulator::{Cluster, cpu_s};
use super::{Run, SimBenchError};

/// Moments between two looks at whether the user wants to stop.
const MOMENTS_PER_CHECK: u64 = 256;

/// All pairs at once.
pub(super) fn flows(topology: &Topology, sizes: Sizes, cancel: &Cancel) -> Result<Run, SimBenchError> {
    let begin_s = cpu_s();
    let transfers = all_pairs(topology.ranks(), sizes);
    burst(topology, transfers, begin_s, cancel)
}

/// The flows of a scenario that wait for nothing but their own time.
pub(super) fn scenario(source: &Source, path: &Path, cancel: &Cancel) -> Result<Run, SimBenchError> {
    let begin_s = cpu_s();
    let experiment = load(source, &[], None)?;
    let flows = independent(&experiment).ok_or_else(|| SimBenchError::NotBurst { path: path.to_owned() })?;
    let transfer = |flow: &Flow| Transfer {
        src: flow.src.0,
        dst: flow.dst.0,
        bytes: flow.bytes,
        ready_s: flow.not_before_s,
    };
    burst(&experiment.topology, flows.iter().map(transfer).collect(), begin_s, cancel)
}

/// The flows of an experiment, if nothing else decides when they start.
pub(super) fn independent(experiment: &Experiment) -> Option<&[Flow]> {
    let [segment] = experiment.work.segments() else { return None };
    match &segment.work {
        Work::Transfers { flows, pace: Pace::Burst, .. } => Some(flows),
        _ => None,
    }
}

/// Plays transfers that do not depend on one another.
fn burst(
    topology: &Topology,
    transfers: Vec<Transfer>,
    begin_s: f64,
    cancel: &Cancel,
) -> Result<Run, SimBenchError> {
    let prepared_s = cpu_s();
    let count = transfers.len() as u64;
    // The next one last.
    let mut waiting = transfers;
    for transfer in &mut waiting {
        transfer.ready_s += topology.route(Rank(transfer.src), Rank(transfer.dst)).latency_s;
    }
    waiting.sort_unstable_by(|a, b| b.ready_s.total_cmp(&a.ready_s));
    let mut clock = Clock::new(topology, cancel);
    while clock.step(waiting.last().map(|transfer| transfer.ready_s))? {
        while let Some(Transfer { src, dst, bytes, .. }) =
            waiting.pop_if(|transfer| transfer.ready_s <= clock.now_s)
        {
            clock.network.add(topology.route(Rank(src), Rank(dst)).links(), bytes);
        }
    }
    Ok(clock.finish(topology, count, [begin_s, prepared_s]))
}

/// Equal chunks, one peer after the other: step k sends to rank + k, and a transfer starts, with its latency, when the
/// previous steps of both ends are over.
pub(super) fn rounds(topology: &Topology, cancel: &Cancel) -> Result<Run, SimBenchError> {
    let begin_s = cpu_s();
    let ranks = topology.ranks();
    let mut clock = Clock::new(topology, cancel);
    let mut steps = Steps::new(ranks);
    // When the first byte of a transfer moves, as bits: positive floats sort like them.
    let mut waiting: BinaryHeap<Reverse<(u64, u32)>> = BinaryHeap::new();
    let mut startable: Vec<u32> = (0..ranks).collect();
    let mut owners: Vec<u32> = Vec::new();
    loop {
        for src in startable.drain(..) {
            let route = topology.route(Rank(src), Rank(steps.dst(src)));
            waiting.push(Reverse(((clock.now_s + route.latency_s).to_bits(), src)));
        }
        if !clock.step(waiting.peek().map(|Reverse((bits, _))| f64::from_bits(*bits)))? {
            break;
        }
        for flow in clock.ended.drain(..) {
            steps.end(owners[flow.index()], &mut startable);
        }
        while let Some(&Reverse((bits, src))) = waiting.peek() {
            if f64::from_bits(bits) > clock.now_s {
                break;
            }
            waiting.pop();
            let route = topology.route(Rank(src), Rank(steps.dst(src)));
            let flow = clock.network.add(route.links(), MEAN_BYTES);
            owners.resize(owners.len().max(flow.index() + 1), u32::MAX);
            owners[flow.index()] = src;
        }
    }
    let count = u64::from(ranks) * u64::from(ranks - 1);
    Ok(clock.finish(topology, count, [begin_s, begin_s]))
}

/// Steps of all ranks as senders and as receivers, from 1.
struct Steps {
    ranks: u32,
    send: Vec<u32>,
    receive: Vec<u32>,
}

impl Steps {
    fn new(ranks: u32) -> Self {
        Self { ranks, send: vec![1; ranks as usize], receive: vec![1; ranks as usize] }
    }

    /// Where a rank sends now.
    fn dst(&self, src: u32) -> u32 {
        (src + self.send[src as usize]) % self.ranks
    }

    /// The transfer of a rank has ended; appends the senders whose next one can start.
    fn end(&mut self, src: u32, startable: &mut Vec<u32>) {
        let dst = self.dst(src);
        self.send[src as usize] += 1;
        self.receive[dst as usize] += 1;
        let (sent, received) = (self.send[src as usize], self.receive[dst as usize]);
        if sent < self.ranks && self.receive[self.dst(src) as usize] == sent {
            startable.push(src);
        }
        let peer = (dst + self.ranks - received) % self.ranks;
        if received < self.ranks && self.send[peer as usize] == received {
            startable.push(peer);
        }
    }
}

/// A network and the virtual time.
struct Clock<'a> {
    network: Network,
    now_s: f64,
    /// Flows that have ended at this moment; nobody has to look at them.
    ended: Vec<FlowId>,
    ended_count: u64,
    moments: u64,
    cancel: &'a Cancel,
}

impl<'a> Clock<'a> {
    fn new(topology: &Topology, cancel: &'a Cancel) -> Self {
        let network = Network::new(&topology.capacities());
        Self { network, now_s: 0.0, ended: Vec::new(), ended_count: 0, moments: 0, cancel }
    }

    /// Goes to the next end of a flow, or to `start_s` if that comes first; `false` if there is neither.
    fn step(&mut self, start_s: Option<f64>) -> Result<bool, SimBenchError> {
        if self.moments.is_multiple_of(MOMENTS_PER_CHECK) && self.cancel.is_cancelled() {
            return Err(SimBenchError::Cancelled);
        }
        self.moments += 1;
        let next_s = (self.now_s + self.network.next_in_s()).min(start_s.unwrap_or(f64::INFINITY));
        if next_s.is_infinite() {
            return Ok(false);
        }
        self.network.advance(next_s - self.now_s);
        self.now_s = next_s;
        self.ended.clear();
        self.network.take_ended(&mut self.ended);
        self.ended_count += self.ended.len() as u64;
        Ok(true)
    }

    fn finish(self, topology: &Topology, transfers: u64, [begin_s, prepared_s]: [f64; 2]) -> Run {
        assert_eq!(self.ended_count, transfers, "every transfer ends once");
        Run {
            ranks: topology.ranks(),
            transfers,
            simulated_s: self.now_s,
            prepare_s: prepared_s - begin_s,
            cpu_s: cpu_s() - prepared_s,
            work: Some(self.network.work().into()),
        }
    }
}

/// Bytes of a pair in the mean.
pub(super) const MEAN_BYTES: u64 = 1 << 20;
/// Exponent of [`Sizes::Zipf`].
const ZIPF: f64 = 0.8;
const SEED: u64 = 1;

/// How transfers differ from pair to pair.
#[derive(Clone, Copy, Debug)]
pub(super) enum Sizes {
    /// Not at all: they all end together.
    Equal,
    /// Uniform from 0.5 to 1.5 of the mean: every transfer ends at its own time.
    Unequal,
    /// Like [`Self::Unequal`], with destinations as popular as 1 / position^0.8.
    Zipf,
    /// Like [`Self::Unequal`], with ranks that are ready at uniform times in the first quarter of what a flat network takes; a
    /// transfer starts when both of its ends are.
    Staggered,
}

/// A transfer of some bytes that starts when both ends are ready.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Transfer {
    pub(super) src: u32,
    pub(super) dst: u32,
    pub(super) bytes: u64,
    pub(super) ready_s: f64,
}

/// One transfer for each ordered pair of ranks, the same on every machine.
pub(super) fn all_pairs(ranks: u32, sizes: Sizes) -> Vec<Transfer> {
    let mut random = ChaCha8Rng::seed_from_u64(SEED);
    let popular = match sizes {
        Sizes::Zipf => zipf(ranks, &mut random),
        Sizes::Equal | Sizes::Unequal | Sizes::Staggered => vec![1.0; ranks as usize],
    };
    let latest_s = match sizes {
        Sizes::Staggered => f64::from(ranks - 1) * MEAN_BYTES as f64 / Cluster::BANDWIDTH / 4.0,
        Sizes::Equal | Sizes::Unequal | Sizes::Zipf => 0.0,
    };
    let ready_s: Vec<f64> = (0..ranks).map(|_| latest_s * random.random::<f64>()).collect();
    let mut transfers = Vec::with_capacity(ranks as usize * (ranks as usize - 1));
    for src in 0..ranks {
        for dst in (0..ranks).filter(|&dst| dst != src) {
            let share = match sizes {
                Sizes::Equal => 1.0,
                Sizes::Unequal | Sizes::Zipf | Sizes::Staggered => random.random_range(0.5..1.5),
            };
            let bytes = (MEAN_BYTES as f64 * share * popular[dst as usize]) as u64;
            let ready_s = ready_s[src as usize].max(ready_s[dst as usize]);
            transfers.push(Transfer { src, dst, bytes: bytes.max(1), ready_s });
        }
    }
    transfers
}

/// How popular each rank is, 1 in the mean.
fn zipf(ranks: u32, random: &mut ChaCha8Rng) -> Vec<f64> {
    let mut weights: Vec<f64> = (1..=ranks).map(|position| libm::pow(f64::from(position), -ZIPF)).collect();
    let mean = weights.iter().sum::<f64>() / f64::from(ranks);
    weights.iter_mut().for_each(|weight| *weight /= mean);
    weights.shuffle(random);
    weights
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sim::SimCase;
    use crate::sim::simulator::Cluster;

    fn topology(nodes: u32, gpus_per_node: u32) -> Topology {
        Cluster { nodes, gpus_per_node }.topology().unwrap()
    }

    fn close(a: f64, b: f64) -> bool {
        (a - b).abs() <= 1e-9 * b
    }

    const CHUNK_S: f64 = MEAN_BYTES as f64 / Cluster::BANDWIDTH;

    /// a + (N - 1) S / B.
    #[test]
    fn an_equal_burst_takes_what_its_closed_form_says() {
        let run = flows(&topology(1, 16), Sizes::Equal, &Cancel::new()).unwrap();
        assert!(close(run.simulated_s, 5e-6 + 15.0 * CHUNK_S), "{} s", run.simulated_s);
        let work = run.work.unwrap();
        // One filling for all starts and one for all ends.
        assert!((run.transfers, work.events <= 2) == (240, true), "{work:?}");
    }

    /// (N - 1)(a + S / B).
    #[test]
    fn rounds_take_what_their_closed_form_says() {
        let run = rounds(&topology(1, 16), &Cancel::new()).unwrap();
        assert!(close(run.simulated_s, 15.0 * (5e-6 + CHUNK_S)), "{} s", run.simulated_s);
    }

    #[test]
    fn rounds_end_on_nodes_too() {
        let run = rounds(&topology(3, 4), &Cancel::new()).unwrap();
        assert!(run.simulated_s > 11.0 * CHUNK_S && run.transfers == 132);
    }

    #[test]
    fn cancelling_stops_it() {
        let cancel = Cancel::new();
        cancel.cancel();
        let case = SimCase::by_name("unequal-flat-64").unwrap();
        let error = crate::bench_sim(case, &cancel).unwrap_err();
        assert!(matches!(error, SimBenchError::Cancelled));
    }

    #[test]
    fn every_pair_has_one_transfer() {
        for sizes in [Sizes::Equal, Sizes::Unequal, Sizes::Zipf, Sizes::Staggered] {
            let transfers = all_pairs(16, sizes);
            let pairs: std::collections::BTreeSet<_> = transfers.iter().map(|t| (t.src, t.dst)).collect();
            assert_eq!((transfers.len(), pairs.len()), (240, 240));
            assert!(transfers.iter().all(|t| t.src != t.dst && t.bytes > 0));
            let mean = transfers.iter().map(|t| t.bytes as f64).sum::<f64>() / 240.0;
            assert!((0.85..1.15).contains(&(mean / MEAN_BYTES as f64)), "{sizes:?}: {mean}");
        }
    }
}
