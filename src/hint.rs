//! Hints of libraries, for those who read messages.

use std::fmt::Display;

/// A message, and on a line of its own what would be right, where that is known.
pub fn with_hint(error: impl Display, hint: Option<String>) -> String {
    hint.map_or_else(|| error.to_string(), |hint| format!("{error}\nhint: {hint}"))
}
