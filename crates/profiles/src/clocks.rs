//! Clocks of ranks: each host has its own, and collectives end on all ranks at about the same time.

use std::collections::BTreeMap;

/// How far a clock is ahead of that of the first rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Offset {
    pub(crate) ahead_ns: i64,
    /// Mean distance of the ends from it.
    pub(crate) spread_ns: i64,
    /// Ends that it was taken from.
    pub(crate) ends: usize,
}

/// Offsets of the clocks of all traces, by their place; `ends` has the end of each call on each trace that took part in it, at least two, in order
/// of traces. The first trace has offset 0; those that no call connects with it, directly or by others, have none.
pub(crate) fn offsets(traces: usize, ends: &[Vec<(usize, i64)>]) -> Vec<Option<Offset>> {
    let mut offsets: Vec<Option<Offset>> = vec![None; traces];
    if let Some(first) = offsets.first_mut() {
        *first = Some(Offset { ahead_ns: 0, spread_ns: 0, ends: 0 });
    }
    loop {
        // Everyone who has a call with somebody whose clock is known.
        let mut differences: BTreeMap<usize, Vec<i64>> = BTreeMap::new();
        for call in ends {
            let known = call.iter().find_map(|(trace, end)| offsets[*trace].map(|at| end - at.ahead_ns));
            let Some(known) = known else { continue };
            for (trace, end) in call.iter().filter(|(trace, _)| offsets[*trace].is_none()) {
                differences.entry(*trace).or_default().push(end - known);
            }
        }
        if differences.is_empty() {
            return offsets;
        }
        for (trace, mut differences) in differences {
            differences.sort_unstable();
            let ahead_ns = differences[differences.len() / 2];
            let distances = differences.iter().map(|difference| i128::from(difference.abs_diff(ahead_ns)));
            let mean = distances.sum::<i128>() / differences.len() as i128;
            let spread_ns = i64::try_from(mean).unwrap_or(i64::MAX);
            offsets[trace] = Some(Offset { ahead_ns, spread_ns, ends: differences.len() });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clocks_are_known_by_way_of_others() {
        // 0 with 1, 1 with 2, 3 with nobody.
        let ends = [vec![(0, 100), (1, 1100)], vec![(0, 200), (1, 1202)], vec![(1, 1300), (2, 250)]];
        let offsets = offsets(4, &ends);
        let ahead: Vec<_> = offsets.iter().map(|offset| offset.map(|offset| offset.ahead_ns)).collect();
        assert_eq!(ahead, [Some(0), Some(1002), Some(-48), None]);
        assert_eq!(offsets[1].map(|offset| (offset.spread_ns, offset.ends)), Some((1, 2)));
    }
}
