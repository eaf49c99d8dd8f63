//! BF16 in one pass over values, as far as a sample says how: the plan of the block is checked afterwards.

use super::super::entry::{Entry, Form};
use super::super::geometry::{ALIGN, Coding, Format, head_bytes};
use super::super::plan::Plan;
use super::super::rans::{self, CARRIED, Payload};
use super::super::rest::RestStats;
use super::{Encoder, bases_len};
use crate::Layout;
use crate::checksum::{PART_BYTES, WORD, fold};
use crate::kernel::pass::{Split, SplitMut};
use crate::kernel::tier::plane_bytes;
use crate::kernel::{BASE_GROUP, GroupSums};
use crate::streaming_store::{self, StreamingStore};

/// Form and base of a block, before all of its values have been looked at.
#[derive(Clone, Copy)]
pub(super) struct Guess {
    form: Form,
    base: u8,
}

impl Guess {
    /// Whether a block of `count` values with this plan is coded as was guessed: each group of it, by its own base or that of
    /// all.
    pub(super) fn holds(&self, plan: &Plan, count: usize) -> bool {
        let same = match self.form {
            // The first tier is the same in all orders.
            Form::One(_) => matches!(plan.form, Form::One(_)) && plan.base == self.base,
            Form::Nibbles | Form::Bytes => plan.form == self.form,
            Form::Stored | Form::Zero => false,
        };
        same && !plan.masked && plan.coded == count
    }
}

/// State of a block after its first pass.
#[derive(Clone, Copy)]
pub(super) struct Passed {
    pub(super) guess: Guess,
    /// Values that are in the list.
    listed: usize,
    /// Bytes of the dynamic section that have been written.
    written: usize,
    /// The end of the rest, which has not been written where states may carry it.
    payload: Option<Payload>,
}

/// Room for the first parts of the body of a block.
struct Head<'a> {
    planes: &'a mut [u8],
    /// A byte for each value; its padding is written.
    rest: &'a mut [u8],
    /// Bytes of the rest and its padding.
    rest_len: usize,
    /// Bytes of the dynamic section up to the end of these parts.
    written: usize,
}

/// Takes the room for planes and rests of `count` values off the body of a block; none if there is too little.
fn head<'a>(
    format: Format,
    guess: Guess,
    count: usize,
    static_body: &'a mut [u8],
    dynamic: &'a mut [u8],
) -> Option<Head<'a>> {
    let bases_len = bases_len(guess.form, count);
    let head = match format.layout {
        Layout::Split if static_body.len() == head_bytes(format.coding, format.fields, count) => static_body,
        Layout::Split => return None,
        Layout::Compact => dynamic.get_mut(bases_len..)?,
    };
    let (planes, rest) = head.split_at_mut_checked(planes_len(format.coding, count))?;
    let rest_len = count.next_multiple_of(ALIGN);
    let (rest, padding) = rest.get_mut(..rest_len)?.split_at_mut(count);
    padding.fill(0);
    let in_dynamic = if format.layout == Layout::Compact { planes.len() + rest_len } else { 0 };
    Some(Head { planes, rest, rest_len, written: bases_len + in_dynamic })
}

/// Bytes of the planes in front of the rest.
fn planes_len(coding: Coding, count: usize) -> usize {
    if coding == Coding::Tiers { plane_bytes(count) } else { 0 }
}

impl Encoder<'_, '_> {
    /// Guess about a block from a sample of its groups; only for BF16 without columns, where it is reliable enough to pay.
    pub(super) fn guess(&self, values: &[u8]) -> Option<Guess> {
        /// Groups of a sample.
        const SAMPLE: usize = 16;
        if !rans::has_byte_rest(self.format.fields) || self.columns.is_some() || self.joint.is_some() {
            return None;
        }
        let groups = values.as_chunks::<{ 2 * BASE_GROUP }>().0;
        let step = groups.len().div_ceil(SAMPLE);
        let mut sums = [GroupSums::default(); SAMPLE];
        let mut sampled = 0;
        for (number, sums) in (0..SAMPLE).zip(&mut sums) {
            // Not at equal distances: rows of a few groups are common.
            let Some(group) = groups.get(number * step + number * 5 % step.max(1)) else { break };
            (self.kernel.group_sums)(group, std::slice::from_mut(sums));
            sampled += 1;
        }
        let sums = &sums[..sampled];
        // Nothing of what such values have is in these.
        let plan = (sampled > 0).then(|| {
            let Format { layout, fields, .. } = self.format;
            Plan::new(layout, fields, sampled * BASE_GROUP, sums, &RestStats::EMPTY, self.eighths)
        })?;
        let guess = Guess { form: plan.form, base: plan.base };
        guess.holds(&plan, sampled * BASE_GROUP).then_some(guess)
    }

    /// Writes planes and rests of all values as far as the guess says how, and sums them. Nothing has been done if there is no
    /// room.
    pub(super) fn split_pass(
        &mut self,
        guess: Guess,
        values: &[u8],
        static_body: &mut [u8],
        dynamic: &mut [u8],
    ) -> Option<Passed> {
        let Head { mut planes, mut rest, rest_len, written } =
            head(self.format, guess, values.len() / 2, static_body, dynamic)?;
        let tiers_first = self.format.coding == Coding::Tiers;
        let carries = !tiers_first && rans::carries(self.format, rest_len);
        let mut payload = [0; CARRIED];
        let how = Split {
            base: matches!(guess.form, Form::One(_)).then_some(guess.base),
            tier: tiers_first.then_some(&guess.form.order().tiers()[0]),
            eighths: self.eighths,
            word: 0,
            streaming: false,
        };
        let (mut passed, mut before) = (0, 0);
        let sums = self.sums.chunks_mut(PART_BYTES / (2 * BASE_GROUP));
        for (values, sums) in values.chunks(PART_BYTES).zip(sums) {
            let count = values.len() / 2;
            let to = rest.split_off_mut(..count).expect("there is a rest for each value");
            // What states may carry is not written past the caches, to be read and written again.
            let keeps = carries && before + count + CARRIED > rest_len;
            let mut kept: [u8; PART_BYTES / 2];
            let mut own = None;
            if keeps {
                kept = [0; _];
                own = Some(&mut kept[..count]);
            }
            let out = SplitMut {
                rest: own.as_deref_mut().unwrap_or(&mut *to),
                planes: planes
                    .split_off_mut(..planes_len(self.format.coding, count))
                    .expect("there are planes for all values"),
                sums: &mut sums[..count.div_ceil(BASE_GROUP)],
                list: &mut *self.list,
                passed,
            };
            let word = (self.position / WORD) as u64;
            let how = Split { word, ..how };
            let split = if keeps {
                (self.kernel.split_pass)(values, how, out)
            } else {
                StreamingStore::split(self.streaming, self.kernel, values, how, out)
            };
            if let Some(kept) = own {
                let first = (rest_len - CARRIED).saturating_sub(before);
                streaming_store::copy(self.streaming.as_ref(), &kept[..first], &mut to[..first]);
                let at = before + first - (rest_len - CARRIED);
                payload[at..at + count - first].copy_from_slice(&kept[first..]);
            }
            passed = split.passed;
            before += count;
            self.checksum = self.checksum.wrapping_add(fold(split.sum));
            self.position += values.len();
        }
        Some(Passed { guess, listed: passed, written, payload: carries.then_some(payload) })
    }

    /// Writes what a pass has left open for a block of `count` values, if its guess holds for the plan.
    pub(super) fn finish_pass(
        &mut self,
        plan: &Plan,
        Passed { listed, written, payload, .. }: Passed,
        count: usize,
        dynamic: &mut [u8],
    ) -> Option<(Entry, usize)> {
        let bases = &mut dynamic[..bases_len(plan.form, count)];
        plan.write_bases(count.div_ceil(BASE_GROUP), bases);
        let from = written - payload.map_or(0, |_| CARRIED);
        let room = &mut dynamic[from..];
        let (entry, len) = match self.format.coding {
            Coding::Tiers => self.tail(plan, listed, room)?,
            Coding::Rans => self.codes(plan, payload.as_ref(), room)?,
        };
        Some((entry, from + len))
    }
}
