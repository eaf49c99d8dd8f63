//! What a Reduce-Scatter costs in its two forms, as linear functions of its length (ZipCCL sec. 5.2).

/// Formula (6): seconds of a native Reduce-Scatter, `alpha + beta d`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct NativeCost {
    /// Seconds to start.
    pub alpha_s: f64,
    /// Seconds per byte of data.
    pub beta_s: f64,
}

/// Formula (7), corrected: seconds of an All-to-All of coded values and a local sum, `alpha + beta e s d + gamma s d`.
///
/// The paper's formula ends behind its second term: it leaves out what coding and adding take, which are up to a third of the
/// whole. Its example of a scale, "FP16" over BF16, would be 1: FP32 over BF16 gives the 0.5 that it means.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ZippedCost {
    /// Seconds to start: of the exchanges, and of launching encode, decode and sum.
    pub alpha_s: f64,
    /// Seconds per byte on the wire.
    pub beta_s: f64,
    /// Seconds per byte of values that are encoded, decoded and added up.
    pub gamma_s: f64,
    /// Coded bytes over bytes of values, `e`.
    pub coded_fraction: f64,
    /// Bytes of a value here over those in the native Reduce-Scatter, `s`: 0.5 for BF16 instead of FP32.
    pub scale: f64,
}

impl NativeCost {
    /// Seconds for `bytes` bytes of data, `d`.
    pub fn seconds(&self, bytes: f64) -> f64 {
        self.alpha_s + self.beta_s * bytes
    }
}

impl ZippedCost {
    /// Seconds for what are `bytes` bytes, `d`, in the native Reduce-Scatter.
    pub fn seconds(&self, bytes: f64) -> f64 {
        let values = self.scale * bytes;
        self.alpha_s + self.beta_s * self.coded_fraction * values + self.gamma_s * values
    }

    /// The bytes, in the native Reduce-Scatter, from which on this form is the faster one; `None` if there are none: bytes cost no
    /// less here. 0 if it is always the faster one.
    pub fn breaks_even(&self, native: &NativeCost) -> Option<f64> {
        let per_byte = native.beta_s - self.scale * (self.beta_s * self.coded_fraction + self.gamma_s);
        (per_byte > 0.0).then(|| ((self.alpha_s - native.alpha_s) / per_byte).max(0.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NATIVE: NativeCost = NativeCost { alpha_s: 100e-6, beta_s: 1.0 / 10e9 };
    const ZIPPED: ZippedCost = ZippedCost {
        alpha_s: 300e-6,
        beta_s: 1.0 / 8e9,
        gamma_s: 1.0 / 100e9,
        coded_fraction: 0.75,
        scale: 0.5,
    };

    #[test]
    fn each_term_counts() {
        // 1 GB of FP32: 0.1 s natively. As BF16 0.5 GB, of which 0.375 GB travel in 46.875 ms and all are worked on in 5 ms.
        let close = |a: f64, b: f64| assert!((a - b).abs() < 1e-12, "{a} is not {b}");
        close(NATIVE.seconds(1e9), 0.1 + 100e-6);
        close(ZIPPED.seconds(1e9), 300e-6 + 46.875e-3 + 5e-3);
        close(ZippedCost { gamma_s: 0.0, ..ZIPPED }.seconds(1e9), 300e-6 + 46.875e-3);
        close(ZippedCost { scale: 1.0, ..ZIPPED }.seconds(1e9), 300e-6 + 93.75e-3 + 10e-3);
        close(ZIPPED.seconds(0.0), 300e-6);
    }

    #[test]
    fn both_cost_the_same_where_they_break_even() {
        let bytes = ZIPPED.breaks_even(&NATIVE).unwrap();
        assert!((ZIPPED.seconds(bytes) - NATIVE.seconds(bytes)).abs() < 1e-12);
        assert!(ZIPPED.seconds(bytes / 2.0) > NATIVE.seconds(bytes / 2.0));
        assert!(ZIPPED.seconds(bytes * 2.0) < NATIVE.seconds(bytes * 2.0));
        let slow = ZippedCost { gamma_s: 1.0, ..ZIPPED };
        assert_eq!(slow.breaks_even(&NATIVE), None);
        let quick = ZippedCost { alpha_s: 0.0, ..ZIPPED };
        assert_eq!(quick.breaks_even(&NATIVE), Some(0.0));
    }
}
