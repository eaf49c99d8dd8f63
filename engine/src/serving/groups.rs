//! The groups of a shard: one layer and up to so many tokens each, layer by layer.

/// All groups of some layers and tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Groups {
    /// The first layer and the one behind the last.
    pub(super) layers: [u32; 2],
    /// The first token and the one behind the last.
    pub(super) tokens: [u32; 2],
    /// Tokens of a group at the most.
    pub(super) most: u32,
}

impl Groups {
    /// Number of groups.
    pub(super) fn count(&self) -> u32 {
        (self.layers[1] - self.layers[0]) * self.per_layer()
    }

    /// Layer and tokens of one of them.
    pub(super) fn get(&self, index: u32) -> (u32, [u32; 2]) {
        let (layer, block) = (index / self.per_layer(), index % self.per_layer());
        let begin = self.tokens[0] + block * self.most;
        (self.layers[0] + layer, [begin, self.tokens[1].min(begin.saturating_add(self.most))])
    }

    fn per_layer(&self) -> u32 {
        (self.tokens[1] - self.tokens[0]).div_ceil(self.most)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_are_all_of_a_shard_once() {
        let groups = Groups { layers: [3, 5], tokens: [100, 700], most: 256 };
        let list: Vec<_> = (0..groups.count()).map(|index| groups.get(index)).collect();
        let tokens = [[100, 356], [356, 612], [612, 700]];
        let expected = [3, 4].into_iter().flat_map(|layer| tokens.map(|tokens| (layer, tokens)));
        assert_eq!(list, expected.collect::<Vec<_>>());
    }
}
