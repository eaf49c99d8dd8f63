//! Words of symbols, with shifts by a number of bits in any register.

use crate::kernel::four::{self, ShortWords};

/// See [`crate::kernel::Kernel::fours`].
#[target_feature(enable = "avx2,bmi1,bmi2,popcnt")]
pub(super) fn fours(words: &ShortWords, symbols: &[[u8; 4]], out: &mut [u64]) {
    four::fours(words, symbols, out);
}
