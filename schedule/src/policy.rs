//! Choices that a variant makes: protocol, order, window.

use std::cmp::Reverse;

use zipwire_codec::Layout;

use crate::Rank;

/// Stages in which a compressed collective travels.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Protocol {
    /// Uncompressed: one stage of raw values.
    Native,
    /// Encode, exchange sizes, exchange `compact` frames, decode (ZipCCL design 1, sec. 3.2; its All-Gather, sec. 3.1).
    SizeFirst,
    /// Encode, exchange static sections, then sizes, then dynamic sections of `split` frames, decode
    /// (ZipCCL design 2, sec. 3.2).
    StaticFirst,
    /// `StaticFirst`, with sizes that travel beside the static sections.
    OverlapSizes,
    /// `StaticFirst`, with each static section bringing its size along.
    InBand,
    /// Encode, exchange slots of a predicted capacity with the sizes of what they hold, then what they could not hold,
    /// decode.
    Speculative,
    /// Exchange the signs and mantissas, which a codec leaves as they are, while it codes the rest of the values, then frames
    /// without them like `InBand`, decode (UCCL-Zip's split-send).
    SplitSend,
}

impl Protocol {
    /// All protocols.
    pub const ALL: [Self; 7] = [
        Self::Native,
        Self::SizeFirst,
        Self::StaticFirst,
        Self::OverlapSizes,
        Self::InBand,
        Self::Speculative,
        Self::SplitSend,
    ];

    /// Name in scenarios.
    pub fn name(self) -> &'static str {
        match self {
            Self::Native => "native",
            Self::SizeFirst => "size-first",
            Self::StaticFirst => "static-first",
            Self::OverlapSizes => "overlap-sizes",
            Self::InBand => "in-band",
            Self::Speculative => "speculative",
            Self::SplitSend => "split-send",
        }
    }

    /// Layout of its frames, unless another is chosen; `None` if it has none.
    pub fn layout(self) -> Option<Layout> {
        match self {
            Self::Native => None,
            Self::SizeFirst | Self::Speculative => Some(Layout::Compact),
            Self::StaticFirst | Self::OverlapSizes | Self::InBand | Self::SplitSend => Some(Layout::Split),
        }
    }

    /// Whether its frames can have another layout than [`layout`](Self::layout) says.
    pub fn takes_layout(self) -> bool {
        matches!(self, Self::SizeFirst | Self::Speculative)
    }

    /// Whether signs and mantissas, which a codec leaves as they are, travel apart from its frames.
    pub fn sends_sign_mantissa(self) -> bool {
        self == Self::SplitSend
    }

    /// Exchanges of a call that goes straight: of values or sections, and of sizes where these travel by themselves.
    pub fn exchanges(self) -> u32 {
        match self {
            Self::Native => 1,
            Self::SizeFirst | Self::InBand | Self::SplitSend | Self::Speculative => 2,
            Self::StaticFirst | Self::OverlapSizes => 3,
        }
    }

    /// Whether it needs a codec.
    pub fn is_coded(self) -> bool {
        self.layout().is_some()
    }
}

/// Order in which a rank takes the transfers of an exchange into its window.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Order {
    /// Step k sends to rank + k and receives from rank - k, modulo the rank count.
    #[default]
    Rotation,
    /// Rotation, one peer after the other: its window is 1.
    ShiftedRounds,
    /// By planned bytes, most first; among equals by the step of the rotation. For sizes that differ from pair to pair:
    /// where all ranks send most to the same one, they all send there first.
    LargestFirst,
    /// Receivers take the senders that are ready, in the order of the rotation among these; whoever is late occupies
    /// nobody's window.
    AnyReady,
}

impl Order {
    /// All orders.
    pub const ALL: [Self; 4] = [Self::Rotation, Self::ShiftedRounds, Self::LargestFirst, Self::AnyReady];

    /// Name in scenarios.
    pub fn name(self) -> &'static str {
        match self {
            Self::Rotation => "rotation",
            Self::ShiftedRounds => "shifted-rounds",
            Self::LargestFirst => "largest-first",
            Self::AnyReady => "any-ready",
        }
    }

    /// Whether messages leave the order in which a library that matches them without tags would expect them.
    pub fn reorders(self) -> bool {
        matches!(self, Self::LargestFirst | Self::AnyReady)
    }

    /// Whether it depends on what peers have on offer.
    pub fn follows_peers(self) -> bool {
        self == Self::AnyReady
    }

    /// The peers that `rank` sends to, as listed in plans; `bytes` is what each of them gets.
    ///
    /// Both ends of a transfer rank it alike, by its bytes and its step, which no two transfers of one list share.
    pub fn sends(self, rank: Rank, rank_count: u32, bytes: impl Fn(Rank) -> u64) -> Vec<Rank> {
        let by_step = (1..rank_count).map(|step| Rank((rank.0 + step) % rank_count));
        self.list(by_step.collect(), bytes)
    }

    /// The peers that `rank` receives from, as listed in plans; `bytes` is what each of them gives.
    pub fn receives(self, rank: Rank, rank_count: u32, bytes: impl Fn(Rank) -> u64) -> Vec<Rank> {
        let by_step = (1..rank_count).map(|step| Rank((rank.0 + rank_count - step) % rank_count));
        self.list(by_step.collect(), bytes)
    }

    fn list(self, mut peers: Vec<Rank>, bytes: impl Fn(Rank) -> u64) -> Vec<Rank> {
        match self {
            Self::Rotation | Self::ShiftedRounds | Self::AnyReady => {}
            // Stable: equals stay in the order of their steps.
            Self::LargestFirst => peers.sort_by_key(|&peer| Reverse(bytes(peer))),
        }
        peers
    }

    /// The window of an exchange among `rank_count` ranks for which `peers` was chosen; `None` means all at once.
    pub fn window(self, peers: Option<u32>, rank_count: u32) -> Window {
        match self {
            Self::ShiftedRounds => Window::both(1),
            Self::Rotation | Self::LargestFirst | Self::AnyReady => {
                Window::both(peers.unwrap_or(rank_count.saturating_sub(1)).max(1))
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
