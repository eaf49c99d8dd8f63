//! Sums of decoded values, against plain loops.

use zipwire_codec::DType;
use zipwire_kernels::{Addition, Device, DeviceRegion, Stream, Summer, Values};

use crate::content::Content;

/// The NaN of every addition (docs/reduction.md).
const NAN: u32 = 0x7fc0_0000;
/// Fill byte of device memory before kernels write it.
const POISON: u8 = 0xee;
const KINDS: [Content; 6] = [
    Content::Special,
    Content::Gaussian,
    Content::Noise,
    Content::MinusZero,
    Content::SomeZeros,
    Content::Rows,
];

/// Where a term or a sum is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// At a multiple of 256 bytes.
    Apart,
    /// A value behind it.
    Shifted,
    /// Where the sum goes.
    OfTheSum,
}

/// A sum before it is on the device.
#[derive(Clone, Debug)]
struct Case {
    count: usize,
    output: (DType, Place),
    terms: Vec<(DType, Place)>,
}

/// All types, lengths around tiles, one to five terms, everywhere.
pub(crate) fn all_of_them() {
    let (bf16, f32) = (DType::Bf16, DType::F32);
    let mut cases = Vec::new();
    for count in [1, 7, 8, 9, 4095, 4096, 4097, 9000] {
        for output in [bf16, f32] {
            for (number, place) in [Place::Apart, Place::Shifted].into_iter().enumerate() {
                let apart = |dtype| (dtype, Place::Apart);
                let terms = [
                    vec![apart(bf16)],
                    vec![apart(f32)],
                    vec![(output, Place::OfTheSum), apart(bf16)],
                    vec![apart(bf16), apart(f32), (output, Place::OfTheSum)],
                    vec![apart(bf16), apart(bf16), (bf16, Place::Shifted), apart(bf16), apart(f32)],
                    vec![(f32, Place::Shifted), apart(f32)],
                ];
                let case = |terms| Case { count: count + number, output: (output, place), terms };
                cases.extend(terms.into_iter().map(case));
            }
        }
    }
    check(&cases);
}

fn check(cases: &[Case]) {
    let device = Device::open(0).unwrap();
    let (stream, summer) = (Stream::new(&device).unwrap(), Summer::new(&device).unwrap());
    let (mut additions, mut expected, mut arenas) = (Vec::new(), Vec::new(), Vec::new());
    for (number, case) in cases.iter().enumerate() {
        let (dtype, place) = case.output;
        let (output, arena) = region(&device, case.count * dtype.width(), dtype, place);
        arenas.push(arena);
        let mut contents = Vec::new();
        let terms = case.terms.iter().enumerate().map(|(term, &(dtype, place))| {
            let kind = KINDS[(number + term) % KINDS.len()];
            let values = kind.values(dtype, case.count, (10 * number + term) as u64);
            let region = match place {
                Place::OfTheSum => output.clone(),
                Place::Apart | Place::Shifted => region(&device, values.len(), dtype, place).0,
            };
            region.write(&values).unwrap();
            contents.push((dtype, values));
            Values { region, dtype }
        });
        let terms = terms.collect();
        additions.push(Addition { output: Values { region: output, dtype }, terms });
        expected.push(reference(&contents, dtype));
    }
    let sums = summer.sums(additions.clone()).unwrap();
    sums.launch(&stream).unwrap();
    stream.synchronize().unwrap();
    for (((case, addition), expected), arena) in cases.iter().zip(additions).zip(expected).zip(arenas) {
        assert!(addition.output.region.read().unwrap() == expected, "{case:?}: another sum");
        let (around, at) = (arena.read().unwrap(), place_of(case.output));
        let is_poison = |bytes: &[u8]| bytes.iter().all(|&byte| byte == POISON);
        assert!(
            is_poison(&around[..at]) && is_poison(&around[at + expected.len()..]),
            "{case:?}: writes beside it"
        );
    }
}

/// A region among others, and all of it.
fn region(device: &Device, len: usize, dtype: DType, place: Place) -> (DeviceRegion, DeviceRegion) {
    let arena = DeviceRegion::allocate(device, len as u64 + 512).unwrap();
    arena.write(&vec![POISON; len + 512]).unwrap();
    let at = place_of((dtype, place));
    (arena.part(at as u64..(at + len) as u64), arena)
}

/// Where values are among others.
fn place_of((dtype, place): (DType, Place)) -> usize {
    256 + if place == Place::Shifted { dtype.width() } else { 0 }
}

/// The definition.
fn reference(terms: &[(DType, Vec<u8>)], dtype: DType) -> Vec<u8> {
    let widened = |(dtype, bytes): &(DType, Vec<u8>)| -> Vec<f32> {
        let bits: Vec<u32> = match dtype {
            DType::F32 => bytes.as_chunks().0.iter().map(|word| u32::from_le_bytes(*word)).collect(),
            _ => bytes.as_chunks().0.iter().map(|half| u32::from(u16::from_le_bytes(*half)) << 16).collect(),
        };
        bits.into_iter().map(f32::from_bits).collect()
    };
    let terms: Vec<Vec<f32>> = terms.iter().map(widened).collect();
    let plus = |a: f32, b: f32| if (a + b).is_nan() { f32::from_bits(NAN) } else { a + b };
    let sums =
        (0..terms[0].len()).map(|i| terms[1..].iter().fold(terms[0][i], |sum, term| plus(sum, term[i])));
    match dtype {
        DType::F32 => sums.flat_map(|sum| sum.to_bits().to_le_bytes()).collect(),
        _ => sums.flat_map(|sum| rounded(sum).to_le_bytes()).collect(),
    }
}

/// The nearest of the two BF16 values around it, of equals the even one; a NaN stays one and keeps its upper bits.
fn rounded(value: f32) -> u16 {
    let (upper, lower) = ((value.to_bits() >> 16) as u16, value.to_bits() & 0xffff);
    if value.is_nan() {
        return if lower == 0 { upper } else { upper | 0x40 };
    }
    let is_up = lower > 0x8000 || (lower == 0x8000 && upper & 1 == 1);
    upper + u16::from(is_up)
}

/// Terms that cannot be added up are refused before anything is launched.
pub(crate) fn refusals() {
    let device = Device::open(0).unwrap();
    let summer = Summer::new(&device).unwrap();
    let arena = DeviceRegion::allocate(&device, 4096).unwrap();
    let values = |at: u64, len: u64, dtype| Values { region: arena.part(at..at + len), dtype };
    let bf16 = |at, len| values(at, len, DType::Bf16);
    let refused = |output: Values, terms: Vec<Values>, part: &str| {
        let error = summer.sums(vec![Addition { output, terms }]).unwrap_err().to_string();
        assert!(error.contains(part), "{error}");
    };
    refused(bf16(0, 64), vec![], "at least one term");
    refused(bf16(0, 64), vec![bf16(128, 62)], "32 whole values at a multiple of 2 bytes");
    refused(bf16(0, 64), vec![bf16(129, 64)], "32 whole values at a multiple of 2 bytes");
    refused(bf16(0, 64), vec![values(128, 64, DType::F32)], "32 whole values at a multiple of 4 bytes");
    refused(bf16(0, 64), vec![values(128, 64, DType::F16)], "BF16 or FP32");
    refused(bf16(0, 64), vec![bf16(128, 64), bf16(2, 64)], "share no bytes with any sum");
    refused(bf16(0, 64), vec![values(0, 128, DType::F32)], "share no bytes with any sum");
    let pair = |first: Addition, second: Addition| summer.sums(vec![first, second]).unwrap_err().to_string();
    let sum = |output, term| Addition { output, terms: vec![term] };
    let said = pair(sum(bf16(0, 64), bf16(128, 64)), sum(bf16(256, 64), bf16(32, 64)));
    assert!(said.contains("share no bytes with any sum"), "{said}");
    let said = pair(sum(bf16(0, 64), bf16(128, 64)), sum(bf16(62, 64), bf16(256, 64)));
    assert!(said.contains("outputs that share no bytes"), "{said}");
}
