//! A model of NCCL: what an operation takes on given hardware, as the least over the ways in which NCCL could carry it out.
//!
//! Its structure is that of NCCL's own tuning model (NCCL 2.30, `src/graph/tuning.cc`): algorithm, protocol, a base latency, a
//! latency per step within and between nodes, and a bandwidth that follows from that of links and NICs. What differs: constants
//! are fitted to measurements, NCCL's being made to rank its choices; the slowest channel lags behind by the square root of the
//! time that all take, which is how measured bandwidths approach their peak; and bandwidths of links and NICs that a ring or a
//! tree needs at the same time add up as [`together`] says. It does not know how NCCL's choice errs, and so never calls slower
//! than the best one.

use super::constants::{Constant, Constants};
use super::{Algorithm, Candidate, FewChannels, ModelledCost, Operation, WireProtocol};
use crate::{Fabric, Part, Rank, Topology};

/// Bytes that each channel of a send has at least, if there are more than the fewest channels (fitted to the sizes at which
/// sends on 4 and 8 H100 get faster).
const CHANNEL_BYTES: f64 = 16.0 * 1024.0 * 1024.0;

/// Channels of sends on a GPU, which all its peers share.
const CHANNELS: f64 = 32.0;

/// GPUs of a domain beyond the first that slow the steps of its rings: as many as nodes have from whose logs [`Constant::RingCrowd`] is. A
/// library has no more channels for larger domains.
const CROWD: f64 = 7.0;

/// Bytes per second that all channels of trees carry out of a domain at most, in each direction. Nodes have no NICs for more; racks do, and
/// logs of 2 racks of GB300 and of 20 of GB200 show about this, whatever their NICs.
const TREES_BYTES_PER_S: f64 = 450e9;

/// Share of bandwidth that grouped sends lose with each doubling of the domains beyond two, as flows of more senders meet: fitted to logs of
/// 2 and 10 nodes of H100.
const PEERS_MEET: f64 = 0.021;

/// Share of a NIC that sends to one rank alone reach of what sends to several do, having fewer channels: fitted to logs of 2 nodes of H100.
const ONE_PEER: f64 = 0.9;

/// Share of its nominal link that a GPU reaches on the way to a NIC: over PCIe, 14.7 of 32 GB/s. NVLink is no limit.
const ALONE: f64 = 0.46;

/// The model on a cluster: what every operation takes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LibraryModel {
    /// The cluster's hardware.
    pub hardware: Hardware,
    /// The constants.
    pub constants: Constants,
}

impl LibraryModel {
    /// Name in cluster files: the library, and the version whose tuning model gave the structure.
    pub const NAME: &'static str = "nccl-2.30";

    /// Cost of an operation among `ranks` ranks, those of the first nodes.
    ///
    /// # Panics
    /// If there are fewer than 2 ranks.
    pub fn cost(&self, operation: Operation, ranks: u32) -> ModelledCost {
        assert!(ranks >= 2, "an operation of a library is one among several ranks");
        let ways = Ways::new(&self.constants, self.hardware.shape(ranks));
        ModelledCost::new(operation, ranks, ways.of(operation))
    }

    /// The model on the part of its hardware that a group of a cluster's ranks has.
    #[must_use]
    pub fn among(self, topology: &Topology, part: &Part) -> Self {
        let Hardware { node_bytes_per_s, nvlink_domain, .. } = self.hardware;
        let nics = f64::from(part.nics_per_node) / f64::from(topology.nics_per_node);
        let domain = if part.nodes_per_domain > 1 { part.nodes_per_domain * part.gpus_per_node } else { 0 };
        let hardware = Hardware {
            nodes: part.nodes,
            gpus_per_node: part.gpus_per_node,
            node_bytes_per_s: node_bytes_per_s * nics,
            nvlink_domain: domain.min(nvlink_domain),
            ..self.hardware
        };
        if part.group.is_all(topology.ranks()) { self } else { Self { hardware, ..self } }
    }

    /// Share of a NIC's line rate that sends reach among `ranks` ranks, of which each sends to `peers` of other NVLink domains at a time.
    pub fn peer_nic_share(&self, ranks: u32, peers: u32) -> f64 {
        Ways::new(&self.constants, self.hardware.shape(ranks)).peer_share(f64::from(peers))
    }

    /// Grouped sends of a rank that has so many bytes for all others together, and something for `beyond` ranks of other domains. An
    /// All-to-All of equal parts takes what [`cost`](Self::cost) says of it on nominal links, unless a GPU's port, which what stays in a domain and
    /// what leaves it share, takes longer; and any other one what its fullest link then takes: each rank may use its whole links for whomever it wants.
    pub fn sends(&self, topology: &Topology, bytes: u64, beyond: u32) -> Sends {
        self.sends_among(topology, &Part::whole(topology), bytes, beyond)
    }

    /// Grouped sends of a rank to others of a group of ranks.
    pub fn sends_among(&self, topology: &Topology, part: &Part, bytes: u64, beyond: u32) -> Sends {
        self.among(topology, part).sends_in(topology, part, bytes, beyond)
    }

    fn sends_in(&self, topology: &Topology, part: &Part, bytes: u64, beyond: u32) -> Sends {
        let ranks = part.ranks();
        let ways = Ways::new(&self.constants, self.hardware.shape(ranks));
        let size = bytes as f64 * ways.n / (ways.n - 1.0);
        let peers_s = f64::from(beyond) * ways.get(Constant::PeerHop);
        let timed = ways.grouped().map(|grouped| {
            let s_per_byte = grouped.within_s.max(grouped.beyond_s) + grouped.own_s;
            let moving_s = Candidate { s_per_byte, ..grouped.way }.seconds(size) - grouped.way.latency_s;
            (grouped, s_per_byte * size, moving_s)
        });
        let [ll, simple] = timed;
        let seconds = |(grouped, _, moving_s): &(Grouped, f64, f64)| grouped.way.latency_s + moving_s;
        let (grouped, full_s, moving_s) = if seconds(&simple) < seconds(&ll) { simple } else { ll };
        // What links take for each byte of the size if they lose nothing.
        let gpu_s = 1.0 / self.hardware.gpu_bytes_per_s;
        let host_s = match topology.fabric {
            Fabric::Host { bandwidth } => f64::from(part.gpus_per_node) / bandwidth,
            _ => 0.0,
        };
        let near_s = (ways.g - 1.0) / ways.n * gpu_s.max(host_s);
        let nic_s = ways.g / ways.shape.domain_bytes_per_s;
        let far_s = (ways.n - ways.g) / ways.n * gpu_s.max(nic_s);
        let lag = if full_s > 0.0 { moving_s / full_s } else { 1.0 };
        let loss = |own_s: f64, link_s: f64| if link_s > 0.0 { (own_s * lag / link_s).max(1.0) } else { 1.0 };
        Sends {
            latency_s: grouped.way.latency_s + peers_s,
            within: loss(grouped.within_s + grouped.own_s, near_s),
            beyond: loss(grouped.beyond_s, far_s),
        }
    }
}

/// Grouped sends to all peers: seconds for each byte of the operation's size, within a domain, beyond it, and of a rank's copy to itself.
struct Grouped {
    way: Candidate,
    within_s: f64,
    beyond_s: f64,
    own_s: f64,
}

/// Sends of one rank in a group, as its links see them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sends {
    /// Seconds before the first byte of any of them moves.
    pub latency_s: f64,
    /// Effective bytes for each byte to a rank of the same domain, at least 1.
    pub within: f64,
    /// Effective bytes for each byte to a rank of another domain, at least 1.
    pub beyond: f64,
}

impl Sends {
    /// Effective bytes for each byte from one rank to another.
    pub fn loss(&self, topology: &Topology, src: Rank, dst: Rank) -> f64 {
        if topology.is_near(src, dst) { self.within } else { self.beyond }
    }
}

struct Ways<'a> {
    constants: &'a Constants,
    shape: Shape,
    /// Ranks, of all and of a domain, and domains.
    n: f64,
    g: f64,
    domains: f64,
    /// Levels of a tree of domains.
    levels: f64,
    /// Bytes per second of a ring within a domain, on each link.
    link: f64,
}

impl<'a> Ways<'a> {
    fn new(constants: &'a Constants, shape: Shape) -> Self {
        let (n, g, domains) = (f64::from(shape.ranks), shape.ranks_per_domain, f64::from(shape.domains));
        let mut link = shape.gpu_bytes_per_s * constants.get(Constant::LinkShare);
        if g == 2.0 {
            link *= constants.get(Constant::PairShare);
        }
        Self { constants, shape, n, g, domains, levels: libm::log2(domains), link }
    }

    fn get(&self, constant: Constant) -> f64 {
        self.constants.get(constant)
    }

    fn is_one_domain(&self) -> bool {
        self.shape.domains == 1
    }

    /// Bytes per second of a domain's NICs, of which an algorithm gets a share.
    fn nics(&self, share: Constant) -> f64 {
        self.shape.domain_bytes_per_s * self.get(share)
    }

    fn of(&self, operation: Operation) -> Vec<Candidate> {
        match operation {
            Operation::AllGather | Operation::ReduceScatter => self.rings(operation, 1.0).to_vec(),
            Operation::AllReduce => {
                let mut ways = self.rings(operation, 2.0).to_vec();
                ways.extend(self.trees());
                ways.extend(self.multicast());
                ways
            }
            Operation::AllToAll => self.all_to_all().to_vec(),
            Operation::SendRecv => self.send_recv().to_vec(),
            Operation::Broadcast | Operation::Reduce => self.rings(operation, 1.0).to_vec(),
        }
    }

    fn way(&self, algorithm: Algorithm, protocol: WireProtocol) -> Candidate {
        let latency_s = self.get(Constant::Launch);
        Candidate { algorithm, protocol, latency_s, s_per_byte: 0.0, lag_s: 0.0, few_channels: None }
    }

    /// Rings that go round `rounds` times.
    fn rings(&self, operation: Operation, rounds: f64) -> [Candidate; 3] {
        let steps = rounds * (self.n - 1.0);
        let between = rounds * (self.domains - 1.0);
        let within = steps - between;
        let bus = if self.is_one_domain() {
            self.link
        } else {
            self.across(self.link, self.nics(Constant::NicShare))
        };
        // What a rank gives is copied to what it gets, unless the operation is done in place or adds up everything.
        let copies = matches!(operation, Operation::AllGather | Operation::ReduceScatter);
        let own_s = if copies { self.get(Constant::OwnShare) / self.n / self.link } else { 0.0 };
        let factor = operation.bus_factor(self.shape.ranks);
        let (crowd_s, lag_s) = if self.is_one_domain() {
            (0.0, self.get(Constant::Lag))
        } else {
            let crowd_s = self.get(Constant::RingCrowd) * (self.g - 1.0).min(CROWD);
            (crowd_s, self.get(Constant::Lag) + self.get(Constant::NicLag))
        };
        let way = |protocol, base_s: f64, step_s: f64, hop_s, bus: f64, own_s: f64, lag_s| {
            let way = self.way(Algorithm::Ring, protocol);
            let latency_s = way.latency_s + base_s + within * step_s + between * self.get(hop_s);
            Candidate { latency_s, s_per_byte: factor / bus + own_s, lag_s, ..way }
        };
        let ll_bus = bus.min(self.ll_bus());
        let ll128_bus = bus * self.get(Constant::Ll128Share);
        let (base_s, step_s) = (self.get(Constant::Ll128Base), self.get(Constant::Ll128Step) + crowd_s);
        let (simple_base_s, simple_step_s) =
            (self.get(Constant::SimpleBase), self.get(Constant::SimpleStep) + crowd_s);
        let ll_step_s = self.get(Constant::LlStep);
        [
            way(WireProtocol::Ll, 0.0, ll_step_s, Constant::RingLlHop, ll_bus, 0.0, 0.0),
            way(
                WireProtocol::Ll128,
                base_s,
                step_s,
                Constant::RingLl128Hop,
                ll128_bus,
                own_s,
                self.get(Constant::Lag) / 2.0,
            ),
            way(
                WireProtocol::Simple,
                simple_base_s,
                simple_step_s,
                Constant::RingSimpleHop,
                bus,
                own_s,
                lag_s,
            ),
        ]
    }

    /// Most that LL reaches, as bus bandwidth of a ring.
    fn ll_bus(&self) -> f64 {
        let most = self.get(Constant::LlBandwidth);
        if self.is_one_domain() { most } else { most.min(self.nics(Constant::LlNicShare)) }
    }

    /// Two trees, in each of which half of the values go up to the root and down again.
    fn trees(&self) -> [Candidate; 3] {
        let chain = self.link / 2.0 * self.get(Constant::TreeShare);
        let rate = if self.is_one_domain() { chain } else { self.across(chain, self.tree_nics()) };
        let chain_steps = self.g - 1.0;
        let way = |protocol, base_s, step, hop, rate: f64, lag_s| {
            let way = self.way(Algorithm::Tree, protocol);
            let one_way_s = chain_steps * self.get(step) + self.levels * self.get(hop);
            Candidate {
                latency_s: way.latency_s + base_s + 2.0 * one_way_s,
                s_per_byte: 1.0 / rate,
                lag_s,
                ..way
            }
        };
        let most = self.get(Constant::LlBandwidth) / 2.0;
        let ll = if self.is_one_domain() { most } else { most.min(self.nics(Constant::LlNicShare)) };
        let ll128_share = if self.is_one_domain() { Constant::Ll128Share } else { Constant::TreeLl128Share };
        let (ll_rate, ll128_rate) = (ll.min(rate), rate * self.get(ll128_share));
        let (ll128_base_s, simple_base_s) = (self.get(Constant::Ll128Base), self.get(Constant::SimpleBase));
        let lag_s = self.get(Constant::Lag);
        [
            way(WireProtocol::Ll, 0.0, Constant::LlStep, Constant::TreeLlHop, ll_rate, 0.0),
            way(
                WireProtocol::Ll128,
                ll128_base_s,
                Constant::Ll128Step,
                Constant::TreeLl128Hop,
                ll128_rate,
                lag_s,
            ),
            way(
                WireProtocol::Simple,
                simple_base_s,
                Constant::SimpleStep,
                Constant::TreeSimpleHop,
                rate,
                lag_s,
            ),
        ]
    }

    /// Bytes per second of values that the NICs of a domain carry through two trees. Between two domains each sends half of what
    /// it has and of what it gets; in larger trees a domain has two children in one of the two.
    fn tree_nics(&self) -> f64 {
        let nics = self.shape.domain_bytes_per_s.min(TREES_BYTES_PER_S) * self.get(Constant::TreeNicShare);
        if self.shape.domains == 2 { nics } else { nics / 2.0 }
    }

    /// Reduction and multicast in switches. A GPU gives its values and gets the sums of its share, to send them to all: values
    /// and 1/ranks of them move in each direction of its link.
    fn multicast(&self) -> Option<Candidate> {
        let share = self.get(Constant::NvlsShare);
        if share == 0.0 || self.g < 2.0 {
            return None;
        }
        let within = share * self.link / (1.0 + 1.0 / self.g);
        let steps_s = self.n * self.get(Constant::NvlsStep);
        let base_s = self.get(Constant::Launch) + self.get(Constant::NvlsBase) + steps_s;
        let hops_s = 2.0 * self.levels * self.get(Constant::NvlsTreeHop);
        let sharp = self.nics(Constant::SharpShare);
        let (algorithm, latency_s, rate) = if self.is_one_domain() {
            (Algorithm::Nvls, base_s, within)
        } else if self.get(Constant::SharpShare) > 0.0 {
            (Algorithm::NvlsSharp, base_s + hops_s, self.across(within, sharp))
        } else {
            (Algorithm::NvlsTree, base_s + hops_s, self.across(within, self.tree_nics()))
        };
        let way = self.way(algorithm, WireProtocol::Simple);
        Some(Candidate { latency_s, s_per_byte: 1.0 / rate, lag_s: self.get(Constant::NvlsLag), ..way })
    }

    /// Share of a NIC's line rate that grouped sends of a rank to so many ranks of other domains reach.
    fn peer_share(&self, peers: f64) -> f64 {
        let share = self.get(Constant::PeerNicShare);
        if peers == 1.0 {
            ONE_PEER * share
        } else {
            share / (1.0 + PEERS_MEET * (self.levels - 1.0).max(0.0))
        }
    }

    /// Bytes per second of these.
    fn peer_nic(&self, peers: f64) -> f64 {
        self.shape.domain_bytes_per_s / self.g * self.peer_share(peers)
    }

    /// Sends to all peers at the same time: within the domain over its links, beyond it over NICs.
    fn all_to_all(&self) -> [Candidate; 2] {
        let peers_s = (self.n - self.g) * self.get(Constant::PeerHop);
        self.grouped().map(|Grouped { way, within_s, beyond_s, own_s }| Candidate {
            latency_s: way.latency_s + peers_s,
            s_per_byte: within_s.max(beyond_s) + own_s,
            ..way
        })
    }

    /// Sends to all peers, without the time for each peer.
    fn grouped(&self) -> [Grouped; 2] {
        let link = self.link * self.get(Constant::PeerLinkShare);
        let (beyond_s, own_s) = if self.is_one_domain() {
            (0.0, self.get(Constant::OwnShare) / self.n / self.link)
        } else {
            ((self.domains - 1.0) / self.domains / self.peer_nic(self.n - self.g), 0.0)
        };
        let within_s = |link: f64| (self.g - 1.0) / self.n / link;
        let way = |protocol, base, lag_s| {
            let way = self.way(Algorithm::Peers, protocol);
            Candidate { latency_s: way.latency_s + self.get(base), lag_s, ..way }
        };
        [
            Grouped {
                way: way(WireProtocol::Ll, Constant::PeerLlBase, 0.0),
                within_s: within_s(link.min(self.get(Constant::PeerLlBandwidth))),
                beyond_s: 2.0 * beyond_s,
                own_s: 0.0,
            },
            Grouped {
                way: way(WireProtocol::Simple, Constant::PeerBase, self.get(Constant::PeerLag)),
                within_s: within_s(link),
                beyond_s,
                own_s,
            },
        ]
    }

    /// Each rank sends to the next: the last one of a domain over the NIC that is nearest to it.
    fn send_recv(&self) -> [Candidate; 2] {
        let link = self.link * self.get(Constant::PeerLinkShare);
        let rate = if self.is_one_domain() { link } else { link.min(self.peer_nic(1.0)) };
        let channel = self.get(Constant::PeerChannelShare) * self.shape.gpu_bytes_per_s;
        let fewest = (CHANNELS / self.n).max(1.0);
        let few_channels =
            FewChannels { s_per_byte: 1.0 / (fewest * channel), channel_s: CHANNEL_BYTES / channel };
        let hop_s = if self.is_one_domain() { 0.0 } else { self.get(Constant::PeerHop) };
        let way = |protocol, base, s_per_byte, lag_s, few_channels| {
            let way = self.way(Algorithm::Peers, protocol);
            Candidate {
                latency_s: way.latency_s + self.get(base) + hop_s,
                s_per_byte,
                lag_s,
                few_channels,
                ..way
            }
        };
        let ll_s = 1.0 / rate.min(self.get(Constant::PeerLlBandwidth));
        [
            way(WireProtocol::Ll, Constant::PeerLlBase, ll_s, 0.0, None),
            way(
                WireProtocol::Simple,
                Constant::PeerBase,
                1.0 / rate,
                self.get(Constant::PeerLag),
                Some(few_channels),
            ),
        ]
    }

    /// Bandwidth of what needs links within domains and NICs between them at the same time. Of a rank that is alone in its domain, the link
    /// only leads to its NIC, which matters where it is PCIe.
    fn across(&self, within: f64, between: f64) -> f64 {
        if self.g > 1.0 { together(within, between) } else { between.min(self.shape.gpu_bytes_per_s * ALONE) }
    }
}

/// Bandwidth of two resources that are needed at the same time: the less of the two where they differ much, and up to 13 %
/// less than that where they are equal, because neither is always busy when the other is. The exponent is fitted to rings
/// and trees over eight H100 with a 400 Gb/s NIC each.
fn together(a: f64, b: f64) -> f64 {
    const EXPONENT: f64 = 5.0;
    let (less, more) = (a.min(b), a.max(b));
    less / libm::pow(1.0 + libm::pow(less / more, EXPONENT), 1.0 / EXPONENT)
}

/// Hardware of a cluster, nominal.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Hardware {
    /// Number of nodes.
    pub nodes: u32,
    /// GPUs of each node that take part.
    pub gpus_per_node: u32,
    /// Bytes per second of a GPU's link within the node, in each direction.
    pub gpu_bytes_per_s: f64,
    /// Bytes per second of all NICs together that these GPUs of a node use, in each direction.
    pub node_bytes_per_s: f64,
    /// GPUs that NVLink connects where these are those of several nodes, as in a rack; 0 if they are those of one node.
    pub nvlink_domain: u32,
}

/// Ranks in domains, within each of which NVLink (or whatever is in a node) connects them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Shape {
    /// Domains, at least 1.
    pub domains: u32,
    /// Ranks of each domain; of the mean one where they differ.
    pub ranks_per_domain: f64,
    /// All ranks.
    pub ranks: u32,
    /// Bytes per second of a GPU's link within its domain, in each direction.
    pub gpu_bytes_per_s: f64,
    /// Bytes per second of all NICs of the smallest domain together, in each direction; infinite if there is one domain.
    pub domain_bytes_per_s: f64,
}

impl Hardware {
    /// The shape of a call among the first `ranks` ranks, at least 1 and at most all.
    pub fn shape(&self, ranks: u32) -> Shape {
        let gpus = self.gpus_per_node.max(1);
        let nodes = ranks.div_ceil(gpus).max(1);
        let nodes_per_domain = (self.nvlink_domain / gpus).clamp(1, nodes);
        let domains = nodes.div_ceil(nodes_per_domain);
        let domain_bytes_per_s = match domains {
            1 => f64::INFINITY,
            // Those of the smallest one: what goes round passes all of them.
            _ => self.node_bytes_per_s * f64::from(nodes - (domains - 1) * nodes_per_domain),
        };
        Shape {
            domains,
            ranks_per_domain: f64::from(ranks) / f64::from(domains),
            ranks,
            gpu_bytes_per_s: self.gpu_bytes_per_s,
            domain_bytes_per_s,
        }
    }

    /// Number of all ranks.
    pub fn ranks(&self) -> u32 {
        self.nodes * self.gpus_per_node
    }
}

#[cfg(test)]
mod tests {
    use super::super::Generation;
    use super::*;

    fn rack(nodes: u32) -> Hardware {
        Hardware {
            nodes,
            gpus_per_node: 4,
            gpu_bytes_per_s: 900e9,
            node_bytes_per_s: 200e9,
            nvlink_domain: 72,
        }
    }

    #[test]
    fn a_rack_of_eighteen_nodes_is_one_domain_and_twenty_racks_are_twenty() {
        let one = rack(18).shape(72);
        assert_eq!((one.domains, one.ranks_per_domain), (1, 72.0));
        let twenty = rack(360).shape(1440);
        assert_eq!((twenty.domains, twenty.ranks_per_domain), (20, 72.0));
        assert_eq!(twenty.domain_bytes_per_s, 18.0 * 200e9);
    }

    #[test]
    fn nodes_are_domains_unless_something_else_is_said() {
        let hardware = Hardware { nvlink_domain: 0, ..rack(3) };
        let all = hardware.shape(hardware.ranks());
        assert_eq!((all.domains, all.ranks_per_domain, all.domain_bytes_per_s), (3, 4.0, 200e9));
        assert_eq!(hardware.shape(4).domains, 1);
    }

    fn model(hardware: Hardware, generation: Generation) -> LibraryModel {
        LibraryModel { hardware, constants: generation.constants() }
    }

    fn bus(model: &LibraryModel, operation: Operation, bytes: f64) -> f64 {
        let ranks = model.hardware.ranks();
        operation.bus_factor(ranks) * bytes / model.cost(operation, ranks).seconds(bytes)
    }

    /// Two racks of GB300 reach 739 GB/s of bus bandwidth at 16 GiB, and twenty of GB200 406 GB/s.
    #[test]
    fn trees_of_racks_have_no_more_channels_than_those_of_nodes() {
        let size = 16.0 * 1024.0 * 1024.0 * 1024.0;
        let racks = |nodes| bus(&model(rack(nodes), Generation::Blackwell), Operation::AllReduce, size) / 1e9;
        assert!((racks(32) / 739.0 - 1.0).abs() < 0.1, "{}", racks(32));
        assert!((racks(360) / 406.0 - 1.0).abs() < 0.1, "{}", racks(360));
        let slower = Hardware { node_bytes_per_s: 100e9, ..rack(360) };
        let nics = bus(&model(slower, Generation::Blackwell), Operation::AllReduce, size) / 1e9;
        assert!((nics / racks(360) - 1.0).abs() < 1e-3, "NICs of racks limit nothing: {nics}");
    }

    /// 64 MiB of each of 144 GPUs in two racks: 13 ms at 720 GB/s, and 143 steps.
    #[test]
    fn steps_of_rings_do_not_slow_down_with_all_gpus_of_a_rack() {
        let model = model(rack(36), Generation::Blackwell);
        let seconds = model.cost(Operation::AllGather, 144).seconds(144.0 * f64::from(64 << 20));
        assert!((0.0134..0.018).contains(&seconds), "{seconds}");
    }

    #[test]
    fn sends_to_one_rank_and_among_many_nodes_reach_less_of_a_nic() {
        let of = |nodes, gpus_per_node| Hardware {
            nodes,
            gpus_per_node,
            gpu_bytes_per_s: 450e9,
            node_bytes_per_s: 50e9 * f64::from(gpus_per_node),
            nvlink_domain: 0,
        };
        let size = 16.0 * 1024.0 * 1024.0 * 1024.0;
        let nic = |nodes, gpus, operation| {
            let (n, g) = (f64::from(nodes * gpus), f64::from(gpus));
            let bus = bus(&model(of(nodes, gpus), Generation::Hopper), operation, size) / 1e9;
            if operation == Operation::AllToAll { bus * (n - g) / (n - 1.0) } else { bus }
        };
        // Logs of H100 with a NIC of 400 Gb/s for each GPU, whose pairs are up to 10 % apart: 43.8, 38.9, 47.9, 45.2.
        for (measured, modelled) in [
            (43.8, nic(2, 1, Operation::SendRecv)),
            (38.9, nic(2, 1, Operation::AllToAll)),
            (47.9, nic(2, 2, Operation::AllToAll)),
            (45.2, nic(10, 2, Operation::AllToAll)),
        ] {
            assert!((modelled / measured - 1.0_f64).abs() < 0.13, "{measured} {modelled}");
        }
        assert!(nic(2, 2, Operation::AllToAll) > nic(10, 2, Operation::AllToAll));
    }

    /// A GPU alone in its node has its link only on the way to the NIC.
    #[test]
    fn a_link_that_is_slower_than_the_nic_limits_rings() {
        let hardware = Hardware {
            nodes: 2,
            gpus_per_node: 1,
            gpu_bytes_per_s: 32e9,
            node_bytes_per_s: 25e9,
            nvlink_domain: 0,
        };
        let size = 8.0 * 1024.0 * 1024.0 * 1024.0;
        let pcie = bus(&model(hardware, Generation::Pcie), Operation::AllReduce, size) / 1e9;
        assert!((10.0..15.0).contains(&pcie), "{pcie}");
        let nvlink = Hardware { gpu_bytes_per_s: 450e9, ..hardware };
        assert!(bus(&model(nvlink, Generation::Hopper), Operation::AllGather, size) / 1e9 > 23.0);
    }
}
