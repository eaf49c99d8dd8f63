//! The frames of a call on one rank: where they lie, and what of them travels in each stage.

use std::borrow::Cow;

use zipwire_codec::{Codec, DType, FrameShape, Layout};

use super::call::{Call, Piece, align};
use super::dedup::GatewayBuffers;
use crate::builder::ProgramBuilder;
use crate::plan::{Batch, Block, Content, Region};
use crate::{BufferId, SizeId};

#[derive(Clone, Copy)]
pub(super) struct FrameBuffers {
    pub(super) outgoing: BufferId,
    pub(super) incoming: BufferId,
}

#[derive(Clone, Copy)]
pub(super) struct Shape {
    pub(super) layout: Layout,
    /// See [`super::Choice::speculative_capacity`].
    pub(super) slot: Option<f64>,
    /// Whether the signs and mantissas of values travel apart, if a codec has such.
    pub(super) sends_sign_mantissa: bool,
}

/// The frames of one call. Lists are by position in [`Call::pieces`]; contents of pieces that are not coded are `None`.
pub(super) struct Frames {
    pub(super) layout: Layout,
    pub(super) encode: Batch,
    pub(super) decode: Batch,
    pub(super) frames: Vec<Option<Frame>>,
    pub(super) static_sections: Vec<Option<Content>>,
    pub(super) sizes: Vec<Option<Content>>,
    pub(super) dynamic_sections: Vec<Option<Content>>,
}

pub(super) struct Frame {
    /// Region of the signs and mantissas when they are sent apart; empty otherwise.
    pub(super) sign_mantissa: Region,
    pub(super) fixed: Region,
    pub(super) dynamic: Region,
    /// Bytes of the dynamic section that a slot holds.
    pub(super) slot: u64,
    /// Live bytes of the dynamic section; `None` if nothing is coded.
    pub(super) size: Option<SizeId>,
}

impl Frames {
    /// Places the frames of all parts of a call one after another. `ends` are the first free bytes of both buffers.
    pub(super) fn place_parts(
        builder: &mut ProgramBuilder,
        parts: Vec<Call>,
        codec: &dyn Codec,
        shape: Shape,
        buffers: FrameBuffers,
        ends: &mut (u64, u64),
    ) -> Vec<(Call, Self)> {
        let place = |part: Call| {
            let frames = Self::place(builder, &part, codec, shape, buffers, ends);
            (part, frames)
        };
        parts.into_iter().map(place).collect()
    }

    /// Places the frames one after another: the signs and mantissas, if they travel apart, at a multiple of the alignment, then the
    /// static and the dynamic section, each at the next multiple. Padded frames all have the room of the largest. `ends` are the
    /// first free bytes of both buffers.
    fn place(
        builder: &mut ProgramBuilder,
        call: &Call,
        codec: &dyn Codec,
        shape: Shape,
        buffers: FrameBuffers,
        (outgoing_end, incoming_end): &mut (u64, u64),
    ) -> Self {
        let (layout, dtype) = (shape.layout, call.dtype);
        let capacity = |len| Capacity::of(codec, shape, dtype, len);
        let padded_to = call
            .padded_to
            .as_ref()
            .map(|lens| lens.iter().map(|&len| capacity(len)).fold(Capacity::default(), Capacity::max));
        let (mut encode, mut decode) = (Vec::new(), Vec::new());
        let mut frames: Vec<Option<Frame>> = Vec::new();
        for piece in &call.pieces {
            if !piece.is_coded || piece.values.len == 0 && padded_to.is_none() {
                frames.push(None);
                continue;
            }
            let (buffer, end, blocks) = if piece.chunk.origin == builder.rank() {
                (buffers.outgoing, &mut *outgoing_end, &mut encode)
            } else {
                (buffers.incoming, &mut *incoming_end, &mut decode)
            };
            let coded = capacity(piece.values.len);
            let mut frame = Frame::place(buffer, *end, padded_to.unwrap_or(coded));
            *end = frame.dynamic.end();
            // Nothing is coded of an empty piece: it is all padding.
            if piece.values.len > 0 {
                let size = builder.size();
                frame.size = Some(size);
                blocks.push(frame.block(piece, coded, size));
            }
            let frame_bytes = (shape.slot.unwrap_or(0.0) * piece.values.len as f64).ceil() as u64;
            frame.slot = frame_bytes.saturating_sub(frame.fixed.len).min(frame.dynamic.len);
            frames.push(Some(frame));
        }
        builder.reserve(buffers.outgoing, *outgoing_end);
        builder.reserve(buffers.incoming, *incoming_end);
        let known: Vec<_> = frames.iter().flatten().filter_map(|frame| frame.size).collect();
        let maximum = (padded_to.is_some() && !known.is_empty()).then(|| builder.maximum(known));
        let mut placed = Self {
            layout,
            encode: Batch { layout, dtype, blocks: encode },
            decode: Batch { layout, dtype, blocks: decode },
            frames,
            static_sections: Vec::new(),
            sizes: Vec::new(),
            dynamic_sections: Vec::new(),
        };
        placed.static_sections = placed.contents(|frame| Some(Content::Whole(frame.fixed)));
        placed.sizes = placed.contents(|frame| frame.size.map(Content::Size));
        placed.dynamic_sections =
            placed.contents(|frame| Some(Content::Prefix(frame.dynamic, maximum.or(frame.size)?)));
        placed
    }

    /// Content of each piece, by position; `content` chooses it from the piece's frame.
    pub(super) fn contents(&self, content: impl Fn(&Frame) -> Option<Content>) -> Vec<Option<Content>> {
        self.frames.iter().map(|frame| content(frame.as_ref()?)).collect()
    }
}

impl Frame {
    /// The sections of a frame, each at the next multiple of the alignment from `end` on, without size and slot.
    fn place(buffer: BufferId, end: u64, room: Capacity) -> Self {
        let sign_mantissa = Region { buffer, offset: align(end), len: room.sign_mantissa_len };
        let fixed = Region { buffer, offset: align(sign_mantissa.end()), len: room.static_len };
        let dynamic = Region { buffer, offset: align(fixed.end()), len: room.dynamic_len };
        Self { sign_mantissa, fixed, dynamic, slot: 0, size: None }
    }

    /// The block whose frame lies here; `coded` is its own capacity, of which padding is left out.
    fn block(&self, piece: &Piece, coded: Capacity, size: SizeId) -> Block {
        Block {
            chunk: piece.chunk,
            values: piece.values,
            sign_mantissa: Region { len: coded.sign_mantissa_len, ..self.sign_mantissa },
            static_section: Region { len: coded.static_len, ..self.fixed },
            dynamic_section: Region { len: coded.dynamic_len, ..self.dynamic },
            size,
            times: 1,
        }
    }
}

#[derive(Clone, Copy, Default)]
struct Capacity {
    sign_mantissa_len: u64,
    /// Length of the static section without the signs and mantissas.
    static_len: u64,
    dynamic_len: u64,
}

impl Capacity {
    /// Room for the frame of a block of `len` bytes; none for an empty block, which is not coded.
    fn of(
        codec: &dyn Codec,
        Shape { layout, sends_sign_mantissa, .. }: Shape,
        dtype: DType,
        len: u64,
    ) -> Self {
        if len == 0 {
            return Self::default();
        }
        let count = usize::try_from(len).expect("chunks fit into memory") / dtype.width();
        let static_len = codec.static_len(FrameShape::new(layout, dtype, count)) as u64;
        let dynamic_len = codec.bound(FrameShape::new(layout, dtype, count)) as u64 - static_len;
        let sign_mantissa_len =
            if sends_sign_mantissa { zipwire_codec::sign_mantissa_len(codec, dtype, count) } else { None };
        let sign_mantissa_len = sign_mantissa_len.unwrap_or(0) as u64;
        Self { sign_mantissa_len, static_len: static_len - sign_mantissa_len, dynamic_len }
    }

    fn max(self, other: Self) -> Self {
        Self {
            sign_mantissa_len: self.sign_mantissa_len.max(other.sign_mantissa_len),
            static_len: self.static_len.max(other.static_len),
            dynamic_len: self.dynamic_len.max(other.dynamic_len),
        }
    }
}

// Memory of a rank beside that of the model: frames, contributions to reductions, rows at gateways.
//
// Each kind is a *ring* of buffers per channel, its arenas, which calls take in turns ([`Choice::arenas`](super::Choice)):
// with two, a call is coded while the one before still travels or is decoded. What a call overwrites is ordered by
// hazards, as everywhere, so any number of arenas is correct; with one, every call waits for the one before.

/// Rings of the calls of one channel. A buffer is made when a call takes it for the first time.
pub(super) struct Scratch {
    frames_out: Ring,
    frames_in: Ring,
    summands: Ring,
    gateway_out: Ring,
    gateway_in: Ring,
}

impl Scratch {
    pub(super) fn new(is_background: bool) -> Self {
        let ring = |name: &'static str| Ring {
            name: if is_background { format!("background-{name}").into() } else { name.into() },
            buffers: Vec::new(),
            taken: 0,
        };
        Self {
            frames_out: ring("frames-out"),
            frames_in: ring("frames-in"),
            summands: ring("summands"),
            gateway_out: ring("gateway-out"),
            gateway_in: ring("gateway-in"),
        }
    }

    /// For the frames of the next coded call.
    pub(super) fn frames(&mut self, builder: &mut ProgramBuilder, arenas: u32) -> FrameBuffers {
        FrameBuffers {
            outgoing: self.frames_out.take(builder, arenas),
            incoming: self.frames_in.take(builder, arenas),
        }
    }

    /// For what others contribute to the next reduction.
    pub(super) fn summands(&mut self, builder: &mut ProgramBuilder, arenas: u32) -> BufferId {
        self.summands.take(builder, arenas)
    }

    /// For what the rank gets as a gateway in the next call, and hands on.
    pub(super) fn gateway(&mut self, builder: &mut ProgramBuilder, arenas: u32) -> GatewayBuffers {
        GatewayBuffers {
            outgoing: self.gateway_out.take(builder, arenas),
            incoming: self.gateway_in.take(builder, arenas),
        }
    }

    pub(super) fn buffers(&self) -> impl Iterator<Item = BufferId> + '_ {
        let Self { frames_out, frames_in, summands, gateway_out, gateway_in } = self;
        [frames_out, frames_in, summands, gateway_out, gateway_in]
            .into_iter()
            .flat_map(|ring| &ring.buffers)
            .copied()
    }
}

struct Ring {
    name: Cow<'static, str>,
    buffers: Vec<BufferId>,
    /// How often one was taken.
    taken: u32,
}

impl Ring {
    /// The next of so many buffers; all ranks take them in the same order.
    fn take(&mut self, builder: &mut ProgramBuilder, arenas: u32) -> BufferId {
        assert!(arenas > 0, "calls have an arena at least");
        let index = (self.taken % arenas) as usize;
        self.taken += 1;
        while self.buffers.len() <= index {
            self.buffers.push(builder.buffer(format!("{}-{}", self.name, self.buffers.len())));
        }
        self.buffers[index]
    }
}
