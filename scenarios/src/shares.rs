//! Division of whole tokens by recorded shares.

/// `total` divided in proportion to `weights`, exactly: every part is its share rounded down, and what is
/// left goes one by one to the parts with the largest remainders, ties to the lower index (Hamilton's method).
///
/// `None` if all weights are zero.
pub(crate) fn largest_remainder(weights: &[u64], total: u64) -> Option<Vec<u64>> {
    let sum: u128 = weights.iter().map(|&weight| u128::from(weight)).sum();
    if sum == 0 {
        return None;
    }
    // Both factors are below 2^64, so the products fit.
    let scaled = |weight: u64| u128::from(weight) * u128::from(total);
    let floor = |weight| u64::try_from(scaled(weight) / sum).expect("a part is at most the total");
    let mut parts: Vec<u64> = weights.iter().map(|&weight| floor(weight)).collect();
    let left = total - parts.iter().sum::<u64>();

    let mut order: Vec<usize> = (0..weights.len()).collect();
    // The sort is stable: among equal remainders the lower index stays first.
    order.sort_by_key(|&index| std::cmp::Reverse(scaled(weights[index]) % sum));
    for &index in order.iter().take(usize::try_from(left).expect("fewer are left than there are parts")) {
        parts[index] += 1;
    }
    Some(parts)
}

#[cfg(test)]
mod tests {
    use rand::RngExt;

    use super::*;

    #[test]
    fn ties_go_to_the_lower_index() {
        assert_eq!(largest_remainder(&[1, 1, 1], 4).unwrap(), [2, 1, 1]);
        assert_eq!(largest_remainder(&[1, 1, 1], 5).unwrap(), [2, 2, 1]);
        assert_eq!(largest_remainder(&[0, 3, 3], 3).unwrap(), [0, 2, 1]);
    }

    #[test]
    fn larger_remainders_go_first() {
        // 10 x 7/12 = 5.83, 10 x 4/12 = 3.33, 10 x 1/12 = 0.83: one each to the first and the last.
        assert_eq!(largest_remainder(&[7, 4, 1], 10).unwrap(), [6, 3, 1]);
        assert_eq!(largest_remainder(&[0, 0], 10), None);
        assert_eq!(largest_remainder(&[], 10), None);
    }

    #[test]
    fn is_the_identity_on_a_record_of_the_same_size() {
        let record = [145, 100, 211, 0, 541, 194];
        assert_eq!(largest_remainder(&record, record.iter().sum()).unwrap(), record);
    }

    #[test]
    fn sums_and_stays_within_one_of_the_share() {
        let mut rng = zipwire_payload::stream(1, "test", [0; 3]);
        for _ in 0..2000 {
            let count = rng.random_range(1..40);
            let limit = [10, 1 << 20, u64::MAX][rng.random_range(0..3)];
            let weights: Vec<u64> = (0..count).map(|_| rng.random_range(0..=limit)).collect();
            let total = rng.random_range(0..=limit);
            let Some(parts) = largest_remainder(&weights, total) else {
                assert!(weights.iter().all(|&weight| weight == 0));
                continue;
            };
            assert_eq!(parts.iter().map(|&part| u128::from(part)).sum::<u128>(), u128::from(total));
            let sum: u128 = weights.iter().map(|&weight| u128::from(weight)).sum();
            for (&weight, &part) in weights.iter().zip(&parts) {
                let floor = u128::from(weight) * u128::from(total) / sum;
                assert!((floor..=floor + 1).contains(&u128::from(part)));
            }
        }
    }
}
