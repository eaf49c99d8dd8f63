//! Modelled cost of a call before it was ever measured: the linear model of ZipCCL, formulas (6) and (7), with the terms that the
//! paper leaves out.

/// Costs of a cluster and a codec, for one class of calls.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LinearModel {
    /// `a`: seconds of an exchange that moves nothing.
    pub alpha_s: f64,
    /// `g`: seconds per raw byte of encoding and decoding, and of reducing where the call reduces.
    pub gamma_s_per_byte: f64,
    /// Seconds per call that a codec takes whatever the call's length: launches, and what the host waits for sizes.
    pub coded_s: f64,
}

/// Modelled cost of one arm, in the parts that change for different reasons.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Prior {
    /// Seconds that depend on nothing.
    pub fixed_s: f64,
    /// Seconds per raw byte that do not depend on the network.
    pub codec_s_per_byte: f64,
    /// `e s`: bytes on the wire per raw byte, by the codec and by the width of what is sent.
    pub wire_fraction: f64,
    /// `b` of a call of a library, which takes other ways than the links that all other arms share: seconds per byte on the wire.
    pub library_s_per_byte: Option<f64>,
}

impl LinearModel {
    /// Formula (6): `T = a + b s d` for an uncompressed call of `s d` bytes in `exchanges` exchanges.
    pub fn native(&self, exchanges: u32) -> Prior {
        let fixed_s = self.alpha_s * f64::from(exchanges);
        Prior { fixed_s, codec_s_per_byte: 0.0, wire_fraction: 1.0, library_s_per_byte: None }
    }

    /// Formula (6) of a call of a library: its own `a`, all calls together, its own `b`, and `s`, which is 2 where it adds up BF16 in FP32.
    pub fn library(&self, calls_s: f64, s_per_byte: f64, wire_fraction: f64) -> Prior {
        let codec_s_per_byte = self.gamma_s_per_byte;
        Prior { fixed_s: calls_s, codec_s_per_byte, wire_fraction, library_s_per_byte: Some(s_per_byte) }
    }

    /// Formula (7), corrected: `T = a + b e s d + g s d`. The paper has no term `g`, which is up to 30 % of the time, and says
    /// FP16 where its `s` must be the width of the values that are reduced.
    pub fn coded(&self, exchanges: u32, wire_fraction: f64) -> Prior {
        Prior {
            fixed_s: self.alpha_s * f64::from(exchanges) + self.coded_s,
            codec_s_per_byte: self.gamma_s_per_byte,
            wire_fraction,
            library_s_per_byte: None,
        }
    }
}

impl Prior {
    /// Whether it depends on how fast the network is.
    pub fn uses_links(&self) -> bool {
        self.library_s_per_byte.is_none()
    }

    /// Seconds of a call of `raw_bytes` on a network that takes `beta_s_per_byte`.
    pub fn seconds(&self, raw_bytes: f64, beta_s_per_byte: f64) -> f64 {
        let beta_s_per_byte = self.library_s_per_byte.unwrap_or(beta_s_per_byte);
        self.fixed_s + raw_bytes * (self.codec_s_per_byte + beta_s_per_byte * self.wire_fraction)
    }

    /// Seconds per byte that the network must take if a call that uses its links took `seconds`. At least a twentieth of them is
    /// counted as the network's: the rest may be overestimated.
    pub fn beta_s_per_byte(&self, raw_bytes: f64, seconds: f64) -> f64 {
        let network_s = seconds - self.fixed_s - raw_bytes * self.codec_s_per_byte;
        network_s.max(0.05 * seconds) / (raw_bytes * self.wire_fraction).max(f64::MIN_POSITIVE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MODEL: LinearModel = LinearModel { alpha_s: 1e-5, gamma_s_per_byte: 1e-11, coded_s: 2e-5 };
    /// `b`: seconds per byte.
    const BETA_S: f64 = 1e-10;

    #[test]
    fn the_formulas_hold() {
        let bytes = 1e8;
        assert!((MODEL.native(1).seconds(bytes, BETA_S) - 0.01001).abs() < 1e-12);
        // 1e-5 x 3 + 2e-5 + 1e8 x (1e-11 + 0.75e-10)
        assert!((MODEL.coded(3, 0.75).seconds(bytes, BETA_S) - 0.00855).abs() < 1e-12);
        // 1e-3 + 1e8 x (1e-11 + 2 x 3e-10), whatever the links take.
        let library = MODEL.library(1e-3, 3e-10, 2.0);
        assert!((library.seconds(bytes, BETA_S) - 0.062).abs() < 1e-12 && !library.uses_links());
    }

    #[test]
    fn the_network_is_what_is_left() {
        let prior = MODEL.coded(3, 0.75);
        let beta = prior.beta_s_per_byte(1e8, prior.seconds(1e8, 3e-10));
        assert!((beta / 3e-10 - 1.0).abs() < 1e-9);
        assert!(prior.beta_s_per_byte(1e8, 1e-6) > 0.0, "a call that is faster than its codec");
    }
}
