//! Choice of a window of seven exponents: by counting, or from the scale of the values (ZipCCL, section 4.1).
//!
//! The paper derives `x = log2(sigma) - 5.36` as the best start of the window `[2^x, 2^(x+7))` for values drawn from
//! N(0, sigma^2). Exponents are integers, and the best *integer* start is `ceil(log2(sigma) - 5.7196)`: rounding the
//! paper's value loses up to 1.4 points of coverage, and taking its floor up to 10.8.
//!
//! Everything here gives the same result on every machine, in any order of summation: sums are integers per exponent,
//! and are combined in one fixed order.

pub mod gaussian;
mod moments;
mod window;

pub use moments::{Moments, sigma_from_mean_abs};
pub use window::{LAST_START, WINDOW, best_start, covered, window_start};

/// Statistic that the window of a tile is chosen by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Estimator {
    /// The histogram of the tile's exponents: always the best window.
    #[default]
    Exact,
    /// The standard deviation, as in the paper.
    Std,
    /// The mean of absolute values: as fast, and robust against outliers.
    MeanAbs,
}

impl Estimator {
    /// All estimators; the first is the default.
    pub const ALL: [Self; 3] = [Self::Exact, Self::Std, Self::MeanAbs];

    /// Their names, in the same order.
    pub const NAMES: [&'static str; 3] = [Self::Exact.name(), Self::Std.name(), Self::MeanAbs.name()];

    /// Name in specs.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Exact => "exact",
            Self::Std => "std",
            Self::MeanAbs => "mean-abs",
        }
    }

    /// The estimator with this name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|estimator| estimator.name() == name)
    }
}
