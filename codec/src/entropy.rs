//! Logarithms and entropies in integers, so that every machine chooses the same.

/// Fractional bits of logarithms and of costs made of them.
pub(crate) const FRACTION: u32 = 8;

/// The binary logarithm with [`FRACTION`] bits behind the point, by squaring; 0 of 0.
pub(crate) const fn logarithm(number: u32) -> u64 {
    let Some(whole) = number.checked_ilog2() else { return 0 };
    let mut log = whole as u64;
    // From 1 to 2, with 31 bits behind the point.
    let mut x = (number as u64) << (31 - whole);
    let mut bit = 0;
    while bit < FRACTION {
        x = (x * x) >> 31;
        log <<= 1;
        if x >> 32 != 0 {
            x >>= 1;
            log += 1;
        }
        bit += 1;
    }
    log
}

/// The digits behind the point in logarithms of 256 to 511.
static FRACTIONS: [u8; 256] = {
    let mut fractions = [0; 256];
    let mut number = 0;
    while number < 256 {
        fractions[number] = logarithm(256 + number as u32) as u8;
        number += 1;
    }
    fractions
};

/// The logarithm of the highest nine bits of a number; 0 of 0.
fn short_logarithm(number: u32) -> u64 {
    let Some(whole) = number.checked_ilog2() else { return 0 };
    let fraction = FRACTIONS[(number << (31 - whole) >> 23 & 0xff) as usize];
    u64::from(whole) << FRACTION | u64::from(fraction)
}

/// Bits of symbols of these counts, fewer than 2^32 in all, at their entropy of order 0; up to a hundredth of a bit for each symbol too many or too few.
pub(crate) fn of_counts(counts: &[u32; 256]) -> u64 {
    let all = short_logarithm(counts.iter().sum());
    let costs = counts.iter().map(|&count| u64::from(count) * all.saturating_sub(short_logarithm(count)));
    costs.sum::<u64>() >> FRACTION
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn logarithms_are_those_of_the_definition() {
        assert_eq!([0, 1, 2, 4096].map(logarithm), [0, 0, 256, 12 * 256]);
        for number in 1..5000u32 {
            let exact = libm::log2(f64::from(number));
            assert!((exact - logarithm(number) as f64 / 256.0).abs() <= 1.0 / 256.0, "{number}");
            assert!((exact - short_logarithm(number) as f64 / 256.0).abs() <= 0.01, "{number}");
        }
    }

    #[test]
    fn entropies_are_those_of_textbooks() {
        let counts = |of: &[u32]| std::array::from_fn(|symbol| of.get(symbol).copied().unwrap_or(0));
        assert_eq!(of_counts(&[0; 256]), 0);
        assert_eq!(of_counts(&counts(&[0, 1000])), 0);
        assert_eq!(of_counts(&[16; 256]), 16 * 256 * 8);
        assert_eq!(of_counts(&counts(&[512, 256, 128, 128])), 512 + 2 * 256 + 6 * 128);
        // 0.469 bits where one in ten is another.
        assert!((4650..4730).contains(&of_counts(&counts(&[9000, 1000]))));
    }
}
