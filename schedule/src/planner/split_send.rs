//! The plane of values that a codec leaves as it is travels first, while the rest of them is still being coded, after
//! UCCL-Zip's split-send: the signs and mantissas of BF16 values; then the frames without them, as in `in-band`. What
//! has no such plane, values of other types, travels as in `in-band` altogether.

use super::call::Call;
use super::frames::Frames;
use super::in_band;
use crate::Stage;
use crate::builder::ProgramBuilder;
use crate::plan::{Batch, Content, Local, OpKind};

/// The signs and mantissas of a part are taken out before its frames are made.
pub(super) fn encode(builder: &mut ProgramBuilder, batch: Batch, not_before_s: f64) {
    let mut split = batch.clone();
    split.blocks.retain(|block| block.sign_mantissa.len > 0);
    builder.push_at(OpKind::Local(Local::Split(split)), not_before_s);
    builder.push_at(OpKind::Local(Local::Encode(batch)), not_before_s);
}

pub(super) fn exchange(builder: &mut ProgramBuilder, call: &Call, frames: &Frames) {
    let sign_mantissa =
        frames.contents(|frame| (frame.sign_mantissa.len > 0).then_some(Content::Whole(frame.sign_mantissa)));
    call.spread(builder, Stage::SignMantissa, &sign_mantissa);
    // What a rank has for a peer moves when its signs and mantissas have: it waits for no other peer's.
    if sign_mantissa.iter().any(Option::is_some) {
        builder.join_next(call.channel);
    }
    in_band::exchange(builder, call, frames);
}
