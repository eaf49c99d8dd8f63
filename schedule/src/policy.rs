//! Choices that a variant makes: protocol, order, window; and the costs that executors charge.

use crate::Rank;

/// How a compressed All-to-All travels.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Protocol {
    /// Uncompressed: one exchange of raw values.
    Native,
    /// Encode, exchange sizes, exchange `compact` frames, decode (ZipCCL design 1, sec. 3.2).
    SizeFirst,
    /// Encode, exchange static sections, then sizes, then dynamic sections of `split` frames, decode
    /// (ZipCCL design 2, sec. 3.2).
    StaticFirst,
}

impl Protocol {
    /// All protocols.
    pub const ALL: [Self; 3] = [Self::Native, Self::SizeFirst, Self::StaticFirst];

    /// Name in scenarios.
    pub fn name(self) -> &'static str {
        match self {
            Self::Native => "native",
            Self::SizeFirst => "size-first",
            Self::StaticFirst => "static-first",
        }
    }

    /// Whether it needs a codec.
    pub fn is_coded(self) -> bool {
        self != Self::Native
    }
}

/// In which order a rank takes the transfers of an exchange into its window.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Order {
    /// Step k sends to rank + k and receives from rank - k, modulo the rank count.
    #[default]
    Rotation,
}

impl Order {
    /// All orders.
    pub const ALL: [Self; 1] = [Self::Rotation];

    /// Name in scenarios.
    pub fn name(self) -> &'static str {
        match self {
            Self::Rotation => "rotation",
        }
    }

    /// The peers that `rank` sends to, in order.
    pub fn sends(self, rank: Rank, rank_count: u32) -> Vec<Rank> {
        match self {
            Self::Rotation => (1..rank_count).map(|step| Rank((rank.0 + step) % rank_count)).collect(),
        }
    }

    /// The peers that `rank` receives from, in order.
    pub fn receives(self, rank: Rank, rank_count: u32) -> Vec<Rank> {
        match self {
            Self::Rotation => {
                (1..rank_count).map(|step| Rank((rank.0 + rank_count - step) % rank_count)).collect()
            }
        }
    }
}

/// How many transfers of an exchange a rank has open at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Window {
    /// Open sends, at least 1.
    pub sends: u32,
    /// Open receives, at least 1.
    pub receives: u32,
}

impl Window {
    /// The same bound for sends and receives.
    pub fn both(peers: u32) -> Self {
        Self { sends: peers, receives: peers }
    }
}

/// Declared cost of encode and decode ops: `launch_s + raw bytes / speed`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CodecCost {
    /// Raw bytes per second of encoding.
    pub encode_bytes_per_s: f64,
    /// Raw bytes per second of decoding.
    pub decode_bytes_per_s: f64,
    /// Seconds per op.
    pub launch_s: f64,
}

/// Host costs of a cluster.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct HostCost {
    /// Seconds from issuing a compute op or an exchange until it begins.
    pub launch_s: f64,
    /// Seconds from the arrival of the last size of an exchange until the host knows it.
    pub sync_s: f64,
}
