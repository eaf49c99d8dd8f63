//! Identifiers of everything that a plan names. All are dense indices from zero.

use std::fmt;

macro_rules! id {
    ($(#[$doc:meta])* $name:ident, $prefix:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub u32);

        impl $name {
            /// Position in a table that has one entry each.
            pub fn index(self) -> usize {
                self.0 as usize
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!($prefix, "{}"), self.0)
            }
        }
    };
}

id!(
    /// A participant of the collective: one GPU.
    Rank,
    ""
);
id!(
    /// An op, by position in its rank's program.
    OpId,
    "%"
);
id!(
    /// A buffer of one rank.
    BufferId,
    "b"
);
id!(
    /// A length known only at run time: a single-assignment variable.
    SizeId,
    "s"
);
id!(
    /// A collective call or a compute phase of the iteration.
    SegmentId,
    "segment "
);

/// The resource of a rank that an op or a transfer occupies. One row of the timeline each.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Lane {
    /// The model's own work.
    Compute,
    /// Encode and decode.
    Codec,
    /// Open exchanges: from the call to its completion, waiting included.
    Exchange,
    /// Transfers that leave this rank, from the start of their latency.
    Tx,
    /// Transfers that arrive at this rank.
    Rx,
}

impl Lane {
    /// All lanes, in the order in which timelines show them.
    pub const ALL: [Self; 5] = [Self::Compute, Self::Codec, Self::Exchange, Self::Tx, Self::Rx];

    /// Lower-case name, as timelines and files show it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Compute => "compute",
            Self::Codec => "codec",
            Self::Exchange => "exchange",
            Self::Tx => "tx",
            Self::Rx => "rx",
        }
    }
}

/// What an exchange carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Stage {
    /// Values as they are.
    Raw,
    /// Lengths of dynamic sections, one `u64` per peer.
    Sizes,
    /// Static sections of `split` frames.
    Static,
    /// Dynamic sections: the variable part of a `split` frame, or a whole `compact` frame.
    Dynamic,
}

impl Stage {
    /// Lower-case name, as timelines and files show it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Raw => "raw",
            Self::Sizes => "sizes",
            Self::Static => "static",
            Self::Dynamic => "dynamic",
        }
    }
}
