//! Estimated size and times of one codec for given values.

use super::{Goal, Speed};

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
