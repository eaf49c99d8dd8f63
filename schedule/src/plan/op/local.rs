//! Ops that a rank carries out by itself, on bytes of its own memory.

use std::fmt;

use super::{Addition, Batch, Effects, Gather, GatherRows, Reduce};

/// What a rank does with bytes by itself. All of them are on the codec's lane.
#[derive(Clone, Debug, PartialEq)]
pub enum Local {
    /// Writes the signs and mantissas of blocks that travel apart from their frames.
    Split(Batch),
    /// Encodes blocks into frames and defines the sizes of their dynamic sections.
    Encode(Batch),
    /// Decodes frames into blocks.
    Decode(Batch),
    /// Puts rows of received chunks together to others.
    GatherRows(GatherRows),
    /// Adds up values.
    Reduce(Reduce),
}

/// A [`Local`] without what it works on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
pub enum LocalKind {
    /// [`Local::Split`].
    Split,
    /// [`Local::Encode`].
    Encode,
    /// [`Local::Decode`].
    Decode,
    /// [`Local::GatherRows`].
    GatherRows,
    /// [`Local::Reduce`].
    Reduce,
}

impl Local {
    /// Which one it is.
    pub fn kind(&self) -> LocalKind {
        match self {
            Self::Split(_) => LocalKind::Split,
            Self::Encode(_) => LocalKind::Encode,
            Self::Decode(_) => LocalKind::Decode,
            Self::GatherRows(_) => LocalKind::GatherRows,
            Self::Reduce(_) => LocalKind::Reduce,
        }
    }

    /// Bytes that its duration is proportional to: of values that are coded, of rows that are written, of terms that are read.
    pub fn bytes(&self) -> u64 {
        match self {
            Self::Split(batch) | Self::Encode(batch) | Self::Decode(batch) => batch.bytes_raw(),
            Self::GatherRows(rows) => rows.bytes(),
            Self::Reduce(reduce) => reduce.bytes_read(),
        }
    }

    /// The blocks, if it codes some.
    pub fn batch(&self) -> Option<&Batch> {
        match self {
            Self::Split(batch) | Self::Encode(batch) | Self::Decode(batch) => Some(batch),
            Self::GatherRows(_) | Self::Reduce(_) => None,
        }
    }

    /// The blocks, if their frames are whole before or after it: if it encodes or decodes them.
    pub fn framed(&self) -> Option<&Batch> {
        match self {
            Self::Encode(batch) | Self::Decode(batch) => Some(batch),
            Self::Split(_) | Self::GatherRows(_) | Self::Reduce(_) => None,
        }
    }

    /// Whether it has a launch of its own: sums that the kernel of an exchange adds up have none.
    pub fn is_launched(&self) -> bool {
        !matches!(self, Self::Reduce(Reduce { fused: true, .. }))
    }

    pub(super) fn is_idle(&self) -> bool {
        match self {
            Self::Split(batch) | Self::Encode(batch) | Self::Decode(batch) => batch.blocks.is_empty(),
            Self::GatherRows(rows) => rows.gathers.is_empty(),
            Self::Reduce(reduce) => reduce.additions.is_empty(),
        }
    }

    /// What is wrong with it, whatever else is in its plan: the end of "op `%3` of rank 1 ..".
    pub(crate) fn defect(&self) -> Option<&'static str> {
        let (is_fine, defect) = match self {
            Self::Split(batch) | Self::Encode(batch) | Self::Decode(batch) => (
                batch.is_in_order(),
                "has a frame whose signs and mantissas, static and dynamic section are not in this order",
            ),
            Self::GatherRows(rows) => (
                rows.gathers.iter().all(Gather::has_its_rows),
                "gathers rows that its source does not have, or has no room for them",
            ),
            Self::Reduce(reduce) => (
                reduce.additions.iter().all(Addition::is_sum),
                "does not add up what its sum says, in that order and of that length",
            ),
        };
        (!is_fine).then_some(defect)
    }

    /// What a plan's text says behind its name.
    pub(crate) fn write_head(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Split(batch) | Self::Encode(batch) | Self::Decode(batch) => {
                write!(f, " {} {}", batch.layout.name(), batch.dtype.name())
            }
            Self::Reduce(reduce) if reduce.fused => write!(f, ", fused"),
            Self::Reduce(_) | Self::GatherRows(_) => Ok(()),
        }
    }

    /// What a plan's text says in lines of its own.
    pub(crate) fn write_body(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Split(batch) => batch.write_split(f),
            Self::Encode(batch) => batch.write_encode(f),
            Self::Decode(batch) => batch.write_decode(f),
            Self::GatherRows(rows) => rows.gathers.iter().try_for_each(|gather| gather.write_body(f)),
            Self::Reduce(reduce) => reduce.write_body(f),
        }
    }

    pub(super) fn effects(&self) -> Effects {
        match self {
            Self::Split(batch) => batch.split_effects(),
            Self::Encode(batch) => batch.encode_effects(),
            Self::Decode(batch) => batch.decode_effects(),
            Self::GatherRows(rows) => rows.effects(),
            Self::Reduce(reduce) => reduce.effects(),
        }
    }
}

impl LocalKind {
    /// Low-cardinality name, for timelines and texts.
    pub fn name(self) -> &'static str {
        match self {
            Self::Split => "split",
            Self::Encode => "encode",
            Self::Decode => "decode",
            Self::GatherRows => "gather-rows",
            Self::Reduce => "reduce",
        }
    }
}
