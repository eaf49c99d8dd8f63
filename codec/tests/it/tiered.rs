//! Frames of `tiered` for known values and recorded tensors: sizes, choices, and the names of its faults.

use crate::common;
use crate::common::Frame;
use crate::common::content::Content;
use zipwire_codec::{BlockFault, DType, DecodeError, FrameShape, Layout, Section};

const BLOCKS: usize = 4;
const COUNT: usize = BLOCKS * 32_768;

fn frame(layout: Layout, values: &[u8]) -> Frame {
    Frame::new(&*common::codec("tiered"), layout, DType::Bf16, values)
}

fn content(layout: Layout, content: Content) -> Frame {
    frame(layout, &content.values(DType::Bf16, COUNT, 9))
}

#[test]
fn sizes_of_known_values() {
    // 50 % are rest, 12.5 % the first tier; 2.65 bits per exponent are 16.6 % in all.
    for layout in Layout::ALL {
        let percent = content(layout, Content::Gaussian).percent();
        assert!((percent - 66.6).abs() < 0.1, "{layout}: {percent}");
    }
    // Noise is stored, and takes exactly what the bound says.
    let codec = common::codec("tiered");
    for layout in Layout::ALL {
        assert_eq!(
            content(layout, Content::Noise).len(),
            codec.bound(FrameShape::new(layout, DType::Bf16, COUNT))
        );
    }
    // A block of zeros has no body.
    assert_eq!(content(Layout::Compact, Content::Zeros).dynamic_section.len(), 32 + 12 * BLOCKS);
    // A nonzero value in 5000 keeps its group, with a mask: 32 bytes.
    let lone = content(Layout::Compact, Content::LoneValue).dynamic_section.len();
    assert!(lone < 32 + BLOCKS * (12 + 64 + 7 * 32 + 16 + 8), "{lone}");
    // 24 % zeros: mask and three quarters of what is coded otherwise.
    let masked = content(Layout::Compact, Content::SomeZeros).percent();
    assert!((masked - (6.25 + 0.76 * 66.6)).abs() < 0.3, "{masked}");
    // In the split layout each of these zeros takes 16 bits and its rest.
    let coded = content(Layout::Split, Content::SomeZeros).percent();
    assert!((coded - (0.76 * 66.6 + 0.24 * 150.0)).abs() < 0.5, "{coded}");
}

#[test]
fn groups_of_another_scale_cost_a_nibble() {
    let gaussian = Content::Gaussian.values(DType::Bf16, COUNT, 9);
    // Exponents of every other group of 256 lower by 8: as many bits, and a nibble per 256 values.
    let mut scaled = gaussian.clone();
    for group in scaled.chunks_mut(512).step_by(2) {
        for value in group.as_chunks_mut::<2>().0 {
            *value = (u16::from_le_bytes(*value) - (8 << 7)).to_le_bytes();
        }
    }
    for layout in Layout::ALL {
        let difference = frame(layout, &scaled).percent() - frame(layout, &gaussian).percent();
        assert!((0.05..0.3).contains(&difference), "{layout}: {difference}");
    }
}

#[test]
fn columns_of_another_scale_cost_a_nibble_of_a_vector() {
    let (row, count) = (500, 500 * 256);
    let gaussian = Content::Gaussian.values(DType::Bf16, count, 9);
    // Exponents of column c lower by c modulo 13.
    let mut scaled = gaussian.clone();
    for (i, value) in scaled.as_chunks_mut::<2>().0.iter_mut().enumerate() {
        *value = (u16::from_le_bytes(*value) - ((i % row % 13) << 7) as u16).to_le_bytes();
    }
    let codec = common::codec("tiered:row=500");
    for layout in Layout::ALL {
        let len = |values: &[u8]| Frame::new(&*codec, layout, DType::Bf16, values).len();
        // The offsets are the differences; their rounding may move the base, and so the order, by a little.
        let difference = len(&scaled).abs_diff(len(&gaussian) + 8 + 256);
        assert!(difference < 300, "{layout}: {difference}");
        // Columns that do not differ have no offsets, wherever a row is said to end.
        let plain = frame(layout, &gaussian);
        let told = Frame::new(&*codec, layout, DType::Bf16, &gaussian);
        assert!((plain.static_section, plain.dynamic_section) == (told.static_section, told.dynamic_section));
        // A row that is not whole in front changes nothing.
        let difference = len(&scaled[2 * 123..]).abs_diff(len(&scaled) - 123 * 133 / 100);
        assert!(difference < 300, "{layout}: {difference}");
        // Another length of rows does not help: the columns of that one are all alike.
        let other = Frame::new(&*common::codec("tiered:row=499"), layout, DType::Bf16, &scaled);
        assert!(other.len() > len(&scaled) + 5000);
    }
}

/// File, size in percent in the split layout and in the compact one.
const SAMPLES: [(&str, f64, f64); 5] = [
    ("pre_minilm", 66.73, 66.57),
    ("train_late_a2a_backward", 66.75, 66.63),
    ("train_late_a2a_forward", 66.51, 66.45),
    ("train_late_grads", 66.18, 47.32),
    ("train_late_weights", 67.00, 66.70),
];

#[test]
fn sizes_of_recorded_tensors() {
    common::assert_sizes_of_samples("tiered", &SAMPLES);
}

#[test]
fn faults_have_names() {
    let split = |damage: fn(&mut Frame)| content(Layout::Split, Content::Gaussian).damaged(damage);
    let compact = |kind, damage: fn(&mut Frame)| content(Layout::Compact, kind).damaged(damage);
    let block = |block, fault| DecodeError::Block { block, fault };
    // The second entry of the block table.
    const SECOND: usize = 32 + 12;
    let error = split(|f| f.static_section[SECOND] = 2);
    assert_eq!(error, block(1, BlockFault::Form(2)));
    assert_eq!(error.to_string(), "block `1`: form `0x02` is not possible here");
    assert_eq!(split(|f| f.static_section[SECOND + 1] = 255), block(1, BlockFault::Base(255)));
    assert_eq!(
        compact(Content::Zeros, |f| f.dynamic_section[SECOND + 1] = 1),
        block(1, BlockFault::UnusedField)
    );
    assert_eq!(
        split(|f| f.static_section[SECOND + 2] = 1),
        block(1, BlockFault::Coded { expected: 32_769, found: 32_768 })
    );
    // The first eight values are passed on, whatever they were.
    let passed = |f: &mut Frame| (f.static_section[128], f.static_section[136]) = (0xff, 0xff);
    let error = split(passed);
    assert!(
        matches!(error, DecodeError::Block { block: 0, fault: BlockFault::Passed { tier: 1, .. } }),
        "{error}"
    );
    let error = split(|f| f.static_section[SECOND + 5] ^= 0x80);
    assert!(
        matches!(
            error,
            DecodeError::Block { block: 1, fault: BlockFault::Passed { tier: 1, found: 32_768, .. } }
        ),
        "{error}"
    );
    // The table ends at 32 + 12 * 4 = 80, the front matter at 128; the body of a block has 40 960 bytes there.
    assert_eq!(split(|f| f.static_section[80] = 1), DecodeError::Padding);
    let error = split(|f| f.static_section[128 + 8192] ^= 1);
    assert!(matches!(error, DecodeError::Checksum { .. }), "{error}");
    let error = split(|f| f.dynamic_section.truncate(9));
    assert!(matches!(error, DecodeError::Length { section: Section::Dynamic, found: 9, .. }), "{error}");
    // The last block claims a body that is longer than the section.
    assert_eq!(
        compact(Content::Equal, |f| f.dynamic_section[32 + 36] = 1),
        block(3, BlockFault::UnusedField)
    );
    assert_eq!(compact(Content::Zeros, |f| f.dynamic_section[32 + 36] = 1), block(3, BlockFault::Overrun));
    // The offsets of columns are behind the block table; the first entry says that there are some.
    let codec = common::codec("tiered:row=8");
    let columns = |damage: fn(&mut Frame)| {
        let values = Content::Columns.values(DType::Bf16, COUNT, 9);
        Frame::new(&*codec, Layout::Compact, DType::Bf16, &values).damaged(damage)
    };
    let error = columns(|f| f.dynamic_section[80] = 1);
    assert_eq!(error, DecodeError::Columns { row: 1, form: 0, count: COUNT });
    let message =
        "form `0` of offsets for columns of rows of `1` is not possible with `131072` values".to_owned();
    assert_eq!(error.to_string(), message);
    assert_eq!(columns(|f| f.dynamic_section[87] = 1), DecodeError::Padding);
    let error = columns(|f| f.dynamic_section[85] ^= 1);
    assert!(matches!(error, DecodeError::Checksum { .. }), "{error}");
    // The first part of a masked body is the mask.
    let error = compact(Content::SomeZeros, |f| f.dynamic_section[80] ^= 1);
    assert!(matches!(error, DecodeError::Block { block: 0, fault: BlockFault::Coded { .. } }), "{error}");
}

#[test]
fn what_fills_up_a_part_must_be_zero() {
    // 33 values: bits 33 to 63 of either word, and the rest has 40 bytes.
    let values = Content::Equal.values(DType::Bf16, 33, 0);
    for layout in Layout::ALL {
        let clean = frame(layout, &values);
        clean.assert_survives("clean");
        let planes = if layout == Layout::Split { 128 } else { 48 };
        for position in [planes + 4, planes + 7, planes + 12, planes + 16 + 33, planes + 16 + 39] {
            let mut frame = frame(layout, &values);
            *frame.byte(position) ^= 0x80;
            assert_eq!(
                frame.decode(),
                Err(DecodeError::Block { block: 0, fault: BlockFault::Padding }),
                "{layout} {position}"
            );
        }
    }
}

#[test]
fn escapes_have_no_more_bits_than_the_type() {
    let codec = common::codec("tiered");
    for dtype in [DType::F16, DType::F8E5M2] {
        // 1.5 is 6 octaves above the others: an escape. Escapes are the last bytes of the frame.
        let values = [(Content::Gaussian, 1000), (Content::Equal, 8)];
        let values = values.map(|(content, count)| content.values(dtype, count, 3)).concat();
        let mut frame = Frame::new(&*codec, Layout::Compact, dtype, &values);
        let len = frame.dynamic_section.len();
        *frame.byte(len - 8) ^= 0x40;
        let exponent = DecodeError::Block { block: 0, fault: BlockFault::Exponent };
        assert_eq!(frame.decode(), Err(exponent), "{dtype}");
    }
}
