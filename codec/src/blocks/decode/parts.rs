//! Parts in front of a block's codes: bases and a mask.

use super::take;
use crate::blocks::coding::Format;
use crate::blocks::entry::{Entry, Form, ZERO_BYTE, ZERO_NIBBLE};
use crate::blocks::geometry::{ALIGN, mask_bytes};
use crate::blocks::tiers::check_zero;
use crate::kernel::{BASE_GROUP, LAST_BASE};
use crate::tile::{marked, mask_len};
use crate::{BlockFault, Layout};

/// A coded block, and what has been read of it.
pub(super) struct Coded<'a> {
    pub(super) entry: Entry,
    pub(super) bases: Bases<'a>,
    pub(super) mask: &'a [u8],
}

impl<'a> Coded<'a> {
    /// Takes bases and mask of a block of `count` values off `dynamic`.
    ///
    /// # Errors
    /// If they contradict themselves or the entry.
    pub(super) fn read(
        format: Format,
        entry: Entry,
        count: usize,
        dynamic: &mut &'a [u8],
    ) -> Result<Self, BlockFault> {
        let bases = Bases::read(format.layout, entry, count, dynamic)?;
        let kept = (0..count.div_ceil(BASE_GROUP))
            .filter(|group| bases.of(*group).is_some())
            .map(|group| (count - group * BASE_GROUP).min(BASE_GROUP))
            .sum();
        let mask = take(dynamic, if entry.masked { mask_bytes(kept) } else { 0 })?;
        let found = if entry.masked { check_mask(mask, kept)? } else { kept };
        let coded = Self { entry, bases, mask };
        if found != coded.count() {
            return Err(BlockFault::Coded { expected: coded.count(), found });
        }
        Ok(coded)
    }

    /// Number of coded values.
    pub(super) fn count(&self) -> usize {
        usize::from(self.entry.counts[0])
    }

    /// Whether all values of groups that have a base are coded, by residuals to nothing but these.
    pub(super) fn is_plain(&self) -> bool {
        !self.entry.masked && !self.entry.columns
    }
}

/// The bases of a block's groups.
pub(super) struct Bases<'a> {
    layout: Layout,
    pub(super) entry: Entry,
    bytes: &'a [u8],
}

impl<'a> Bases<'a> {
    /// Takes the bases of a block of `count` values off `dynamic`.
    fn read(layout: Layout, entry: Entry, count: usize, dynamic: &mut &'a [u8]) -> Result<Self, BlockFault> {
        let len = entry.form.bases_len(count);
        let (bytes, padding) = take(dynamic, len.next_multiple_of(ALIGN))?.split_at(len);
        check_zero(padding)?;
        let bases = Self { layout, entry, bytes };
        let groups = count.div_ceil(BASE_GROUP);
        if entry.form == Form::Nibbles {
            if groups % 2 == 1 && bytes[groups / 2] >> 4 != 0 {
                return Err(BlockFault::Padding);
            }
            let highest = (0..groups).filter_map(|group| bases.of(group)).max();
            if let Some(base) = highest.filter(|base| *base > LAST_BASE) {
                return Err(BlockFault::Base(base));
            }
        }
        Ok(bases)
    }

    /// The base of a group; none if all its values are +0 and left out.
    pub(super) fn of(&self, group: usize) -> Option<u8> {
        match self.layout {
            // Nothing is left out: such a group has base 0.
            Layout::Split => self.stated(group).or(Some(0)),
            Layout::Compact => self.stated(group),
        }
    }

    /// The base of a group; none if all its values are +0.
    pub(super) fn stated(&self, group: usize) -> Option<u8> {
        match self.entry.form {
            Form::Nibbles => match self.bytes[group / 2] >> (group % 2 * 4) & 15 {
                ZERO_NIBBLE => None,
                nibble => Some(self.entry.base.saturating_add(nibble)),
            },
            Form::Bytes => Some(self.bytes[group]).filter(|base| *base != ZERO_BYTE),
            Form::One(_) | Form::Stored | Form::Zero => Some(self.entry.base),
        }
    }
}

/// How many of `count` values the mask marks.
fn check_mask(mask: &[u8], count: usize) -> Result<usize, BlockFault> {
    let (bits, padding) = mask.split_at(mask_len(count));
    check_zero(padding)?;
    marked(bits, count).ok_or(BlockFault::Padding)
}
