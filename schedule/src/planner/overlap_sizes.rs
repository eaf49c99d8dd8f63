//! `static-first` with its sizes on the control channel: they travel beside the static sections, so that a rank that has
//! all static sections goes on to the dynamic ones without another round trip to peers and host.

use super::call::Call;
use super::frames::Frames;
use crate::Stage;
use crate::builder::ProgramBuilder;

pub(super) fn exchange(builder: &mut ProgramBuilder, call: &Call, frames: &Frames) {
    call.announce(builder, call.channel.control(), &frames.sizes);
    call.spread(builder, Stage::Static, &frames.static_sections);
    call.spread(builder, Stage::Dynamic, &frames.dynamic_sections);
}
