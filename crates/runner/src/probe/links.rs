//! Messages between two ranks, and between many at the same time.

use zipwire_calibrate::{HostConstants, Line, Pair, Port, Sharing};

use super::{Prober, ROUNDS};
use crate::ExecuteError;

/// Bytes of a short message, and of one that libraries send in another way.
const SHORT: u64 = 4 << 10;
const MIDDLE: u64 = 64 << 10;
/// How long the longest message of a probe takes, about: long against what a system does besides, and short enough for many.
const LONGEST_S: f64 = 0.1;
const LONGEST: u64 = 64 << 20;
/// Long messages are of multiples of this.
const STEP: u64 = 4 << 10;
/// NICs that are looked at one by one. More would take minutes, and are taken to be like these.
const NICS: u32 = 32;

/// Ranks, the first of which sends to the second.
type Flow = (u32, u32);

impl Prober<'_> {
    /// Pairs of ranks, NICs, and leaves.
    pub(super) fn links(&self, constants: &mut HostConstants) -> Result<(), ExecuteError> {
        let topology = self.topology;
        let gpus = topology.gpus_per_node;
        if gpus > 1 {
            constants.intra = Some(self.pair((0, 1), &mut constants.notes)?);
        }
        if topology.nodes == 1 {
            return Ok(());
        }
        let inter = self.pair((0, gpus), &mut constants.notes)?;
        constants.inter = Some(inter);
        constants.nics = self.nics(inter.bytes.1)?;
        let measured = constants.nics.len();
        let all = (topology.nodes * topology.nics_per_node) as usize;
        if measured < all {
            let note = format!(
                "of {all} NICs the first {measured} were measured: others are taken to be like these"
            );
            constants.notes.push(note);
        }
        if let Some(below) = constants.nodes_per_leaf.filter(|below| *below < topology.nodes) {
            let flows: Vec<Flow> = (0..below.min(topology.nodes - below))
                .flat_map(|node| {
                    self.firsts().map(move |gpu| (node * gpus + gpu, (node + below) * gpus + gpu))
                })
                .collect();
            let uplink = self.bandwidth(&flows, inter.bytes.1)?;
            constants.uplink_bytes_per_s = Some(uplink);
        }
        Ok(())
    }

    /// Measures bandwidths of shared links: of all ranks of a node, and of several streams at one port; and the launch time of a call.
    pub(super) fn shared_links(&self, constants: &mut HostConstants) -> Result<(), ExecuteError> {
        let topology = self.topology;
        let (gpus, ranks) = (topology.gpus_per_node, topology.ranks());
        if gpus > 1 {
            let longest = constants.intra.map_or(LONGEST, |pair| pair.bytes.1);
            let node = |node: u32| {
                let ranks = node * gpus..(node + 1) * gpus;
                ranks.clone().flat_map(move |src| {
                    ranks.clone().filter(move |dst| *dst != src).map(move |dst| (src, dst))
                })
            };
            let flows: Vec<Flow> = (0..topology.nodes).flat_map(node).collect();
            let all = self.bandwidth(&flows, longest)?;
            constants.host_bytes_per_s = Some(all / f64::from(topology.nodes));
        }
        // One rank of each other node, or of its own where there is one node.
        let step = if topology.nodes > 1 { gpus } else { 1 };
        let others: Vec<u32> = (1..4).map(|peer| peer * step).filter(|peer| *peer < ranks).collect();
        let pair = constants.inter.or(constants.intra).expect("there are two ranks");
        if others.len() > 1 {
            for (what, flows) in [
                ("to one", others.iter().map(|&src| (src, 0)).collect::<Vec<Flow>>()),
                ("from one", others.iter().map(|&dst| (0, dst)).collect()),
            ] {
                constants.sharing.push(Sharing {
                    what: format!("{} {what}", others.len()),
                    bytes_per_s: self.bandwidth(&flows, pair.bytes.1)?,
                    alone_bytes_per_s: pair.line.bytes_per_s,
                });
            }
        }
        let call = "[workload]\nkind = \"collective\"\ncollective = \"all-gather\"\nbytes_per_rank = \"64 B\"\n\n\
                    [[variant]]\nname = \"native\"\nalgorithm = \"direct\"\n";
        constants.launch_s = (self.seconds(call, 8 * ROUNDS)? - pair.alpha_s).max(0.0);
        Ok(())
    }

    /// Two ranks, of which one sends to the other.
    fn pair(&self, flow: Flow, notes: &mut Vec<String>) -> Result<Pair, ExecuteError> {
        let (short_s, middle_s) = (self.flows(&[flow], SHORT)?, self.flows(&[flow], MIDDLE)?);
        let mut longest = 4 * MIDDLE;
        let mut seconds = self.flows(&[flow], longest)?;
        while seconds < LONGEST_S / 8.0 && longest < LONGEST {
            longest *= 4;
            seconds = self.flows(&[flow], longest)?;
        }
        let wanted = (longest as f64 * LONGEST_S / seconds) as u64;
        let quarter = (wanted / 4).clamp(2 * MIDDLE, LONGEST / 4).next_multiple_of(STEP);
        let sizes = [1, 2, 3, 4].map(|parts| parts * quarter);
        let mut samples = Vec::new();
        for bytes in sizes {
            samples.push((bytes, self.flows(&[flow], bytes)?));
        }
        let line = Line::of_growth(&samples).unwrap_or_else(|| Line::through(&samples));
        if -line.alpha_s * line.bytes_per_s > MIDDLE as f64 / 4.0 {
            notes.push(format!(
                "after a pause about {:.0} KiB pass from rank {} to rank {} at once, beyond the bandwidth: shorter messages are faster than predicted",
                -line.alpha_s * line.bytes_per_s / 1024.0,
                flow.0,
                flow.1
            ));
        }
        let beyond = |bytes: u64, seconds: f64| seconds - bytes as f64 / line.bytes_per_s;
        let alpha_s = beyond(SHORT, short_s).max(beyond(MIDDLE, middle_s)).max(0.0);
        Ok(Pair { src: flow.0, dst: flow.1, alpha_s, line, bytes: (sizes[0], sizes[3]) })
    }

    /// Each NIC, to the NIC of the same place in the next node, and in the one after that: a way is as fast as the faster of the two, so a slow
    /// other end is not taken for a slow way. Two nodes leave that open.
    fn nics(&self, longest: u64) -> Result<Vec<Port>, ExecuteError> {
        let topology = self.topology;
        let (nodes, nics) = (topology.nodes, topology.nics_per_node);
        let measured_nodes = nodes.min((NICS / nics).max(1));
        let mut ports: Vec<Port> = (0..measured_nodes * nics)
            .map(|nic| Port { nic, up_bytes_per_s: 0.0, down_bytes_per_s: 0.0 })
            .collect();
        for step in (1..=2).filter(|step| *step < measured_nodes.max(2)) {
            for node in 0..measured_nodes {
                let next = (node + step) % measured_nodes.max(2);
                for nic in 0..nics {
                    let gpus = (0..topology.gpus_per_node)
                        .filter(|gpu| gpu * nics / topology.gpus_per_node == nic)
                        .map(|gpu| {
                            (node * topology.gpus_per_node + gpu, next * topology.gpus_per_node + gpu)
                        });
                    let flows: Vec<Flow> = gpus.collect();
                    let bytes_per_s = self.bandwidth(&flows, longest)?;
                    let up = &mut ports[(node * nics + nic) as usize].up_bytes_per_s;
                    *up = up.max(bytes_per_s);
                    if let Some(port) = ports.get_mut((next * nics + nic) as usize) {
                        port.down_bytes_per_s = port.down_bytes_per_s.max(bytes_per_s);
                    }
                }
            }
        }
        ports.retain(|port| port.down_bytes_per_s > 0.0);
        Ok(ports)
    }

    /// The first rank of a node at each of its NICs.
    fn firsts(&self) -> impl Iterator<Item = u32> + use<> {
        let (gpus, nics) = (self.topology.gpus_per_node, self.topology.nics_per_node);
        (0..nics).map(move |nic| (nic * gpus).div_ceil(nics))
    }

    /// Bytes per second of all flows together, which take about as long as the longest message of a probe: of two lengths, so that what happens
    /// at their begin does not matter.
    fn bandwidth(&self, flows: &[Flow], longest: u64) -> Result<f64, ExecuteError> {
        let bytes = (longest / flows.len() as u64).max(2 * MIDDLE).next_multiple_of(2 * STEP);
        let (half_s, whole_s) = (self.flows(flows, bytes / 2)?, self.flows(flows, bytes)?);
        let all = bytes as f64 * flows.len() as f64;
        // Where the longer one takes no longer, little is known: then it counts alone.
        Ok(if whole_s > 1.2 * half_s { all / 2.0 / (whole_s - half_s) } else { all / whole_s })
    }

    /// Seconds until all flows have ended that begin at the same time.
    fn flows(&self, flows: &[Flow], bytes: u64) -> Result<f64, ExecuteError> {
        let each: Vec<String> = flows
            .iter()
            .map(|(src, dst)| format!("{{ src = {src}, dst = {dst}, bytes = \"{bytes} B\" }}"))
            .collect();
        self.seconds(&format!("[workload]\nkind = \"transfers\"\nflows = [{}]\n", each.join(", ")), ROUNDS)
    }
}
