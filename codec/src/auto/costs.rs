//! Speeds of codecs, by type and rough class of the values, and what follows from them for given values.

use super::Goal;
use super::measured::CANDIDATES;
use crate::DType;

/// Share of zeros from which on values are [`Class::Sparse`], in percent.
pub const SPARSE_ZEROS_PCT: f64 = 25.0;

/// Kind of values: speeds are measured for each codec, type and class.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// Fewer than a quarter of the values are +0.
    Dense,
    /// A quarter or more: masks and blocks of zeros.
    Sparse,
}

impl Class {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Dense, Self::Sparse];

    /// The class of values with this percentage of +0.
    pub fn of_zeros_pct(zeros_pct: f64) -> Self {
        if zeros_pct >= SPARSE_ZEROS_PCT { Self::Sparse } else { Self::Dense }
    }

    /// Name in tables.
    pub fn name(self) -> &'static str {
        match self {
            Self::Dense => "dense",
            Self::Sparse => "sparse",
        }
    }
}

/// Speeds of one codec, in GB/s (10^9) of raw bytes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Speed {
    /// Speed of encoding.
    pub encode_gbps: f64,
    /// Speed of decoding.
    pub decode_gbps: f64,
}

/// Speeds that a caller gives instead of those that were measured.
///
/// ```
/// use zipwire_codec::{Auto, Class, Costs, DType, Goal, Speed};
///
/// let mut costs = Costs::default();
/// for (codec, gbps) in [("raw", 10.0), ("tiered", 8.0)] {
///     assert!(costs.set(codec, DType::Bf16, Class::Dense, Speed { encode_gbps: gbps, decode_gbps: gbps }));
/// }
/// let auto = Auto::new(Goal::Link { bytes_per_s: 1_000_000_000 }).costs(costs);
/// let estimates = auto.estimates(DType::Bf16, &[0; 4096])?;
/// assert_eq!(auto.best(&estimates).unwrap().codec, "tiered");
/// # Ok::<(), zipwire_codec::EncodeError>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Costs {
    /// With the number of the candidate.
    rows: Vec<(usize, DType, Class, Speed)>,
}

impl Costs {
    /// Sets the speed of a codec; returns whether `auto` can choose it for this type at all, and the speed is one: positive and finite.
    pub fn set(&mut self, codec: &str, dtype: DType, class: Class, speed: Speed) -> bool {
        let is_speed = |gbps: f64| gbps.is_finite() && gbps > 0.0;
        let index = CANDIDATES.iter().position(|known| known.id == codec && known.known(dtype).is_some());
        let Some(index) = index.filter(|_| is_speed(speed.encode_gbps) && is_speed(speed.decode_gbps)) else {
            return false;
        };
        self.rows.retain(|row| (row.0, row.1, row.2) != (index, dtype, class));
        self.rows.push((index, dtype, class, speed));
        true
    }

    /// The speed of a candidate: for values of another class, if that is all that is known.
    pub(super) fn speed(&self, candidate: usize, dtype: DType, class: Class) -> Option<Speed> {
        let of_type = || self.rows.iter().filter(|row| (row.0, row.1) == (candidate, dtype));
        of_type().find(|row| row.2 == class).or_else(|| of_type().next()).map(|row| row.3)
    }
}

/// Estimated size and times of one codec for given values.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Estimate {
    /// The codec, as in specs.
    pub codec: &'static str,
    /// Bytes of the frame.
    pub bytes: u64,
    /// Seconds of encoding.
    pub encode_s: f64,
    /// Seconds of the frame on the link; 0 if the goal has none.
    pub transfer_s: f64,
    /// Seconds of decoding.
    pub decode_s: f64,
}

impl Estimate {
    pub(super) fn new(codec: &'static str, bytes: u64, raw_bytes: u64, speed: Speed, goal: Goal) -> Self {
        let at = |gbps: f64| raw_bytes as f64 / (gbps * 1e9);
        let transfer_s = match goal {
            Goal::Link { bytes_per_s } => bytes as f64 / bytes_per_s as f64,
            Goal::Size | Goal::Speed => 0.0,
        };
        let (encode_s, decode_s) = (at(speed.encode_gbps), at(speed.decode_gbps));
        Self { codec, bytes, encode_s, transfer_s, decode_s }
    }
}
