//! Sums.

use std::fmt;

use super::Effects;
use crate::Sum;
use crate::plan::{Chunk, Region};

/// The sums of one call, each added up in FP32 and in the order of its terms.
#[derive(Clone, Debug, PartialEq)]
pub struct Reduce {
    /// What is added up; no sum reads what another one writes.
    pub additions: Vec<Addition>,
    /// Whether the kernel adds up that moves the terms: then it has no launch of its own.
    pub fused: bool,
}

/// One sum.
#[derive(Clone, Debug, PartialEq)]
pub struct Addition {
    /// What is added, in order; at least one.
    pub terms: Vec<Term>,
    /// What the sum is.
    pub chunk: Chunk,
    /// Where it goes: as many values as each term has, of the type that the chunk's sum says.
    pub values: Region,
}

/// Values that are added to others. Their type is in the chunk's sum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Term {
    /// What they are.
    pub chunk: Chunk,
    /// The values.
    pub values: Region,
}

impl Reduce {
    /// Bytes that are read: what the cost of a sum is proportional to.
    pub fn bytes_read(&self) -> u64 {
        self.additions.iter().flat_map(|addition| &addition.terms).map(|term| term.values.len).sum()
    }

    pub(super) fn effects(&self) -> Effects {
        let terms = || self.additions.iter().flat_map(|addition| &addition.terms);
        let sums = || self.additions.iter().map(|addition| (addition.chunk, addition.values));
        Effects {
            reads: terms().map(|term| term.values).collect(),
            writes: sums().map(|(_, region)| region).collect(),
            takes: terms().map(|term| (term.chunk, term.values)).collect(),
            sums: sums().collect(),
            ..Effects::default()
        }
    }

    pub(super) fn write_body(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for Addition { terms, chunk, values } in &self.additions {
            write!(f, "    {values}")?;
            for (index, term) in terms.iter().enumerate() {
                write!(f, " {} {}", if index == 0 { '=' } else { '+' }, term.values)?;
            }
            chunk.write_part(f)?;
            chunk.write_sum(f)?;
            writeln!(f)?;
        }
        Ok(())
    }
}

impl Addition {
    /// What the sum is as a term of others.
    pub(crate) fn as_term(&self) -> Term {
        Term { chunk: self.chunk, values: self.values }
    }

    /// Whether the terms are what the sum says, for the same shard, and as many values each.
    pub(super) fn is_sum(&self) -> bool {
        let Self { terms, chunk, values } = self;
        let count = |chunk: &Chunk, values: &Region| Some(values.len / chunk.sum?.dtype().width() as u64);
        let fits = |term: &Term| {
            (term.chunk.shard(), term.chunk.part, term.chunk.flow) == (chunk.shard(), chunk.part, chunk.flow)
                && count(&term.chunk, &term.values) == count(chunk, values)
        };
        let sums: Option<Vec<Sum>> = terms.iter().map(|term| term.chunk.sum).collect();
        let is_of = chunk.sum.zip(sums).is_some_and(|(sum, terms)| sum.is_of(&terms));
        is_of && terms.iter().all(fits)
    }
}
