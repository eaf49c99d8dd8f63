//! One block: its planes, of all its values, or of those that are another one than the value that is left out, with a mask of them.

use std::borrow::Cow;

use super::order::{Joiner, Order, WIDEST};
use super::plane::{self, ENTRY, Plan};
use crate::canonical::SPARE;
use crate::error::PlaneFault;
use crate::kernel::Kernel;

/// A value that is less than this share of all is not left out.
const LEAST_ALIKE: usize = 16;
/// To leave out a value saves at least this share of the bytes, as values without gaps are read faster.
const LEAST_SAVING: usize = 128;

/// A block, and how it is coded.
pub(super) struct BlockPlan<'a> {
    /// The value that is left out, and a mask of the others.
    without: Option<(Vec<u8>, Plan<'static>)>,
    planes: Vec<Plan<'a>>,
}

impl<'a> BlockPlan<'a> {
    /// The shortest for these planes of one length, which is not 0.
    pub(super) fn of(kernel: &Kernel, planes: &[&'a [u8]]) -> Self {
        let all: Vec<Plan<'a>> = planes.iter().map(|plane| Plan::of(kernel, Cow::Borrowed(plane))).collect();
        let len = |planes: &[Plan<'_>]| planes.iter().map(|plane| plane.len).sum::<usize>();
        let len_of_all = len(&all);
        // One plane that takes room has a mask of its own.
        let coded = planes.iter().zip(&all).filter(|(_, plan)| plan.len > ENTRY).count();
        if coded > 1
            && let Some((value, mask, others)) = most_alike(kernel, planes, &all)
        {
            let of_others = |(plane, plan): (&&'a [u8], &Plan<'a>)| match plan.len {
                // The bytes of all of them are the same.
                ENTRY => Plan::of(kernel, Cow::Borrowed(&plane[..others])),
                _ => Plan::of(kernel, Cow::Owned(plane::gather(kernel, &mask, plane, others))),
            };
            let others: Vec<Plan<'a>> = planes.iter().zip(&all).map(of_others).collect();
            let mask = Plan::within(kernel, Cow::Owned(mask), 1);
            let len = ENTRY + value.len() + mask.len + len(&others);
            if len + SPARE.max(len_of_all / LEAST_SAVING) <= len_of_all {
                return Self { without: Some((value, mask)), planes: others };
            }
        }
        Self { without: None, planes: all }
    }

    /// Writes the block to the front of `out`, which has room for all its planes as they are; returns the bytes that it takes.
    pub(super) fn write(&self, kernel: &Kernel, out: &mut [u8]) -> usize {
        let mut at = 0;
        if let Some((value, mask)) = &self.without {
            plane::write_entry(plane::WITHOUT, 0, out);
            out[ENTRY..][..value.len()].copy_from_slice(value);
            at += ENTRY + value.len();
            at += mask.write(kernel, &mut out[at..]);
        }
        for plane in &self.planes {
            at += plane.write(kernel, &mut out[at..]);
        }
        at
    }
}

/// Zero, or the value of the bytes that are most frequent in their planes, if that occurs more often; a mask of the others, and how many these
/// are. None if there are too few of it, or nothing else.
fn most_alike(kernel: &Kernel, planes: &[&[u8]], plans: &[Plan<'_>]) -> Option<(Vec<u8>, Vec<u8>, usize)> {
    let count = planes.first()?.len();
    let is_enough = |alike: usize| LEAST_ALIKE * alike >= count;
    let with_mask = |value: Vec<u8>| {
        let mut mask = vec![0; count.div_ceil(8)];
        for ((plane, byte), _) in planes.iter().zip(&value).zip(plans).filter(|(_, plan)| plan.len > ENTRY) {
            let of_plane = plane::mask_of_others(kernel, *byte, plane);
            mask.iter_mut().zip(of_plane).for_each(|(bits, more)| *bits |= more);
        }
        let others = mask.iter().map(|bits| bits.count_ones() as usize).sum::<usize>();
        (value, mask, others)
    };
    // A value occurs no more often than any of its bytes.
    let zero = plans.iter().all(|plan| is_enough(plan.zeros)).then(|| vec![0; planes.len()]);
    let frequent = plans.iter().all(|plan| is_enough(plan.frequent.1));
    let frequent = frequent.then(|| plans.iter().map(|plan| plan.frequent.0).collect::<Vec<u8>>());
    let values = zero.into_iter().chain(frequent.filter(|frequent| frequent.iter().any(|byte| *byte != 0)));
    let (value, mask, others) = values.map(with_mask).min_by_key(|(_, _, others)| *others)?;
    (others > 0 && is_enough(count - others)).then_some((value, mask, others))
}

/// Reads blocks of values of one order.
pub(super) struct BlockReader {
    order: Order,
    joiner: Joiner,
    /// Planes as they are read.
    rooms: Vec<u8>,
    /// Planes with the value that was left out.
    filled: Vec<u8>,
}

impl BlockReader {
    /// Room for blocks of up to this number of bytes.
    pub(super) fn new(order: Order, bytes: usize) -> Self {
        Self { order, joiner: Joiner::new(order, bytes), rooms: vec![0; bytes], filled: Vec::new() }
    }

    /// Reads whole values, at least one, and takes them off `source`.
    ///
    /// # Errors
    /// If it is nothing that [`BlockPlan::write`] writes, with the number of the plane.
    pub(super) fn read(
        &mut self,
        kernel: &Kernel,
        source: &mut &[u8],
        out: &mut [u8],
    ) -> Result<(), (usize, PlaneFault)> {
        let width = self.order.width;
        let count = out.len() / width;
        let of_block = |fault| (0, fault);
        let mut value_room = [0; WIDEST];
        let mut mask = Vec::new();
        let mut others = count;
        let without = plane::is_without(source);
        if without {
            if width == 1 {
                return Err(of_block(PlaneFault::Method(plane::WITHOUT as u8)));
            }
            let front = source.split_off(..ENTRY + width).ok_or(of_block(PlaneFault::Overrun))?;
            value_room[..width].copy_from_slice(&front[ENTRY..]);
            (mask, others) = plane::read_mask(kernel, source, count, 1).map_err(of_block)?;
        }
        let mut planes: [&[u8]; WIDEST] = [&[]; WIDEST];
        if without {
            self.filled.resize(self.rooms.len(), 0);
        }
        let rooms = self.rooms[..others * width].chunks_mut(others);
        for (at, (plane, room)) in planes.iter_mut().zip(rooms).enumerate() {
            *plane = plane::read(kernel, source, room).map_err(|fault| (at, fault))?;
        }
        let of_value =
            |at: usize| planes[..width].iter().zip(value_room).all(|(plane, byte)| plane[at] == byte);
        if without && (0..others).any(of_value) {
            return Err(of_block(PlaneFault::Mask));
        }
        if without {
            let filled = self.filled[..out.len()].chunks_mut(count);
            for ((plane, filled), byte) in planes.iter_mut().zip(filled).zip(value_room) {
                filled.fill(byte);
                (kernel.scatter)(1, &mask, plane, filled);
                *plane = filled;
            }
        }
        self.joiner.join(kernel, &planes[..width], out);
        Ok(())
    }
}
