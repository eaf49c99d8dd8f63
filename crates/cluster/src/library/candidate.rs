//! One way in which a library could carry out an operation, and what it would take.

/// How the steps of an operation are laid out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Algorithm {
    /// Along rings through all ranks.
    Ring,
    /// Up and down trees of nodes, and along a chain within each.
    Tree,
    /// Through switches of NVLink that add and copy.
    Nvls,
    /// As `Nvls` within a node, and trees between nodes.
    NvlsTree,
    /// As `Nvls` within a node, and sums in the network's switches between nodes.
    NvlsSharp,
    /// Sends straight to each peer.
    Peers,
}

/// How a library's kernels signal that data is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum WireProtocol {
    /// A flag beside every four bytes: least latency, less than half of the bandwidth.
    Ll,
    /// A flag in every 128 bytes.
    Ll128,
    /// A flag after each slice: all bandwidth, most latency.
    Simple,
}

/// One of the ways: `latency + t + sqrt(lag t)` with `t = bytes seconds_per_byte`, but at least what a send with few channels takes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Candidate {
    /// The steps.
    pub algorithm: Algorithm,
    /// The signalling.
    pub protocol: WireProtocol,
    /// Seconds of a call without bytes.
    pub latency_s: f64,
    /// Seconds for each byte of the operation's size.
    pub s_per_byte: f64,
    /// Seconds of lag, see [`Constant::Lag`](super::Constant::Lag).
    pub lag_s: f64,
    /// Of a send: the few channels that a short one has.
    pub few_channels: Option<FewChannels>,
}

/// A short send has few channels, and gets more with its length: each has so many bytes of it at least.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FewChannels {
    /// Seconds for each byte with the fewest channels.
    pub s_per_byte: f64,
    /// Seconds that a channel takes for the bytes that it has at least.
    pub channel_s: f64,
}

impl Candidate {
    /// Seconds of an operation of so many bytes: its size, as nccl-tests has it.
    pub fn seconds(&self, bytes: f64) -> f64 {
        let mut moving_s = bytes * self.s_per_byte;
        if let Some(few) = &self.few_channels {
            moving_s = moving_s.max((bytes * few.s_per_byte).min(few.channel_s));
        }
        self.latency_s + moving_s + (self.lag_s * moving_s).sqrt()
    }

    /// Name, as `ring/LL128`.
    pub fn name(&self) -> &'static str {
        use WireProtocol::{Ll, Ll128, Simple};
        match (self.algorithm, self.protocol) {
            (Algorithm::Ring, Ll) => "ring/LL",
            (Algorithm::Ring, Ll128) => "ring/LL128",
            (Algorithm::Ring, Simple) => "ring/Simple",
            (Algorithm::Tree, Ll) => "tree/LL",
            (Algorithm::Tree, Ll128) => "tree/LL128",
            (Algorithm::Tree, Simple) => "tree/Simple",
            (Algorithm::Nvls, _) => "nvls/Simple",
            (Algorithm::NvlsTree, _) => "nvls-tree/Simple",
            (Algorithm::NvlsSharp, _) => "nvls-sharp/Simple",
            (Algorithm::Peers, Ll | Ll128) => "peers/LL",
            (Algorithm::Peers, Simple) => "peers/Simple",
        }
    }
}
