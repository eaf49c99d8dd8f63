//! A number for ordered pairs of links: a table where it stays small, a hash map where it would not.

use std::collections::HashMap;

use crate::hash::Mixed;

/// Most links for a table, which then has 64 MiB; memory that is never written costs nothing.
const MOST_LINKS: usize = 4096;
/// No number.
const NONE: u32 = u32::MAX;

/// Numbers by pair. Looked up, never iterated: no order shows.
pub(super) enum Pairs {
    /// By row; numbers from 1, so that fresh memory holds none.
    Table {
        links: usize,
        numbers: Vec<u32>,
    },
    Map(HashMap<u64, u32, Mixed>),
}

impl Pairs {
    pub(super) fn new(links: usize) -> Self {
        if links <= MOST_LINKS {
            Self::Table { links, numbers: vec![0; links * links] }
        } else {
            Self::Map(HashMap::default())
        }
    }

    /// The number of a pair.
    #[inline]
    pub(super) fn get(&self, a: u32, b: u32) -> Option<u32> {
        match self {
            Self::Table { links, numbers } => numbers[a as usize * links + b as usize].checked_sub(1),
            Self::Map(map) => map.get(&key(a, b)).copied(),
        }
    }

    /// Gives a pair a number, below 2^32 - 1.
    pub(super) fn set(&mut self, a: u32, b: u32, number: u32) {
        debug_assert!(number < NONE);
        match self {
            Self::Table { links, numbers } => numbers[a as usize * *links + b as usize] = number + 1,
            Self::Map(map) => {
                map.insert(key(a, b), number);
            }
        }
    }

    /// Takes the number of a pair away.
    pub(super) fn remove(&mut self, a: u32, b: u32) {
        match self {
            Self::Table { links, numbers } => numbers[a as usize * *links + b as usize] = 0,
            Self::Map(map) => {
                map.remove(&key(a, b));
            }
        }
    }
}

fn key(a: u32, b: u32) -> u64 {
    u64::from(a) << 32 | u64::from(b)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn table_and_map_agree() {
        let mut both = [Pairs::new(60), Pairs::Map(HashMap::default())];
        for step in 0..20_000_u32 {
            let (a, b) = (step.wrapping_mul(2_654_435_761) >> 7, step.wrapping_mul(40_503) >> 3);
            let (a, b) = (a % 60, b % 60);
            for pairs in &mut both {
                match step % 3 {
                    0 => pairs.remove(a, b),
                    _ => pairs.set(a, b, step),
                }
            }
            let [table, map] = &both;
            assert_eq!(table.get(b, a), map.get(b, a));
            assert_eq!(table.get(a, b), map.get(a, b));
        }
        let [table, map] = &both;
        let numbers = |pairs: &Pairs| (0..3600).filter_map(|i| pairs.get(i / 60, i % 60)).collect::<Vec<_>>();
        assert_eq!(numbers(table), numbers(map));
        assert!(numbers(table).len() > 100);
    }
}
