//! Version of a library of NCCL.

use std::fmt;

/// Version of NCCL, such as 2.30.7. Later ones are greater.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Version {
    /// First number.
    pub major: u32,
    /// Second number.
    pub minor: u32,
    /// Third number.
    pub patch: u32,
}

impl Version {
    /// Oldest version that is worked with: from it on, a communicator that is not blocking can be aborted at any time.
    pub const OLDEST: Self = Self::new(2, 19, 0);

    /// First version with `ncclAlltoAll`.
    pub(crate) const ALL_TO_ALL: Self = Self::new(2, 28, 0);
    /// First version with names of communicators.
    pub(crate) const NAMES: Self = Self::new(2, 27, 0);

    /// The version with these numbers.
    pub const fn new(major: u32, minor: u32, patch: u32) -> Self {
        Self { major, minor, patch }
    }

    /// The version that `ncclGetVersion` means with a code: 23007 for 2.30.7, and 2804 for 2.8.4 up to that minor version.
    pub const fn from_code(code: u32) -> Self {
        let unit = if code < 10_000 { 1000 } else { 10_000 };
        Self::new(code / unit, code % unit / 100, code % 100)
    }

    /// The code of the version, in the form that versions from 2.9 on have.
    pub const fn code(self) -> u32 {
        self.major * 10_000 + self.minor * 100 + self.patch
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.major, self.minor, self.patch)
    }
}

#[cfg(test)]
mod tests {
    use super::Version;

    #[test]
    fn codes_are_read_in_both_forms() {
        for (code, text) in [(23_007, "2.30.7"), (22_809, "2.28.9"), (21_903, "2.19.3"), (2_804, "2.8.4")] {
            assert_eq!(Version::from_code(code).to_string(), text);
        }
        assert_eq!(Version::new(2, 30, 7).code(), 23_007);
    }

    #[test]
    fn later_versions_are_greater() {
        assert!(Version::new(2, 9, 0) < Version::OLDEST);
        assert!(Version::from_code(2_804) < Version::from_code(21_403));
        assert!(Version::new(2, 19, 0) >= Version::OLDEST);
        assert!(Version::new(3, 0, 0) > Version::NAMES);
    }
}
