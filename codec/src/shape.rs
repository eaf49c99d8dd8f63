//! Shape of a frame, known at both ends of a transfer before anything is compressed: layout, type and number of values.

/// Shape of a frame: its layout, and the type and number of its values.
///
/// All lengths that do not depend on values follow from it, and the header of a frame says it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FrameShape {
    /// How its bytes are divided between the sections.
    pub layout: Layout,
    /// Type of the values.
    pub dtype: DType,
    /// Number of values.
    pub count: usize,
}

impl FrameShape {
    /// A frame of `count` values of type `dtype` in layout `layout`.
    pub const fn new(layout: Layout, dtype: DType, count: usize) -> Self {
        Self { layout, dtype, count }
    }

    /// Bytes of the values. Saturates where they would not fit into memory.
    pub fn values_len(self) -> usize {
        self.count.saturating_mul(self.dtype.width())
    }
}

impl std::fmt::Display for FrameShape {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {} values in layout {}", self.count, self.dtype, self.layout)
    }
}

/// Layout of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Layout {
    /// The length of the static section follows from the number of values; it can be sent first. What does not fit is
    /// in the dynamic section.
    Split = 0,
    /// No static section. Everything shrinks: for files, and where sizes are exchanged before the data.
    Compact = 1,
}

impl Layout {
    /// Both layouts, in the order of their tags in frames.
    pub const ALL: [Self; 2] = [Self::Split, Self::Compact];

    /// Name in scenarios and on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Split => "split",
            Self::Compact => "compact",
        }
    }

    /// The layout with this name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|layout| layout.name() == name)
    }

    /// Tag in frame headers: the number that the enum says.
    pub fn tag(self) -> u8 {
        self as u8
    }
}

impl std::fmt::Display for Layout {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

/// Type of the values of a tensor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum DType {
    /// 1 sign, 8 exponent, 7 mantissa bits.
    Bf16 = 0,
    /// 1 sign, 5 exponent, 10 mantissa bits.
    F16 = 1,
    /// 1 sign, 8 exponent, 23 mantissa bits.
    F32 = 2,
    /// 1 sign, 4 exponent, 3 mantissa bits.
    F8E4M3 = 3,
    /// 1 sign, 5 exponent, 2 mantissa bits.
    F8E5M2 = 4,
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

    /// Tag in frame headers: the number that the enum says.
    pub fn tag(self) -> u8 {
        self as u8
    }
}

impl std::fmt::Display for DType {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}
