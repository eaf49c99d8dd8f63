//! A collective as the library does it: one stage of raw values, no codec.

use super::call::{Call, Piece};
use crate::Stage;
use crate::builder::ProgramBuilder;
use crate::plan::Content;

pub(super) fn build(builder: &mut ProgramBuilder, call: &Call) {
    // Short pieces have fewer parts.
    let values = |piece: &Piece| (piece.values.len > 0).then_some(Content::Values(piece.values));
    let values: Vec<_> = call.pieces.iter().map(values).collect();
    call.spread(builder, Stage::Raw, &values);
}

/// Moves the pieces of a coded call that are not coded, beside the frames of the others: they wait for no codec.
pub(super) fn build_uncoded(builder: &mut ProgramBuilder, call: &Call) {
    let values = |piece: &Piece| (!piece.is_coded).then_some(Content::Values(piece.values));
    let values: Vec<_> = call.pieces.iter().map(values).collect();
    call.spread_on(builder, call.channel.control(), Stage::Raw, &values);
}
