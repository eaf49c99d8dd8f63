//! Measures the hosts that ranks run on: small scenarios whose times say what a constant of a cluster is.
//!
//! Probes are plans like all others, carried out by the executor that runs scenarios: so what a message or a codec costs is what it costs
//! there. Nothing is compared in them.

use std::sync::Arc;
use std::time::Instant;

use zipwire_calibrate::{Codec, HostConstants, Line, Pair, Port, Sharing};
use zipwire_cluster::{Fabric, Topology};
use zipwire_codec::Spec;
use zipwire_scenarios::{Source, load};
use zipwire_timeline::Timeline;

use crate::{Cancel, ExecuteError, Executor, Prepared, Shared};

/// Iterations of a probe of which the first one does not count: connections are made in it, and memory is touched for the first time.
const ROUNDS: u32 = 4;

/// Bytes that are copied to see how fast memory is: more than caches hold.
const COPIED: usize = 64 << 20;

/// Measures what constants the hosts have, for a cluster of this shape: its nodes, their ranks and NICs, and leaves of a fat tree, are as the
/// topology says, its bandwidths and latencies are not looked at. Codecs are those of `specs`; `begin` hears of each step before it
/// begins. It takes less than a minute on links of 100 Mbit/s and more, and eight nodes.
///
/// # Errors
/// If a run fails, or the user stops it.
pub fn probe(
    executor: &dyn Executor,
    topology: &Topology,
    specs: &[Spec],
    cancel: &Cancel,
    mut begin: impl FnMut(String),
) -> Result<HostConstants, ExecuteError> {
    let prober = Prober { executor, topology, cancel };
    let nodes_per_leaf = match &topology.fabric {
        Fabric::FatTree(tree) => Some(tree.nodes_per_leaf),
        _ => None,
    };
    let mut constants = HostConstants {
        nodes: topology.nodes,
        gpus_per_node: topology.gpus_per_node,
        nics_per_node: topology.nics_per_node,
        nodes_per_leaf,
        ..HostConstants::default()
    };
    begin("links".to_owned());
    prober.links(&mut constants)?;
    begin("sharing of links".to_owned());
    prober.shared_links(&mut constants)?;
    for spec in specs {
        begin(format!("codec `{spec}`"));
        match prober.codec(spec, &constants) {
            Ok(Some(codec)) => constants.codecs.push(codec),
            Ok(None) => {
                let note = format!("codec `{spec}` takes less time than the clock shows: left out");
                constants.notes.push(note);
            }
            Err(ExecuteError::Refused(..)) => {
                let note = format!("codec `{spec}` does not run on `{executor}`: left out");
                constants.notes.push(note);
            }
            Err(error) => return Err(error),
        }
    }
    begin("sums and copies".to_owned());
    constants.reduce_bytes_per_s = prober.sums(&constants)?;
    constants.copy_bytes_per_s = copy_bytes_per_s();
    Ok(constants)
}

struct Prober<'a> {
    executor: &'a dyn Executor,
    topology: &'a Topology,
    cancel: &'a Cancel,
}

impl Prober<'_> {
    /// Runs the work of a scenario, and variants if any, of which the first one counts.
    fn run(&self, work: &str, rounds: u32) -> Result<Timeline, ExecuteError> {
        let Topology { nodes, gpus_per_node, nics_per_node, .. } = self.topology;
        let text = format!(
            "name = \"probe\"\niterations = {rounds}\n\n[cluster]\nnodes = {nodes}\ngpus_per_node = {gpus_per_node}\n\
             nics_per_node = {nics_per_node}\ngpu_bandwidth = \"1 GB/s\"\nnic_bandwidth = \"1 GB/s\"\n\
             latency_intra = \"1 us\"\nlatency_inter = \"1 us\"\n\n{work}"
        );
        let experiment = load(&Source::from_text("probe", text, ""), &[], None)
            .unwrap_or_else(|error| panic!("probes are scenarios: {}", error.render(false)));
        let shared = Arc::new(Shared::default().verifying(false));
        let mut prepared = Prepared::with(&experiment, shared, self.cancel)?;
        Ok(prepared.run(0, self.executor, self.cancel)?.timeline)
    }

    /// Seconds of the iterations that count, the median.
    fn seconds(&self, work: &str, rounds: u32) -> Result<f64, ExecuteError> {
        let timeline = self.run(work, rounds)?;
        let end_s = |iteration: u32| {
            let spans = timeline.spans.iter().filter(|span| span.iteration == iteration);
            spans.map(|span| span.end_s).fold(0.0, f64::max)
        };
        Ok(median((1..rounds).map(end_s).collect()))
    }
}

/// Bytes per second of a copy in memory, the best of several.
fn copy_bytes_per_s() -> f64 {
    let source = vec![1_u8; COPIED];
    let mut target = vec![0_u8; COPIED];
    let copies = (0..4).map(|_| {
        let begin = Instant::now();
        target.copy_from_slice(std::hint::black_box(&source));
        std::hint::black_box(&target);
        begin.elapsed().as_secs_f64()
    });
    COPIED as f64 / copies.fold(f64::INFINITY, f64::min)
}

/// The value in the middle, the upper one of two.
fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// A line through the medians of the times of each size.
fn line_of(mut samples: Vec<(u64, f64)>) -> Option<Line> {
    samples.retain(|(bytes, seconds)| *bytes > 0 && *seconds > 0.0);
    samples.sort_by_key(|(bytes, _)| *bytes);
    let medians: Vec<(u64, f64)> = samples
        .chunk_by(|a, b| a.0 == b.0)
        .map(|same| (same[0].0, median(same.iter().map(|(_, seconds)| *seconds).collect())))
        .collect();
    (!medians.is_empty()).then(|| Line::through(&medians))
}

/// How long all frames of the longest probe travel, about.
const FRAMES_S: f64 = 0.2;
/// Bytes of values that a rank has for each other one, at most and at the least.
const MOST_VALUES: u64 = 4 << 20;
const SHORTEST: u64 = 128 << 10;

impl Prober<'_> {
    /// Measures launch time and speed of a codec; `None` if they are below the clock's resolution.
    fn codec(&self, spec: &Spec, constants: &HostConstants) -> Result<Option<Codec>, ExecuteError> {
        let (mut encodes, mut decodes) = (Vec::new(), Vec::new());
        for parts in 1..=4 {
            let bytes = self.longest(constants) / 4 * parts;
            let timeline = self.run(
                &format!(
                    "[workload]\nkind = \"collective\"\ncollective = \"all-gather\"\nbytes_per_rank = \"{bytes} B\"\n\
                     payload = {{ gaussian = 0.02 }}\n\n[codec]\nid = \"{spec}\"\n\
                     speed = {{ encode = \"1 GB/s\", decode = \"1 GB/s\" }}\n\n[[variant]]\nname = \"coded\"\n\
                     protocol = \"static-first\"\nalgorithm = \"direct\"\n"
                ),
                ROUNDS,
            )?;
            encodes.extend(samples(&timeline, "encode"));
            decodes.extend(samples(&timeline, "decode"));
        }
        let lines = line_of(encodes).zip(line_of(decodes));
        Ok(lines.map(|(encode, decode)| Codec { id: spec.to_string(), encode, decode }))
    }

    /// Bytes that a rank reads per second where it adds up.
    fn sums(&self, constants: &HostConstants) -> Result<Option<f64>, ExecuteError> {
        let bytes = self.longest(constants) * u64::from(self.topology.ranks());
        let timeline = self.run(
            &format!(
                "[workload]\nkind = \"collective\"\ncollective = \"reduce-scatter\"\nbytes_per_rank = \"{bytes} B\"\n\n\
                 [[variant]]\nname = \"native\"\nalgorithm = \"direct\"\n"
            ),
            ROUNDS,
        )?;
        // All are about as long, so there is no line through them.
        let rates: Vec<f64> = samples(&timeline, "reduce")
            .filter(|(bytes, seconds)| *bytes > 0 && *seconds > 0.0)
            .map(|(bytes, seconds)| bytes as f64 / seconds)
            .collect();
        Ok((!rates.is_empty()).then(|| median(rates)))
    }

    /// Bytes of values that a rank has for each other one in the longest probe.
    fn longest(&self, constants: &HostConstants) -> u64 {
        let pair = constants.inter.or(constants.intra);
        let bytes_per_s = pair.map_or(f64::INFINITY, |pair| pair.line.bytes_per_s);
        let others = f64::from(self.topology.ranks() - 1);
        ((bytes_per_s * FRAMES_S / others) as u64).clamp(SHORTEST, MOST_VALUES) / 64 * 64
    }
}

/// Bytes and seconds of the ops of a name, behind the first iteration.
fn samples<'t>(timeline: &'t Timeline, name: &'static str) -> impl Iterator<Item = (u64, f64)> + 't {
    let spans = timeline.spans.iter().filter(move |span| span.name == name && span.iteration > 0);
    spans.map(|span| (span.bytes, span.end_s - span.begin_s))
}

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
    fn links(&self, constants: &mut HostConstants) -> Result<(), ExecuteError> {
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
    fn shared_links(&self, constants: &mut HostConstants) -> Result<(), ExecuteError> {
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
