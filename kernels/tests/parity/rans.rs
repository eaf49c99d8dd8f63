//! Cases of `rans` only: blocks of every kind in one frame, tables that no block uses or for which there is no room, and
//! contradictory frames.

use zipwire_codec::{DType, Spec};
use zipwire_kernels::Fault;

use crate::bench::{Bench, Frame, cpu_frame};
use crate::content::Content;

/// Values of a block, of a group.
const BLOCK: usize = 32_768;
const GROUP: usize = 256;
/// Where the table of blocks begins, and bytes of an entry.
const TABLE_AT: usize = 32;
const ENTRY: usize = 12;
/// In the form of a block that is coded by rANS.
const RANS: u8 = 0x30;
/// Bytes of the table of frequencies.
const FREQUENCIES: usize = 56;

/// Gaussian values and, in groups that `is_noise` names, noise.
fn mixed(dtype: DType, count: usize, seed: u64, is_noise: impl Fn(usize) -> bool) -> Vec<u8> {
    let [gaussian, noise] =
        [Content::Gaussian, Content::Noise].map(|content| content.values(dtype, count, seed));
    let len = dtype.width() * GROUP;
    let groups = gaussian.chunks(len).zip(noise.chunks(len)).enumerate();
    groups
        .flat_map(|(group, (gaussian, noise))| if is_noise(group) { noise } else { gaussian }.to_vec())
        .collect()
}

/// Values of these exponents, with noise in the lowest bit of the mantissa.
fn of_exponents(dtype: DType, count: usize, exponent: impl Fn(u32) -> u32) -> Vec<u8> {
    let mantissa_bits = match dtype {
        DType::F32 => 23,
        DType::F16 => 10,
        DType::Bf16 => 7,
        DType::F8E4M3 => 3,
        DType::F8E5M2 => 2,
    };
    let noise = |i: usize| (i as u32).wrapping_mul(0x9e37_79b1) >> 8;
    let value = |i: usize| exponent(noise(i)) << mantissa_bits | noise(i) >> 17 & 1;
    (0..count).flat_map(|i| value(i).to_le_bytes()[..dtype.width()].to_vec()).collect()
}

/// Number of exponents of a type.
fn exponents(dtype: DType) -> u32 {
    match dtype {
        DType::Bf16 | DType::F32 => 256,
        DType::F16 | DType::F8E5M2 => 32,
        DType::F8E4M3 => 16,
    }
}

/// Forms of the blocks of a frame.
fn forms(frame: &Frame, blocks: usize) -> Vec<u8> {
    frame.fixed[TABLE_AT..].chunks(ENTRY).take(blocks).map(|entry| entry[0]).collect()
}

/// Blocks by rANS, in tiers and stored; those in front of the first that is coded by rANS wait for it.
pub(crate) fn blocks_of_every_kind(spec: &'static str, dtype: DType) {
    let bench = Bench::new(spec, dtype);
    let kinds = |order: &[char]| -> Vec<u8> {
        let block = |(number, kind): (usize, &char)| {
            let count = if number + 1 == order.len() { 20_011 } else { BLOCK };
            match kind {
                // What the sample looks at is Gaussian, in the first block.
                's' => mixed(dtype, count, number as u64, |group| group % 4 != 0),
                // Exponents that are rare elsewhere: other tables would be better, and tiers are.
                't' if exponents(dtype) == 256 => Content::Rows.values(dtype, count, number as u64),
                't' => {
                    let (tenths, octaves) = if dtype == DType::F8E4M3 { (3, 3) } else { (2, 4) };
                    of_exponents(dtype, count, |noise| 5 + if noise % 10 < tenths { octaves } else { 0 })
                }
                _ => Content::Gaussian.values(dtype, count, number as u64),
            }
        };
        order.iter().enumerate().flat_map(block).collect()
    };
    let orders: [&[char]; 3] = [
        &['s', 's', 't', 'r', 't', 'r', 'r', 's', 't', 'r'],
        &['r', 'r', 'r', 't', 't'],
        &['r', 's', 'r', 's'],
    ];
    let values: Vec<Vec<u8>> = orders.iter().map(|order| kinds(order)).collect();
    let first = forms(&bench.on_cpu(&values[0]), orders[0].len());
    let is_kind = |kind: char, form: u8| match kind {
        's' => form == 1,
        't' => form & RANS != RANS && form != 1,
        _ => form & RANS == RANS,
    };
    assert!(orders[0].iter().zip(&first).all(|(kind, form)| is_kind(*kind, *form)), "{first:02x?}");
    bench.check(&values, "blocks of every kind");
}

/// Short frames in which the sample promises what the blocks do not keep, more or less: tables that no block uses, tables that would
/// make the frame too long, and tables that just pay.
pub(crate) fn tables_that_hardly_pay(spec: &'static str, dtype: DType) {
    let bench = Bench::new(spec, dtype).twice();
    // Of one block, every second group is looked at, from the first on; of two, every fourth of the first and every second of the other.
    let one = mixed(dtype, BLOCK, 1, |group| group % 2 == 1);
    let of_two = |group| if group < 128 { group % 4 != 0 } else { group % 2 == 0 };
    let two = mixed(dtype, BLOCK + 9000, 1, of_two);
    let mut values = vec![one, two];
    for values in &values {
        let forms = forms(&bench.on_cpu(values), values.len().div_ceil(dtype.width() * BLOCK));
        assert!(forms.iter().all(|form| form & RANS != RANS), "no block uses the table: {forms:02x?}");
    }
    for number in 0..32 {
        let count = [700, 1100, 2000, 5000][number % 4] + number;
        let (of, most) = (1 + number / 4 % 12, 12);
        values.push(mixed(dtype, count, number as u64, |group| group * 7 % most < of));
        // Exponents that are nearly as long coded as they are: what is saved is about as long as a table.
        let all = exponents(dtype);
        let spread = (all * (8 + number as u32) / 32).min(all - 5);
        values.push(of_exponents(dtype, count, |noise| noise % spread + 1));
    }
    let coded = |values: &&Vec<u8>| forms(&bench.on_cpu(values), 1)[0] & RANS == RANS;
    let with_table = values.iter().filter(coded).count();
    assert!(with_table > 8 && with_table + 8 < values.len(), "{with_table} of {}", values.len());
    bench.check(&values, "tables that hardly pay");
}

/// Entries, tables, states, words and escapes that no encoder writes, and what the kernels do not know: columns.
pub(crate) fn contradictions(spec: &'static str, dtype: DType) {
    let bench = Bench::new(spec, dtype);
    let (full, last) = (TABLE_AT, TABLE_AT + ENTRY);
    let number =
        |frame: &Frame, at: usize| usize::from(u16::from_le_bytes([frame.fixed[at], frame.fixed[at + 1]]));
    let frame = |seed| {
        let mut values = Content::Gaussian.values(dtype, BLOCK + 9321, seed);
        // Residuals that have no symbol, in groups that the sample leaves out.
        for number in 0..5 {
            values[dtype.width() * (BLOCK + 6 * GROUP * number + 8) - 1] = 0x7e;
        }
        (bench.on_cpu(&values), values)
    };
    // One in which words are filled up.
    let (whole, values) = (4..9).map(frame).find(|(frame, _)| number(frame, full + 4) % 4 != 0).unwrap();
    assert_eq!(forms(&whole, 2), [RANS; 2], "one base, by rANS");
    let (words, escapes) = (number(&whole, full + 4), number(&whole, last + 6));
    assert!(escapes % 8 != 0, "escapes are filled up: {escapes}");
    let refused = |change: &dyn Fn(&mut Frame), expected: &[Fault]| {
        let mut frame = whole.clone();
        change(&mut frame);
        assert!(bench.decoded_on_cpu(&frame, values.len()).is_none(), "the CPU accepts {expected:?}");
        let found = bench.decode(&[(frame, values.len())]).remove(0).expect_err("it is damaged");
        assert!(expected.contains(&found), "{found} instead of {expected:?}");
    };
    // Other exponents, which the type may not have.
    let other_exponents = &[Fault::Checksum, Fault::Codes];
    for entry in [full, last] {
        for form in [0xb0, 0x31, 0x32, 0x35, 0x3f] {
            refused(&|frame| frame.fixed[entry] = form, &[Fault::Tile]);
        }
        refused(&|frame| frame.fixed[entry] |= 0x40, &[Fault::Columns]);
        refused(&|frame| frame.fixed[entry + 1] = 255, &[Fault::Tile]);
        refused(&|frame| frame.fixed[entry + 1] ^= 1, other_exponents);
        refused(&|frame| frame.fixed[entry + 2] ^= 1, &[Fault::Tile]);
        refused(&|frame| frame.fixed[entry + 4] ^= 1, &[Fault::Codes, Fault::Length]);
        refused(&|frame| frame.fixed[entry + 5] |= 0x80, &[Fault::Tile, Fault::Length]);
        refused(&|frame| frame.fixed[entry + 6] ^= 1, &[Fault::Codes, Fault::Length]);
        refused(&|frame| frame.fixed[entry + 8] = 1, &[Fault::Tile]);
        refused(&|frame| frame.fixed[entry + 11] = 1, &[Fault::Tile]);
    }
    // Zeros of the table, a window of joint symbols, frequencies that do not add up, no slot for escapes.
    refused(&|frame| frame.dynamic[7] = 1, &[Fault::Padding]);
    refused(&|frame| frame.dynamic[1] = 200, &[Fault::Padding]);
    refused(&|frame| frame.dynamic[8] ^= 1, &[Fault::Frequencies]);
    refused(&|frame| frame.dynamic[FREQUENCIES - 2] = 0, &[Fault::Frequencies]);
    // Another residual of symbol 0 gives other values, or exponents out of range.
    refused(&|frame| frame.dynamic[0] ^= 1, other_exponents);
    // A state that is too low or too high, and one that is another.
    let states = FREQUENCIES;
    refused(&|frame| frame.dynamic[states..states + 4].fill(0), &[Fault::Codes]);
    refused(&|frame| frame.dynamic[states + 3] |= 0x80, &[Fault::Codes]);
    refused(&|frame| frame.dynamic[states + 4 * 31 + 1] ^= 1, &[Fault::Codes]);
    // A word, what fills up the words of the first block, and what fills up the escapes of the last one.
    let words_at = states + 128;
    refused(&|frame| frame.dynamic[words_at + words] ^= 1, &[Fault::Codes, Fault::Checksum]);
    refused(&|frame| frame.dynamic[words_at + 2 * words] = 1, &[Fault::Codes]);
    refused(&|frame| *frame.dynamic.last_mut().unwrap() = 1, &[Fault::Codes]);
    // The last byte of the rest fills it up, or has bits that do; so does that of the lower bytes in front of it.
    refused(&|frame| *frame.fixed.last_mut().unwrap() |= 0x80, &[Fault::Codes]);
    let rest_len: usize = match dtype {
        DType::F16 => 9321usize.div_ceil(64) * 8 * 3,
        _ => 9321usize.next_multiple_of(8),
    };
    if matches!(dtype, DType::F16 | DType::F32) {
        refused(&|frame| *frame.fixed.iter_mut().nth_back(rest_len).unwrap() = 1, &[Fault::Codes]);
    }
    too_many_words(&bench, dtype);
    columns(&bench, dtype);
}

/// A block with all words that its frame has room for, and states that ask for more with each symbol.
fn too_many_words(bench: &Bench, dtype: DType) {
    let (full, words_at) = (TABLE_AT, FREQUENCIES + 128);
    let alone = Content::Gaussian.values(dtype, BLOCK, 4);
    let mut frame = bench.on_cpu(&alone);
    // Front matter takes 128 bytes.
    let room = alone.len() + 128 - frame.fixed.len();
    let many = (room - FREQUENCIES - 128) / 2 / 4 * 4;
    frame.dynamic.truncate(words_at);
    frame.dynamic.resize(words_at + 2 * many, 0);
    frame.fixed[16..24].copy_from_slice(&(frame.dynamic.len() as u64).to_le_bytes());
    frame.fixed[full + 4..full + 6].copy_from_slice(&(many as u16).to_le_bytes());
    frame.fixed[full + 6..full + 8].fill(0);
    assert!(bench.decoded_on_cpu(&frame, alone.len()).is_none());
    assert_eq!(bench.decode(&[(frame, alone.len())]), [Err(Fault::Codes)]);
}

/// Offsets of columns are refused.
fn columns(bench: &Bench, dtype: DType) {
    if dtype == DType::F8E4M3 {
        return; // Its exponents are too few for columns to differ.
    }
    let codec = "rans:row=8".parse::<Spec>().unwrap().codec();
    let values = Content::Columns.values(dtype, 40_000, 4);
    let frame = cpu_frame(&*codec, dtype, &values);
    assert!(frame.fixed[TABLE_AT] & 0x40 != 0, "there are offsets of columns");
    assert_eq!(bench.decode(&[(frame, values.len())]), [Err(Fault::Columns)]);
}
