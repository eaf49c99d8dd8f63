//! Which tokens go where: what chunks of an All-to-All are made of, where it is known.

use std::ops::Range;

use ndarray::Array2;
use xxhash_rust::xxh3::xxh3_128;

use crate::Rank;
use crate::plan::{Chunk, Leg};

/// The destinations of the copies of every token of every rank, for a dispatch to experts. All ranks have as many tokens, and
/// all tokens as many copies. A token has several copies for a rank if several of its experts live there.
///
/// A chunk holds rows in the order of their tokens, copies of one token for one destination next to each other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokenMap {
    row_bytes: u64,
    ranks: u32,
    copies_per_token: u32,
    /// By source rank, token and copy; those of a token ascend.
    destinations: Vec<u32>,
}

impl TokenMap {
    /// A map of rows of `row_bytes` bytes from the destination ranks of all copies: by source rank, token and copy; those of a
    /// token in any order.
    ///
    /// # Panics
    /// If rows are empty, if the copies are not those of as many whole tokens on each rank, or if a destination is no rank.
    pub fn new(ranks: u32, copies_per_token: u32, row_bytes: u64, mut destinations: Vec<u32>) -> Self {
        let of_a_token = copies_per_token as usize;
        assert!(row_bytes > 0 && ranks > 0 && of_a_token > 0, "tokens have bytes and copies");
        assert!(destinations.len().is_multiple_of(ranks as usize * of_a_token), "ranks have whole tokens");
        assert!(destinations.iter().all(|&rank| rank < ranks), "destinations are ranks");
        destinations.chunks_exact_mut(of_a_token).for_each(<[u32]>::sort_unstable);
        Self { row_bytes, ranks, copies_per_token, destinations }
    }

    /// The same tokens with rows of another length, in bytes.
    ///
    /// # Panics
    /// If rows are empty.
    #[must_use]
    pub fn with_row_bytes(&self, row_bytes: u64) -> Self {
        assert!(row_bytes > 0, "tokens have bytes");
        Self { row_bytes, ..self.clone() }
    }

    /// Bytes of a token.
    pub fn row_bytes(&self) -> u64 {
        self.row_bytes
    }

    /// Number of ranks.
    pub fn rank_count(&self) -> u32 {
        self.ranks
    }

    /// Bytes from source (row) to destination (column), what stays on a rank included.
    pub fn bytes(&self) -> Array2<u64> {
        let ranks = self.ranks as usize;
        let mut bytes = Array2::zeros((ranks, ranks));
        for (src, copies) in (0..ranks).zip(self.destinations.chunks_exact(self.copies_per_rank().max(1))) {
            copies.iter().for_each(|&dst| bytes[[src, dst as usize]] += self.row_bytes);
        }
        bytes
    }

    /// The tokens of the rows of a chunk, the first row first; of all parts of it.
    ///
    /// # Panics
    /// If the chunk is for all ranks.
    pub fn tokens(&self, chunk: &Chunk) -> Vec<u32> {
        let destination = chunk.destination.expect("chunks of an All-to-All are for one rank").0;
        match chunk.leg {
            Leg::Direct | Leg::FromGateway => {
                let copies = |token: &[u32]| token.iter().filter(|&&rank| rank == destination).count();
                let of_token = |(number, token)| std::iter::repeat_n(number, copies(token));
                (0..).zip(self.of(chunk.origin)).flat_map(of_token).collect()
            }
            Leg::ToGateway { ranks_per_node } => {
                let node = node(Rank(destination), ranks_per_node);
                let tokens = (0..).zip(self.of(chunk.origin));
                tokens.filter(|(_, token)| goes_to(token, &node)).map(|(number, _)| number).collect()
            }
        }
    }

    /// Number of tokens that `src` has for ranks of `node`.
    pub fn distinct(&self, src: Rank, node: &Range<u32>) -> u64 {
        self.of(src).filter(|token| goes_to(token, node)).count() as u64
    }

    /// Number of copies that `src` has for ranks of `node`.
    pub fn copies(&self, src: Rank, node: &Range<u32>) -> u64 {
        self.of(src).flatten().filter(|rank| node.contains(rank)).count() as u64
    }

    /// For each row that `src` has for `dst`, the position of its token among those that it has for ranks of `node`, where
    /// `dst` is.
    pub fn positions(&self, src: Rank, node: &Range<u32>, dst: Rank) -> Vec<u32> {
        let mut positions = Vec::new();
        let tokens = (0..).zip(self.of(src).filter(|token| goes_to(token, node)));
        for (position, token) in tokens {
            let copies = token.iter().filter(|&&rank| rank == dst.0).count();
            positions.extend(std::iter::repeat_n(position, copies));
        }
        positions
    }

    /// A hash of everything in it.
    pub fn digest(&self) -> u128 {
        let header = [self.row_bytes, u64::from(self.ranks), u64::from(self.copies_per_token)];
        let bytes: Vec<u8> = (header.iter().flat_map(|number| number.to_le_bytes()))
            .chain(self.destinations.iter().flat_map(|rank| rank.to_le_bytes()))
            .collect();
        xxh3_128(&bytes)
    }

    fn of(&self, src: Rank) -> impl Iterator<Item = &[u32]> {
        let copies = self.copies_per_rank();
        let own = &self.destinations[src.index() * copies..][..copies];
        own.chunks_exact(self.copies_per_token as usize)
    }

    fn copies_per_rank(&self) -> usize {
        self.destinations.len() / self.ranks as usize
    }
}

pub(crate) fn node(rank: Rank, ranks_per_node: u32) -> Range<u32> {
    let first = rank.0 / ranks_per_node * ranks_per_node;
    first..first + ranks_per_node
}

fn goes_to(token: &[u32], ranks: &Range<u32>) -> bool {
    let first = token.partition_point(|&rank| rank < ranks.start);
    token.get(first).is_some_and(|rank| ranks.contains(rank))
}

#[cfg(test)]
mod tests {
    use ndarray::array;

    use super::*;

    /// Four ranks with two tokens each, of three copies.
    fn map() -> TokenMap {
        #[rustfmt::skip]
        let destinations = vec![
            3, 0, 3,  2, 1, 3,
            0, 1, 0,  1, 1, 1,
            2, 2, 3,  0, 0, 2,
            3, 2, 1,  0, 3, 3,
        ];
        TokenMap::new(4, 3, 10, destinations)
    }

    #[test]
    fn bytes_count_copies() {
        let expected = array![[10, 10, 10, 30], [20, 40, 0, 0], [20, 0, 30, 10], [10, 10, 10, 30]];
        assert_eq!(map().bytes(), expected);
    }

    #[test]
    fn chunks_hold_rows_in_the_order_of_tokens() {
        let map = map();
        let chunk = |src, dst, leg| Chunk { leg, ..Chunk::between(Rank(src), Rank(dst)) };
        assert_eq!(map.tokens(&chunk(0, 3, Leg::Direct)), [0, 0, 1]);
        assert_eq!(map.tokens(&chunk(0, 3, Leg::FromGateway)), [0, 0, 1]);
        let to_gateway = Leg::ToGateway { ranks_per_node: 2 };
        assert_eq!(map.tokens(&chunk(0, 2, to_gateway)), [0, 1], "each once");
        assert_eq!(map.tokens(&chunk(2, 0, to_gateway)), [1]);
        assert_eq!(map.tokens(&chunk(1, 3, to_gateway)), [] as [u32; 0]);
    }

    #[test]
    fn positions_lead_from_the_tokens_of_a_node_to_those_of_its_ranks() {
        let map = map();
        for (src, dst) in (0..4).flat_map(|src| (0..4).map(move |dst| (src, dst))) {
            let leg = Leg::ToGateway { ranks_per_node: 2 };
            let of_node = map.tokens(&Chunk { leg, ..Chunk::between(Rank(src), Rank(dst)) });
            let node = node(Rank(dst), 2);
            assert_eq!(map.distinct(Rank(src), &node), of_node.len() as u64);
            let positions = map.positions(Rank(src), &node, Rank(dst));
            let found: Vec<u32> = positions.iter().map(|&position| of_node[position as usize]).collect();
            assert_eq!(found, map.tokens(&Chunk::between(Rank(src), Rank(dst))));
        }
    }

    #[test]
    fn a_digest_covers_destinations_and_bytes() {
        let other = map().with_row_bytes(20);
        assert_ne!(map().digest(), other.digest());
        let mut other = map();
        other.destinations[1] = 2;
        assert_ne!(map().digest(), other.digest());
    }
}
