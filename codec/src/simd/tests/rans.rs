//! rANS, of every kernel of this machine against the portable one.

use super::*;
use crate::kernel::joint;
use crate::kernel::rans::{
    DecodeTable, ESCAPE, EncodeTable, Frequencies, Job, LOWEST, ROOM_PAD, ROW_VALUES, Room, SLOTS, SYMBOLS,
    States, Stream, Used, WORD,
};

/// Frequencies of kinds of tables, by number: narrow ones and wide ones.
fn frequencies(kind: usize) -> Frequencies {
    let mut of = [0; SYMBOLS];
    match kind {
        // As those of Gaussian residuals.
        0 => of[18..29].copy_from_slice(&[2, 4, 8, 16, 32, 64, 128, 700, 1500, 1300, 330]),
        1 => of[3] = SLOTS as u16 - 1,
        // Many that are rare: a bucket has more than two.
        2 => of[..31].copy_from_slice(&[17; 31]),
        3 => of[..31].copy_from_slice(&[132; 31]),
        _ => {}
    }
    of[usize::from(ESCAPE)] = SLOTS as u16 - of.iter().sum::<u16>();
    Frequencies { start: 240, of }
}

/// Tables of these frequencies; the last kind is that of joint symbols.
fn tables(kind: usize) -> (EncodeTable, DecodeTable) {
    if kind == JOINT {
        let mut of = [9; joint::SYMBOLS];
        of[..4].copy_from_slice(&[1200, 900, 700, 500]);
        of[4] += SLOTS as u16 - of.iter().sum::<u16>();
        return (EncodeTable::joint(&of), DecodeTable::joint(&of));
    }
    let frequencies = frequencies(kind);
    (EncodeTable::new(&frequencies), DecodeTable::new(&frequencies))
}

const JOINT: usize = 5;

struct Coded {
    words: Vec<u8>,
    escapes: Vec<u8>,
    states: States,
}

fn encode(kernel: &Kernel, table: &EncodeTable, residuals: &[u8], mut states: States) -> Coded {
    let mut words = vec![0xa5; ROOM_PAD + WORD * residuals.len()];
    let mut escapes = vec![0xa5; ROOM_PAD + residuals.len()];
    let mut room = Room { words: &mut words, escapes: &mut escapes };
    let used = (kernel.encode_rans)(residuals, table, &mut states, &mut room);
    let words = words.split_off(words.len() - WORD * used.words);
    Coded { words, escapes: escapes.split_off(escapes.len() - used.escapes), states }
}

/// The residuals of blocks that are decoded together, and what each has used and left.
fn decode(kernel: &Kernel, table: &DecodeTable, blocks: &[(&Coded, usize)]) -> Vec<(Vec<u8>, Used, States)> {
    let mut out: Vec<Vec<u8>> = blocks.iter().map(|(_, count)| vec![0x5a; *count]).collect();
    let jobs = blocks.iter().zip(&mut out).map(|((coded, _), residuals)| {
        let stream = Stream { words: &coded.words, escapes: &coded.escapes };
        Job { stream, states: coded.states, residuals, used: Used::default() }
    });
    let mut jobs: Vec<Job<'_>> = jobs.collect();
    (kernel.decode_rans)(&mut jobs, table);
    jobs.into_iter().map(|job| (job.residuals.to_vec(), job.used, job.states)).collect()
}

fn states(rng: &mut ChaCha8Rng) -> States {
    std::array::from_fn(|_| rng.random_range(LOWEST..LOWEST << 16))
}

#[test]
fn residuals_are_coded_alike_and_come_back() {
    let mut rng = ChaCha8Rng::seed_from_u64(21);
    for kernel in kernels() {
        let mut narrow = 0;
        let all = [5, 129, 0, 1, 63, 127, 128, 300, 8 * ROW_VALUES, 2000];
        let counts = &all[..if cfg!(miri) { 2 } else { all.len() }];
        for (kind, &count) in (0..=JOINT).flat_map(|kind| counts.iter().map(move |count| (kind, count))) {
            let (encoder, decoder) = tables(kind);
            narrow += usize::from(decoder.narrow);
            let residual = |rng: &mut ChaCha8Rng| match rng.random_range(0..20) {
                _ if kind == JOINT => rng.random_range(0..joint::SYMBOLS as u8),
                0 => rng.random(),
                _ => (rng.random::<u32>().trailing_zeros() as u8 * (kind as u8 + 1)).wrapping_add(238),
            };
            let [first, second] =
                [count, count / 2].map(|count| (0..count).map(|_| residual(&mut rng)).collect::<Vec<_>>());
            let started = states(&mut rng);
            let coded = [&first, &second].map(|residuals| encode(kernel, &encoder, residuals, started));
            for (coded, residuals) in coded.iter().zip([&first, &second]) {
                let expected = encode(&PORTABLE, &encoder, residuals, started);
                assert!(coded.words == expected.words && coded.escapes == expected.escapes, "{kind} {count}");
                assert_eq!(coded.states, expected.states);
            }
            let blocks = [(&coded[0], count), (&coded[1], count / 2), (&coded[0], count)];
            let decoded = decode(kernel, &decoder, &blocks);
            assert!(decoded == decode(&PORTABLE, &decoder, &blocks));
            for ((found, used, left), (coded, expected)) in
                decoded.into_iter().zip([(&coded[0], &first), (&coded[1], &second), (&coded[0], &first)])
            {
                assert!(found == *expected && left == started, "{kind} {count}");
                assert_eq!(used, Used { words: coded.words.len() / WORD, escapes: coded.escapes.len() });
            }
        }
        assert!((counts.len()..5 * counts.len()).contains(&narrow), "{narrow}");
    }
}

#[test]
fn joint_symbols_are_merged_and_taken_apart_alike() {
    let mut rng = ChaCha8Rng::seed_from_u64(23);
    for (kernel, bits, count) in kernels()
        .flat_map(|kernel| [2, 3, 7].map(|bits| (kernel, bits)))
        .flat_map(|(kernel, bits)| [0, 1, 63, 64, 65, 256].map(|count| (kernel, bits, count)))
    {
        let window = joint::Window { start: rng.random(), len: rng.random_range(0..=joint::LONGEST) };
        let spread = if rng.random() { 15 } else { 40 };
        let residuals: Vec<u8> =
            (0..count).map(|_| window.start.wrapping_add(rng.random_range(0..spread))).collect();
        let tops: Vec<u8> =
            (0..count).map(|_| rng.random::<u8>() & ((2u8 << bits).wrapping_sub(1))).collect();
        let merge = |kernel: &Kernel| {
            let (mut symbols, mut tops, mut escapes) = (residuals.clone(), tops.clone(), vec![0; count]);
            let escaped = (kernel.merge)(&mut symbols, &mut tops, bits, window, &mut escapes);
            escapes.truncate(escaped);
            (symbols, tops, escapes)
        };
        let (mut symbols, mut left, escapes) = merge(kernel);
        assert_eq!((symbols.clone(), left.clone(), escapes.clone()), merge(&PORTABLE));
        assert_eq!((kernel.unmerge)(&mut symbols, &mut left, bits, window.start, &escapes), escapes.len());
        assert!(symbols == residuals && left == tops);
    }
}

#[test]
fn codes_of_anything_are_decoded_alike() {
    let mut rng = ChaCha8Rng::seed_from_u64(22);
    for (kernel, kind) in kernels().flat_map(|kernel| (0..=JOINT).map(move |kind| (kernel, kind))) {
        let (_, table) = tables(kind);
        for _ in 0..if cfg!(miri) { 1 } else { 40 } {
            // Mostly not what the residuals ask for.
            let mut coded = Coded {
                words: vec![0; WORD * rng.random_range(0..300)],
                escapes: vec![0; rng.random_range(0..40)],
                states: states(&mut rng),
            };
            rng.fill(&mut coded.words[..]);
            rng.fill(&mut coded.escapes[..]);
            let blocks = [(&coded, rng.random_range(0..900)), (&coded, rng.random_range(0..900))];
            assert!(decode(kernel, &table, &blocks) == decode(&PORTABLE, &table, &blocks), "{kind}");
        }
    }
}
