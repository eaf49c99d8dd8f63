//! Words for lists, in messages.

/// The words in backticks, as a sentence lists them: `` `a`, `b` and `c` ``.
pub(crate) fn list<'a>(words: impl IntoIterator<Item = &'a str>) -> String {
    sentence(&words.into_iter().map(|word| format!("`{word}`")).collect::<Vec<_>>())
}

/// The parts as a sentence lists them: `a, b and c`.
pub(crate) fn sentence(parts: &[String]) -> String {
    match parts {
        [] => "none".to_owned(),
        [only] => only.clone(),
        [most @ .., last] => format!("{} and {last}", most.join(", ")),
    }
}

/// The first of many names.
pub(crate) fn shortened_names(names: &[String]) -> String {
    const SHOWN: usize = 12;
    let shown = names.iter().map(String::as_str).take(SHOWN);
    match names.len().saturating_sub(SHOWN) {
        0 => list(shown),
        more => format!(
            "{} and {more} more",
            shown.map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
        ),
    }
}

/// Things that are numbered from 0.
pub(crate) fn counted(kind: &str, count: u32) -> String {
    match count {
        1 => format!("`{kind} 0`"),
        _ => format!("`{kind} 0` to `{kind} {}`", count - 1),
    }
}

/// Suggestion for a mistyped name, to stand in front of the valid ones.
pub(crate) fn meant(nearest: Option<&str>) -> String {
    nearest.map_or(String::new(), |name| format!("did you mean `{name}`? "))
}

/// Where a key is; nothing for the top level.
pub(crate) fn in_table(table: &str) -> String {
    if table.is_empty() { String::new() } else { format!(" in `{table}`") }
}

/// Bytes in billions, to a hundredth.
pub(crate) fn gigabytes(bytes: u64) -> String {
    format!("{:.2} GB", bytes as f64 / 1e9)
}

/// Source rank of tokens, if all are of one rank.
pub(crate) fn from_rank(rank: Option<u32>) -> String {
    rank.map_or(String::new(), |rank| format!(" from rank `{rank}`"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_read_as_sentences() {
        assert_eq!(list([]), "none");
        assert_eq!(list(["a"]), "`a`");
        assert_eq!(list(["a", "b", "c"]), "`a`, `b` and `c`");
    }
}
