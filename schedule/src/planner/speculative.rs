//! Frames travel before their sizes are known: in slots of a capacity that was predicted when the plan was made, padded,
//! each with the size of what it holds. What a slot could not hold follows; nothing, if the prediction was right.

use super::call::Call;
use super::frames::Frames;
use crate::Stage;
use crate::builder::ProgramBuilder;
use crate::plan::{Content, Region};

pub(super) fn exchange(builder: &mut ProgramBuilder, call: &Call, frames: &Frames) {
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
