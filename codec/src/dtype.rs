//! Types of values, by their names in safetensors files.

/// Type of the values of a tensor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum DType {
    /// 1 sign, 8 exponent, 7 mantissa bits.
    Bf16,
    /// 1 sign, 5 exponent, 10 mantissa bits.
    F16,
    /// 1 sign, 8 exponent, 23 mantissa bits.
    F32,
    /// 1 sign, 4 exponent, 3 mantissa bits.
    F8E4M3,
    /// 1 sign, 5 exponent, 2 mantissa bits.
    F8E5M2,
}

impl DType {
    /// All types, in the order of their tags in frames.
    pub const ALL: [Self; 5] = [Self::Bf16, Self::F16, Self::F32, Self::F8E4M3, Self::F8E5M2];

    /// Bytes per value.
    pub const fn width(self) -> usize {
        match self {
            Self::Bf16 | Self::F16 => 2,
            Self::F32 => 4,
            Self::F8E4M3 | Self::F8E5M2 => 1,
        }
    }

    /// Bits of the mantissa, which are the lowest; the exponent is above them, then comes the sign.
    pub(crate) fn mantissa_bits(self) -> usize {
        match self {
            Self::Bf16 => 7,
            Self::F16 => 10,
            Self::F32 => 23,
            Self::F8E4M3 => 3,
            Self::F8E5M2 => 2,
        }
    }

    /// Bits of the exponent.
    pub(crate) fn exponent_bits(self) -> usize {
        8 * self.width() - 1 - self.mantissa_bits()
    }

    /// Name in safetensors files.
    pub fn name(self) -> &'static str {
        match self {
            Self::Bf16 => "BF16",
            Self::F16 => "F16",
            Self::F32 => "F32",
            Self::F8E4M3 => "F8_E4M3",
            Self::F8E5M2 => "F8_E5M2",
        }
    }

    /// The type with this safetensors name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|dtype| dtype.name() == name)
    }

    /// Tag in frame headers.
    pub(crate) fn tag(self) -> u8 {
        match self {
            Self::Bf16 => 0,
            Self::F16 => 1,
            Self::F32 => 2,
            Self::F8E4M3 => 3,
            Self::F8E5M2 => 4,
        }
    }
}

impl std::fmt::Display for DType {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}
