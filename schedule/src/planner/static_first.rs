//! ZipCCL's second All-to-All (sec. 3.2, Fig. 5c), for the other collectives, too: encode, move the static sections of
//! `split` frames, whose lengths are known beforehand, then the sizes of the dynamic sections, then these, decode. A
//! rank that is ready early moves most of its bytes while slower ones catch up (sec. 5.1).

use super::call::Call;
use super::frames::Frames;
use crate::Stage;
use crate::builder::ProgramBuilder;

pub(super) fn exchange(builder: &mut ProgramBuilder, call: &Call, frames: &Frames) {
    call.spread(builder, Stage::Static, &frames.static_sections);
    call.announce(builder, call.channel, &frames.sizes);
    call.spread(builder, Stage::Dynamic, &frames.dynamic_sections);
}
