//! `static-first` without an exchange of sizes: each static section brings the size of its dynamic section along, behind its
//! last byte.

use super::call::Call;
use super::frames::Frames;
use crate::Stage;
use crate::builder::ProgramBuilder;
use crate::plan::Content;

pub(super) fn exchange(builder: &mut ProgramBuilder, call: &Call, frames: &Frames) {
    let announced = frames.contents(|frame| Some(Content::Announced(frame.fixed, frame.size?)));
    call.spread(builder, Stage::Static, &announced);
    // Beside the static sections of the next part, which wait for nothing.
    call.spread_on(builder, call.channel.control(), Stage::Dynamic, &frames.dynamic_sections);
}
