//! A set of ranks that gives out the lowest first.

use zipwire_schedule::Rank;

/// One bit a rank.
pub(crate) struct RankSet {
    words: Vec<u64>,
    /// Words below this one are zero.
    first: usize,
}

impl RankSet {
    pub(crate) fn all(count: u32) -> Self {
        let mut all = Self { words: vec![0; count.div_ceil(u64::BITS) as usize], first: 0 };
        (0..count).map(Rank).for_each(|rank| all.insert(rank));
        all
    }

    /// Adds a rank, below the count that the set was made for.
    pub(crate) fn insert(&mut self, rank: Rank) {
        let word = (rank.0 / u64::BITS) as usize;
        self.words[word] |= 1 << (rank.0 % u64::BITS);
        self.first = self.first.min(word);
    }

    pub(crate) fn pop_first(&mut self) -> Option<Rank> {
        let words = self.words[self.first..].iter().take_while(|&&word| word == 0);
        self.first += words.count();
        let word = self.words.get_mut(self.first)?;
        let bit = word.trailing_zeros();
        *word &= *word - 1;
        Some(Rank(self.first as u32 * u64::BITS + bit))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn as_a_sorted_set() {
        let mut set = RankSet::all(200);
        let mut sorted: BTreeSet<Rank> = (0..200).map(Rank).collect();
        for step in 0..5000_u32 {
            if step % 7 < 3 {
                let rank = Rank(step.wrapping_mul(2_654_435_761) % 200);
                set.insert(rank);
                sorted.insert(rank);
            } else {
                assert_eq!(set.pop_first(), sorted.pop_first());
            }
        }
        assert!(std::iter::from_fn(|| set.pop_first()).eq(sorted));
        assert_eq!(set.pop_first(), None);
    }
}
