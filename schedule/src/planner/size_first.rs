//! ZipCCL's All-Gather (sec. 3.1, Fig. 5a) and its first All-to-All (sec. 3.2, Fig. 5b): encode, exchange the sizes of
//! `compact` frames, move the frames, decode. The exchange of sizes is a barrier in all but name: nobody moves data
//! before every peer has encoded. Frames may have the `split` layout instead: their sections then move one after the other.

use zipwire_codec::Layout;

use super::call::Call;
use super::frames::Frames;
use crate::Stage;
use crate::builder::ProgramBuilder;

pub(super) fn exchange(builder: &mut ProgramBuilder, call: &Call, frames: &Frames) {
    call.announce(builder, call.channel, &frames.sizes);
    if frames.layout == Layout::Split {
        call.spread(builder, Stage::Static, &frames.static_sections);
    }
    call.spread(builder, Stage::Dynamic, &frames.dynamic_sections);
}
