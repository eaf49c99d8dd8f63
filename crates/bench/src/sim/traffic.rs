//! All pairs of ranks: how much each sends, and when.

use rand::seq::SliceRandom;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::cases::Cluster;

/// Bytes of a pair in the mean.
pub(super) const MEAN_BYTES: u64 = 1 << 20;
/// Exponent of [`Sizes::Zipf`].
const ZIPF: f64 = 0.8;
const SEED: u64 = 1;

/// How transfers differ from pair to pair.
#[derive(Clone, Copy, Debug)]
pub(super) enum Sizes {
    /// Not at all: they all end together.
    Equal,
    /// Uniform from 0.5 to 1.5 of the mean: every transfer ends at its own time.
    Unequal,
    /// Like [`Self::Unequal`], with destinations as popular as 1 / position^0.8.
    Zipf,
    /// Like [`Self::Unequal`], with ranks that are ready at uniform times in the first quarter of what a flat network takes; a
    /// transfer starts when both of its ends are.
    Staggered,
}

/// A transfer of some bytes that starts when both ends are ready.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Transfer {
    pub(super) src: u32,
    pub(super) dst: u32,
    pub(super) bytes: u64,
    pub(super) ready_s: f64,
}

/// One transfer for each ordered pair of ranks, the same on every machine.
pub(super) fn all_pairs(ranks: u32, sizes: Sizes) -> Vec<Transfer> {
    let mut random = ChaCha8Rng::seed_from_u64(SEED);
    let popular = match sizes {
        Sizes::Zipf => zipf(ranks, &mut random),
        Sizes::Equal | Sizes::Unequal | Sizes::Staggered => vec![1.0; ranks as usize],
    };
    let latest_s = match sizes {
        Sizes::Staggered => f64::from(ranks - 1) * MEAN_BYTES as f64 / Cluster::BANDWIDTH / 4.0,
        Sizes::Equal | Sizes::Unequal | Sizes::Zipf => 0.0,
    };
    let ready_s: Vec<f64> = (0..ranks).map(|_| latest_s * random.random::<f64>()).collect();
    let mut transfers = Vec::with_capacity(ranks as usize * (ranks as usize - 1));
    for src in 0..ranks {
        for dst in (0..ranks).filter(|&dst| dst != src) {
            let share = match sizes {
                Sizes::Equal => 1.0,
                Sizes::Unequal | Sizes::Zipf | Sizes::Staggered => random.random_range(0.5..1.5),
            };
            let bytes = (MEAN_BYTES as f64 * share * popular[dst as usize]) as u64;
            let ready_s = ready_s[src as usize].max(ready_s[dst as usize]);
            transfers.push(Transfer { src, dst, bytes: bytes.max(1), ready_s });
        }
    }
    transfers
}

/// How popular each rank is, 1 in the mean.
fn zipf(ranks: u32, random: &mut ChaCha8Rng) -> Vec<f64> {
    let mut weights: Vec<f64> = (1..=ranks).map(|position| libm::pow(f64::from(position), -ZIPF)).collect();
    let mean = weights.iter().sum::<f64>() / f64::from(ranks);
    weights.iter_mut().for_each(|weight| *weight /= mean);
    weights.shuffle(random);
    weights
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_pair_has_one_transfer() {
        for sizes in [Sizes::Equal, Sizes::Unequal, Sizes::Zipf, Sizes::Staggered] {
            let transfers = all_pairs(16, sizes);
            let pairs: std::collections::BTreeSet<_> = transfers.iter().map(|t| (t.src, t.dst)).collect();
            assert_eq!((transfers.len(), pairs.len()), (240, 240));
            assert!(transfers.iter().all(|t| t.src != t.dst && t.bytes > 0));
            let mean = transfers.iter().map(|t| t.bytes as f64).sum::<f64>() / 240.0;
            assert!((0.85..1.15).contains(&(mean / MEAN_BYTES as f64)), "{sizes:?}: {mean}");
        }
    }
}
