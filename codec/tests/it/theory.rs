//! Theory of `window7` for values from N(0, sigma^2) (ZipCCL, section 4.1), compared with frames of such values.

use crate::common;
use crate::common::Frame;
use libm::exp2;
use rand::SeedableRng;
use rand_distr::{Distribution, Normal};
use zipwire_codec::scale::gaussian::{Choice, bits, coverage, start};
use zipwire_codec::{DType, Layout};

const TILE: usize = 8192;
const TILES: usize = 32;

/// BF16 values, cut off towards zero, so that exactly those from 2^x on have exponent x.
fn gaussian(sigma: f64) -> Vec<u8> {
    let mut rng = rand_chacha::ChaCha8Rng::seed_from_u64(11);
    let normal = Normal::new(0.0, sigma).unwrap();
    let values = normal.sample_iter(&mut rng).take(TILES * TILE);
    values.flat_map(|value: f64| (((value as f32).to_bits() >> 16) as u16).to_le_bytes()).collect()
}

/// Bits per value of what is beside codes, rest and escapes: per frame the header, per tile its entry and the escape
/// index (a number per 512 values, of which the compact layout leaves out the first).
fn overhead(layout: Layout) -> f64 {
    let bytes = match layout {
        Layout::Split => (32 + TILES * (4 + 2 * 16_usize)).next_multiple_of(128),
        Layout::Compact => 32 + TILES * (6 + 2 * 15),
    };
    8.0 * bytes as f64 / (TILES * TILE) as f64
}

/// Eight bits of sign and mantissa, a code of three, and eight more for each value outside the window.
#[test]
fn frames_have_the_bits_per_value_that_coverage_predicts() {
    // An octave, as coverage has this period, and scales far away from it.
    let sigmas = (0..8).map(|eighth| 0.02 * exp2(f64::from(eighth) / 8.0)).chain([3e-30, 700.0]);
    let (mut least, mut most) = (f64::INFINITY, 0.0_f64);
    for sigma in sigmas {
        let values = gaussian(sigma);
        for layout in Layout::ALL {
            let best = coverage(sigma, start(sigma, Choice::Best));
            let predicted = bits(best) + overhead(layout);
            for spec in ["window7", "window7:scale=std", "window7:scale=mean-abs"] {
                let frame = Frame::new(&*common::codec(spec), layout, DType::Bf16, &values);
                let measured = frame.bits() as f64 / (TILES * TILE) as f64;
                assert!(
                    (measured - predicted).abs() < 0.02,
                    "{spec} {layout}, sigma {sigma}: {measured} instead of {predicted}"
                );
                let alone = measured - overhead(layout);
                (least, most) = (least.min(alone), most.max(alone));
            }
        }
    }
    // 11.17 to 11.24 for the best and the worst scale.
    assert!((least - 11.17).abs() < 0.02 && (most - 11.24).abs() < 0.02, "{least} to {most}");
}
