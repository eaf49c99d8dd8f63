//! Errors of results that are no such.

/// Why a report cannot be made.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "fields are named by the messages")]
#[non_exhaustive]
pub enum ReportError {
    #[error(
        "`{name}` ends too early, at line {line} column {column}\nhelp: the file is truncated: copy it or make it again"
    )]
    Truncated { name: String, line: usize, column: usize },
    #[error(
        "`{name}` line {line} column {column} is not JSON: {reason}\nhelp: give a folder that `zipwire run` or `zipwire validate --out` wrote, or a file of `zipwire advise -o`"
    )]
    NotJson { name: String, line: usize, column: usize, reason: String },
    /// JSON of something else.
    #[error(
        "`{name}` is no result of zipwire: it has none of `executors`, `rows`, `variants` and `zipwire_advice`\nhelp: a report is made of what `run`, `validate --out` and `advise -o` write"
    )]
    Foreign { name: String },
    /// A result that lacks something, or has another type there.
    #[error(
        "`{name}` is not as zipwire {version} writes it: {reason}\nhelp: it is damaged, or of another version: make it again"
    )]
    Unlike { name: String, version: &'static str, reason: String },
    #[error("`--picture {picture}`: a {kind} such as `{name}` has no such picture\nhelp: it has `{}`", known.join("`, `"))]
    UnknownPicture { name: String, kind: &'static str, picture: String, known: Vec<&'static str> },
    #[error("`--x {path}`: `{name}` does not sweep that\nhelp: {}", if known.is_empty() { "only sweeps have `--x`".to_owned() } else { format!("it sweeps `{}`", known.join("`, `")) })]
    UnknownAxis { name: String, path: String, known: Vec<String> },
    /// A result in which the numbers of a picture are missing.
    #[error("`{name}` has nothing to draw: {reason}\nhelp: {help}")]
    NothingToDraw { name: String, reason: String, help: &'static str },
    #[error("no picture as PNG: {reason}\nhelp: {help}")]
    NoPng { reason: String, help: &'static str },
}
