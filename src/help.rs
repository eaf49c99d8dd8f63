//! Help of libraries, for those who read messages.

use std::fmt::Display;

/// A message, and on a line of its own what would be right, where that is known.
pub fn with_help(error: impl Display, help: Option<String>) -> String {
    help.map_or_else(|| error.to_string(), |help| format!("{error}\nhelp: {help}"))
}
