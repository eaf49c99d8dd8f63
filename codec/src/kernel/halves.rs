//! Values of 32 bits as halves: the upper half of an FP32 value is the BF16 value that it begins with.

/// See [`super::Kernel::upper_halves`].
pub(crate) fn upper(values: &[u8], upper: &mut [u8]) {
    for (value, upper) in values.as_chunks::<4>().0.iter().zip(upper.as_chunks_mut::<2>().0) {
        *upper = [value[2], value[3]];
    }
}

/// See [`super::Kernel::lower_halves`].
pub(crate) fn lower(values: &[u8], lower: &mut [u8]) -> bool {
    let mut any = 0;
    for (value, lower) in values.as_chunks::<4>().0.iter().zip(lower.as_chunks_mut::<2>().0) {
        *lower = [value[0], value[1]];
        any |= u16::from_le_bytes(*lower);
    }
    any != 0
}

/// See [`super::Kernel::join_halves`].
pub(crate) fn join(upper: &[u8], lower: &[u8], values: &mut [u8]) {
    let halves = upper.as_chunks::<2>().0.iter().zip(lower.as_chunks::<2>().0);
    for (value, (upper, lower)) in values.as_chunks_mut::<4>().0.iter_mut().zip(halves) {
        *value = [lower[0], lower[1], upper[0], upper[1]];
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn halves_are_taken_and_joined() {
        let values: Vec<u8> = (0..40).collect();
        let (mut high, mut low) = ([0; 20], [0; 20]);
        upper(&values, &mut high);
        assert!(lower(&values, &mut low));
        assert_eq!((high[..4].to_vec(), low[..4].to_vec()), (vec![2, 3, 6, 7], vec![0, 1, 4, 5]));
        let mut back = [0xff; 40];
        join(&high, &low, &mut back);
        assert_eq!(back[..], values);
        let short = 1.5f32.to_le_bytes().repeat(3);
        assert!(!lower(&short, &mut low[..6]));
        assert_eq!(low[..6], [0; 6]);
    }
}
