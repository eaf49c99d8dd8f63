//! Collectives that plans call: what they are, and the bytes that move in them, by which nccl-tests' *bus bandwidth* (`busbw`)
//! counts.

/// A collective that a library has as one call, of equal counts on all ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Collective {
    /// Every rank gets what each rank has (`ncclAllGather`).
    AllGather,
    /// Every rank gets the sum of its shard (`ncclReduceScatter`).
    ReduceScatter,
    /// Every rank gets all sums (`ncclAllReduce`).
    AllReduce,
}

impl Collective {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::AllGather, Self::ReduceScatter, Self::AllReduce];

    /// Lower-case name, as scenarios and texts of plans show it.
    pub fn name(self) -> &'static str {
        match self {
            Self::AllGather => "all-gather",
            Self::ReduceScatter => "reduce-scatter",
            Self::AllReduce => "all-reduce",
        }
    }

    /// Whether it adds values up.
    pub fn is_reduction(self) -> bool {
        match self {
            Self::AllGather => false,
            Self::ReduceScatter | Self::AllReduce => true,
        }
    }

    /// Bytes that each of `ranks` ranks sends, and gets, in an optimal ring: `(ranks - 1) count` for All-Gathers and
    /// Reduce-Scatters of `count` bytes per rank, `2 (ranks - 1) / ranks count` for All-Reduces of `count` bytes, rounded up.
    pub fn ring_bytes(self, ranks: u32, count: u64) -> u64 {
        let (ranks, steps) = (u64::from(ranks), u64::from(ranks) - 1);
        match self {
            Self::AllGather | Self::ReduceScatter => steps * count,
            Self::AllReduce => (2 * steps * count).div_ceil(ranks),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Factors of nccl-tests, `doc/PERFORMANCE.md`: bus over algorithm bandwidth, where an All-Gather has the size of what all get.
    #[test]
    fn bus_bandwidth_is_that_of_nccl_tests() {
        for ranks in [2, 3, 8, 64] {
            let (n, size) = (f64::from(ranks), 3 * 64 * u64::from(ranks));
            let shard = size / u64::from(ranks);
            let factor =
                |collective: Collective, count| collective.ring_bytes(ranks, count) as f64 / size as f64;
            assert_eq!(factor(Collective::AllGather, shard), (n - 1.0) / n);
            assert_eq!(factor(Collective::ReduceScatter, shard), (n - 1.0) / n);
            assert_eq!(factor(Collective::AllReduce, size), 2.0 * (n - 1.0) / n);
        }
        assert_eq!(Collective::AllReduce.ring_bytes(3, 2), 3, "8 thirds, rounded up");
    }
}
