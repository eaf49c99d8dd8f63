//! The checksum of frames, written a second time from docs/format.md.

/// Checksum of values, and of front matter whose checksum field is zero.
pub(crate) fn checksum(values: &[u8], front: &[u8]) -> u32 {
    let mut checksum = 0u32;
    for (number, block) in values.chunks(16_384).enumerate() {
        checksum = checksum.wrapping_add(part(block, |word| 2048 * number as u64 + word));
    }
    let (header, behind) = front.split_at(32);
    checksum = checksum.wrapping_add(part(header, |word| u64::MAX - word));
    checksum.wrapping_add(part(behind, |word| u64::MAX - 4 - word))
}

/// Checksum of bytes that follow the front matter, which has `front_len`.
#[allow(dead_code, reason = "not every test target uses it")]
pub(crate) fn behind(front_len: usize, bytes: &[u8]) -> u32 {
    part(bytes, |word| u64::MAX - (front_len / 8) as u64 - word)
}

/// Checksum of the words of a header or an index, from the first index on.
#[allow(dead_code, reason = "not every test target uses it")]
pub(crate) fn words(bytes: &[u8]) -> u32 {
    part(bytes, |word| u64::MAX - word)
}

fn part(bytes: &[u8], index: impl Fn(u64) -> u64) -> u32 {
    let mut sum = 0u64;
    for (word, number) in bytes.chunks(8).zip(0..) {
        let word = word.iter().rev().fold(0u64, |word, byte| word << 8 | u64::from(*byte));
        let x = word ^ index(number).wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let product = (x & 0xffff_ffff).wrapping_mul(x >> 32).wrapping_add(x);
        sum = sum.wrapping_add(product ^ (product >> 29));
    }
    (sum >> 32) as u32 ^ sum as u32
}

/// Holds the checksum in front matter against that of the values and of all front matter, to which `more` is added.
#[allow(dead_code, reason = "not every test target uses it")]
pub(crate) fn assert_sealed(values: &[u8], front: &[u8], more: u32) {
    let mut unsealed = front.to_vec();
    unsealed[24..28].fill(0);
    assert_eq!(front[24..28], checksum(values, &unsealed).wrapping_add(more).to_le_bytes());
}
