//! The plane of values that a codec leaves as it is travels first, while the rest of them is still being coded, after
//! UCCL-Zip's split-send: the rests of BF16 values, sign and mantissa; then the frames without them, as in `in-band`. What
//! has no such plane, values of other types, travels as in `in-band` altogether.

use super::call::Call;
use super::frames::Frames;
use super::in_band;
use crate::Stage;
use crate::builder::ProgramBuilder;
use crate::plan::{Batch, Content, Local, OpKind};

/// The rests of a part are taken out before its frames are made.
pub(super) fn encode(builder: &mut ProgramBuilder, batch: Batch) {
    let mut split = batch.clone();
    split.blocks.retain(|block| block.rests.len > 0);
    builder.push(OpKind::Local(Local::Split(split)));
    builder.push(OpKind::Local(Local::Encode(batch)));
}

pub(super) fn exchange(builder: &mut ProgramBuilder, call: &Call, frames: &Frames) {
    let rests = frames.contents(|frame| (frame.rests.len > 0).then_some(Content::Whole(frame.rests)));
    call.spread(builder, Stage::Rests, &rests);
    // What a rank has for a peer moves when its rests have: it waits for no other peer's.
    if rests.iter().any(Option::is_some) {
        builder.join_next(call.channel);
    }
    in_band::exchange(builder, call, frames);
}
