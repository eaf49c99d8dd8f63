//! Exchanges: transfers that are opened together.

use super::Effects;
use crate::plan::Transfer;
use crate::{Channel, Order, Stage, Window};

/// A set of transfers that are opened together.
#[derive(Clone, Debug, PartialEq)]
pub struct Exchange {
    /// The exchanges that it waits for are those of the same channel, and of explicit flows that have steps those of the step before.
    pub channel: Channel,
    /// Whether it is opened as soon as the previous exchange of its channel is open, instead of when that has completed.
    /// Both then share the window, and transfers of the earlier one come first.
    pub joins_previous: bool,
    /// Whether it is a further step of the kernel that the exchange before it has launched, as in the ring of a library: then it has
    /// no launch of its own.
    pub fused: bool,
    /// What it carries.
    pub stage: Stage,
    /// The order in which transfers enter the window. `sends` and `receives` are listed in it, as far as it is known
    /// beforehand: [`Order::AnyReady`] starts from the rotation.
    pub order: Order,
    /// How many transfers are open at a time.
    pub window: Window,
    /// Transfers that leave this rank.
    pub sends: Vec<Transfer>,
    /// Transfers that arrive.
    pub receives: Vec<Transfer>,
}

impl Exchange {
    pub(super) fn effects(&self) -> Effects {
        let Self { sends, receives, .. } = self;
        let sizes = sends.iter().filter_map(|t| t.content.brings().or(t.content.measured_by()));
        let measured = |t: &Transfer| t.content.measured_by();
        let values = |transfers: &[Transfer]| {
            transfers.iter().filter_map(|t| Some((t.chunk, t.content.values()?))).collect()
        };
        Effects {
            reads: sends.iter().filter_map(|t| t.content.region()).collect(),
            writes: receives.iter().filter_map(|t| t.content.region()).collect(),
            defines: receives.iter().filter_map(|t| t.content.brings()).collect(),
            uses: sizes.chain(receives.iter().filter_map(measured)).collect(),
            peers: sends.iter().chain(receives).map(|t| t.peer).collect(),
            takes: values(sends),
            delivers: values(receives),
            ..Effects::default()
        }
    }
}
