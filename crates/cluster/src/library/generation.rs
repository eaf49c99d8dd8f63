//! Constants by generation of GPUs, fitted to public logs of nccl-tests.
//!
//! What is said of GPUs of a node comes from logs of one node, and what is said of the network from logs of several nodes with
//! InfiniBand or Ethernet NICs that do RDMA: [validation](../../../../docs/validation-library.md) lists them, and says how well each is met.
//! Constants that no log determines are near those of NCCL 2.30 (`src/graph/tuning.cc`).

use super::constants::{Constant, Constants};

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
    (Constant::PeerNicShare, [0.922, 0.922, 0.922, 0.922]),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_constant_is_in_the_table_once() {
        for (index, (constant, values)) in TABLE.into_iter().enumerate() {
            assert_eq!(constant as usize, index, "{}", constant.key());
            assert!(values.into_iter().all(|value| value >= 0.0 && value.is_finite()), "{}", constant.key());
        }
    }
}
