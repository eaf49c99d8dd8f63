//! Compact frames of `window7` of F32 values, whose lower halves are left out where all of a tile are zero.

use zipwire_codec::{DType, Spec};
use zipwire_kernels::Fault;

use crate::bench::Bench;
use crate::content::Content;
use crate::corrupt::agree;

/// Bytes in front of the tile table, and of an entry.
const TABLE_AT: usize = 32;
const ENTRY_LEN: usize = 6;
/// Modes, and the bit that is set beside one if lower halves are left out.
const STORED: u8 = 1;
const ZERO: u8 = 2;
const MASKED: u8 = 3;
const SHORT: u8 = 0x80;
/// In place of a start: each 512 values have a window of their own.
const OWN_WINDOWS: u8 = 255;

const TILE: usize = 8192;

/// F32 values whose lower halves are zero.
fn widened(content: Content, count: usize, seed: u64) -> Vec<u8> {
    let values = content.values(DType::Bf16, count, seed);
    values.as_chunks::<2>().0.iter().flat_map(|[low, high]| [0, 0, *low, *high]).collect()
}

/// Coded and masked tiles, full ones and others, with and without lower halves, in frames that have both.
pub(crate) fn lower_halves() {
    let (bench, codec) = (Bench::new("window7", DType::F32), "window7".parse::<Spec>().unwrap().codec());
    let mut tags = [0; 256];
    let mut own_windows = 0;
    for (content, number) in [Content::Gaussian, Content::Rows, Content::SomeZeros].into_iter().zip(0..) {
        let of = |is_short: bool, count: usize, seed: u64| {
            if is_short { widened(content, count, seed) } else { content.values(DType::F32, count, seed) }
        };
        let frames = [5001, TILE, 2 * TILE + 33].map(|count| of(true, count, count as u64 + number));
        let mixed = |number: u64| {
            let tiles = [true, false, true].into_iter().zip(number..);
            tiles
                .flat_map(|(is_short, seed)| of(is_short, TILE, seed))
                .chain(of(number == 1, 12, 9))
                .collect()
        };
        let all_values: Vec<Vec<u8>> = frames.into_iter().chain([mixed(1), mixed(2)]).collect();
        bench.check_compact(&*codec, &all_values, &format!("{content:?}"));
        for values in &all_values {
            let frame = bench.compact_on_cpu(values);
            for tile in 0..(values.len() / 4).div_ceil(TILE) {
                let at = TABLE_AT + ENTRY_LEN * tile;
                own_windows += usize::from(frame[at] == OWN_WINDOWS && frame[at + 1] & SHORT != 0);
                tags[usize::from(frame[at + 1])] += 1;
            }
        }
    }
    assert!([0, MASKED, SHORT, MASKED | SHORT].iter().all(|tag| tags[usize::from(*tag)] > 0), "{tags:?}");
    assert!(own_windows > 0, "tiles without lower halves have windows of their own, too");
}

/// Entries that say otherwise than the bodies what is left out, or where nothing is coded.
pub(crate) fn entries() {
    let bench = Bench::new("window7", DType::F32);
    let tiles = [
        widened(Content::Gaussian, TILE, 1),
        Content::Gaussian.values(DType::F32, TILE, 2),
        Content::Noise.values(DType::F32, TILE, 3),
        vec![0; 4 * TILE],
        widened(Content::SomeZeros, TILE, 4),
        Content::SomeZeros.values(DType::F32, 7000, 5),
    ];
    let values = tiles.concat();
    let whole = bench.compact_on_cpu(&values);
    let tag_at = |tile: usize| TABLE_AT + ENTRY_LEN * tile + 1;
    let found: Vec<u8> = (0..tiles.len()).map(|tile| whole[tag_at(tile)]).collect();
    assert_eq!(found, [SHORT, 0, STORED, ZERO, MASKED | SHORT, MASKED]);
    assert_eq!(bench.decode_compact(&[(whole.clone(), values.len())]), [Ok(values.clone())]);
    let changed = |tile: usize, bits: u8| {
        let mut frame = whole.clone();
        frame[tag_at(tile)] ^= bits;
        (frame, values.len())
    };
    let no_entries = [changed(2, SHORT), changed(3, SHORT), changed(0, 4), changed(4, 0x40)];
    for ((frame, len), found) in no_entries.iter().zip(bench.decode_compact(&no_entries)) {
        assert!(bench.compact_decoded_on_cpu(frame, *len).is_none(), "the CPU refuses it");
        assert_eq!(found, Err(Fault::Tile));
    }
    // Other lengths than there are; and two that cancel out.
    let mut both = changed(0, SHORT);
    both.0[tag_at(1)] ^= SHORT;
    let others = [changed(0, SHORT), changed(1, SHORT), changed(4, SHORT), changed(5, SHORT), both];
    for ((number, (frame, len)), found) in others.iter().enumerate().zip(bench.decode_compact(&others)) {
        agree(number, bench.compact_decoded_on_cpu(frame, *len), found);
    }
}
