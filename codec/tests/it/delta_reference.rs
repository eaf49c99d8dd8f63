//! Frames of `delta+X`, read a second time from `docs/format.md`, value by value and bit by bit; and their hashes.

use crate::common;
use crate::common::content::{Content, fields};
use crate::common::frequencies::Table;
use crate::common::reader::{Reader, number, tiers};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use xxhash_rust::xxh3::xxh3_64;
use zipwire_codec::{Base, Codec, DType, Delta, DeltaCoding, Layout, decompress, force_simd};

const BLOCK: usize = 32_768;

fn rans(body: &mut Reader<'_>, table: &[u8], numbers: [usize; 3]) -> Vec<u8> {
    let (residuals, _, states) = Table::read(&mut Reader(table)).decode(numbers, body);
    assert!(states.iter().all(|state| *state == 1 << 15));
    residuals.into_iter().map(|residual| residual as u8).collect()
}

/// Also returns the tags of the forms.
fn reference(dtype: DType, base: &[u8], frame: &[u8]) -> (Vec<u8>, Vec<u8>) {
    let width = dtype.width();
    let count = base.len() / width;
    let mut bytes = Reader(frame);
    assert_eq!(bytes.take(8)[..6], *b"ZPWR\x01\x06");
    bytes.take(24);
    assert_eq!(number(bytes.take(8)), Base::new(dtype, base.to_vec()).id());
    let entries: Vec<&[u8]> = (0..count.div_ceil(BLOCK)).map(|_| bytes.take(24)).collect();
    let has_table = entries.iter().any(|entry| entry[0] & 16 != 0);
    let table = if has_table { bytes.take(56) } else { &[] };
    let mut blocks: Vec<Option<Vec<u8>>> = Vec::new();
    for (entry, base) in entries.iter().zip(base.chunks(BLOCK * width)) {
        blocks.push(match entry[0] & 7 {
            0 => Some(base.to_vec()),
            1 => None,
            _ => Some(block(dtype, entry, table, base, &mut bytes)),
        });
    }
    let direct: usize = blocks
        .iter()
        .zip(base.chunks(BLOCK * width))
        .filter(|(b, _)| b.is_none())
        .map(|(_, base)| base.len())
        .sum();
    let inner = if direct == 0 {
        assert!(bytes.0.is_empty());
        Vec::new()
    } else {
        decompress(bytes.0).unwrap()
    };
    let mut inner = Reader(&inner);
    let mut values = Vec::new();
    for (block, base) in blocks.into_iter().zip(base.chunks(BLOCK * width)) {
        values.extend(block.unwrap_or_else(|| inner.take(base.len()).to_vec()));
    }
    (values, entries.iter().map(|entry| entry[0]).collect())
}

fn block(dtype: DType, entry: &[u8], table: &[u8], base: &[u8], bytes: &mut Reader<'_>) -> Vec<u8> {
    let (width, (exponents, mantissa)) = (dtype.width(), fields(dtype));
    let bits = 8 * width as u32;
    let all = u64::MAX >> (64 - bits);
    let bases: Vec<u64> = base.chunks(width).map(number).collect();
    let short = |at: usize| number(&entry[at..at + 2]) as usize;
    let (form, xor, reference, coded) = (entry[0] & 7, entry[0] & 8 != 0, u64::from(entry[1]), short(2));
    let marked: Vec<usize> = match form {
        2 => (0..bases.len()).collect(),
        3 => {
            let mask = bytes.part(bases.len().div_ceil(8));
            (0..bases.len()).filter(|i| mask[i / 8] >> (i % 8) & 1 == 1).collect()
        }
        _ => {
            let numbers = bytes.part(bases.len().div_ceil(256));
            let mut positions = bytes.part(coded).iter();
            let group = |(group, number): (usize, &u8)| {
                positions
                    .by_ref()
                    .take(usize::from(*number))
                    .map(|at| 256 * group + usize::from(*at))
                    .collect()
            };
            numbers.iter().enumerate().map(group).collect::<Vec<Vec<usize>>>().concat()
        }
    };
    assert_eq!(marked.len(), coded);
    let symbols = if entry[0] & 16 != 0 {
        rans(bytes, table, [coded, short(4), short(6)])
    } else {
        let counts = [coded, short(4), short(6), short(8), short(10)];
        let planes = [0, 1, 2, 3].map(|tier| bytes.take(16 * counts[tier].div_ceil(64)));
        let escaped = |byte: u8| byte.wrapping_add(9);
        tiers(&counts, &planes, bytes.part(counts[4]), |tier, code| (3 * tier + code) as u8, escaped)
    };
    let mut whole = Reader(bytes.part(number(&entry[16..20]) as usize));
    let words = bytes.part(8 * number(&entry[20..24]) as usize);
    let mut large = Reader(bytes.part(width * short(12)));
    let most = [0, 0, 8, 0, 24][width];
    let low_bits = |u: u64| {
        let exponent = u >> mantissa & ((1 << exponents) - 1);
        if exponent == 0 { 0 } else { reference.saturating_sub(exponent).min(most) }
    };
    let ordered = |u: u64| if u >> (bits - 1) == 0 { u } else { u ^ all >> 1 };
    let (mut values, mut position) = (bases.clone(), 0);
    for (marked, symbols) in marked.chunks(64).zip(symbols.chunks(64)) {
        let counts: Vec<u64> = marked.iter().map(|i| low_bits(bases[*i])).collect();
        let mut lows = vec![0; counts.len()];
        let bytes_of_all = counts.iter().min().unwrap() / 8;
        for byte in 0..bytes_of_all {
            lows.iter_mut().for_each(|low| *low |= number(whole.take(1)) << (8 * byte));
        }
        for bit in 8 * bytes_of_all..64 {
            for (low, _) in lows.iter_mut().zip(&counts).filter(|(_, count)| **count > bit) {
                *low |= u64::from(words[position / 8] >> (position % 8) & 1) << bit;
                position += 1;
            }
        }
        for (((i, symbol), count), low) in marked.iter().zip(symbols).zip(counts).zip(lows) {
            let high = if *symbol == 255 { number(large.take(width)) } else { u64::from(*symbol) };
            let z = ((high << count | low) + u64::from(form > 2)) & all;
            let d = if z.is_multiple_of(2) { z / 2 } else { all - z / 2 };
            values[*i] = if xor { z ^ bases[*i] } else { ordered((ordered(bases[*i]) + d) & all) };
        }
    }
    assert!(whole.0.is_empty() && large.0.is_empty() && words.len() == position.div_ceil(64) * 8);
    values.iter().flat_map(|value| value.to_le_bytes().into_iter().take(width)).collect()
}

/// Values near those of the base in the first block, a few others in the second one, none in the third, one in four in the fourth,
/// and anything in the last.
fn changed(dtype: DType, base: &[u8]) -> Vec<u8> {
    let (width, mut rng) = (dtype.width(), ChaCha8Rng::seed_from_u64(4));
    let change = |(i, value): (usize, &[u8])| {
        let (noise, near) = (rng.random::<u64>(), number(value) + (rng.random::<u64>() >> (67 - 4 * width)));
        let bits = match i / BLOCK {
            0 if i % 1000 == 0 => noise,
            0 => near,
            1 if noise.is_multiple_of(30) => near + 1,
            3 if noise.is_multiple_of(4) => near + 1,
            1..=3 => number(value),
            _ => noise,
        };
        bits.to_le_bytes().into_iter().take(width).collect::<Vec<u8>>()
    };
    base.chunks(width).enumerate().flat_map(change).collect()
}

/// If one of these changes, so has the format: then `docs/format.md` and the version change too.
const GOLDEN: [(DeltaCoding, DType, u64); 15] = [
    (DeltaCoding::Rans, DType::Bf16, 0x06d99db50be9d8dc),
    (DeltaCoding::Rans, DType::F16, 0x25b23bb359a264d8),
    (DeltaCoding::Rans, DType::F32, 0x76befb53d9244c66),
    (DeltaCoding::Rans, DType::F8E4M3, 0x5b2ca96459788223),
    (DeltaCoding::Rans, DType::F8E5M2, 0x9894ba9b489b9014),
    (DeltaCoding::Tiered, DType::Bf16, 0xe8c8c67b1e18f8e0),
    (DeltaCoding::Tiered, DType::F16, 0x900c7c26b1ae7dfb),
    (DeltaCoding::Tiered, DType::F32, 0xd292b01383f44da7),
    (DeltaCoding::Tiered, DType::F8E4M3, 0x2ed56549ea5e4ec0),
    (DeltaCoding::Tiered, DType::F8E5M2, 0xdd43183d7433366e),
    (DeltaCoding::Planes, DType::Bf16, 0x445a2542b90e3f22),
    (DeltaCoding::Planes, DType::F16, 0xbaa31f0ce764c4ea),
    (DeltaCoding::Planes, DType::F32, 0xa9fc6db8ec2b252b),
    (DeltaCoding::Planes, DType::F8E4M3, 0x0df6f433cba3f225),
    (DeltaCoding::Planes, DType::F8E5M2, 0xed021b401f9950b4),
];

#[test]
fn frames_are_what_the_format_says_and_have_not_changed() {
    force_simd(common::level()).unwrap();
    let mut forms = Vec::new();
    let mut found = Vec::new();
    for (coding, dtype, _) in GOLDEN {
        // All kinds of blocks, then the first one alone.
        for count in [4 * BLOCK + 9000, 9000] {
            let base = Content::Gaussian.values(dtype, count, 1);
            let values = changed(dtype, &base);
            let codec = Delta::new(coding, Base::new(dtype, base.clone()));
            let frame = codec.encode_to_vec(Layout::Compact, dtype, &values).unwrap();
            if count > BLOCK {
                found.push((coding, dtype, xxh3_64(&frame)));
            }
            if frame[5] == 6 {
                let (read, tags) = reference(dtype, &base, &frame);
                assert!(read == values, "{coding:?} {dtype}");
                forms.extend(tags);
            }
        }
    }
    assert_eq!(found, GOLDEN, "{found:#018x?}");
    // Bit 4 says rANS.
    assert!([0, 1, 2, 3, 4, 2 | 16].iter().all(|form| forms.contains(form)), "{forms:?}");
}
