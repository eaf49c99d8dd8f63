//! The laws that every codec keeps, as tests: `codec_laws!(name, "spec", Bf16)` makes a module of them.

use crate::common::content::{self, Content};
use crate::common::{DECODER, Frame, codec, tag_of};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use zipwire_codec::{Codec, DType, DecodeError, EncodeError, FrameShape, Layout};

/// Lengths at which damage is tried exhaustively.
const SMALL: [usize; 9] = [0, 1, 2, 63, 64, 65, 511, 512, 513];
/// Around the borders of tiles and blocks.
const LARGE: [usize; 11] =
    [8191, 8192, 8193, 8204, 8205, 16384, 3 * 8192 + 77, 32767, 32768, 32769, 65536 + 4097];

/// How many cases of a law are played. The whole is ignored unless asked for: `.ci/run` does.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Extent {
    Short,
    Whole,
}

impl Extent {
    fn of<T>(self, short: T, whole: T) -> T {
        if self == Self::Short { short } else { whole }
    }

    /// Distance of the places that are damaged in a frame of `count` values: in the short form not all of a long one.
    fn step(self, count: usize) -> usize {
        self.of(if count <= 65 { 1 } else { 13 }, 1)
    }
}

/// Modules of the laws of one codec and type: `codec_laws!(NAME, SPEC, DTYPE)` with short forms for a plain run and whole ones, `codec_laws!(alike
/// NAME, ...)` for what differs little from another, with short forms that a plain run ignores.
macro_rules! codec_laws {
    ($name:ident, $spec:expr, $dtype:ident) => {
        mod $name {
            $crate::codecs::laws::each_law!(short $spec, $dtype);
            mod whole {
                $crate::codecs::laws::each_law!(long $spec, $dtype);
            }
        }
    };
    (alike $name:ident, $spec:expr, $dtype:ident) => {
        mod $name {
            mod whole {
                $crate::codecs::laws::each_law!(alike $spec, $dtype);
            }
        }
    };
}
pub(crate) use codec_laws;

/// Tests of the laws: `short` forms, the whole forms of those that are `long`, or short forms that a plain run ignores, `alike`.
macro_rules! each_law {
    (short $spec:expr, $dtype:ident) => {
        $crate::codecs::laws::each_law!(@plain $spec, $dtype, []);
        $crate::codecs::laws::each_law!(@long $spec, $dtype, Short, []);
    };
    (long $spec:expr, $dtype:ident) => {
        $crate::codecs::laws::each_law!(@long $spec, $dtype, Whole, [#[ignore = "a minute for all codecs: .ci/run runs it"]]);
    };
    (alike $spec:expr, $dtype:ident) => {
        $crate::codecs::laws::each_law!(@plain $spec, $dtype, [#[ignore = "a minute for all codecs: .ci/run runs it"]]);
        $crate::codecs::laws::each_law!(@long $spec, $dtype, Short, [#[ignore = "a minute for all codecs: .ci/run runs it"]]);
    };
    (@plain $spec:expr, $dtype:ident, $ignored:tt) => {
        $crate::codecs::laws::each_law!(@tests $ignored, ($spec, zipwire_codec::DType::$dtype), [
            every_pattern_survives,
            tile_borders_survive,
            sizes_do_not_depend_on_options,
            foreign_frames_are_errors,
            unfit_buffers_are_errors,
            one_buffer_is_enough,
            headers_alone_allocate_nothing,
        ]);
    };
    (@long $spec:expr, $dtype:ident, $extent:ident, $ignored:tt) => {
        $crate::codecs::laws::each_law!(@tests $ignored, ($spec, zipwire_codec::DType::$dtype, $crate::codecs::laws::Extent::$extent), [
            every_length_survives,
            every_flip_is_an_error,
            random_flips_are_errors,
            every_cut_and_every_extra_byte_is_an_error,
            overwritten_frames_never_pass_or_panic,
        ]);
    };
    (@tests $ignored:tt, $arguments:tt, [$($law:ident,)*]) => {
        $($crate::codecs::laws::each_law!(@test $ignored, $arguments, $law);)*
    };
    (@test [$(#[$ignored:meta])?], $arguments:tt, $law:ident) => {
        #[test]
        $(#[$ignored])?
        fn $law() {
            $crate::codecs::laws::$law $arguments;
        }
    };
}
pub(crate) use each_law;

/// Frames of all kinds of values, in both layouts.
fn frames(spec: &str, dtype: DType, counts: &[usize]) -> impl Iterator<Item = (Content, Frame)> {
    let codec = codec(spec);
    counts.iter().flat_map(move |count| {
        let frames = Content::ALL.into_iter().flat_map(|content| {
            let values = content.values(dtype, *count, *count as u64);
            Layout::ALL.map(|layout| (content, Frame::new(&*codec, layout, dtype, &values)))
        });
        frames.collect::<Vec<_>>()
    })
}

pub(crate) fn every_pattern_survives(spec: &str, dtype: DType) {
    let [ascending, shuffled] = content::ascending_and_shuffled(dtype);
    for layout in Layout::ALL {
        Frame::new(&*codec(spec), layout, dtype, &ascending).assert_survives("ascending");
        Frame::new(&*codec(spec), layout, dtype, &shuffled).assert_survives("shuffled");
    }
}

pub(crate) fn every_length_survives(spec: &str, dtype: DType, extent: Extent) {
    let codec = codec(spec);
    for content in Content::ALL {
        let values = content.values(dtype, 2000, 2);
        // The short form has the first groups, and the lengths around those of all others.
        let is_played =
            |count: &usize| extent == Extent::Whole || *count <= 130 || matches!(*count % 64, 0 | 1 | 63);
        for count in (0..=2000).filter(is_played) {
            for layout in Layout::ALL {
                let frame = Frame::new(&*codec, layout, dtype, &values[..count * dtype.width()]);
                frame.assert_survives(&format!("{content:?}"));
            }
        }
    }
}

pub(crate) fn tile_borders_survive(spec: &str, dtype: DType) {
    for (content, frame) in frames(spec, dtype, &LARGE) {
        frame.assert_survives(&format!("{content:?}"));
    }
}

pub(crate) fn sizes_do_not_depend_on_options(spec: &str, dtype: DType) {
    // Nor on what is in front of the codec.
    let plain = spec.split('+').next_back().unwrap().split(':').next().unwrap();
    let (asked, plain) = (codec(spec), codec(plain));
    for layout in Layout::ALL {
        let mut last = 0;
        for count in (0..3000).chain(LARGE) {
            let shape = FrameShape::new(layout, dtype, count);
            let (bound, static_len) = (asked.bound(shape), asked.static_len(shape));
            assert_eq!((bound, static_len), (plain.bound(shape), plain.static_len(shape)));
            let least = asked.min_len(shape);
            assert!(static_len <= least && least <= bound, "{count} values");
            assert!(last <= bound, "{count} values may take less than fewer values");
            // A small header: the fixed part, and at most 1 % of the values.
            assert!(bound <= 256 + count * dtype.width() * 101 / 100, "{count} values");
            last = bound;
        }
    }
}

pub(crate) fn every_flip_is_an_error(spec: &str, dtype: DType, extent: Extent) {
    for (content, mut frame) in frames(spec, dtype, &SMALL) {
        for bit in (0..frame.bits()).step_by(extent.step(frame.count())) {
            frame.flip(bit);
            frame.assert_fails(format_args!("{content:?}: flip of bit {bit}"));
            frame.flip(bit);
        }
        frame.assert_survives("flipped back");
    }
}

pub(crate) fn random_flips_are_errors(spec: &str, dtype: DType, extent: Extent) {
    let codec = codec(spec);
    let mut rng = ChaCha8Rng::seed_from_u64(3);
    for case in 0..extent.of(200, 2000) {
        let content = Content::ALL[case % Content::ALL.len()];
        let layout = Layout::ALL[case / Content::ALL.len() % 2];
        let values = content.values(dtype, rng.random_range(0..20_000), case as u64);
        let mut frame = Frame::new(&*codec, layout, dtype, &values);
        let bit = rng.random_range(0..frame.bits());
        frame.flip(bit);
        frame.assert_fails(format_args!("{content:?}: flip of bit {bit} in case {case}"));
    }
}

pub(crate) fn every_cut_and_every_extra_byte_is_an_error(spec: &str, dtype: DType, extent: Extent) {
    for (content, mut frame) in frames(spec, dtype, &SMALL) {
        let step = extent.step(frame.count());
        let sections: [fn(&mut Frame) -> &mut Vec<u8>; 2] =
            [|frame| &mut frame.static_section, |frame| &mut frame.dynamic_section];
        for (name, section) in ["static", "dynamic"].into_iter().zip(sections) {
            let whole = section(&mut frame).clone();
            for len in (0..whole.len()).step_by(step) {
                *section(&mut frame) = whole[..len].to_vec();
                frame.assert_fails(format_args!("{content:?}: {name} section cut to {len}"));
            }
            for extra in [0, 1, 0xff] {
                *section(&mut frame) = [&whole[..], &[extra]].concat();
                frame.assert_fails(format_args!("{content:?}: extra byte in the {name} section"));
            }
            *section(&mut frame) = whole;
        }
    }
}

pub(crate) fn foreign_frames_are_errors(spec: &str, dtype: DType) {
    for (_, frame) in frames(spec, dtype, &[0, 1, 2, 64, 8192, 10_000]) {
        let decode = |layout, dtype, static_section: &[u8], dynamic_section: &[u8], len| {
            DECODER.decode(layout, dtype, static_section, dynamic_section, &mut vec![0; len])
        };
        let (layout, count) = (frame.layout, frame.count());
        let (static_section, dynamic_section) = (&frame.static_section[..], &frame.dynamic_section[..]);
        for other in DType::ALL.into_iter().filter(|other| *other != dtype) {
            let error =
                decode(layout, other, static_section, dynamic_section, count * other.width()).unwrap_err();
            assert_eq!(error, DecodeError::DType { expected: other, found: tag_of(dtype) });
        }
        for other in
            [count + 1, count + 8192, count.saturating_sub(1), count / 2].into_iter().filter(|n| *n != count)
        {
            let error =
                decode(layout, dtype, static_section, dynamic_section, other * dtype.width()).unwrap_err();
            assert_eq!(error, DecodeError::Count { expected: other, found: count as u64 });
        }
        if dtype.width() > 1 {
            let bytes = frame.values.len() + 1;
            let error = decode(layout, dtype, static_section, dynamic_section, bytes).unwrap_err();
            assert_eq!(error, DecodeError::PartialValue { bytes, dtype });
        }
        let other = Layout::ALL.into_iter().find(|other| *other != layout).unwrap();
        assert!(decode(other, dtype, static_section, dynamic_section, frame.values.len()).is_err());
        let error = decode(other, dtype, dynamic_section, static_section, frame.values.len());
        assert!(error.is_err(), "sections and layouts exchanged");
        assert!(decode(layout, dtype, dynamic_section, static_section, frame.values.len()).is_err());
    }
}

pub(crate) fn overwritten_frames_never_pass_or_panic(spec: &str, dtype: DType, extent: Extent) {
    let mut rng = ChaCha8Rng::seed_from_u64(4);
    for (content, mut frame) in frames(spec, dtype, &[3, 40, 600, 1023, 9000, 17_000]) {
        let (static_section, dynamic_section) = (frame.static_section.clone(), frame.dynamic_section.clone());
        let front = (frame.bits() / 8).min(160);
        for case in 0..extent.of(30, 200) {
            for _ in 0..rng.random_range(1..6) {
                // Mostly behind the first 32 bytes: the header's fields are compared before anything else.
                let position = if rng.random_range(0..8) == 0 { 0..front } else { 32.min(front - 1)..front };
                *frame.byte(rng.random_range(position)) =
                    [rng.random(), rng.random_range(0..9), 0xff][case % 3];
            }
            if let Ok(out) = frame.decode() {
                assert!(out == frame.values, "{content:?}: case {case} passes with other values");
            }
            frame.static_section.copy_from_slice(&static_section);
            frame.dynamic_section.copy_from_slice(&dynamic_section);
        }
    }
}

pub(crate) fn unfit_buffers_are_errors(spec: &str, dtype: DType) {
    let codec = codec(spec);
    for layout in Layout::ALL {
        let values = Content::Noise.values(dtype, 100, 5);
        let shape = FrameShape::new(layout, dtype, 100);
        let static_len = codec.static_len(shape);
        let dynamic_len = codec.bound(shape) - static_len;
        let encode = |dtype, values: &[u8], static_len: usize, dynamic_len: usize| {
            codec.encode(layout, dtype, values, &mut vec![0; static_len], &mut vec![0; dynamic_len])
        };
        for found in [Some(static_len + 1), static_len.checked_sub(1)].into_iter().flatten() {
            let error = EncodeError::StaticBuffer { needed: static_len, found };
            assert_eq!(encode(dtype, &values, found, dynamic_len), Err(error));
        }
        if let Some(found) = dynamic_len.checked_sub(1) {
            let error = EncodeError::DynamicBuffer { needed: dynamic_len, found };
            assert_eq!(encode(dtype, &values, static_len, found), Err(error));
        }
        assert_eq!(
            encode(dtype, &values, static_len, dynamic_len + 9),
            encode(dtype, &values, static_len, dynamic_len)
        );
        if dtype.width() > 1 {
            let error = EncodeError::PartialValue { bytes: values.len() - 1, dtype };
            assert_eq!(encode(dtype, &values[1..], static_len, dynamic_len), Err(error));
        }
        for other in DType::ALL.into_iter().filter(|other| !codec.supports(*other)) {
            let error = EncodeError::Unsupported { codec: codec.id(), dtype: other };
            assert_eq!(encode(other, &[], static_len, dynamic_len), Err(error));
        }
    }
}

pub(crate) fn one_buffer_is_enough(spec: &str, dtype: DType) {
    let codec = codec(spec);
    for layout in Layout::ALL {
        for count in [0, 1, 65, 8192, 10_001] {
            let values = Content::SomeZeros.values(dtype, count, 6);
            let buffer = codec.encode_to_vec(layout, dtype, &values).unwrap();
            let frame = Frame::new(&*codec, layout, dtype, &values);
            assert!(buffer == [frame.static_section, frame.dynamic_section].concat());
            assert!(DECODER.decompress(&buffer).unwrap() == values);
            for len in (0..buffer.len()).step_by(1 + count / 100) {
                assert!(DECODER.decompress(&buffer[..len]).is_err(), "cut to {len}");
            }
        }
    }
}

/// A header can name any number of values, but no memory is taken for more than a frame of its length can hold.
pub(crate) fn headers_alone_allocate_nothing(spec: &str, dtype: DType) {
    let codec = codec(spec);
    for layout in Layout::ALL {
        let mut frame = codec.encode_to_vec(layout, dtype, &[]).unwrap();
        let empty_len = u64::from_le_bytes(*frame[16..].first_chunk().unwrap());
        for count in [1 << 40, usize::MAX / 8, usize::MAX / 4, usize::MAX / 4 + 1, usize::MAX / 2, usize::MAX]
        {
            frame[8..16].copy_from_slice(&(count as u64).to_le_bytes());
            let shape = FrameShape::new(layout, dtype, count);
            let least = codec.min_len(shape);
            assert!(least > 1 << 20, "{least} bytes for {count} values");
            // The length of an empty frame, and one that a frame of so many values can have.
            let plausible = (least - codec.static_len(shape)) as u64;
            for dynamic_len in [empty_len, plausible] {
                frame[16..24].copy_from_slice(&dynamic_len.to_le_bytes());
                let is_refused = match DECODER.decompress(&frame).unwrap_err() {
                    // Without rows that repeat others, the frame is that of the codec behind, which may be longer at least.
                    DecodeError::Implausible { least: known, .. } => known >= least,
                    DecodeError::Truncated { needed, .. } => needed > 1 << 20,
                    error => matches!(error, DecodeError::TooLarge { .. }),
                };
                assert!(is_refused, "{count} values, {dynamic_len} bytes");
            }
        }
    }
}
