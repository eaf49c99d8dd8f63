//! Bytes and halves of values by significance: loops that compilers turn into shuffles of whole vectors, where there are such. The upper half
//! of an FP32 value is the BF16 value that it begins with.

/// See [`super::Kernel::split_bytes_2`].
#[inline(always)]
pub(crate) fn split_bytes_2(values: &[u8], low: &mut [u8], high: &mut [u8]) {
    for ((value, low), high) in values.as_chunks().0.iter().zip(low).zip(high) {
        [*low, *high] = *value;
    }
}

/// See [`super::Kernel::join_bytes_2`].
#[inline(always)]
pub(crate) fn join_bytes_2(low: &[u8], high: &[u8], values: &mut [u8]) {
    for ((value, low), high) in values.as_chunks_mut().0.iter_mut().zip(low).zip(high) {
        *value = [*low, *high];
    }
}

/// See [`super::Kernel::split_bytes_4`].
#[inline(always)]
pub(crate) fn split_bytes_4(values: &[u8], [first, second, third, fourth]: [&mut [u8]; 4]) {
    let planes = first.iter_mut().zip(second).zip(third).zip(fourth);
    for (value, (((first, second), third), fourth)) in values.as_chunks().0.iter().zip(planes) {
        [*first, *second, *third, *fourth] = *value;
    }
}

/// See [`super::Kernel::join_bytes_4`].
#[inline(always)]
pub(crate) fn join_bytes_4([first, second, third, fourth]: [&[u8]; 4], values: &mut [u8]) {
    let planes = first.iter().zip(second).zip(third.iter().zip(fourth));
    for (value, ((first, second), (third, fourth))) in values.as_chunks_mut().0.iter_mut().zip(planes) {
        *value = [*first, *second, *third, *fourth];
    }
}

/// See [`super::Kernel::upper_halves`].
pub(crate) fn upper_halves(values: &[u8], upper: &mut [u8]) {
    for (value, upper) in values.as_chunks::<4>().0.iter().zip(upper.as_chunks_mut::<2>().0) {
        *upper = [value[2], value[3]];
    }
}

/// See [`super::Kernel::lower_halves`].
pub(crate) fn lower_halves(values: &[u8], lower: &mut [u8]) -> bool {
    let mut any = 0;
    for (value, lower) in values.as_chunks::<4>().0.iter().zip(lower.as_chunks_mut::<2>().0) {
        *lower = [value[0], value[1]];
        any |= u16::from_le_bytes(*lower);
    }
    any != 0
}

/// See [`super::Kernel::join_halves`].
pub(crate) fn join_halves(upper: &[u8], lower: &[u8], values: &mut [u8]) {
    let halves = upper.as_chunks::<2>().0.iter().zip(lower.as_chunks::<2>().0);
    for (value, (upper, lower)) in values.as_chunks_mut::<4>().0.iter_mut().zip(halves) {
        *value = [lower[0], lower[1], upper[0], upper[1]];
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::levels;

    #[test]
    fn bytes_are_split_by_place_and_come_back() {
        for kernel in levels::all() {
            for count in [0, 1, 3, 63, 64, 65, 127, 129, 1000] {
                let values: Vec<u8> = (0..4 * count).map(|i| ((i * 7) ^ (i >> 5)) as u8).collect();
                let byte = |width: usize, at: usize| -> Vec<u8> {
                    values[..width * count].iter().skip(at).step_by(width).copied().collect()
                };
                let mut planes = [(); 4].map(|()| vec![0x55; count]);
                let [a, b, c, d] = planes.each_mut().map(Vec::as_mut_slice);
                (kernel.split_bytes_4)(&values, [a, b, c, d]);
                assert_eq!(planes, [0, 1, 2, 3].map(|at| byte(4, at)), "{} {count}", kernel.level);
                let mut back = vec![0; values.len()];
                (kernel.join_bytes_4)(planes.each_ref().map(Vec::as_slice), &mut back);
                assert_eq!(back, values);

                let [low, high, ..] = &mut planes;
                (kernel.split_bytes_2)(&values[..2 * count], low, high);
                assert_eq!((&*low, &*high), (&byte(2, 0), &byte(2, 1)), "{} {count}", kernel.level);
                let mut back = vec![0; 2 * count];
                (kernel.join_bytes_2)(low, high, &mut back);
                assert_eq!(back, values[..2 * count]);
            }
        }
    }

    #[test]
    fn halves_are_taken_and_joined() {
        let values: Vec<u8> = (0..40).collect();
        let (mut high, mut low) = ([0; 20], [0; 20]);
        upper_halves(&values, &mut high);
        assert!(lower_halves(&values, &mut low));
        assert_eq!((high[..4].to_vec(), low[..4].to_vec()), (vec![2, 3, 6, 7], vec![0, 1, 4, 5]));
        let mut back = [0xff; 40];
        join_halves(&high, &low, &mut back);
        assert_eq!(back[..], values);
        let short = 1.5f32.to_le_bytes().repeat(3);
        assert!(!lower_halves(&short, &mut low[..6]));
        assert_eq!(low[..6], [0; 6]);
    }
}
