//! Classes of calls that are alike: what is learnt from one is used for all.

use std::mem::discriminant;

use crate::{Job, SegmentId};

/// Calls of one kind and about one length.
#[derive(Clone, Debug, PartialEq)]
pub struct Class {
    /// The calls, in order; at least one.
    pub segments: Vec<SegmentId>,
    /// Their names without numbers: `layer dispatch`.
    pub name: String,
    /// Mean raw bytes of a call, over all ranks.
    pub raw_bytes: f64,
}

/// The classes of a job's collective calls, in the order of their first calls: one kind of call, names that differ in numbers
/// only, and bytes that are the same when rounded to steps of 25 %. `raw_bytes` are those of each segment.
///
/// # Panics
/// If there is not a number of bytes for each segment.
pub fn classes(job: &Job, raw_bytes: &[u64]) -> Vec<Class> {
    assert_eq!(raw_bytes.len(), job.segments.len(), "every segment moves a number of bytes");
    let mut found: Vec<(Class, _)> = Vec::new();
    for ((segment, &bytes), id) in job.segments.iter().zip(raw_bytes).zip(0..) {
        if !segment.work.is_collective() || bytes == 0 {
            continue;
        }
        let name = without_numbers(&segment.name);
        let key = (discriminant(&segment.work), segment.channel, steps(bytes));
        match found.iter_mut().find(|(class, other)| class.name == name && *other == key) {
            Some((class, _)) => {
                let count = class.segments.len() as f64;
                class.raw_bytes = (class.raw_bytes * count + bytes as f64) / (count + 1.0);
                class.segments.push(SegmentId(id));
            }
            None => found.push((Class { segments: vec![SegmentId(id)], name, raw_bytes: bytes as f64 }, key)),
        }
    }
    found.into_iter().map(|(class, _)| class).collect()
}

fn without_numbers(name: &str) -> String {
    let is_number = |word: &&str| word.chars().all(|c| c.is_ascii_digit());
    name.split(' ').filter(|word| !is_number(word)).collect::<Vec<_>>().join(" ")
}

/// The number of steps of 25 % from one byte, rounded to the nearest.
fn steps(bytes: u64) -> u32 {
    let (mut reached, mut count) = (1.0_f64, 0);
    while reached * 1.25 <= bytes as f64 {
        reached *= 1.25;
        count += 1;
    }
    // Past the middle of a step, it is the next one.
    count + u32::from(bytes as f64 * bytes as f64 > reached * reached * 1.25)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_of_one_step_are_alike() {
        assert_eq!(steps(1_000_000), steps(1_050_000));
        assert!(steps(1_000_000) < steps(1_300_000));
        assert_eq!(steps(1 << 30) + 1, steps((1 << 30) / 4 * 5));
    }

    #[test]
    fn numbers_make_no_difference() {
        assert_eq!(without_numbers("layer 12 dispatch"), without_numbers("layer 3 dispatch"));
        assert_ne!(without_numbers("dispatch"), without_numbers("combine"));
    }
}
