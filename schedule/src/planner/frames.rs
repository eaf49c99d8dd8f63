//! The frames of a call on one rank: where they lie, and what of them travels in each stage.

use zipwire_codec::{Codec, DType, Layout};

use super::call::{Call, align};
use crate::BufferId;
use crate::builder::ProgramBuilder;
use crate::plan::{Batch, Block, Content, Region};

/// Buffers of a rank for frames, shared by all its calls.
#[derive(Clone, Copy)]
pub(super) struct FrameBuffers {
    pub(super) outgoing: BufferId,
    pub(super) incoming: BufferId,
}

/// The frames of one call. Contents are by position in [`Call::pieces`].
pub(super) struct Frames {
    /// The rank's own blocks.
    pub(super) encode: Batch,
    /// The blocks of others.
    pub(super) decode: Batch,
    pub(super) static_sections: Vec<Option<Content>>,
    pub(super) sizes: Vec<Option<Content>>,
    pub(super) dynamic_sections: Vec<Option<Content>>,
}

impl Frames {
    /// Places the frames one behind the other: the static section at a multiple of the alignment, the dynamic section
    /// at the next one. Padded frames all have the room of the largest.
    pub(super) fn place(
        builder: &mut ProgramBuilder,
        call: &Call,
        codec: &dyn Codec,
        layout: Layout,
        buffers: FrameBuffers,
    ) -> Self {
        let Call { dtype, pieces, .. } = call;
        let dtype = *dtype;
        let capacity = |len| Capacity::of(codec, layout, dtype, len);
        let padded_to = call
            .padded_to
            .as_ref()
            .map(|lens| lens.iter().map(|&len| capacity(len)).fold(Capacity::default(), Capacity::max));
        let (mut encode, mut decode) = (Vec::new(), Vec::new());
        let (mut outgoing_end, mut incoming_end) = (0, 0);
        let (mut frames, mut sizes) = (Vec::new(), Vec::new());
        for piece in pieces {
            let own = piece.chunk.origin == builder.rank();
            let (buffer, end, blocks) = if own {
                (buffers.outgoing, &mut outgoing_end, &mut encode)
            } else {
                (buffers.incoming, &mut incoming_end, &mut decode)
            };
            let coded = capacity(piece.values.len);
            let room = padded_to.unwrap_or(coded);
            let fixed = Region { buffer, offset: align(*end), len: room.static_len };
            let dynamic = Region { buffer, offset: align(fixed.end()), len: room.dynamic_len };
            *end = dynamic.end();
            frames.push((fixed, dynamic));
            // Nothing is coded of an empty piece: it is all padding.
            sizes.push((piece.values.len > 0).then(|| {
                let size = builder.size();
                blocks.push(Block {
                    chunk: piece.chunk,
                    values: piece.values,
                    static_section: Region { len: coded.static_len, ..fixed },
                    dynamic_section: Region { len: coded.dynamic_len, ..dynamic },
                    size,
                });
                size
            }));
        }
        builder.reserve(buffers.outgoing, outgoing_end);
        builder.reserve(buffers.incoming, incoming_end);
        let known: Vec<_> = sizes.iter().copied().flatten().collect();
        let maximum = (padded_to.is_some() && !known.is_empty()).then(|| builder.maximum(known));
        let prefix = |((_, dynamic), size): (&(Region, Region), &Option<_>)| {
            Some(Content::Prefix(*dynamic, maximum.or(*size)?))
        };
        Self {
            encode: Batch { layout, dtype, blocks: encode },
            decode: Batch { layout, dtype, blocks: decode },
            static_sections: frames.iter().map(|&(fixed, _)| Some(Content::Whole(fixed))).collect(),
            dynamic_sections: frames.iter().zip(&sizes).map(prefix).collect(),
            sizes: sizes.into_iter().map(|size| size.map(Content::Size)).collect(),
        }
    }
}

/// Room for a frame.
#[derive(Clone, Copy, Default)]
struct Capacity {
    static_len: u64,
    dynamic_len: u64,
}

impl Capacity {
    /// Room for the frame of a block of `len` bytes; none for an empty block, which is not coded.
    fn of(codec: &dyn Codec, layout: Layout, dtype: DType, len: u64) -> Self {
        if len == 0 {
            return Self::default();
        }
        let count = usize::try_from(len).expect("chunks fit into memory") / dtype.width();
        let static_len = codec.static_len(layout, dtype, count) as u64;
        Self { static_len, dynamic_len: codec.bound(layout, dtype, count) as u64 - static_len }
    }

    fn max(self, other: Self) -> Self {
        let static_len = self.static_len.max(other.static_len);
        Self { static_len, dynamic_len: self.dynamic_len.max(other.dynamic_len) }
    }
}
