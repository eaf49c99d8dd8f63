//! Constants of the model: what each is called, in which unit it is, and what it says.

/// What a constant is measured in.
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

            /// What it says, in one line.
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
    /// What a rank copies to itself takes this share of what it would take to send it.
    OwnShare "own_share" Ratio;
    /// Trees within a node: bandwidth as a share of half a ring's.
    TreeShare "tree_share" Ratio;
    /// NVLS: bandwidth of a GPU's link that multicast and reduction in the switch reach, as a share of a ring's; 0 without NVLS.
    NvlsShare "nvls_share" Ratio;
    /// Every call with NVLS, more than with LL.
    NvlsBase "nvls_base" Time;
    /// With NVLS: time for each rank of the call.
    NvlsStep "nvls_step" Time;
    /// As `lag`, of NVLS.
    NvlsLag "nvls_lag" Time;
    /// Rings between nodes: bus bandwidth as a share of the node's NICs.
    NicShare "nic_share" Ratio;
    /// As `lag`, more of it between nodes.
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
    /// As `lag`, of grouped sends.
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
}
