//! `ZIPWIRE_SIMD`: the SIMD level of the codecs, where the best one of the machine is not wanted.

use std::fmt::Display;

use zipwire_codec::{SimdLevel, SimdUnavailable, force_simd, simd_level};

/// The environment variable that names the level. Not set, or empty: the best one that the machine has.
pub const SIMD_VARIABLE: &str = "ZIPWIRE_SIMD";

/// A level that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SimdError {
    /// No level has this name.
    #[error("`{SIMD_VARIABLE}`: unknown SIMD level `{name}`\nhelp: the levels are {}", listed())]
    Unknown {
        /// Value of the variable.
        name: String,
    },
    /// The machine has no such level, or frames were coded with another one already.
    #[error("`{SIMD_VARIABLE}`: {}", with_help(.0, .0.help()))]
    Unavailable(#[from] SimdUnavailable),
}

/// Has the codecs of this process run on the level that [`SIMD_VARIABLE`] names; returns the level that is in use from
/// now on. To be called before the first frame is coded.
///
/// # Errors
/// If the variable names no level, or one that cannot be used.
pub fn simd_from_environment() -> Result<SimdLevel, SimdError> {
    let value = std::env::var_os(SIMD_VARIABLE).unwrap_or_default();
    if let Some(level) = parse(&value.to_string_lossy())? {
        force_simd(level)?;
    }
    Ok(simd_level())
}

/// The level of this name, or none for no name.
fn parse(name: &str) -> Result<Option<SimdLevel>, SimdError> {
    if name.is_empty() {
        return Ok(None);
    }
    SimdLevel::from_name(name).map(Some).ok_or_else(|| SimdError::Unknown { name: name.to_owned() })
}

fn listed() -> String {
    SimdLevel::ALL.map(|level| format!("`{level}`")).join(", ")
}

/// A message, and on a line of its own what would be right, where that is known.
pub fn with_help(error: impl Display, help: Option<String>) -> String {
    help.map_or_else(|| error.to_string(), |help| format!("{error}\nhelp: {help}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_level_has_its_name_and_nothing_else_is_one() {
        assert_eq!(parse(""), Ok(None));
        for level in SimdLevel::ALL {
            assert_eq!(parse(level.name()), Ok(Some(level)));
        }
        let error = parse("Portable").unwrap_err().to_string();
        assert!(
            error.starts_with(
                "`ZIPWIRE_SIMD`: unknown SIMD level `Portable`\nhelp: the levels are `portable`, "
            ),
            "{error}"
        );
    }
}
