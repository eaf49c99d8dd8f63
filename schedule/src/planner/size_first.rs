//! ZipCCL's first design (sec. 3.2, Fig. 5b): encode, exchange the sizes of `compact` frames, exchange the
//! frames, decode. The exchange of sizes is a barrier in all but name: nobody moves data before every peer
//! has encoded.

use zipwire_codec::{Codec, Layout};

use super::{Call, Frames};
use crate::Stage;
use crate::builder::ProgramBuilder;
use crate::plan::{Content, OpKind};

pub(super) fn build(builder: &mut ProgramBuilder, call: &Call, codec: &dyn Codec, frames: Frames) {
    let (outgoing, incoming) = call.batches(builder, codec, Layout::Compact, frames);
    let (sent, received) = (outgoing.blocks.clone(), incoming.blocks.clone());
    builder.push(OpKind::Encode(outgoing));
    let send = |index: usize| Content::Size(sent[index].size);
    let receive = |index: usize| Content::Size(received[index].size);
    builder.push(call.exchange(Stage::Sizes, send, receive));
    let send = |index: usize| Content::Prefix(sent[index].dynamic_section, sent[index].size);
    let receive = |index: usize| Content::Prefix(received[index].dynamic_section, received[index].size);
    builder.push(call.exchange(Stage::Dynamic, send, receive));
    builder.push(OpKind::Decode(incoming));
}
