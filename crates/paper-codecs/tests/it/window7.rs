//! Frames of `window7` for known values: sizes, also those of theory, choices, and the names of its faults.

use crate::common::Frame;
use crate::common::content::Content;
use crate::{common, in_tile};
use libm::exp2;
use rand::SeedableRng;
use rand_distr::{Distribution, Normal};
use zipwire_codec::{DType, DecodeError, FrameShape, Layout, Section};
use zipwire_paper_codecs::scale::gaussian::{Choice, bits, coverage, start};

const TILES: usize = 16;
const COUNT: usize = TILES * 8192;

fn frame(spec: &str, layout: Layout, values: &[u8]) -> Frame {
    Frame::new(&*common::codec(spec), layout, DType::Bf16, values)
}

fn content(layout: Layout, content: Content) -> Frame {
    frame("window7", layout, &content.values(DType::Bf16, COUNT, 9))
}

#[test]
fn sizes_of_known_values() {
    // 68.75 % are rest and codes, 1.06 % escapes, 0.2 % tile table and escape index.
    for layout in Layout::ALL {
        let percent = content(layout, Content::Gaussian).percent();
        assert!((percent - 70.02).abs() < 0.05, "{layout}: {percent}");
    }
    // Noise is stored, and takes exactly what the bound says.
    let codec = common::codec("window7");
    for layout in Layout::ALL {
        let len = content(layout, Content::Noise).len();
        assert_eq!(len, codec.bound(FrameShape::new(layout, DType::Bf16, COUNT)));
    }
    // An all-zero tile has no body, a single nonzero value costs a mask and the codes of one value.
    assert_eq!(content(Layout::Compact, Content::Zeros).dynamic_section.len(), 32 + 6 * TILES);
    let lone = content(Layout::Compact, Content::LoneValue).dynamic_section.len();
    assert!(lone < 32 + TILES * (6 + 1024 + 2 * 13 + 12), "{lone}");
    // 24 % zeros: mask and three quarters of what is coded otherwise.
    let masked = content(Layout::Compact, Content::SomeZeros).percent();
    assert!((masked - (6.25 + 0.76 * 70.02)).abs() < 0.3, "{masked}");
    // In the split layout these zeros are escapes.
    let escapes = content(Layout::Split, Content::SomeZeros).percent();
    assert!((escapes - (70.02 + 50.0 * 0.24)).abs() < 0.6, "{escapes}");
}

#[test]
fn groups_have_windows_of_their_own_where_that_pays() {
    // Another scale for each 512 values, by powers of two, so that all have as many escapes. Windows add 0.1 %.
    let scales = [1.0, 2.0f32.powi(-17), 2.0f32.powi(40), 2.0f32.powi(-60)];
    let gaussian = Content::Gaussian.values(DType::F32, COUNT, 9);
    let scaled = gaussian.as_chunks::<4>().0.iter().enumerate().flat_map(|(i, value)| {
        let value = f32::from_le_bytes(*value) * scales[i / 512 % scales.len()];
        value.to_le_bytes().into_iter().skip(2)
    });
    let values: Vec<u8> = scaled.collect();
    for layout in Layout::ALL {
        let own = frame("window7", layout, &values);
        assert!((own.percent() - 70.12).abs() < 0.05, "{layout}: {}", own.percent());
        // With estimators a tile has one window, and none that would do: it is stored.
        let one = frame("window7:scale=std", layout, &values);
        assert!(one.percent() > 90.0, "{layout}: {}", one.percent());
    }
    // Own windows are read where they are written, in front of the escapes.
    let mut damaged = frame("window7", Layout::Split, &values);
    assert_eq!((damaged.static_section[32], damaged.static_section[33]), (255, 0));
    damaged.dynamic_section[3] = 250;
    let error = damaged.decode().unwrap_err();
    assert_eq!(error, in_tile("window7", 0, "window start `250` is above `249`"));
}

#[test]
fn lower_halves_of_fp32_are_kept_and_left_out_where_all_are_zero() {
    let percent_of = |layout, values: &[u8]| {
        let frame = Frame::new(&*common::codec("window7"), layout, DType::F32, values);
        frame.assert_survives("FP32");
        frame.percent()
    };
    // Half of the bytes as they are; the other half as BF16.
    let gaussian = Content::Gaussian.values(DType::F32, COUNT, 9);
    let zero_extended: Vec<u8> = gaussian.chunks(4).flat_map(|value| [0, 0, value[2], value[3]]).collect();
    for layout in Layout::ALL {
        let percent = percent_of(layout, &gaussian);
        assert!((percent - (50.0 + 70.02 / 2.0)).abs() < 0.05, "{layout}: {percent}");
    }
    let short = percent_of(Layout::Compact, &zero_extended);
    assert!((short - 70.02 / 2.0).abs() < 0.05, "{short}");
    // One value in a tile is enough to keep its lower halves.
    let mut one = zero_extended;
    one[4 * 100] = 1;
    let more = percent_of(Layout::Compact, &one) - short;
    assert!((more - 50.0 / TILES as f64).abs() < 1e-9, "{more}");
}

#[test]
fn estimators_are_as_good_as_counting_on_gaussian_values_and_worse_on_mixtures() {
    let values = Content::Gaussian.values(DType::Bf16, COUNT, 9);
    let exact = frame("window7", Layout::Split, &values);
    for spec in ["window7:scale=std", "window7:scale=mean-abs"] {
        let estimated = frame(spec, Layout::Split, &values).percent() - exact.percent();
        assert!((0.0..0.01).contains(&estimated), "{spec}: {estimated}");
    }
    let values = Content::Rows.values(DType::Bf16, COUNT, 9);
    let exact = frame("window7", Layout::Compact, &values).percent();
    let estimated = frame("window7:scale=std", Layout::Compact, &values).percent();
    assert!(estimated > exact + 1.0, "{estimated} {exact}");
}

#[test]
fn faults_have_names() {
    let split = |damage: fn(&mut Frame)| content(Layout::Split, Content::Gaussian).damaged(damage);
    let compact = |kind, damage: fn(&mut Frame)| content(Layout::Compact, kind).damaged(damage);
    let tile = |tile, defect| in_tile("window7", tile, defect);
    const SECOND: usize = 32 + 4;
    assert_eq!(split(|f| f.static_section[0] = b'X'), DecodeError::Magic { found: *b"XPWR" });
    assert_eq!(split(|f| f.static_section[4] = 3), DecodeError::Version { found: 3 });
    assert_eq!(split(|f| f.static_section[5] = 250), DecodeError::UnknownCodec { tag: 250 });
    assert_eq!(split(|f| f.static_section[28] = 1), DecodeError::UnusedTable { codec: "window7", id: 1 });
    assert_eq!(split(|f| f.static_section[SECOND + 1] = 3), tile(1, "mode `3` is not possible here"));
    assert_eq!(split(|f| f.static_section[SECOND] = 250), tile(1, "window start `250` is above `249`"));
    assert_eq!(
        split(|f| f.static_section[32 + 4 * TILES + 2] ^= 1),
        tile(0, "the escape index contradicts the codes")
    );
    let error = split(|f| f.static_section[SECOND + 2] ^= 1);
    assert!(error.to_string().contains("tile `1`: the codes have `"), "{error}");
    assert_eq!(
        split(|f| f.static_section[SECOND + 3] = 0x1f),
        tile(1, "the body passes the end of the section")
    );
    // Tile table and index end at 32 + 4 * 16 + 2 * 16 * 16 = 608, the front matter at 640.
    assert_eq!(split(|f| f.static_section[608] = 1), DecodeError::Padding);
    let error = split(|f| f.static_section[640] ^= 1);
    assert!(matches!(error, DecodeError::Checksum { .. }), "{error}");
    let error = split(|f| f.dynamic_section.truncate(9));
    assert!(matches!(error, DecodeError::Length { section: Section::Dynamic, found: 9, .. }), "{error}");
    let error = compact(Content::SomeZeros, |f| f.dynamic_section[32 + 6 * TILES] ^= 1);
    assert!(error.to_string().contains("tile `0`: the mask has `"), "{error}");
    assert_eq!(
        compact(Content::Zeros, |f| f.dynamic_section[32] = 1),
        tile(0, "a field that the mode does not use is not zero")
    );
}

#[test]
fn codes_and_mask_bits_beyond_the_last_value_must_be_zero() {
    // 33 values have two lanes: nibble words 5, 6 and 7 are empty, and most of word 4.
    let values = Content::Equal.values(DType::Bf16, 33, 0);
    for layout in Layout::ALL {
        let clean = frame("window7", layout, &values);
        let codes = if layout == Layout::Split { 128 + 33 } else { 32 + 6 + 33 };
        // The last word of the last row belongs to words 5 and 7.
        for bit in 0..32 {
            let mut frame = frame("window7", layout, &values);
            *frame.byte(codes + 20 + bit / 8) ^= 1 << (bit % 8);
            assert_eq!(
                frame.decode(),
                Err(in_tile("window7", 0, "a code or mask bit beyond the last value is not zero")),
                "bit {bit}"
            );
        }
        clean.assert_survives("clean");
    }
    let values = [Content::Zeros, Content::Equal].map(|kind| kind.values(DType::Bf16, 50, 0)).concat();
    let mut masked = frame("window7", Layout::Compact, &[&values[..], &[0, 0]].concat());
    let mask = 32 + 6;
    assert_eq!(masked.dynamic_section[33], 3, "the tile is masked");
    // Bits 0 to 4 of the last byte of the mask are the values 96 to 100; one more bit, and one less.
    masked.dynamic_section[mask + 12] ^= 0x81;
    assert_eq!(
        masked.decode(),
        Err(in_tile("window7", 0, "a code or mask bit beyond the last value is not zero"))
    );
}

/// Tiles of the frames that are held against the theory for values from N(0, sigma^2) (ZipCCL, section 4.1).
const THEORY_TILES: usize = 32;
const THEORY_COUNT: usize = THEORY_TILES * 8192;

/// BF16 values, cut off towards zero, so that exactly those from 2^x on have exponent x.
fn gaussian(sigma: f64) -> Vec<u8> {
    let mut rng = rand_chacha::ChaCha8Rng::seed_from_u64(11);
    let normal = Normal::new(0.0, sigma).unwrap();
    let values = normal.sample_iter(&mut rng).take(THEORY_COUNT);
    values.flat_map(|value: f64| (((value as f32).to_bits() >> 16) as u16).to_le_bytes()).collect()
}

/// Bits per value of what is beside codes, rest and escapes: per frame the header, per tile its entry and the escape
/// index (a number per 512 values, of which the compact layout leaves out the first).
fn overhead(layout: Layout) -> f64 {
    let bytes = match layout {
        Layout::Split => (32 + THEORY_TILES * (4 + 2 * 16_usize)).next_multiple_of(128),
        Layout::Compact => 32 + THEORY_TILES * (6 + 2 * 15),
    };
    8.0 * bytes as f64 / THEORY_COUNT as f64
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
                let measured = frame.bits() as f64 / THEORY_COUNT as f64;
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
