//! Differences from values on the device: frames of `delta+tiered` that the CPU writes.

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use zipwire_codec::{Base, DType, Decoder, Delta, DeltaCoding, Layout, encode_to_vec};
use zipwire_kernels::{DeltaBlock, DeltaCoder, DeltaDecoder, Device, DeviceRegion, Fault, Stream};

use crate::Extent;
use crate::content::Content;
use crate::corrupt::agree;
use crate::frames::in_orders;

/// Where the block table is, and bytes of an entry.
const ENTRIES: usize = 40;
const ENTRY: usize = 24;
/// Tags of forms.
const SAME: u8 = 0;
const DIRECT: u8 = 1;
const DENSE: u8 = 2;
const MASKED: u8 = 3;
const LISTED: u8 = 4;

/// How values differ from a base.
#[derive(Clone, Copy, Debug)]
enum Change {
    None,
    /// By some of the last bits, all of them.
    Little,
    /// By a step whose size does not depend on that of the value, as an optimizer's does.
    Step,
    /// By the last bit, one in a hundred.
    Rare,
    /// By the last bits, one in three.
    Some,
    /// Some by anything.
    Outliers,
}

impl Change {
    const ALL: [Self; 6] = [Self::None, Self::Little, Self::Step, Self::Rare, Self::Some, Self::Outliers];

    fn of(self, base: &[u8], seed: u64) -> Vec<u8> {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let values = base.as_chunks::<2>().0.iter().map(|value| {
            let bits = u16::from_le_bytes(*value);
            let near = bits.wrapping_add(rng.random_range(0..9)).wrapping_sub(4);
            let stepped = f32::from_bits(u32::from(bits) << 16) + rng.random_range(-1e-4f32..1e-4);
            match self {
                Self::None => bits,
                Self::Little => near,
                Self::Step => (stepped.to_bits() >> 16) as u16,
                Self::Rare if rng.random_range(0..100) == 0 => bits ^ 1,
                Self::Some if rng.random_range(0..3) == 0 => near,
                Self::Rare | Self::Some => bits,
                Self::Outliers if rng.random_range(0..50) == 0 => rng.random(),
                Self::Outliers => near,
            }
        });
        values.flat_map(u16::to_le_bytes).collect()
    }
}

/// A frame, what it differs from, and the values.
#[derive(Clone)]
struct Update {
    frame: Vec<u8>,
    base: Base,
    values: Vec<u8>,
}

impl Update {
    fn new(base: Vec<u8>, values: Vec<u8>) -> Self {
        let base = Base::new(DType::Bf16, base);
        let codec = Delta::new(DeltaCoding::Tiered, base.clone());
        let frame = encode_to_vec(&codec, Layout::Compact, DType::Bf16, &values).unwrap();
        Self { frame, base, values }
    }

    /// Whether these are differences, and no frame of the codec behind them.
    fn is_delta(&self) -> bool {
        self.frame[5] == 6
    }

    fn forms(&self) -> Vec<u8> {
        let blocks = self.values.len().div_ceil(2 * 32_768);
        (0..blocks).map(|block| self.frame[ENTRIES + ENTRY * block] & 7).collect()
    }

    /// Where the frame of the blocks without a base begins, if all other blocks are the same.
    fn inner_at(&self) -> usize {
        ENTRIES + ENTRY * self.forms().len()
    }

    fn on_cpu(&self) -> Option<Vec<u8>> {
        let mut decoder = Decoder::new();
        decoder.add_base(self.base.clone()).unwrap();
        let mut out = vec![0xee; self.values.len()];
        decoder.decode(Layout::Compact, DType::Bf16, &[], &self.frame, &mut out).ok().map(|()| out)
    }
}

struct Bench {
    device: Device,
    stream: Stream,
    coder: DeltaCoder,
}

impl Bench {
    fn new() -> Self {
        let device = Device::open(0).unwrap();
        let stream = Stream::new(&device).unwrap();
        let coder = DeltaCoder::new(&device).unwrap();
        Self { device, stream, coder }
    }

    fn region(&self, bytes: &[u8]) -> DeviceRegion {
        let region = DeviceRegion::allocate(&self.device, bytes.len() as u64).unwrap();
        region.write(bytes).unwrap();
        region
    }

    /// What the kernels make of these frames, all in one launch; in the place of the base if `updates`.
    fn decode(&self, all: &[Update], updates: bool) -> Vec<Result<Vec<u8>, Fault>> {
        let block = |update: &Update| {
            let mut frame = update.frame.clone();
            frame.resize(frame.len().next_multiple_of(8), 0xee);
            let base = self.region(update.base.as_bytes());
            DeltaBlock {
                values: if updates { base.clone() } else { self.region(&vec![0xee; update.values.len()]) },
                base,
                base_id: update.base.id(),
                frame: self.region(&frame),
                size: self.region(&(update.frame.len() as u64).to_le_bytes()),
            }
        };
        let blocks: Vec<DeltaBlock> = all.iter().map(block).collect();
        let decoder = self.coder.decoder(blocks.clone()).unwrap();
        decoder.launch(&self.stream).unwrap();
        self.stream.synchronize().unwrap();
        let faults = DeltaDecoder::faults(&decoder.states().read().unwrap());
        for (block, update) in blocks.iter().zip(all).filter(|_| !updates) {
            assert!(block.base.read().unwrap() == update.base.as_bytes(), "a base is only read");
        }
        let values = blocks.iter().map(|block| block.values.read().unwrap());
        values.zip(faults).map(|(values, fault)| fault.map_or(Ok(values), Err)).collect()
    }

    fn check(&self, all: &[Update], context: &str) {
        for updates in [false, true] {
            for (number, (found, update)) in self.decode(all, updates).into_iter().zip(all).enumerate() {
                let what = format!("{context}, frame {number} of {} bytes", update.values.len());
                let found = found.unwrap_or_else(|fault| panic!("{what}: {fault}"));
                assert!(found == update.values, "{what}: other values");
            }
        }
    }
}

/// Every kind of change of several kinds of values, in lengths around those of blocks and words; all forms that the kernels know.
pub(crate) fn every_change_and_length() {
    let bench = Bench::new();
    let mut forms = Vec::new();
    for content in [Content::Gaussian, Content::Rows, Content::SomeZeros, Content::Special] {
        let mut all = Vec::new();
        for (change, seed) in Change::ALL.into_iter().zip(0..) {
            for count in [63, 1000, 4099, 32_767, 32_769, 70_001] {
                let base = content.values(DType::Bf16, count, seed + count as u64);
                let values = change.of(&base, seed);
                all.push(Update::new(base, values));
            }
        }
        all.retain(Update::is_delta);
        assert!(all.len() >= 20, "{content:?}: {} frames", all.len());
        forms.extend(all.iter().flat_map(Update::forms));
        bench.check(&all, &format!("{content:?}"));
    }
    for form in [SAME, DENSE, MASKED, LISTED] {
        assert!(forms.contains(&form), "a block of form {form}");
    }
}

/// Every pattern against another one, and against near ones: large differences, those of bits, and every number of low bits.
pub(crate) fn every_pattern() {
    let bench = Bench::new();
    let patterns = |step: u32| -> Vec<u8> {
        (0..1u32 << 16).flat_map(|i| (i.wrapping_mul(step) as u16).to_le_bytes()).collect()
    };
    let mut all = Vec::new();
    for change in Change::ALL {
        all.push(Update::new(patterns(1), change.of(&patterns(1), 5)));
        all.push(Update::new(patterns(40_503), change.of(&patterns(40_503), 6)));
    }
    all.retain(Update::is_delta);
    assert!(all.len() >= 8, "{} frames", all.len());
    bench.check(&all, "patterns");
}

/// All parts of a body: large differences, low bits as whole bytes and as others, in blocks whose values all differ and others.
pub(crate) fn every_part() {
    let bench = Bench::new();
    let mut all = Vec::new();
    for (changed, seed) in [(1, 1), (3, 2), (40, 3)] {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let (mut base, mut values) = (Vec::new(), Vec::new());
        for i in 0..75_003u32 {
            // Values around 1, others far below the steps, and all between.
            let exponent = [127, 127, 114, 122 + i % 6][(i / 300 % 4) as usize];
            let value = f32::from_bits(exponent << 23 | rng.random_range(0..128) << 16);
            let step = if i % 999 == 0 { 1e9 } else { rng.random_range(-0.03f32..0.03) };
            let next = if rng.random_range(0..changed) == 0 { value + step } else { value };
            base.extend(((value.to_bits() >> 16) as u16).to_le_bytes());
            values.extend(((next.to_bits() >> 16) as u16).to_le_bytes());
        }
        all.push(Update::new(base, values));
    }
    all.retain(Update::is_delta);
    // Of entries: escapes, large differences, whole bytes and words of low bits.
    for at in [10, 12, 16, 20] {
        let is_used = |update: &Update| update.frame[ENTRIES + at..][..2] != [0, 0];
        assert!(all.iter().any(is_used), "bytes {at} of an entry");
    }
    let forms: Vec<u8> = all.iter().flat_map(Update::forms).collect();
    assert!(forms.contains(&DENSE) && forms.iter().any(|form| [MASKED, LISTED].contains(form)), "{forms:?}");
    bench.check(&all, "every part");
}

/// Values do not depend on the order in which threads and blocks come to run.
pub(crate) fn any_order(extent: Extent) {
    let bench = Bench::new();
    let base = Content::Rows.values(DType::Bf16, 70_001, 3);
    let changes = [Change::Step, Change::Some, Change::Rare, Change::Outliers];
    let mut all: Vec<Update> =
        changes.iter().map(|change| Update::new(base.clone(), change.of(&base, 4))).collect();
    all.retain(Update::is_delta);
    assert!(all.len() >= 2);
    in_orders(extent.of(1, 4), |seed| bench.check(&all, &format!("seed {seed}")));
}

/// Low bits and values of a change under several orders of threads, for mistakes that are planted.
pub(crate) fn some_updates(seed: u64) {
    let base = Content::Gaussian.values(DType::Bf16, 40_003, 3);
    let all = [Change::Step, Change::Some].map(|change| Update::new(base.clone(), change.of(&base, 4)));
    assert!(all.iter().all(|update| update.is_delta() && !update.forms().contains(&DIRECT)));
    Bench::new().check(&all, &format!("seed {seed}"));
}

/// What the kernels do not know or must not take.
pub(crate) fn refusals() {
    let bench = Bench::new();
    let base = Content::Gaussian.values(DType::Bf16, 40_001, 1);
    let values = Change::Little.of(&base, 2);
    let whole = Update::new(base.clone(), values.clone());
    let refused = |expected: Fault, what: &str, on_cpu: bool, change: &dyn Fn(&mut Update)| {
        let mut update = whole.clone();
        change(&mut update);
        assert_eq!(update.on_cpu().is_none(), on_cpu, "{what}, on the CPU");
        assert_eq!(bench.decode(&[update], false), [Err(expected)], "{what}");
    };
    refused(Fault::Base, "another base", true, &|update| {
        update.base = Base::new(DType::Bf16, values.clone());
    });
    for byte in [0, 4, 5, 6, 7, 8, 16, 28] {
        refused(Fault::Header, &format!("byte {byte}"), true, &|update| update.frame[byte] ^= 1);
    }
    refused(Fault::Checksum, "the checksum", true, &|update| update.frame[24] ^= 1);
    refused(Fault::Base, "the id", true, &|update| update.frame[39] ^= 1);
    refused(Fault::Header, "eight bytes are missing", true, &|update| {
        update.frame.truncate(update.frame.len() - 8);
    });
    refused(Fault::Tile, "a form", true, &|update| update.frame[ENTRIES] = 5);
    refused(Fault::Tile, "a flag", true, &|update| update.frame[ENTRIES] |= 0x20);
    refused(Fault::Tile, "a field that is not used", true, &|update| update.frame[ENTRIES + 14] = 1);
    refused(Fault::Tile, "the number of differences", true, &|update| update.frame[ENTRIES + 2] ^= 1);
    refused(Fault::Method, "rANS", true, &|update| update.frame[ENTRIES] |= 0x10);
    // Others of the launch are not touched.
    let mut mixed = with_direct(&[true, false], 40_001);
    let inner = mixed.inner_at();
    mixed.frame[inner + 5] = 5;
    assert_eq!(bench.decode(&[mixed, whole.clone()], false), [Err(Fault::Method), Ok(values)]);
}

/// A frame of blocks of which some are coded without their base.
fn with_direct(blocks: &[bool], count: usize) -> Update {
    let base = Content::Gaussian.values(DType::Bf16, count, 1);
    let mut values = base.clone();
    for (number, block) in values.chunks_mut(65_536).enumerate() {
        let contents = [Content::Noise, Content::Rows, Content::SomeZeros];
        let content = contents[number % 3].values(DType::Bf16, block.len() / 2, 3);
        if blocks[number] {
            // Far from the base, so that differences do not pay.
            let far = content.as_chunks::<2>().0.iter().map(|value| u16::from_le_bytes(*value) ^ 0x3f00);
            block.copy_from_slice(&far.flat_map(u16::to_le_bytes).collect::<Vec<_>>());
        }
    }
    let update = Update::new(base, values);
    let forms = blocks.iter().map(|is_direct| if *is_direct { DIRECT } else { SAME });
    assert!(update.is_delta() && update.forms() == forms.collect::<Vec<_>>(), "{:?}", update.forms());
    update
}

/// Blocks that are coded without their base, the first, the last, several of them; and what is wrong with their frame.
pub(crate) fn direct_blocks(extent: Extent) {
    let bench = Bench::new();
    let all = [
        with_direct(&[true, false], 40_001),
        with_direct(&[false, true], 40_001),
        with_direct(&[true, false, true, true], 3 * 32_768 + 777),
        with_direct(&[false, true, false, true, false], 5 * 32_768),
    ];
    bench.check(&all, "direct blocks");
    let mut rng = ChaCha8Rng::seed_from_u64(12);
    for whole in &all[..3] {
        let inner = whole.inner_at();
        let damaged = |number: usize| {
            let mut update = whole.clone();
            let len = update.frame.len();
            let byte = match number % 3 {
                0 => rng.random_range(inner..inner + 96),
                1 => rng.random_range(ENTRIES - 8..ENTRIES + 2 * ENTRY),
                _ => rng.random_range(inner..len),
            };
            update.frame[byte] ^= 1 << rng.random_range(0..8);
            if number % 17 == 16 {
                update.frame.truncate(rng.random_range(inner / 8..len / 8) * 8);
                let len = update.frame.len() as u64;
                update.frame[16..24].copy_from_slice(&len.to_le_bytes());
            }
            update
        };
        let damaged: Vec<Update> = (0..extent.of(30, 400)).map(damaged).collect();
        for (update, found) in damaged.iter().zip(bench.decode(&damaged, false)) {
            agree("direct blocks", update.on_cpu(), found);
        }
    }
}

/// Frames of which some bits are flipped. One that the CPU refuses is reported, any other one gives the same values.
pub(crate) fn flipped_bits(extent: Extent) {
    let bench = Bench::new();
    let mut rng = ChaCha8Rng::seed_from_u64(11);
    for change in [Change::Little, Change::Step, Change::Rare, Change::Some, Change::Outliers] {
        let base = Content::Gaussian.values(DType::Bf16, 36_013, 4);
        let whole = Update::new(base.clone(), change.of(&base, 5));
        assert!(whole.is_delta() && !whole.forms().contains(&DIRECT));
        let damaged = |number: usize| {
            let mut update = whole.clone();
            let len = update.frame.len();
            for _ in 0..=number % 3 {
                let byte = match number % 4 {
                    0 => rng.random_range(0..ENTRIES + 2 * ENTRY),
                    1 => rng.random_range(len - 60..len),
                    _ => rng.random_range(0..len),
                };
                update.frame[byte] ^= 1 << rng.random_range(0..8);
            }
            update
        };
        let all: Vec<Update> = (0..extent.of(40, 400)).map(damaged).collect();
        for (update, found) in all.iter().zip(bench.decode(&all, false)) {
            agree(change, update.on_cpu(), found);
        }
    }
}
