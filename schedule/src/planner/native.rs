//! All-to-All as the library does it: one exchange of raw values, no codec.

use super::Call;
use crate::Stage;
use crate::builder::ProgramBuilder;
use crate::plan::Content;

pub(super) fn build(builder: &mut ProgramBuilder, call: &Call) {
    let send = |index: usize| Content::Whole(call.sends[index].values);
    let receive = |index: usize| Content::Whole(call.receives[index].values);
    builder.push(call.exchange(Stage::Raw, send, receive));
}
