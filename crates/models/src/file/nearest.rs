//! Names that are like one that is not there.

/// How many similar names an error lists.
const NEAREST: usize = 3;

/// The names most like `wanted`, best first. Jaro-Winkler favours a common beginning, which is how a recorded
/// name (`L2.disp[0:1536]|rows0:256`) extends the tensor's own (`L2.disp`).
pub fn nearest(wanted: &str, mut names: Vec<String>) -> Vec<String> {
    let distance = |name: &String| 1.0 - strsim::jaro_winkler(wanted, name);
    names.sort_by(|a, b| distance(a).total_cmp(&distance(b)).then_with(|| a.cmp(b)));
    names.truncate(NEAREST);
    names
}
