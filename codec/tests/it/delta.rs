//! `delta+X`: every pattern, length and kind of base survives, damage is an error, a base that is another or is missing is one, too.

use crate::common;
use crate::common::content::{self, Content};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use zipwire_codec::{
    Base, Codec, DType, DecodeError, Decoder, Delta, DeltaCoding, DeltaFault, EncodeError, FrameInfo,
    FrameShape, Layout, Spec, SpecError, TableError, decompress, force_simd,
};

/// How values differ from a base.
#[derive(Clone, Copy, Debug)]
enum Change {
    /// Not at all.
    None,
    /// By some of the last bits, all of them.
    Little,
    /// By the last bit, one in a hundred.
    Rare,
    /// By the last bits, one in three.
    Some,
    /// Some by anything.
    Outliers,
    /// Only in every third block of 32 768; there by anything.
    Blocks,
    /// By anything.
    Anything,
}

impl Change {
    const ALL: [Self; 7] =
        [Self::None, Self::Little, Self::Rare, Self::Some, Self::Outliers, Self::Blocks, Self::Anything];

    fn of(self, dtype: DType, base: &[u8], seed: u64) -> Vec<u8> {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let width = dtype.width();
        let mut values = base.to_vec();
        for (i, value) in values.chunks_mut(width).enumerate() {
            let mut bytes = [0; 4];
            bytes[..width].copy_from_slice(value);
            let bits = u32::from_le_bytes(bytes);
            let anything = rng.random::<u32>();
            let near = bits.wrapping_add(anything >> (33 - 4 * width)).wrapping_sub(1 << (4 * width - 2));
            let changed = match self {
                Self::None => bits,
                Self::Little => near,
                Self::Rare if rng.random_range(0..100) == 0 => bits ^ 1,
                Self::Some if rng.random_range(0..3) == 0 => near,
                Self::Rare | Self::Some => bits,
                Self::Outliers if rng.random_range(0..50) == 0 => anything,
                Self::Outliers => near,
                Self::Blocks if i >> 15 & 3 == 1 => anything,
                Self::Blocks => bits,
                Self::Anything => anything,
            };
            value.copy_from_slice(&changed.to_le_bytes()[..width]);
        }
        values
    }
}

/// All codings of all types.
fn kinds() -> impl Iterator<Item = (DeltaCoding, DType)> {
    DeltaCoding::ALL.into_iter().flat_map(|coding| DType::ALL.map(|dtype| (coding, dtype)))
}

/// A codec, and what decodes its frames.
fn pair(coding: DeltaCoding, dtype: DType, base: &[u8]) -> (Delta, Decoder) {
    force_simd(common::level()).unwrap();
    let base = Base::new(dtype, base.to_vec());
    let mut decoder = Decoder::new();
    decoder.add_base(base.clone()).unwrap();
    (Delta::new(coding, base), decoder)
}

fn assert_survives(coding: DeltaCoding, dtype: DType, base: &[u8], values: &[u8], context: &str) {
    let (codec, decoder) = pair(coding, dtype, base);
    for layout in Layout::ALL {
        let shape = FrameShape::new(layout, dtype, values.len() / dtype.width());
        let frame = codec.encode_to_vec(layout, dtype, values).unwrap();
        assert!((codec.min_len(shape)..=codec.bound(shape)).contains(&frame.len()), "{context}");
        assert!(decoder.decompress(&frame).unwrap() == values, "{coding:?} {dtype} {layout} {context}");
        assert_eq!(FrameInfo::peek(&frame).unwrap().frame_len(), frame.len());
        // Whatever was in the buffer before.
        let mut out = vec![0xa5; codec.bound(shape) - codec.static_len(shape)];
        let mut fixed = vec![0xa5; codec.static_len(shape)];
        let len = codec.encode(layout, dtype, values, &mut fixed, &mut out).unwrap();
        assert!([&fixed[..], &out[..len]].concat() == frame, "{context}");
    }
}

#[test]
fn every_pattern_survives_against_every_other() {
    for (coding, dtype) in kinds() {
        let [ascending, shuffled] = content::ascending_and_shuffled(dtype);
        assert_survives(coding, dtype, &ascending, &shuffled, "shuffled");
        assert_survives(coding, dtype, &shuffled, &ascending, "ascending");
        for change in Change::ALL {
            let values = change.of(dtype, &shuffled, 2);
            assert_survives(coding, dtype, &shuffled, &values, &format!("{change:?}"));
        }
    }
}

/// At the borders of blocks. [`whole`] has more lengths beside them.
#[test]
fn every_kind_of_values_and_change_survives_at_every_border() {
    survive_at(&[0, 32_767, 32_768, 32_769]);
}

mod whole {
    #[test]
    #[ignore = "half a minute on the portable path: .ci/run runs it, and the short form is beside it"]
    fn every_kind_of_values_and_change_survives_at_every_border() {
        super::survive_at(&[0, 1, 1000, 32_767, 32_768, 32_769, 100_000]);
    }

    #[test]
    #[ignore = "half a minute on the portable path: .ci/run runs it, and the short form is beside it"]
    fn every_flip_cut_and_extra_byte_is_an_error() {
        super::damaged_at_each(1);
    }
}

/// Frames of so many values survive; lengths below a block also with a few more, another number for each kind of values.
fn survive_at(counts: &[usize]) {
    for (coding, dtype) in kinds() {
        for (content, more) in Content::ALL.into_iter().zip((0..).step_by(40)) {
            for count in counts.iter().map(|&count| if count < 32_767 { count + more } else { count }) {
                let base = content.values(dtype, count, 3);
                for change in Change::ALL {
                    let values = change.of(dtype, &base, 4);
                    let context = format!("{content:?} {change:?} {count}");
                    assert_survives(coding, dtype, &base, &values, &context);
                }
            }
        }
    }
}

#[test]
fn short_frames_survive() {
    for dtype in DType::ALL {
        let base = Content::Gaussian.values(dtype, 400, 5);
        let values = Change::Outliers.of(dtype, &base, 6);
        for end in (0..=400).map(|count| count * dtype.width()) {
            assert_survives(DeltaCoding::Rans, dtype, &base[..end], &values[..end], "short");
        }
    }
}

/// Frames of all forms of blocks: unchanged ones, listed and masked ones, dense ones in tiers and by rANS, and such without a base.
fn frames() -> Vec<(String, Decoder, Vec<u8>, Vec<u8>)> {
    let mut all = Vec::new();
    for coding in DeltaCoding::ALL {
        for (dtype, change, count) in [
            (DType::Bf16, Change::Little, 3000),
            (DType::Bf16, Change::Rare, 3000),
            (DType::F16, Change::Some, 3000),
            (DType::F32, Change::Outliers, 2000),
            (DType::F8E4M3, Change::Some, 3000),
            (DType::Bf16, Change::Blocks, 70_000),
        ] {
            let base = Content::Gaussian.values(dtype, count, 7);
            let values = change.of(dtype, &base, 8);
            let (codec, decoder) = pair(coding, dtype, &base);
            let frame = codec.encode_to_vec(Layout::Compact, dtype, &values).unwrap();
            assert_eq!(frame[5], 6, "{coding:?} {dtype} {change:?}");
            all.push((format!("{coding:?} {dtype} {change:?}"), decoder, values, frame));
        }
    }
    all
}

/// Each seventh flip and cut. [`whole`] has all.
#[test]
fn every_flip_cut_and_extra_byte_is_an_error() {
    damaged_at_each(7);
}

fn damaged_at_each(step: usize) {
    for (name, decoder, values, frame) in frames() {
        // Long frames hold one of another codec, whose own laws are tested elsewhere.
        let step = if frame.len() > 20_000 { 211 } else { step };
        for bit in (0..8 * frame.len()).step_by(step) {
            let mut frame = frame.clone();
            frame[bit / 8] ^= 1 << (bit % 8);
            assert!(decoder.decompress(&frame).is_err(), "{name}: bit {bit}");
        }
        for len in (0..frame.len()).step_by(step.min(97)) {
            assert!(decoder.decompress(&frame[..len]).is_err(), "{name}: cut to {len}");
        }
        assert!(decoder.decompress(&[&frame[..], &[0]].concat()).is_err(), "{name}");
        assert!(decoder.decompress(&frame).unwrap() == values);
    }
}

#[test]
fn overwritten_frames_never_pass_or_panic() {
    let mut rng = ChaCha8Rng::seed_from_u64(9);
    for (name, decoder, values, frame) in frames() {
        for case in 0..400 {
            let mut damaged = frame.clone();
            for _ in 0..rng.random_range(1..6) {
                // Mostly the block table.
                let at = if rng.random_range(0..3) == 0 { 0..frame.len() } else { 32..112.min(frame.len()) };
                damaged[rng.random_range(at)] = [rng.random(), rng.random_range(0..9), 0xff][case % 3];
            }
            if let Ok(out) = decoder.decompress(&damaged) {
                assert!(out == values, "{name}: case {case} passes with other values");
            }
        }
    }
}

#[test]
fn another_base_or_none_is_an_error_that_names_it() {
    let base = Content::Gaussian.values(DType::Bf16, 5000, 1);
    let values = Change::Little.of(DType::Bf16, &base, 2);
    let (codec, _) = pair(DeltaCoding::Rans, DType::Bf16, &base);
    let frame = codec.encode_to_vec(Layout::Compact, DType::Bf16, &values).unwrap();
    let id = Base::new(DType::Bf16, base.clone()).id();
    let unknown = DecodeError::UnknownBase { id };
    assert!(unknown.to_string().contains("which is not known here"));
    assert!(unknown.help().unwrap().contains("Decoder::add_base"));
    assert_eq!(decompress(&frame), Err(unknown.clone()));
    // One bit is another, the values are of another type, or there is one more.
    let mut flipped = base.clone();
    flipped[7777] ^= 1;
    let longer = [&base[..], &[0; 2]].concat();
    for other in [
        Base::new(DType::Bf16, flipped),
        Base::new(DType::F16, base.clone()),
        Base::new(DType::Bf16, longer.clone()),
    ] {
        let mut decoder = Decoder::new();
        decoder.add_base(other.clone()).unwrap();
        assert_eq!(decoder.decompress(&frame), Err(unknown.clone()));
        // To add it again changes nothing.
        assert_eq!(decoder.add_base(other), Ok::<(), TableError>(()));
        decoder.add_base(Base::new(DType::Bf16, base.clone())).unwrap();
        assert!(decoder.decompress(&frame).unwrap() == values);
    }
    for (dtype, bytes, base_count) in [(DType::F16, &base, 5000), (DType::Bf16, &longer, 5001)] {
        for layout in Layout::ALL {
            let codec = Delta::new(DeltaCoding::Tiered, Base::new(dtype, bytes.clone()));
            let error = codec.encode_to_vec(layout, DType::Bf16, &values).unwrap_err();
            let expected =
                EncodeError::Base { dtype: DType::Bf16, count: 5000, base_dtype: dtype, base_count };
            assert_eq!(error, expected);
        }
    }
}

#[test]
fn what_does_not_pay_is_coded_without_the_base() {
    for coding in DeltaCoding::ALL {
        let plain = common::codec(coding.id());
        let base = Content::Gaussian.values(DType::Bf16, 70_000, 1);
        let other = Content::Gaussian.values(DType::Bf16, 70_000, 2);
        let (codec, decoder) = pair(coding, DType::Bf16, &base);
        for (layout, values) in [(Layout::Compact, &other), (Layout::Split, &base)] {
            let frame = codec.encode_to_vec(layout, DType::Bf16, values).unwrap();
            assert!(frame == plain.encode_to_vec(layout, DType::Bf16, values).unwrap());
        }
        // Two blocks as they were, and a short one that is new.
        let values = [&base[..131_072], &other[131_072..]].concat();
        let frame = codec.encode_to_vec(Layout::Compact, DType::Bf16, &values).unwrap();
        let new = plain.encode_to_vec(Layout::Compact, DType::Bf16, &other[131_072..]).unwrap();
        assert_eq!(frame.len(), 32 + 8 + 3 * 24 + new.len());
        assert!(frame.ends_with(&new) && decoder.decompress(&frame).unwrap() == values);
        // An inner frame of another codec.
        let inner = frame.len() - new.len();
        let mut raw = frame.clone();
        raw[inner + 4..inner + 6].copy_from_slice(&[1, 0]);
        let fault = DeltaFault::Inner(0);
        assert_eq!(decoder.decompress(&raw), Err(DecodeError::Delta { fault }));
        let mut damaged = frame;
        damaged[inner + 6] = 9;
        let error = decoder.decompress(&damaged).unwrap_err();
        assert!(error.to_string().starts_with("in the frame of the blocks without a base: "), "{error}");
    }
}

#[test]
fn small_differences_take_little_and_equal_values_nothing() {
    let base = Content::Gaussian.values(DType::F32, 100_000, 1);
    for coding in DeltaCoding::ALL {
        let (codec, _) = pair(coding, DType::F32, &base);
        assert_eq!(codec.encode_to_vec(Layout::Compact, DType::F32, &base).unwrap().len(), 32 + 8 + 4 * 24);
        // 1 % of the values: positions take 1.5 bits for each value of 100, and a byte, the difference 2 bits.
        let rare = Change::Rare.of(DType::F32, &base, 3);
        let len = codec.encode_to_vec(Layout::Compact, DType::F32, &rare).unwrap().len();
        assert!(len < 136 + 100_000 / 256 + 100_000 / 100 * 2, "{len}");
    }
}

#[test]
fn specs_leave_the_base_to_whoever_has_it() {
    let spec: Spec = "delta+rans".parse().unwrap();
    assert_eq!((spec.to_string(), spec.takes_base()), ("delta+rans".to_owned(), true));
    assert!(!"rans".parse::<Spec>().unwrap().takes_base());
    let error = spec.clone().complete().unwrap_err();
    assert_eq!(error.to_string(), "`delta+rans` does not say what values differ from");
    assert!(error.help().unwrap().contains("Spec::against"));
    let base = Content::Gaussian.values(DType::Bf16, 5000, 1);
    let values = Change::Little.of(DType::Bf16, &base, 2);
    let (codec, _) = pair(DeltaCoding::Rans, DType::Bf16, &base);
    let told = spec.clone().against(Base::new(DType::Bf16, base.clone()));
    assert_ne!(told, spec);
    let frame = told.clone().codec().encode_to_vec(Layout::Compact, DType::Bf16, &values).unwrap();
    assert!(frame == codec.encode_to_vec(Layout::Compact, DType::Bf16, &values).unwrap());
    assert_eq!(told.complete().unwrap().codec().id(), "delta");
    // Without a base it is the codec behind it.
    let frame = spec.codec().encode_to_vec(Layout::Compact, DType::Bf16, &values).unwrap();
    assert!(frame == common::codec("rans").encode_to_vec(Layout::Compact, DType::Bf16, &values).unwrap());

    let error = "delta+window7".parse::<Spec>().unwrap_err();
    let valid = "`rans`, `tiered`, `planes`".to_owned();
    assert_eq!(error, SpecError::DeltaCodec { codec: "window7", valid });
    assert_eq!(error.to_string(), "differences are not coded by `window7`");
    assert_eq!(error.help().unwrap(), "behind `delta+` there can be `rans`, `tiered`, `planes`");
    assert!(matches!("delta:row=3+rans".parse::<Spec>(), Err(SpecError::UnknownOption { .. })));
    assert!(matches!("delta+none".parse::<Spec>(), Err(SpecError::UnknownId { .. })));
}

/// A header can name any number of values, and unchanged ones take next to nothing: the block table has to be there before memory is taken.
#[test]
fn front_matter_alone_allocates_nothing() {
    let base = Content::Gaussian.values(DType::Bf16, 100, 1);
    let (codec, decoder) = pair(DeltaCoding::Rans, DType::Bf16, &base);
    let mut frame = codec.encode_to_vec(Layout::Compact, DType::Bf16, &base).unwrap();
    assert_eq!(frame[5], 6);
    for count in [1 << 40, 1 << 60, isize::MAX as usize, usize::MAX] {
        frame[8..16].copy_from_slice(&(count as u64).to_le_bytes());
        assert!(decoder.decompress(&frame).is_err());
        let shape = FrameShape::new(Layout::Compact, DType::Bf16, count);
        assert!(codec.min_len(shape) > 1 << 20);
    }
}
