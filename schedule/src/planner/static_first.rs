//! ZipCCL's second design (sec. 3.2, Fig. 5c): encode, exchange the static sections of `split` frames, whose
//! lengths are known beforehand, then the sizes of the dynamic sections, then these, decode. A rank that is
//! ready early moves most of its bytes while slower ones catch up (sec. 5.1).

use zipwire_codec::{Codec, Layout};

use super::{Call, Frames};
use crate::Stage;
use crate::builder::ProgramBuilder;
use crate::plan::{Content, OpKind};

pub(super) fn build(builder: &mut ProgramBuilder, call: &Call, codec: &dyn Codec, frames: Frames) {
    let (outgoing, incoming) = call.batches(builder, codec, Layout::Split, frames);
    let (sent, received) = (outgoing.blocks.clone(), incoming.blocks.clone());
    builder.push(OpKind::Encode(outgoing));
    let send = |index: usize| Content::Whole(sent[index].static_section);
    let receive = |index: usize| Content::Whole(received[index].static_section);
    builder.push(call.exchange(Stage::Static, send, receive));
    let send = |index: usize| Content::Size(sent[index].size);
    let receive = |index: usize| Content::Size(received[index].size);
    builder.push(call.exchange(Stage::Sizes, send, receive));
    let send = |index: usize| Content::Prefix(sent[index].dynamic_section, sent[index].size);
    let receive = |index: usize| Content::Prefix(received[index].dynamic_section, received[index].size);
    builder.push(call.exchange(Stage::Dynamic, send, receive));
    builder.push(OpKind::Decode(incoming));
}
