//! Protocols: the stages in which a call travels. Each is a function that pushes exchanges, in order, onto the program of a rank; it knows
//! neither collectives nor algorithms, which are in the pieces and steps of the call.

use zipwire_codec::Layout;

use super::call::{Call, Piece};
use super::frames::Frames;
use crate::builder::ProgramBuilder;
use crate::plan::{Batch, Content, Local, OpKind, Region};
use crate::{Protocol, Stage};

/// Exchanges of a protocol that codes; `None` for the native one.
pub(super) fn exchanges(protocol: Protocol) -> Option<fn(&mut ProgramBuilder, &Call, &Frames)> {
    match protocol {
        Protocol::Native => None,
        Protocol::SizeFirst => Some(size_first),
        Protocol::StaticFirst => Some(static_first),
        Protocol::OverlapSizes => Some(overlap_sizes),
        Protocol::InBand => Some(in_band),
        Protocol::Speculative => Some(speculative),
        Protocol::SplitSend => Some(split_send),
    }
}

/// A collective as the library does it: one stage of raw values, no codec.
pub(super) fn native(builder: &mut ProgramBuilder, call: &Call) {
    // Short pieces have fewer parts.
    let values = |piece: &Piece| (piece.values.len > 0).then_some(Content::Values(piece.values));
    let values: Vec<_> = call.pieces.iter().map(values).collect();
    call.spread(builder, Stage::Raw, &values);
}

/// Moves the pieces of a coded call that are not coded, beside the frames of the others: they wait for no codec.
pub(super) fn uncoded(builder: &mut ProgramBuilder, call: &Call) {
    let values = |piece: &Piece| (!piece.is_coded).then_some(Content::Values(piece.values));
    let values: Vec<_> = call.pieces.iter().map(values).collect();
    call.spread_on(builder, call.channel.control(), Stage::Raw, &values);
}

/// Encodes a part of a call; `split-send` takes its signs and mantissas out before.
pub(super) fn encode(builder: &mut ProgramBuilder, protocol: Protocol, batch: Batch, not_before_s: f64) {
    if protocol == Protocol::SplitSend {
        let mut split = batch.clone();
        split.blocks.retain(|block| block.sign_mantissa.len > 0);
        builder.push_at(OpKind::Local(Local::Split(split)), not_before_s);
    }
    builder.push_at(OpKind::Local(Local::Encode(batch)), not_before_s);
}

/// ZipCCL's All-Gather (sec. 3.1, Fig. 5a) and its first All-to-All (sec. 3.2, Fig. 5b): encode, exchange the sizes of `compact` frames,
/// move the frames, decode. The exchange of sizes is a barrier in all but name: nobody moves data before every peer has encoded. Frames may
/// have the `split` layout instead: their sections then move one after the other.
fn size_first(builder: &mut ProgramBuilder, call: &Call, frames: &Frames) {
    call.announce(builder, call.channel, &frames.sizes);
    if frames.layout == Layout::Split {
        call.spread(builder, Stage::Static, &frames.static_sections);
    }
    call.spread(builder, Stage::Dynamic, &frames.dynamic_sections);
}

/// ZipCCL's second All-to-All (sec. 3.2, Fig. 5c), for the other collectives, too: encode, move the static sections of `split` frames, whose
/// lengths are known beforehand, then the sizes of the dynamic sections, then these, decode. A rank that is ready early moves most of its
/// bytes while slower ones catch up (sec. 5.1).
fn static_first(builder: &mut ProgramBuilder, call: &Call, frames: &Frames) {
    call.spread(builder, Stage::Static, &frames.static_sections);
    call.announce(builder, call.channel, &frames.sizes);
    call.spread(builder, Stage::Dynamic, &frames.dynamic_sections);
}

/// `static-first` with its sizes on the control channel: they travel beside the static sections, so that a rank that has all static sections
/// goes on to the dynamic ones without another round trip to peers and host.
fn overlap_sizes(builder: &mut ProgramBuilder, call: &Call, frames: &Frames) {
    call.announce(builder, call.channel.control(), &frames.sizes);
    call.spread(builder, Stage::Static, &frames.static_sections);
    call.spread(builder, Stage::Dynamic, &frames.dynamic_sections);
}

/// `static-first` without an exchange of sizes: each static section brings the size of its dynamic section along, behind its last byte.
fn in_band(builder: &mut ProgramBuilder, call: &Call, frames: &Frames) {
    let announced = frames.contents(|frame| Some(Content::Announced(frame.fixed, frame.size?)));
    call.spread(builder, Stage::Static, &announced);
    // Beside the static sections of the next part, which wait for nothing.
    call.spread_on(builder, call.channel.control(), Stage::Dynamic, &frames.dynamic_sections);
}

/// Frames travel before their sizes are known: in slots of a capacity that was predicted when the plan was made, padded, each with the size
/// of its content. The rest that does not fit follows; nothing, if the prediction was right.
fn speculative(builder: &mut ProgramBuilder, call: &Call, frames: &Frames) {
    let slots = frames.contents(|frame| {
        // The static section, the gap behind it and the slot are one region.
        let end = frame.dynamic.offset + frame.slot;
        let region = Region { len: end - frame.fixed.offset, ..frame.fixed };
        Some(Content::Announced(region, frame.size?))
    });
    let overflow = frames.contents(|frame| {
        let Region { buffer, offset, len } = frame.dynamic;
        let region = Region { buffer, offset: offset + frame.slot, len: len - frame.slot };
        let size = frame.size.filter(|_| region.len > 0)?;
        Some(Content::Overflow { region, slot: frame.slot, size })
    });
    call.spread(builder, Stage::Slots, &slots);
    // Beside the slots of the next part: these need not wait until the host knows that there is nothing.
    call.spread_on(builder, call.channel.control(), Stage::Overflow, &overflow);
}

/// UCCL-Zip's split-send: the signs and mantissas of BF16 values, which a codec leaves as they are, travel first, while the rest is still
/// being coded; then the frames without them, as in `in-band`. Values of other types travel as in `in-band` altogether.
fn split_send(builder: &mut ProgramBuilder, call: &Call, frames: &Frames) {
    let sign_mantissa =
        frames.contents(|frame| (frame.sign_mantissa.len > 0).then_some(Content::Whole(frame.sign_mantissa)));
    call.spread(builder, Stage::SignMantissa, &sign_mantissa);
    // Frames for a peer move when the signs and mantissas for it have moved: they wait for no other peer's.
    if sign_mantissa.iter().any(Option::is_some) {
        builder.join_next(call.channel);
    }
    in_band(builder, call, frames);
}
