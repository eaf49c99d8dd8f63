//! Names of checkpoints, which are names of files.

use crate::store::StoreError;

/// Bytes of a name at the most.
const LONGEST: usize = 128;

/// Whether a checkpoint can be called so: on every file system, and never another file than its own.
///
/// # Errors
/// [`StoreError::BadId`].
pub fn check_id(id: &str) -> Result<(), StoreError> {
    let is_fit = |byte: u8| byte.is_ascii_alphanumeric() || b".-_".contains(&byte);
    let fits = (1..=LONGEST).contains(&id.len()) && !id.starts_with('.') && id.bytes().all(is_fit);
    if fits { Ok(()) } else { Err(StoreError::BadId { id: id.to_owned() }) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_names_of_files() {
        for id in ["1", "step-000100", "run_a.7", &"x".repeat(LONGEST)] {
            check_id(id).unwrap();
        }
        for id in ["", ".", "..", ".x", "a/b", "a\\b", "a b", "ä", "a\0", &"x".repeat(LONGEST + 1)] {
            assert!(matches!(check_id(id), Err(StoreError::BadId { .. })), "{id}");
        }
    }
}
