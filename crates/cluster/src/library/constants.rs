//! Constants of the model: their names and units, and their values by generation of GPUs, fitted to public logs of nccl-tests.
//!
//! Constants about GPUs of a node come from logs of one node, and those about the network from logs of several nodes with InfiniBand or
//! Ethernet NICs that do RDMA: [validation](../../../../docs/accuracy.md) lists them, and says how well each is met. Constants
//! that no log determines are near those of NCCL 2.30 (`src/graph/tuning.cc`).

/// Unit of a constant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConstantUnit {
    /// Seconds.
    Time,
    /// Bytes per second.
    Bandwidth,
    /// A share or a multiple of something.
    Ratio,
}

macro_rules! constants {
    ($($(#[doc = $about:literal])+ $name:ident $key:literal $unit:ident;)+) => {
        /// A constant of the model of a library.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum Constant {
            $($(#[doc = $about])+ $name,)+
        }

        impl Constant {
            /// All of them, in the order of the variants.
            pub const ALL: [Self; Self::COUNT] = [$(Self::$name),+];

            /// Their names in cluster files, in the same order.
            pub const KEYS: &'static [&'static str] = &[$($key),+];

            const COUNT: usize = [$($key),+].len();

            /// Name in cluster files.
            pub fn key(self) -> &'static str {
                Self::KEYS[self as usize]
            }

            /// Whether 0 means that the library or the hardware lacks what it is about.
            pub fn may_be_none(self) -> bool {
                matches!(self, Self::NvlsShare | Self::SharpShare | Self::OwnShare)
            }

            /// Its unit.
            pub fn unit(self) -> ConstantUnit {
                match self { $(Self::$name => ConstantUnit::$unit,)+ }
            }

            /// Description in one line.
            pub fn about(self) -> &'static str {
                match self { $(Self::$name => concat!($($about),+).trim_ascii(),)+ }
            }
        }
    };
}

constants! {
    /// Every call: launch of its kernel, and what nccl-tests adds.
    Launch "launch" Time;
    /// Ring and tree with protocol LL: one step between GPUs of a node.
    LlStep "ll_step" Time;
    /// Ring with LL: bus bandwidth at most.
    LlBandwidth "ll_bandwidth" Bandwidth;
    /// LL between nodes: bus bandwidth at most, as a share of the node's NICs.
    LlNicShare "ll_nic_share" Ratio;
    /// Every call with LL128, more than with LL.
    Ll128Base "ll128_base" Time;
    /// Ring and tree with LL128: one step between GPUs of a node.
    Ll128Step "ll128_step" Time;
    /// LL128: its bandwidth as a share of that of Simple.
    Ll128Share "ll128_share" Ratio;
    /// Every call with Simple, more than with LL.
    SimpleBase "simple_base" Time;
    /// Ring and tree with Simple: one step between GPUs of a node.
    SimpleStep "simple_step" Time;
    /// Rings within a node: bus bandwidth as a share of a GPU's link.
    LinkShare "link_share" Ratio;
    /// Two GPUs of a node alone: their bandwidth as a share of what more GPUs reach.
    PairShare "pair_share" Ratio;
    /// Time that the slowest channel of a ring or a tree lags behind: the square root of this times the time at full bandwidth.
    Lag "lag" Time;
    /// Share of the time of a send that a rank's copy to itself takes.
    OwnShare "own_share" Ratio;
    /// Trees within a node: bandwidth as a share of half a ring's.
    TreeShare "tree_share" Ratio;
    /// NVLS: bandwidth of a GPU's link that multicast and reduction in the switch reach, as a share of a ring's; 0 without NVLS.
    NvlsShare "nvls_share" Ratio;
    /// Every call with NVLS, more than with LL.
    NvlsBase "nvls_base" Time;
    /// With NVLS: time for each rank of the call.
    NvlsStep "nvls_step" Time;
    /// Lag of NVLS, see `lag`.
    NvlsLag "nvls_lag" Time;
    /// Rings between nodes: bus bandwidth as a share of the node's NICs.
    NicShare "nic_share" Ratio;
    /// Lag between nodes, beyond `lag`.
    NicLag "nic_lag" Time;
    /// Ring with LL: one step between nodes.
    RingLlHop "ring_ll_hop" Time;
    /// Ring with LL128: one step between nodes.
    RingLl128Hop "ring_ll128_hop" Time;
    /// Ring with Simple: one step between nodes.
    RingSimpleHop "ring_simple_hop" Time;
    /// Ring with LL128 or Simple over several nodes: a step within a node, more for each further GPU of the node.
    RingCrowd "ring_crowd" Time;
    /// Trees between nodes: bandwidth as a share of the node's NICs.
    TreeNicShare "tree_nic_share" Ratio;
    /// Tree with LL: one level between nodes, in one direction.
    TreeLlHop "tree_ll_hop" Time;
    /// Tree with LL128: one level between nodes, in one direction.
    TreeLl128Hop "tree_ll128_hop" Time;
    /// Tree with Simple: one level between nodes, in one direction.
    TreeSimpleHop "tree_simple_hop" Time;
    /// Tree with LL128 between nodes: its bandwidth as a share of that of Simple.
    TreeLl128Share "tree_ll128_share" Ratio;
    /// Tree of NVLS domains: one level between nodes, in one direction.
    NvlsTreeHop "nvls_tree_hop" Time;
    /// Sums in the network's switches (SHARP): bandwidth as a share of the node's NICs; 0 without.
    SharpShare "sharp_share" Ratio;
    /// Grouped sends with LL, more than an empty call.
    PeerLlBase "peer_ll_base" Time;
    /// Grouped sends with Simple, more than an empty call.
    PeerBase "peer_base" Time;
    /// Grouped sends with LL: bandwidth of a rank at most.
    PeerLlBandwidth "peer_ll_bandwidth" Bandwidth;
    /// Grouped sends within a node: bandwidth as a share of a ring's.
    PeerLinkShare "peer_link_share" Ratio;
    /// One channel of a send, of which a short one has few: bandwidth as a share of a GPU's link.
    PeerChannelShare "peer_channel_share" Ratio;
    /// Lag of grouped sends, see `lag`.
    PeerLag "peer_lag" Time;
    /// Grouped sends to other nodes: time for each peer there.
    PeerHop "peer_hop" Time;
    /// Grouped sends between nodes: bandwidth as a share of the node's NICs.
    PeerNicShare "peer_nic_share" Ratio;
}

/// A value of each constant, in seconds, bytes per second, or none of these.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Constants([f64; Constant::COUNT]);

impl Constants {
    /// Constants from their values, in the order of [`Constant::ALL`].
    pub(super) const fn new(values: [f64; Constant::COUNT]) -> Self {
        Self(values)
    }

    /// The value of one.
    pub fn get(&self, constant: Constant) -> f64 {
        self.0[constant as usize]
    }

    /// Sets the value of one.
    pub fn set(&mut self, constant: Constant, value: f64) {
        self.0[constant as usize] = value;
    }
}

const US: f64 = 1e-6;
const GB: f64 = 1e9;
const COUNT: usize = Constant::ALL.len();

/// A generation of GPUs, and how NVLink connects those of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Generation {
    /// A100: third-generation NVLink, no NVLS.
    Ampere,
    /// H100 and H200: fourth-generation NVLink with switches that add (NVLS).
    Hopper,
    /// B200 and GB200: fifth-generation NVLink with NVLS.
    Blackwell,
    /// GPUs without NVLink.
    Pcie,
}

impl Generation {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Ampere, Self::Hopper, Self::Blackwell, Self::Pcie];

    /// Name in cluster files.
    pub fn name(self) -> &'static str {
        match self {
            Self::Ampere => "ampere",
            Self::Hopper => "hopper",
            Self::Blackwell => "blackwell",
            Self::Pcie => "pcie",
        }
    }

    /// Its constants.
    pub fn constants(self) -> Constants {
        let column = self as usize;
        let mut constants = Constants::new([0.0; COUNT]);
        for (constant, values) in TABLE {
            constants.set(constant, values[column]);
        }
        constants
    }
}

/// Each constant for all generations, in the order of [`Generation::ALL`].
#[rustfmt::skip]
const TABLE: [(Constant, [f64; 4]); COUNT] = [
    (Constant::Launch, [9.23 * US, 5.05 * US, 8.27 * US, 3.96 * US]),
    (Constant::LlStep, [0.903 * US, 0.808 * US, 1.24 * US, 1.58 * US]),
    (Constant::LlBandwidth, [57.8 * GB, 128.0 * GB, 231.0 * GB, 13.1 * GB]),
    (Constant::LlNicShare, [0.06, 0.07, 0.1, 0.12]),
    (Constant::Ll128Base, [10.9 * US, 6.76 * US, 1.41 * US, 19.9 * US]),
    (Constant::Ll128Step, [0.331 * US, 0.461 * US, 6.79 * US, 0.895 * US]),
    (Constant::Ll128Share, [0.825, 0.99, 0.975, 0.796]),
    (Constant::SimpleBase, [8.31 * US, 10.2 * US, 14.1 * US, 5.42 * US]),
    (Constant::SimpleStep, [1.78 * US, 1.57 * US, 4.86 * US, 2.53 * US]),
    (Constant::LinkShare, [0.759, 0.834, 0.799, 0.386]),
    (Constant::PairShare, [0.925, 0.924, 0.803, 1.51]),
    (Constant::Lag, [11.6 * US, 13.2 * US, 0.319 * US, 0.831 * US]),
    (Constant::OwnShare, [0.163, 0.204, 0.304, 0.133]),
    (Constant::TreeShare, [0.913, 0.896, 0.9, 0.9]),
    (Constant::NvlsShare, [0.0, 0.831, 0.72, 0.0]),
    (Constant::NvlsBase, [14.0 * US, 15.8 * US, 4.0 * US, 14.0 * US]),
    (Constant::NvlsStep, [2.0 * US, 1.26 * US, 5.0 * US, 2.0 * US]),
    (Constant::NvlsLag, [10.0 * US, 11.6 * US, 20.0 * US, 10.0 * US]),
    (Constant::NicShare, [0.97, 0.999, 0.97, 0.97]),
    (Constant::NicLag, [21.1 * US, 21.1 * US, 21.1 * US, 21.1 * US]),
    (Constant::RingLlHop, [7.0 * US, 7.0 * US, 7.0 * US, 7.0 * US]),
    (Constant::RingLl128Hop, [1.92 * US, 1.92 * US, 1.92 * US, 1.92 * US]),
    (Constant::RingSimpleHop, [12.7 * US, 12.7 * US, 12.7 * US, 12.7 * US]),
    (Constant::RingCrowd, [2.0 * US, 2.0 * US, 2.0 * US, 2.0 * US]),
    (Constant::TreeNicShare, [0.878, 0.878, 0.95, 0.878]),
    (Constant::TreeLlHop, [7.99 * US, 9.36 * US, 9.36 * US, 9.36 * US]),
    (Constant::TreeLl128Hop, [25.0 * US, 42.5 * US, 42.5 * US, 42.5 * US]),
    (Constant::TreeSimpleHop, [30.0 * US, 45.0 * US, 45.0 * US, 45.0 * US]),
    (Constant::TreeLl128Share, [0.7, 0.7, 0.7, 0.7]),
    (Constant::NvlsTreeHop, [35.3 * US, 45.0 * US, 29.4 * US, 35.3 * US]),
    (Constant::SharpShare, [0.0, 0.0, 0.0, 0.0]),
    (Constant::PeerLlBase, [4.37 * US, 2.01 * US, 1.87 * US, 5.0 * US]),
    (Constant::PeerBase, [2.83 * US, 4.7 * US, 6.58 * US, 3.64 * US]),
    (Constant::PeerLlBandwidth, [69.2 * GB, 8.06 * GB, 14.3 * GB, 11.1 * GB]),
    (Constant::PeerLinkShare, [1.04, 0.99, 0.808, 0.83]),
    (Constant::PeerChannelShare, [0.045, 0.045, 0.045, 0.045]),
    (Constant::PeerLag, [23.6 * US, 7.78 * US, 2.92 * US, 4.29 * US]),
    (Constant::PeerHop, [2.91 * US, 2.91 * US, 2.91 * US, 2.91 * US]),
    (Constant::PeerNicShare, [0.967, 0.967, 0.967, 0.967]),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn constants_are_told_apart_by_their_keys() {
        for (index, constant) in Constant::ALL.into_iter().enumerate() {
            assert_eq!(constant as usize, index);
            assert!(!Constant::KEYS[..index].contains(&constant.key()), "{}", constant.key());
            assert!(constant.about().ends_with('.'), "{}", constant.key());
        }
    }

    #[test]
    fn every_constant_is_in_the_table_once() {
        for (index, (constant, values)) in TABLE.into_iter().enumerate() {
            assert_eq!(constant as usize, index, "{}", constant.key());
            assert!(values.into_iter().all(|value| value >= 0.0 && value.is_finite()), "{}", constant.key());
        }
    }
}
