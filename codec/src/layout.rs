//! How a frame divides its bytes between the static and the dynamic section.

/// Layout of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Layout {
    /// The length of the static section follows from the number of values; it can be sent first. What does not fit is
    /// in the dynamic section.
    Split,
    /// No static section. Everything shrinks: for files, and where sizes are exchanged before the data.
    Compact,
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

    /// Tag in frame headers.
    pub(crate) fn tag(self) -> u8 {
        match self {
            Self::Split => 0,
            Self::Compact => 1,
        }
    }
}

impl std::fmt::Display for Layout {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}
