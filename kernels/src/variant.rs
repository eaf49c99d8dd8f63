//! Variants of kernels, for measuring: constants of the sources, so that two forms of one idea are timed in one run.
//!
//! `ZIPWIRE_KERNELS` names some, with commas between them. Frames are the same with each of them. kernels/DESIGN.md says what each one is.

use std::env;

use crate::GpuError;

/// The variable of the environment that names variants.
const VARIABLE: &str = "ZIPWIRE_KERNELS";
/// Name of each variant, and the constant that it defines in the sources.
const NAMES: [(&str, &str); 2] = [("tickets", "TICKETS"), UNCHECKED];
/// Decoders that compare no checksums.
const UNCHECKED: (&str, &str) = ("unchecked", "UNCHECKED");

/// Forms of kernels that are not the usual ones. The default has none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Variant {
    /// Bits by place in [`NAMES`].
    named: u32,
}

impl Variant {
    /// The variant that the environment names.
    ///
    /// # Errors
    /// [`GpuError::Variant`] if there is none of such a name.
    pub(crate) fn of_environment() -> Result<Self, GpuError> {
        env::var_os(VARIABLE).map_or(Ok(Self::default()), |names| Self::parse(&names.to_string_lossy()))
    }

    fn parse(names: &str) -> Result<Self, GpuError> {
        let mut named = 0;
        for name in names.split(',').filter(|name| !name.is_empty()) {
            let Some(place) = NAMES.iter().position(|(known, _)| *known == name) else {
                let known = NAMES.map(|(known, _)| known).join("`, `");
                return Err(GpuError::Variant { name: name.to_owned(), known });
            };
            named |= 1 << place;
        }
        Ok(Self { named })
    }

    /// Whether it is one of those that were named. There must be one of this name.
    pub(crate) fn has(self, name: &str) -> bool {
        let place = NAMES.iter().position(|(known, _)| *known == name).expect("it is one of `NAMES`");
        self.named >> place & 1 == 1
    }

    /// This variant for work on data.
    ///
    /// # Errors
    /// [`GpuError::Unchecked`] if its decoders do not check frames.
    pub(crate) fn checked(self) -> Result<Self, GpuError> {
        if self.has(UNCHECKED.0) { Err(GpuError::Unchecked) } else { Ok(self) }
    }

    /// Lines in front of a source.
    pub(crate) fn constants(self) -> String {
        let named = NAMES.iter().enumerate().filter(|(place, _)| self.named >> place & 1 == 1);
        named.map(|(_, (_, constant))| format!("#define {constant}\n")).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_constants_of_the_sources() {
        let constants = |names: &str| Variant::parse(names).map(Variant::constants);
        assert_eq!(constants("").unwrap(), "");
        assert_eq!(constants("unchecked,tickets").unwrap(), "#define TICKETS\n#define UNCHECKED\n");
        let error = constants("tickets,ticket").unwrap_err().to_string();
        assert!(error.contains("`ticket`") && error.contains("`tickets`"), "{error}");
    }

    #[test]
    fn decoders_without_checksums_are_for_measuring_only() {
        assert!(matches!(Variant::parse("unchecked").unwrap().checked(), Err(GpuError::Unchecked)));
        assert!(Variant::parse("tickets").unwrap().checked().is_ok());
    }
}
