//! Algorithms by collective, as summaries and tables name them.

use serde::Serializer;

/// Each collective once, in the order of first use; several algorithms of one are joined by ` and `. `algorithms` are pairs of a
/// collective and an algorithm.
pub fn by_collective(algorithms: &[(&'static str, &'static str)]) -> Vec<(&'static str, String)> {
    let mut table: Vec<(&str, String)> = Vec::new();
    for &(collective, algorithm) in algorithms {
        match table.iter_mut().find(|(other, _)| *other == collective) {
            Some((_, names)) => names.push_str(&format!(" and {algorithm}")),
            None => table.push((collective, algorithm.to_owned())),
        }
    }
    table
}

pub(crate) fn serialize<S: Serializer>(
    algorithms: &[(&'static str, &'static str)],
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.collect_map(by_collective(algorithms))
}
