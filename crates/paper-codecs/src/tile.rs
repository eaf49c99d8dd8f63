//! Tiles of 8192 values in forms of their own: what `window7` and `codebook16` have in common, and masks of zeros.

use crate::error::TileFault;
use crate::kernel::bits::marked;

/// Form of a tile, in the order of the tags.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    /// All values are coded.
    Coded,
    /// The values as they are.
    Stored,
    /// All values are +0; no body. Compact layout only.
    Zero,
    /// A mask marks the values that are not +0; these are coded. Compact layout only.
    Masked,
}

impl Mode {
    /// All forms, by tag.
    pub(crate) const ALL: [Self; 4] = [Self::Coded, Self::Stored, Self::Zero, Self::Masked];

    /// The tag in tile tables.
    pub(crate) fn tag(self) -> u8 {
        self as u8
    }

    /// The form with this tag.
    pub(crate) fn from_tag(tag: u8) -> Result<Self, TileFault> {
        Self::ALL.get(usize::from(tag)).copied().ok_or(TileFault::Mode(tag))
    }

    /// Checks the numbers of coded values and of escapes among them, for a tile of `count` values in which something is
    /// coded.
    pub(crate) fn check_counts(self, coded: u16, escapes: u16, count: usize) -> Result<(), TileFault> {
        let coded = usize::from(coded);
        match self {
            Self::Coded if coded != count => Err(TileFault::UnusedField),
            Self::Masked if coded >= count || coded == 0 => {
                Err(TileFault::MaskCount { expected: coded, found: count })
            }
            _ if usize::from(escapes) > coded => {
                Err(TileFault::EscapeCount { expected: usize::from(escapes), found: coded })
            }
            _ => Ok(()),
        }
    }
}

/// The mask of a tile of `count` values must mark `coded` of them, and nothing beyond.
pub(crate) fn check_mask(mask: &[u8], count: usize, coded: u16) -> Result<(), TileFault> {
    let (expected, found) = (usize::from(coded), marked(mask, count).ok_or(TileFault::Padding)?);
    if found == expected { Ok(()) } else { Err(TileFault::MaskCount { expected, found }) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::bits::mask_len;

    #[test]
    fn tags_are_positions() {
        for (tag, mode) in (0..).zip(Mode::ALL) {
            assert_eq!((mode.tag(), Mode::from_tag(tag)), (tag, Ok(mode)));
        }
        assert_eq!(Mode::from_tag(4), Err(TileFault::Mode(4)));
    }

    #[test]
    fn masks_mark_values_and_nothing_beyond() {
        assert_eq!([0, 1, 8, 9].map(mask_len), [0, 1, 1, 2]);
        assert_eq!(marked(&[], 0), Some(0));
        assert_eq!(marked(&[0xff, 0x05], 16), Some(10));
        assert_eq!(marked(&[0xff, 0x05], 11), Some(10));
        assert_eq!(marked(&[0xff, 0x05], 10), None);
        assert_eq!(check_mask(&[0x07], 5, 3), Ok(()));
        assert_eq!(check_mask(&[0x07], 5, 2), Err(TileFault::MaskCount { expected: 2, found: 3 }));
        assert_eq!(check_mask(&[0x27], 5, 4), Err(TileFault::Padding));
    }
}
