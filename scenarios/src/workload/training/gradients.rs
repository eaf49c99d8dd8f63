//! Sums of gradients over all ranks: their time and their type of values.

use zipwire_codec::DType;
use zipwire_schedule::{CallKind, Channel, Slot, Work};

use super::builder::Builder;
use crate::error::Result;
use crate::language::{Reader, choice, keys, named};

named! {
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub(super) enum When {
        /// Sum gradients as soon as they exist, beside the rest of the backward pass; only the end of the iteration waits for them.
        Overlapped = "overlapped",
        /// Sum gradients as soon as they exist, in turn with the other calls of the iteration, as calls of one communicator: beside
        /// computation only.
        InOrder = "in-order",
        /// Behind the last backward pass.
        Exposed = "exposed",
        /// Not at all: what the rest of the iteration takes without them.
        None = "none",
    }
}

impl When {
    /// Where the calls are that sum them.
    pub(super) fn channel(self) -> Channel {
        match self {
            Self::InOrder => Channel::Main,
            Self::Overlapped | Self::Exposed | Self::None => Channel::Background,
        }
    }
}

pub(super) const DTYPES: [DType; 2] = [DType::Bf16, DType::F32];

keys! { pub(super) static KEYS =
    gradients: When = choice("time of gradients", &When::ALL, When::name), "when gradients are summed over the ranks: beside the backward pass, beside it in turn with other calls, not at all, or behind it; `in-order` of `fsdp`, `overlapped` else";
    gradient_dtype: DType = choice("type of gradients", &DTYPES, DType::name), "type of gradients that travel; `BF16` by default";
}

/// When gradients are summed: one of `all`, the first of which is the default.
pub(super) fn read_when(table: &Reader<'_>, all: &[When]) -> Result<When> {
    match table.field(KEYS.gradients) {
        Some(field) => field.choice("time of gradients", all, When::name),
        None => Ok(all[0]),
    }
}

pub(super) fn read_dtype(table: &Reader<'_>) -> Result<DType> {
    Ok(table.get(KEYS.gradient_dtype)?.unwrap_or(DType::Bf16))
}

/// Gradients that one call sums.
pub(super) struct Unit {
    pub(super) name: String,
    pub(super) values: u64,
    /// Where the backward pass leaves them.
    pub(super) slot: Slot,
}

/// Sums units up, each on all ranks, beside everything else.
pub(super) struct Sums {
    dtype: DType,
    when: When,
    /// Where sums are put; nothing reads them before the end of the iteration.
    output: Slot,
    /// Units that are still to be summed.
    left: Vec<Unit>,
    /// Position of the tensor that gradients carry.
    tensor: usize,
}

impl Sums {
    /// `None` if nothing is to be summed.
    pub(super) fn new(builder: &mut Builder<'_>, when: When, dtype: DType, tensor: usize) -> Option<Self> {
        (when != When::None).then(|| Self {
            dtype,
            when,
            output: builder.slot("sums"),
            left: Vec::new(),
            tensor,
        })
    }

    /// Takes what the segment before has computed.
    pub(super) fn take(&mut self, builder: &mut Builder<'_>, units: Vec<Unit>) {
        match self.when {
            When::Overlapped | When::InOrder => units.into_iter().for_each(|unit| self.call(builder, unit)),
            When::Exposed | When::None => self.left.extend(units),
        }
    }

    /// Slots of what is still to be summed. Phases of the backward pass claim them: so nothing is summed before its end.
    pub(super) fn kept(&self) -> Vec<Slot> {
        self.left.iter().map(|unit| unit.slot).collect()
    }

    /// Sums what is left.
    pub(super) fn finish(mut self, builder: &mut Builder<'_>) {
        std::mem::take(&mut self.left).into_iter().for_each(|unit| self.call(builder, unit));
    }

    fn call(&self, builder: &mut Builder<'_>, Unit { name, values, slot }: Unit) {
        let bytes = values * self.dtype.width() as u64;
        let work = Work::of_call(self.dtype, [slot, self.output], CallKind::AllReduce { bytes });
        builder.call(name, work, self.when.channel(), self.tensor);
    }
}
