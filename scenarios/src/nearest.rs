//! The known word that a mistyped one was probably meant to be.

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
}
