//! The sizes of one rank in one iteration: single-assignment variables, and maxima that follow from them.

use crate::SizeId;
use crate::plan::{Maximum, Program};

/// Values of the sizes of a program, as far as they are known.
#[derive(Debug)]
pub(crate) struct Sizes {
    values: Vec<Option<u64>>,
    /// Which maxima each size is an operand of; empty in programs without maxima.
    operand_of: Vec<Vec<usize>>,
    maxima: Vec<Partial>,
}

/// A maximum of which some operands are still unknown.
#[derive(Debug)]
struct Partial {
    size: SizeId,
    /// Operands that are not defined yet.
    left: usize,
    largest: u64,
}

impl Sizes {
    /// Nothing is known yet.
    pub(crate) fn of(program: &Program) -> Self {
        let count = program.size_count as usize;
        let mut operand_of = vec![Vec::new(); if program.maxima.is_empty() { 0 } else { count }];
        for (index, maximum) in program.maxima.iter().enumerate() {
            maximum.of.iter().for_each(|operand| operand_of[operand.index()].push(index));
        }
        let partial = |maximum: &Maximum| Partial { size: maximum.size, left: maximum.of.len(), largest: 0 };
        Self { values: vec![None; count], operand_of, maxima: program.maxima.iter().map(partial).collect() }
    }

    pub(crate) fn get(&self, size: SizeId) -> Option<u64> {
        self.values[size.index()]
    }

    /// Defines a size and every maximum of which it was the last unknown operand.
    ///
    /// # Panics
    /// If it has a value already.
    pub(crate) fn define(&mut self, size: SizeId, value: u64) {
        let Self { values, operand_of, maxima } = self;
        assign(values, size, value);
        for &index in operand_of.get(size.index()).into_iter().flatten() {
            let maximum = &mut maxima[index];
            maximum.left -= 1;
            maximum.largest = maximum.largest.max(value);
            if maximum.left == 0 {
                assign(values, maximum.size, maximum.largest);
            }
        }
    }
}

fn assign(values: &mut [Option<u64>], size: SizeId, value: u64) {
    let slot = &mut values[size.index()];
    assert!(slot.is_none(), "size {size} is assigned twice");
    *slot = Some(value);
}
