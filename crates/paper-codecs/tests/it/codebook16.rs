//! Frames of `codebook16` for known values and recorded tensors: sizes, books that are given, drift, and the names of its
//! faults.

use crate::common::Frame;
use crate::common::content::Content;
use crate::{common, in_tile};
use zipwire_codec::{DType, DecodeError, EncodeError, FrameShape, Layout};
use zipwire_paper_codecs::{BookUsage, Codebook};

const TILES: usize = 16;
const COUNT: usize = TILES * 8192;

fn frame(layout: Layout, dtype: DType, content: Content) -> Frame {
    Frame::new(&*common::codec("codebook16"), layout, dtype, &content.values(dtype, COUNT, 9))
}

fn usage(frame: &Frame) -> BookUsage {
    let Frame { layout, dtype, static_section, dynamic_section, .. } = frame;
    BookUsage::of_frame(FrameShape::new(*layout, *dtype, frame.count()), static_section, dynamic_section)
        .unwrap()
}

#[test]
fn sizes_of_known_values() {
    for layout in Layout::ALL {
        // Codes and rests take 12 of 16 bits, and 7 of 8; tables and a few escapes the rest.
        let bf16 = frame(layout, DType::Bf16, Content::Gaussian).percent();
        assert!((75.03..75.12).contains(&bf16), "{layout}: {bf16}");
        let e5m2 = frame(layout, DType::F8E5M2, Content::Gaussian).percent();
        assert!((87.55..87.72).contains(&e5m2), "{layout}: {e5m2}");
        // Sixteen codes for sixteen exponents save nothing, and cost what noise costs: the bound.
        for (dtype, content) in [(DType::F8E4M3, Content::Equal), (DType::Bf16, Content::Noise)] {
            let bound = common::codec("codebook16").bound(FrameShape::new(layout, dtype, COUNT));
            assert_eq!(frame(layout, dtype, content).len(), bound);
        }
    }
    // An all-zero tile has no body.
    let zeros = frame(Layout::Compact, DType::Bf16, Content::Zeros);
    assert_eq!(zeros.len(), 48 + 6 * TILES);
    // 24 % zeros: a mask, and three quarters of what is coded otherwise.
    let masked = frame(Layout::Compact, DType::Bf16, Content::SomeZeros).percent();
    assert!((masked - (6.25 + 0.76 * 75.08)).abs() < 0.3, "{masked}");
    // In the split layout exponent 0 is in the book like any other.
    let split = frame(Layout::Split, DType::Bf16, Content::SomeZeros).percent();
    assert!((split - 75.1).abs() < 0.1, "{split}");
}

/// File, percent in `split` and in `compact`; tensors of at least 8 KiB, a frame each.
const SAMPLES: [(&str, f64, f64); 5] = [
    ("pre_minilm", 75.27, 75.15),
    ("train_late_a2a_backward", 75.35, 75.26),
    ("train_late_a2a_forward", 75.11, 75.09),
    ("train_late_grads", 75.97, 55.81),
    ("train_late_weights", 75.48, 75.22),
];

#[test]
fn sizes_of_recorded_tensors() {
    common::assert_sizes_of_samples("codebook16", &SAMPLES);
}

#[test]
fn a_book_that_is_given_is_used_for_all_frames_and_travels_in_them() {
    common::codec("codebook16");
    let sample = Content::Gaussian.values(DType::Bf16, 50_000, 1);
    let book = Codebook::calibrate(DType::Bf16, [&sample[..]]).unwrap();
    assert_eq!(Codebook::from_exponents(book.dtype(), *book.exponents()), Ok(book));
    let codec = book.codec();
    for content in Content::ALL {
        for layout in Layout::ALL {
            let values = content.values(DType::Bf16, 20_001, 2);
            let frame = Frame::new(&*codec, layout, DType::Bf16, &values);
            frame.assert_survives(&format!("{content:?}"));
            assert_eq!(usage(&frame).book, book);
        }
    }
    let values = Content::Gaussian.values(DType::F8E5M2, 100, 2);
    let error = EncodeError::Unsupported { codec: "codebook16", dtype: DType::F8E5M2 };
    let mut out = [0; 1000];
    assert_eq!(codec.encode(Layout::Compact, DType::F8E5M2, &values, &mut [], &mut out), Err(error));
}

#[test]
fn a_stale_book_is_seen_in_the_frames() {
    common::codec("codebook16");
    let sample = Content::Gaussian.values(DType::Bf16, COUNT, 1);
    let codec = Codebook::calibrate(DType::Bf16, [&sample[..]]).unwrap().codec();
    // Each step is a factor of two: the values leave the book at its upper end, bit by bit.
    let scaled = |octaves: u16| -> Vec<u8> {
        let scale = |value: &[u8; 2]| u16::from_le_bytes(*value).wrapping_add(octaves << 7).to_le_bytes();
        sample.as_chunks().0.iter().flat_map(scale).collect()
    };
    for layout in Layout::ALL {
        let missed = [0, 1, 2, 4, 40].map(|octaves| {
            let frame = Frame::new(&*codec, layout, DType::Bf16, &scaled(octaves));
            frame.assert_survives("scaled");
            let usage = usage(&frame);
            assert_eq!(usage.coded + usage.stored, COUNT);
            usage.missed()
        });
        assert!(missed.is_sorted(), "{missed:?}");
        assert!(missed[0] < 1e-3 && missed[2] > 0.01 && missed[4] == 1.0, "{missed:?}");
    }
    let zeros = frame(Layout::Compact, DType::Bf16, Content::Zeros);
    assert_eq!((usage(&zeros).missed(), usage(&zeros).coded), (0.0, 0));
}

#[test]
fn usage_is_of_frames_of_this_codec_only() {
    let values = Content::Gaussian.values(DType::Bf16, 100, 1);
    let other = Frame::new(&*common::codec("window7"), Layout::Compact, DType::Bf16, &values);
    let error =
        BookUsage::of_frame(FrameShape::new(Layout::Compact, DType::Bf16, 100), &[], &other.dynamic_section);
    assert_eq!(
        error.unwrap_err().to_string(),
        "expected a frame of codec `codebook16`, found one of `window7`"
    );
}

#[test]
fn faults_have_names() {
    let damaged = |layout, dtype, content, position: usize, byte: u8| {
        frame(layout, dtype, content).damaged(|frame| *frame.byte(position) = byte)
    };
    let (split, compact, bf16) = (Layout::Split, Layout::Compact, DType::Bf16);
    let gaussian = Content::Gaussian;
    let tile = |tile, defect| in_tile("codebook16", tile, defect);
    // Book at 32, tile table at 48, static bodies at 256.
    let error = damaged(split, bf16, gaussian, 33, 255);
    assert!(error.to_string().contains("is no code book for `BF16`"), "{error}");
    assert_eq!(damaged(split, bf16, gaussian, 48 + 6, 2), tile(1, "mode `2` is not possible here"));
    assert_eq!(
        damaged(split, bf16, gaussian, 48 + 7, 2),
        tile(1, "form `2` of escapes is not possible here")
    );
    assert_eq!(
        damaged(compact, bf16, Content::Zeros, 48 + 10, 1),
        tile(1, "a field that the mode does not use is not zero")
    );
    assert_eq!(damaged(split, bf16, gaussian, 48 + 6 * TILES, 1), DecodeError::Padding);
    let error = damaged(split, bf16, gaussian, 256 + 8192, 0x77);
    assert!(matches!(error, DecodeError::Checksum { .. }), "{error}");

    // Five values of which the fourth is an escape, to a book that is given.
    let book = Codebook::from_exponents(DType::F8E5M2, std::array::from_fn(|i| 8 + i as u8)).unwrap();
    let values: Vec<u8> = (0..65).map(|i| if i == 3 { 1 } else { 0x30 }).collect();
    let clean = Frame::new(&*book.codec(), compact, DType::F8E5M2, &values);
    assert_eq!(clean.len(), 48 + 6 + 65, "too few to be coded");
    let values: Vec<u8> = (0..511).map(|i| if i == 3 { 1 } else { 0x30 }).collect();
    let fault = |position: usize, byte: u8| {
        let frame = Frame::new(&*book.codec(), compact, DType::F8E5M2, &values);
        frame.assert_survives("clean");
        frame.damaged(|frame| *frame.byte(54 + position) = byte)
    };
    // Rests are 8 x 24 bytes, codes 256, the escape 3.
    let (codes, escape) = (192, 192 + 256);
    assert_eq!(fault(codes + 1, 0x14), tile(0, "the code of the escape at position `3` is not zero"));
    assert_eq!(fault(codes + 255, 0x14), tile(0, "a code or mask bit beyond the last value is not zero"));
    assert_eq!(fault(191, 0x80), tile(0, "a code or mask bit beyond the last value is not zero"));
    assert_eq!(
        fault(escape + 1, 2),
        tile(0, "an escape at position `515` is out of order or beyond the last value")
    );
    assert_eq!(
        fault(escape + 2, 32),
        tile(0, "an escape has exponent `32`, which has more bits than the type")
    );
}
