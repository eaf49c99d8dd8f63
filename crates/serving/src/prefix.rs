//! Blocks that a prefill instance still has of earlier prompts.

use std::collections::{BTreeMap, HashMap};

/// Blocks of prompts; the one that was not used for longest goes first.
#[derive(Clone, Debug)]
pub(crate) struct PrefixCache {
    capacity: u64,
    /// When each block was last used.
    used: HashMap<u64, u64>,
    /// The same, by time.
    oldest: BTreeMap<u64, u64>,
    uses: u64,
}

impl PrefixCache {
    pub(crate) fn new(capacity: u64) -> Self {
        Self { capacity, used: HashMap::new(), oldest: BTreeMap::new(), uses: 0 }
    }

    /// Number of leading blocks that are here without a gap.
    pub(crate) fn matching(&self, prefix: &[u64]) -> usize {
        prefix.iter().take_while(|block| self.used.contains_key(block)).count()
    }

    /// Uses or adds the blocks of a prompt. The last ones count as used first, so what other prompts may share stays longest.
    pub(crate) fn insert(&mut self, prefix: &[u64]) {
        if self.capacity == 0 {
            return;
        }
        for &block in prefix.iter().rev() {
            self.uses += 1;
            if let Some(before) = self.used.insert(block, self.uses) {
                self.oldest.remove(&before);
            }
            self.oldest.insert(self.uses, block);
        }
        while self.used.len() as u64 > self.capacity {
            let (_, block) = self.oldest.pop_first().expect("every block has a time");
            self.used.remove(&block);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_not_used_for_longest_goes_and_the_end_of_a_prompt_before_its_beginning() {
        let mut cache = PrefixCache::new(4);
        cache.insert(&[1, 2, 3]);
        assert_eq!(cache.matching(&[1, 2, 9]), 2);
        assert_eq!(cache.matching(&[2]), 1);
        cache.insert(&[1, 4, 5]);
        assert_eq!(cache.matching(&[1, 2, 3]), 2, "3 was the end of the older prompt");
        assert_eq!(cache.matching(&[1, 4, 5]), 3);
        cache.insert(&[6, 7]);
        assert_eq!(cache.matching(&[1, 4, 5]), 2);
        assert_eq!(cache.used.len(), 4);
    }

    #[test]
    fn without_room_nothing_stays() {
        let mut cache = PrefixCache::new(0);
        cache.insert(&[1]);
        assert_eq!(cache.matching(&[1]), 0);
    }
}
