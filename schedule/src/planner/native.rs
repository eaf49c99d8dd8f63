//! A collective as the library does it: one stage of raw values, no codec.

use super::call::Call;
use crate::Stage;
use crate::builder::ProgramBuilder;
use crate::plan::Content;

pub(super) fn build(builder: &mut ProgramBuilder, call: &Call) {
    let values: Vec<_> = call.pieces.iter().map(|piece| Some(Content::Whole(piece.values))).collect();
    call.spread(builder, Stage::Raw, &values);
}
