//! Known names that a mistyped one was probably meant to be.

/// The candidate nearest to `word`, if one is near enough to be worth a hint.
///
/// Near enough means at most one edit per three letters, letter case aside; the first of equals wins. Else it is the first
/// candidate of which the word is the beginning, three letters or more, up to a sign that is neither letter nor digit: `h100` of `h100-8x`.
pub fn nearest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let word = word.to_lowercase();
    let candidates: Vec<&str> = candidates.into_iter().collect();
    let edits = |candidate: &str| strsim::damerau_levenshtein(&word, &candidate.to_lowercase());
    let limit = (word.chars().count() / 3).max(1);
    let begins = |candidate: &&str| {
        let lower = candidate.to_lowercase();
        let rest = lower.strip_prefix(&word).filter(|_| word.chars().count() >= 3);
        rest.is_some_and(|rest| rest.starts_with(|next: char| !next.is_alphanumeric()))
    };
    candidates
        .iter()
        .map(|&candidate| (edits(candidate), candidate))
        .filter(|&(edits, candidate)| edits <= limit && edits < candidate.chars().count())
        .min_by_key(|&(edits, _)| edits)
        .map(|(_, candidate)| candidate)
        .or_else(|| candidates.iter().copied().find(begins))
}

/// Names that an error lists where the one that is wanted does not exist: the three with the fewest edits, best first, however far they are.
///
/// Edits of a name's beginning count first, because a recorded name (`L2.disp[0:1536]|rows0:256`) extends the tensor's own (`L2.disp`).
pub fn nearest_names(wanted: &str, mut names: Vec<String>) -> Vec<String> {
    names.sort_by_cached_key(|name| {
        let beginning: String = name.chars().take(wanted.chars().count()).collect();
        let edits = |name: &str| strsim::damerau_levenshtein(wanted, name);
        (edits(&beginning), edits(name), name.clone())
    });
    names.truncate(3);
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_slips_and_nothing_else() {
        let keys = ["nodes", "gpus_per_node", "nic_bandwidth"];
        assert_eq!(nearest("nodse", keys), Some("nodes"));
        assert_eq!(nearest("NIC_bandwith", keys), Some("nic_bandwidth"));
        assert_eq!(nearest("preset", keys), None);
        assert_eq!(nearest("h100", ["a6000-8x8", "h100-8x"]), Some("h100-8x"));
        assert_eq!(nearest("h10", ["h100-8x"]), None, "in the middle of a word");
        assert_eq!(nearest("x", ["s"]), None, "a whole replacement is not a slip");
    }

    #[test]
    fn lists_names_that_begin_alike_first() {
        let names = |wanted| {
            nearest_names(
                wanted,
                ["L2.counts", "L2.disp[0:1536]|rows0:256", "a", "b"].map(str::to_owned).into(),
            )
        };
        assert_eq!(names("L2.dsip"), ["L2.disp[0:1536]|rows0:256", "L2.counts", "a"]);
    }
}
