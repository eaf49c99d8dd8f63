//! Shards of a cache: which rank of a prefill instance sends which part to which rank of a decode instance.
//!
//! Ranks of an instance share its layers by tensor parallelism. With grouped attention each has some of the heads of keys and values, or, where
//! there are more ranks than heads, a copy of one; with a latent every rank has all of it.

use zipwire_cluster::Rank;

/// The part of a token's cache that one rank sends to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shard {
    /// The sender, counted in its instance.
    pub src: u32,
    /// The receiver, counted in its instance.
    pub dst: u32,
}

/// All parts of a cache.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shards {
    list: Vec<Shard>,
    token_bytes: u64,
    layers: u32,
    prefill_ranks: u32,
    decode_ranks: u32,
    prefill_instances: u32,
}

/// Why a cache cannot be spread so.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
#[allow(missing_docs, reason = "fields are named by the messages")]
pub enum ShardError {
    /// Neither number of ranks is a multiple of the other, or one is 0.
    #[error(
        "a prefill instance of {prefill} ranks and a decode instance of {decode}: one is to be a multiple of the other"
    )]
    Ranks { prefill: u32, decode: u32 },
    /// Neither do ranks have as many heads each, nor heads as many copies.
    #[error(
        "{heads} heads of keys and values cannot be dealt to {ranks} ranks: one number is to be a multiple of the other"
    )]
    Heads { heads: u32, ranks: u32 },
}

impl Shards {
    /// The parts of a cache of grouped attention: `heads` heads of keys and as many of values, of `head_bytes` bytes for a token and layer each.
    /// A rank that decodes gets its heads once, whether other ranks have copies of them or not.
    ///
    /// # Errors
    /// If heads or ranks do not divide.
    pub fn grouped(
        layers: u32,
        heads: u32,
        head_bytes: u64,
        instances: u32,
        ranks: [u32; 2],
    ) -> Result<Self, ShardError> {
        Self::new(layers, heads, 2 * head_bytes, instances, ranks)
    }

    /// The parts of a cache of latents, of `latent_bytes` bytes for a token and layer: each rank that decodes gets all of it.
    ///
    /// # Errors
    /// If ranks do not divide.
    pub fn latent(
        layers: u32,
        latent_bytes: u64,
        instances: u32,
        ranks: [u32; 2],
    ) -> Result<Self, ShardError> {
        Self::new(layers, 1, latent_bytes, instances, ranks)
    }

    /// The parts of a cache of `heads` heads: ranks have as many each, in order, or copies of one, neighbours of the same.
    fn new(
        layers: u32,
        heads: u32,
        head_bytes: u64,
        prefill_instances: u32,
        [prefill_ranks, decode_ranks]: [u32; 2],
    ) -> Result<Self, ShardError> {
        check_ranks(prefill_ranks, decode_ranks)?;
        let divides = |ranks: u32| heads.is_multiple_of(ranks) || ranks.is_multiple_of(heads);
        if let Some(ranks) = [prefill_ranks, decode_ranks].into_iter().find(|&ranks| !divides(ranks)) {
            return Err(ShardError::Heads { heads, ranks });
        }
        // Parts that are not cut on either side, and of those with copies one for each receiver.
        let parts = prefill_ranks.max(decode_ranks).min(heads);
        let count = parts.max(decode_ranks);
        let holder = |shard: u32, ranks: u32| (u64::from(shard) * u64::from(ranks) / u64::from(count)) as u32;
        let shard = |shard| Shard { src: holder(shard, prefill_ranks), dst: holder(shard, decode_ranks) };
        let list = (0..count).map(shard).collect();
        let token_bytes = u64::from(heads / parts) * head_bytes;
        Ok(Self { list, token_bytes, layers, prefill_ranks, decode_ranks, prefill_instances })
    }

    /// Prefill instances.
    pub fn prefill_instances(&self) -> u32 {
        self.prefill_instances
    }

    /// All of them.
    pub fn list(&self) -> &[Shard] {
        &self.list
    }

    /// Bytes that a shard has of a token and layer.
    pub fn token_bytes(&self) -> u64 {
        self.token_bytes
    }

    /// Layers of the model.
    pub fn layers(&self) -> u32 {
        self.layers
    }

    /// Bytes of so many tokens in so many layers, all shards together.
    pub fn bytes(&self, tokens: u32, layers: u32) -> u64 {
        self.list.len() as u64 * self.token_bytes * u64::from(tokens) * u64::from(layers)
    }

    /// Ranks of both pools, of which those that prefill are the first.
    pub fn ranks(&self, decode_instances: u32) -> u32 {
        self.prefill_instances * self.prefill_ranks + decode_instances * self.decode_ranks
    }

    /// Ranks of a prefill instance.
    pub fn prefill_ranks(&self, instance: u32) -> std::ops::Range<u32> {
        instance * self.prefill_ranks..(instance + 1) * self.prefill_ranks
    }

    /// Ranks of a decode instance.
    pub fn decode_ranks(&self, instance: u32) -> std::ops::Range<u32> {
        let first = self.prefill_instances * self.prefill_ranks + instance * self.decode_ranks;
        first..first + self.decode_ranks
    }

    /// Sender and receiver of a shard between two instances.
    pub fn ends(&self, shard: Shard, prefill: u32, decode: u32) -> [Rank; 2] {
        [
            Rank(self.prefill_ranks(prefill).start + shard.src),
            Rank(self.decode_ranks(decode).start + shard.dst),
        ]
    }

    /// The layers of a group, of so many groups.
    pub fn layers_of(&self, group: u32, groups: u32) -> std::ops::Range<u32> {
        let first = |group: u32| (u64::from(self.layers) * u64::from(group) / u64::from(groups)) as u32;
        first(group)..first(group + 1)
    }
}

/// The ranks of the smaller instance are parts of those of the larger one.
fn check_ranks(prefill: u32, decode: u32) -> Result<(), ShardError> {
    let (least, most) = (prefill.min(decode), prefill.max(decode));
    if least == 0 || !most.is_multiple_of(least) {
        return Err(ShardError::Ranks { prefill, decode });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heads_go_to_the_rank_that_has_them() {
        let shards = Shards::grouped(32, 8, 256, 2, [4, 2]).unwrap();
        let ends: Vec<_> = shards.list().iter().map(|&shard| shards.ends(shard, 1, 1)).collect();
        assert_eq!(
            ends,
            [[Rank(4), Rank(10)], [Rank(5), Rank(10)], [Rank(6), Rank(11)], [Rank(7), Rank(11)]]
        );
        assert_eq!(shards.token_bytes(), 2 * 2 * 256);
        assert_eq!(shards.bytes(10, 32), 10 * 32 * 2 * 8 * 256);
    }

    #[test]
    fn every_rank_that_decodes_gets_the_latent() {
        let shards = Shards::latent(61, 1152, 1, [2, 4]).unwrap();
        let pairs: Vec<_> = shards.list().iter().map(|shard| (shard.src, shard.dst)).collect();
        assert_eq!(pairs, [(0, 0), (0, 1), (1, 2), (1, 3)]);
        assert_eq!(shards.bytes(1, 1), 4 * 1152);
        let wide = Shards::latent(61, 1152, 1, [4, 2]).unwrap();
        let pairs: Vec<_> = wide.list().iter().map(|shard| (shard.src, shard.dst)).collect();
        assert_eq!(pairs, [(0, 0), (2, 1)]);
    }

    /// Senders, receivers and heads of each shard, from what ranks hold: every receiver gets each of its heads once, from a rank that has it.
    #[test]
    fn ranks_get_copies_of_heads_where_there_are_fewer() {
        for heads in [1, 2, 4, 8] {
            for [prefill, decode] in [[8, 8], [16, 8], [8, 16], [4, 8], [8, 4], [2, 16], [16, 2], [1, 8]] {
                let shards = Shards::grouped(1, heads, 1, 1, [prefill, decode]).unwrap();
                let held = |rank: u32, ranks: u32| {
                    let first = rank * heads / ranks;
                    first..(first + (heads / ranks).max(1))
                };
                let per_shard = (shards.token_bytes() / 2) as u32;
                let mut got = vec![Vec::new(); decode as usize];
                for shard in shards.list() {
                    let next = held(shard.dst, decode).start + got[shard.dst as usize].len() as u32;
                    let part = next..next + per_shard;
                    assert!(part.clone().all(|head| held(shard.src, prefill).contains(&head)), "{shard:?}");
                    got[shard.dst as usize].extend(part);
                }
                for (rank, got) in (0..decode).zip(got) {
                    assert_eq!(got, held(rank, decode).collect::<Vec<_>>(), "{heads} {prefill} {decode}");
                }
            }
        }
        // Four heads of 128 values in BF16 on eight ranks: twice the bytes of the cache move.
        let qwen = Shards::grouped(94, 4, 256, 1, [8, 8]).unwrap();
        assert_eq!(qwen.bytes(8192, 94), 2 * (8192 * 94 * 2 * 4 * 256));
        let pairs: Vec<_> = qwen.list().iter().map(|shard| (shard.src, shard.dst)).collect();
        assert_eq!(pairs, (0..8).map(|rank| (rank, rank)).collect::<Vec<_>>(), "each sends its own copy");
    }

    #[test]
    fn what_does_not_divide_is_an_error() {
        assert_eq!(Shards::grouped(1, 8, 2, 1, [2, 3]), Err(ShardError::Ranks { prefill: 2, decode: 3 }));
        assert_eq!(Shards::grouped(1, 8, 2, 1, [12, 4]), Err(ShardError::Heads { heads: 8, ranks: 12 }));
        assert_eq!(Shards::grouped(1, 8, 2, 1, [1, 3]), Err(ShardError::Heads { heads: 8, ranks: 3 }));
        assert_eq!(Shards::latent(1, 8, 1, [3, 2]), Err(ShardError::Ranks { prefill: 3, decode: 2 }));
        assert_eq!(Shards::latent(1, 8, 1, [0, 0]), Err(ShardError::Ranks { prefill: 0, decode: 0 }));
    }

    #[test]
    fn groups_have_all_layers() {
        let shards = Shards::latent(61, 1, 1, [1, 1]).unwrap();
        let groups: Vec<_> = (0..4).map(|group| shards.layers_of(group, 4)).collect();
        assert_eq!(groups, [0..15, 15..30, 30..45, 45..61]);
    }
}
