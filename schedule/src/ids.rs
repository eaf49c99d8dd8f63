//! Identifiers of everything that a plan names. All are dense indices from zero.

use std::fmt;

macro_rules! id {
    ($(#[$doc:meta])* $name:ident, $prefix:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
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
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
pub enum Lane {
    /// The model's own work.
    Compute,
    /// Encode and decode.
    Codec,
    /// Open exchanges of the main channel: from the call to its completion, waiting included.
    Exchange,
    /// Open exchanges of the main channel's control channel.
    Control,
    /// Open exchanges of the background channel.
    Background,
    /// Open exchanges of the background channel's control channel.
    BackgroundControl,
    /// Transfers that leave this rank, from the start of their latency.
    Tx,
    /// Transfers that arrive at this rank.
    Rx,
}

impl Lane {
    /// All lanes, in the order in which timelines show them.
    pub const ALL: [Self; 8] = [
        Self::Compute,
        Self::Codec,
        Self::Exchange,
        Self::Control,
        Self::Background,
        Self::BackgroundControl,
        Self::Tx,
        Self::Rx,
    ];

    /// Whether open exchanges occupy it.
    pub fn is_exchange(self) -> bool {
        matches!(self, Self::Exchange | Self::Control | Self::Background | Self::BackgroundControl)
    }

    /// Lower-case name, as timelines and files show it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Compute => "compute",
            Self::Codec => "codec",
            Self::Exchange => "exchange",
            Self::Control => "control",
            Self::Background => "background",
            Self::BackgroundControl => "background control",
            Self::Tx => "tx",
            Self::Rx => "rx",
        }
    }
}

/// Sequence of exchanges: a rank opens an exchange when its previous one on the same channel has completed. Each corresponds to a
/// communicator of the library; a coded explicit flow has one for itself, so it waits for no other flow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Channel {
    /// Collectives that the model waits for.
    #[default]
    Main,
    /// Sizes that travel beside the sections of the main channel.
    Control,
    /// Collectives that run beside those of the main channel: gradients, prefetched parameters.
    Background,
    /// Sizes that travel beside the sections of the background channel.
    BackgroundControl,
    /// One explicit flow that is coded.
    Flow(FlowChannel),
    /// Sizes and late sections that travel beside the sections of that flow.
    FlowControl(FlowChannel),
}

/// Which explicit flow a channel is of, and when its exchanges may be opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FlowChannel {
    /// Its number among all explicit flows of the plan, at both ends the same.
    pub number: u32,
    /// Its step at this rank, if the pace of the flows has steps: the exchanges of a step are opened when all of the step before
    /// have completed. Without one they wait for no other flow.
    pub step: Option<u32>,
}

impl Channel {
    /// The channels of collectives: all but those of explicit flows, of which each has its own.
    pub const OF_CALLS: [Self; 4] = [Self::Main, Self::Control, Self::Background, Self::BackgroundControl];

    /// The lane of its exchanges.
    pub fn lane(self) -> Lane {
        match self {
            Self::Main | Self::Flow(_) => Lane::Exchange,
            Self::Control | Self::FlowControl(_) => Lane::Control,
            Self::Background => Lane::Background,
            Self::BackgroundControl => Lane::BackgroundControl,
        }
    }

    /// The channel on which sizes travel beside its sections.
    #[must_use]
    pub fn control(self) -> Self {
        match self {
            Self::Main | Self::Control => Self::Control,
            Self::Background | Self::BackgroundControl => Self::BackgroundControl,
            Self::Flow(flow) | Self::FlowControl(flow) => Self::FlowControl(flow),
        }
    }

    /// The explicit flow that it is for, if it is for one.
    pub fn flow(self) -> Option<FlowChannel> {
        match self {
            Self::Flow(flow) | Self::FlowControl(flow) => Some(flow),
            Self::Main | Self::Control | Self::Background | Self::BackgroundControl => None,
        }
    }

    /// Whether it is for collectives that run beside those that the model waits for.
    pub fn is_background(self) -> bool {
        matches!(self, Self::Background | Self::BackgroundControl)
    }
}

/// Content of an exchange.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
pub enum Stage {
    /// Values as they are.
    Raw,
    /// Lengths of dynamic sections, one `u64` per peer.
    Sizes,
    /// Static sections of `split` frames.
    Static,
    /// Dynamic sections: the variable part of a `split` frame, or a whole `compact` frame.
    Dynamic,
    /// Static sections and as much of the dynamic ones as their slots hold, with the sizes of these.
    Slots,
    /// Rest of dynamic sections that did not fit into their slots.
    Overflow,
    /// Values that a gateway hands on within its node.
    Forward,
    /// Signs and mantissas, which the codec leaves as they are, ahead of the frames.
    SignMantissa,
}

impl Stage {
    /// All stages.
    pub const ALL: [Self; 8] = [
        Self::Raw,
        Self::Sizes,
        Self::Static,
        Self::Dynamic,
        Self::Slots,
        Self::Overflow,
        Self::Forward,
        Self::SignMantissa,
    ];

    /// Lower-case name, as timelines and files show it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Raw => "raw",
            Self::Sizes => "sizes",
            Self::Static => "static",
            Self::Dynamic => "dynamic",
            Self::Slots => "slots",
            Self::Overflow => "overflow",
            Self::Forward => "forward",
            Self::SignMantissa => "sign-mantissa",
        }
    }
}
