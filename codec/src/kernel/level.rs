//! Names of the implementations.

/// An implementation of the inner loops.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum SimdLevel {
    /// Plain Rust, on every machine. The reference.
    Portable,
    /// AVX2 with BMI1, BMI2 and POPCNT, on x86-64.
    Avx2,
    /// AVX-512 with BW, VL, VBMI and VBMI2, and all that [`Self::Avx2`] has.
    Avx512,
    /// NEON, on AArch64 that is little-endian: all such machines with an operating system have it.
    Neon,
}

impl SimdLevel {
    /// All levels, of all machines.
    pub const ALL: [Self; 4] = [Self::Portable, Self::Avx2, Self::Avx512, Self::Neon];

    /// Name in reports and options.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Portable => "portable",
            Self::Avx2 => "avx2",
            Self::Avx512 => "avx512",
            Self::Neon => "neon",
        }
    }

    /// The level with this name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|level| level.name() == name)
    }
}

impl std::fmt::Display for SimdLevel {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(self.name())
    }
}
