//! How unevenly something is spread over ranks: two numbers for any list of amounts.

use serde::Serialize;

/// How uneven amounts are. Both numbers stay the same if all amounts are multiplied by one factor.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Imbalance {
    /// Largest over mean: 1 if all are equal, their number if one has all. What a step takes that waits for the last one, over
    /// what it would take if all were equal.
    pub max_over_mean: f64,
    /// Gini coefficient: half of the mean absolute difference of two amounts, with repetition, over the mean (Gini 1912). 0 if all
    /// are equal, `(n - 1) / n` if one of `n` has all. Unlike the maximum it knows all amounts.
    pub gini: f64,
}

impl Imbalance {
    /// Imbalance of amounts; `None` if all are zero or there are none.
    ///
    /// # Panics
    /// If an amount is negative or no number.
    pub fn of(amounts: &[f64]) -> Option<Self> {
        assert!(amounts.iter().all(|&amount| amount >= 0.0), "amounts are not negative");
        let (sum, count) = (amounts.iter().sum::<f64>(), amounts.len() as f64);
        if sum == 0.0 {
            return None;
        }
        let mut sorted = amounts.to_vec();
        sorted.sort_by(f64::total_cmp);
        let (least, most) = (sorted[0], sorted[sorted.len() - 1]);
        // The sum of |x - y| over all pairs, each once: the k-th of n sorted amounts is the larger one of k - 1 pairs and the smaller
        // one of n - k. Relative to the least, so that equal amounts have exactly none.
        let weighted = |(index, amount): (usize, &f64)| (2.0 * index as f64 + 1.0 - count) * (amount - least);
        let differences: f64 = sorted.iter().enumerate().map(weighted).sum();
        Some(Self { max_over_mean: most * count / sum, gini: differences / (count * sum) })
    }

    /// [`of`](Self::of) amounts that are counted.
    pub fn of_counts(counts: &[u64]) -> Option<Self> {
        let amounts: Vec<f64> = counts.iter().map(|&count| count as f64).collect();
        Self::of(&amounts)
    }
}

#[cfg(test)]
mod tests {
    use rand::RngExt;

    use super::*;

    fn gini(amounts: &[f64]) -> f64 {
        Imbalance::of(amounts).unwrap().gini
    }

    #[test]
    fn equal_amounts_have_none() {
        for count in 1..50 {
            for amount in [1.0, 0.1, 1e-9, 3e300 / 50.0] {
                let imbalance = Imbalance::of(&vec![amount; count]).unwrap();
                assert_eq!(imbalance.gini, 0.0);
                assert!((imbalance.max_over_mean - 1.0).abs() < 1e-12, "{count} x {amount}");
            }
        }
    }

    #[test]
    fn one_that_has_all_is_the_most() {
        for count in 1..50 {
            let mut amounts = vec![0.0; count];
            amounts[count / 2] = 0.7;
            let n = count as f64;
            let imbalance = Imbalance::of(&amounts).unwrap();
            assert!((imbalance.max_over_mean - n).abs() < 1e-12, "{imbalance:?} for {count}");
            assert!((imbalance.gini - (n - 1.0) / n).abs() < 1e-12, "{imbalance:?} for {count}");
        }
    }

    #[test]
    fn by_hand() {
        // Differences of pairs: 1, 2, 5, 1, 4, 3, in sum 16; 16 / (4 x 12).
        let imbalance = Imbalance::of(&[2.0, 6.0, 1.0, 3.0]).unwrap();
        assert_eq!((imbalance.max_over_mean, imbalance.gini), (2.0, 1.0 / 3.0));
        // 1 to n: (n - 1) / (3 n), (n^2 - 1) / 3 x n / 2 being the sum over pairs.
        let ramp: Vec<f64> = (1..=10).map(f64::from).collect();
        assert!((gini(&ramp) - 0.3).abs() < 1e-15);
    }

    #[test]
    fn it_is_the_mean_difference_over_twice_the_mean() {
        let mut rng = zipwire_payload::stream(1, "test", [0; 3]);
        for _ in 0..300 {
            let amounts: Vec<f64> =
                (0..rng.random_range(1..40)).map(|_| rng.random_range(0.0..10.0)).collect();
            let count = amounts.len() as f64;
            let pairs = amounts.iter().flat_map(|x| amounts.iter().map(move |y| (x - y).abs()));
            let mean = amounts.iter().sum::<f64>() / count;
            let expected = pairs.sum::<f64>() / (count * count) / (2.0 * mean);
            assert!((gini(&amounts) - expected).abs() < 1e-12, "{amounts:?}");
            let scaled: Vec<f64> = amounts.iter().rev().map(|amount| amount * 1e6).collect();
            assert!((gini(&scaled) - expected).abs() < 1e-12, "neither order nor unit matters");
        }
    }

    #[test]
    fn nothing_is_not_uneven() {
        assert_eq!(Imbalance::of(&[]), None);
        assert_eq!(Imbalance::of(&[0.0; 3]), None);
        assert_eq!(Imbalance::of_counts(&[0, 0]), None);
        assert_eq!(Imbalance::of_counts(&[3, 1]), Some(Imbalance { max_over_mean: 1.5, gini: 0.25 }));
    }

    #[test]
    #[should_panic(expected = "not negative")]
    fn less_than_nothing_is_a_programmer_error() {
        Imbalance::of(&[1.0, f64::NAN]);
    }
}
