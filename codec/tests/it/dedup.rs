//! `dedup+X` beyond the laws: what a frame is made of, by a decoder written a second time from `docs/format.md`; when rows
//! are left out; and an index that comes from routing.

use crate::common;
use crate::common::Frame;
use crate::common::content::Content;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use zipwire_codec::{
    Codec, DType, DecodeError, Dedup, EncodeError, FrameShape, Layout, RowFault, RowIndex, decompress,
};

const HEADER: usize = 32;

/// `rows` rows of `row` values of which `kinds` are different, and `left` values behind them.
fn copies(dtype: DType, row: usize, rows: usize, kinds: usize, left: usize) -> (Vec<u64>, Vec<u8>) {
    let unique = Content::Gaussian.values(dtype, row * kinds, 1);
    let mut rng = ChaCha8Rng::seed_from_u64(rows as u64);
    let tokens: Vec<u64> = (0..rows).map(|_| rng.random_range(0..kinds as u64)).collect();
    let row_bytes = row * dtype.width();
    let mut values: Vec<u8> = tokens
        .iter()
        .flat_map(|token| &unique[*token as usize * row_bytes..][..row_bytes])
        .copied()
        .collect();
    values.extend(Content::Noise.values(dtype, left, 2));
    (tokens, values)
}

/// By the words of the format, bit by bit.
fn reference_decode(dtype: DType, count: usize, frame: &[u8]) -> Vec<u8> {
    let word = |at: usize| u32::from_le_bytes(frame[at..at + 4].try_into().unwrap()) as usize;
    assert_eq!(frame[..8], [b'Z', b'P', b'W', b'R', 1, 4, common::tag_of(dtype), 1]);
    let (row, unique) = (word(HEADER), word(HEADER + 4));
    let rows = count / row;
    let bit = |from: usize, index: usize| usize::from(frame[from + index / 8] >> (index % 8) & 1);
    let mask = HEADER + 8;
    let numbers = mask + rows.div_ceil(8);
    let width = (0..).find(|bits| 1_usize << bits >= unique).unwrap();
    let repeated: usize = (0..rows).map(|index| bit(mask, index)).sum();
    let inner = (numbers + (repeated * width).div_ceil(8)).next_multiple_of(8);
    let kept = decompress(&frame[inner..]).unwrap();
    let (mut known, mut position, mut out) = (0, 0, Vec::new());
    for index in 0..rows {
        let source = if bit(mask, index) == 0 {
            known += 1;
            known - 1
        } else {
            position += width;
            (0..width).map(|place| bit(numbers, position - width + place) << place).sum()
        };
        out.extend(&kept[source * row * dtype.width()..][..row * dtype.width()]);
    }
    out.extend(&kept[unique * row * dtype.width()..]);
    out
}

fn dedup(row: usize, codec: &str) -> Box<dyn Codec> {
    common::codec(&format!("dedup:row={row}+{codec}"))
}

#[test]
fn frames_are_what_the_format_says() {
    for (dtype, row, rows, kinds, left) in [
        (DType::Bf16, 64, 300, 5, 0),
        (DType::Bf16, 256, 40, 1, 255),
        (DType::Bf16, 33, 1000, 300, 7),
        (DType::F32, 1, 2000, 17, 0),
        (DType::F8E4M3, 129, 77, 64, 128),
    ] {
        let (_, values) = copies(dtype, row, rows, kinds, left);
        let frame = Frame::new(&*dedup(row, "tiered"), Layout::Compact, dtype, &values);
        frame.assert_survives("copies");
        assert!(reference_decode(dtype, values.len() / dtype.width(), &frame.dynamic_section) == values);
        let plain = common::codec("tiered").encode_to_vec(Layout::Compact, dtype, &values).unwrap();
        assert!(frame.dynamic_section.len() < plain.len(), "{dtype} {row} {rows} {kinds}");
    }
}

#[test]
fn frames_without_copies_are_those_of_the_codec() {
    let (_, copied) = copies(DType::Bf16, 64, 100, 3, 5);
    let different = Content::Noise.values(DType::Bf16, 6405, 3);
    for (layout, row, values) in [
        (Layout::Compact, 64, &different),
        (Layout::Compact, 0, &copied),
        (Layout::Compact, 6405, &copied),
        (Layout::Compact, 4_000_000_000, &copied),
        (Layout::Split, 64, &copied),
    ] {
        let codec = Dedup::new(common::codec("window7"), row);
        let frame = codec.encode_to_vec(layout, DType::Bf16, values).unwrap();
        let plain = common::codec("window7").encode_to_vec(layout, DType::Bf16, values).unwrap();
        assert!(frame == plain, "{layout} {row}");
    }
}

#[test]
fn a_single_copy_that_does_not_pay_for_its_header_is_coded() {
    // One repeated row of 4 bytes in 64: the header alone has 32.
    let values: Vec<u8> =
        (0..64u16).map(|i| if i == 63 { 5 } else { i }).flat_map(u16::to_le_bytes).collect();
    let frame = dedup(2, "raw").encode_to_vec(Layout::Compact, DType::Bf16, &values).unwrap();
    assert_eq!(frame.len(), 32 + values.len());
}

#[test]
fn an_index_from_routing_gives_the_frame_of_a_search() {
    let (tokens, values) = copies(DType::Bf16, 128, 500, 300, 9);
    let codec = Dedup::new(common::codec("tiered"), 128);
    let searched = codec.encode_to_vec(Layout::Compact, DType::Bf16, &values).unwrap();
    let index = RowIndex::from_keys(&tokens).unwrap();
    let mut routed = vec![0xa5; codec.bound(FrameShape::new(Layout::Compact, DType::Bf16, values.len() / 2))];
    let len = codec.encode_indexed(DType::Bf16, &values, &index, &mut routed).unwrap();
    assert!(routed[..len] == searched);

    let error = EncodeError::Rows { expected: 500, found: 499 };
    let index = RowIndex::from_keys(&tokens[1..]).unwrap();
    assert_eq!(codec.encode_indexed(DType::Bf16, &values, &index, &mut routed), Err(error));
}

#[test]
#[cfg(debug_assertions)]
#[should_panic(expected = "rows that the index calls equal differ")]
fn an_index_that_does_not_hold_is_a_programmer_error() {
    let (mut tokens, values) = copies(DType::Bf16, 128, 500, 300, 9);
    tokens[499] = (0..).find(|token| *token != tokens[499] && tokens.contains(token)).unwrap();
    let codec = Dedup::new(common::codec("tiered"), 128);
    let mut out = vec![0; codec.bound(FrameShape::new(Layout::Compact, DType::Bf16, values.len() / 2))];
    let _ = codec.encode_indexed(DType::Bf16, &values, &RowIndex::from_keys(&tokens).unwrap(), &mut out);
}

#[test]
fn errors_name_what_is_wrong_and_where() {
    let (_, values) = copies(DType::Bf16, 64, 100, 20, 0);
    let good = dedup(64, "tiered").encode_to_vec(Layout::Compact, DType::Bf16, &values).unwrap();
    let inner = (HEADER + 8 + 13 + (81 * 5_usize).div_ceil(8)).next_multiple_of(8);
    assert_eq!(good[inner..inner + 6], [b'Z', b'P', b'W', b'R', 1, 2]);
    let with = |at: usize, byte: u8| {
        let mut frame = good.clone();
        frame[at] = byte;
        decompress(&frame).unwrap_err()
    };
    assert_eq!(with(inner + 5, 250).to_string(), "in the frame of the unique rows: no codec has tag `250`");
    assert_eq!(with(inner + 5, 4), DecodeError::Rows { fault: RowFault::Nested });
    assert_eq!(
        with(HEADER, 63).to_string(),
        "repeated rows: the mask leaves out `81` rows where `82` repeat another"
    );
    assert!(matches!(
        with(HEADER + 8 + 13, !good[HEADER + 8 + 13]),
        DecodeError::Rows { .. } | DecodeError::Checksum { .. }
    ));
    // What is called a frame with rows left out in the layout that has none.
    let mut split = common::codec("raw").encode_to_vec(Layout::Split, DType::Bf16, &values).unwrap();
    split[5] = 4;
    let error = decompress(&split).unwrap_err();
    assert_eq!(error, DecodeError::Rows { fault: RowFault::Layout });
}

/// A header can name any number of values, and equal rows take next to nothing: a frame has to be as long as the mask of
/// the longest rows before memory is taken for it. This one aborted.
#[test]
fn front_matter_alone_allocates_nothing() {
    let (_, values) = copies(DType::Bf16, 64, 300, 5, 9);
    let mut frame = dedup(64, "tiered").encode_to_vec(Layout::Compact, DType::Bf16, &values).unwrap();
    for count in [1 << 40, 1 << 60, isize::MAX as usize / 2, isize::MAX as usize, usize::MAX] {
        frame[8..16].copy_from_slice(&(count as u64).to_le_bytes());
        // The mask is as long as before, and so are the numbers.
        let row = u32::try_from(count / 300).unwrap_or(u32::MAX);
        for row in [64, 1 << 16, row] {
            frame[HEADER..HEADER + 4].copy_from_slice(&row.to_le_bytes());
            let error = decompress(&frame).unwrap_err();
            let refused = matches!(
                error,
                DecodeError::Implausible { .. }
                    | DecodeError::TooLarge { .. }
                    | DecodeError::Truncated { .. }
            );
            assert!(refused, "{count} values, rows of {row}: {error}");
        }
    }
}
