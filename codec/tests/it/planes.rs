//! `planes`: sizes against closed forms, widths that a type does not have, damage that has a name, and versions of frames.

use crate::common::content::Content;
use crate::common::{self, DECODER, Frame};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use zipwire_codec::{Codec, DType, DecodeError, FrameInfo, FrameShape, Layout, PlaneFault, Planes};

/// Bytes of a value.
pub(crate) const WIDTHS: [usize; 5] = [1, 2, 4, 8, 16];

/// Bytes of tensors whose type no codec has.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Kind {
    /// I64: mostly small numbers, any below 30 000.
    Ids,
    /// I64: 0, 1, 2 and so on.
    Range,
    /// I32: ascending by steps of any size.
    Offsets,
    /// F64 from N(0, 0.02^2).
    Doubles,
    /// F64 that are FP32 values.
    Widened,
    /// BOOL: one in a hundred is true.
    Flags,
    /// Zeros, and another byte in every thousand.
    Sparse,
    /// Any bytes.
    Noise,
    /// 16 bytes, over and over.
    Equal,
}

impl Kind {
    pub(crate) const ALL: [Self; 9] = [
        Self::Ids,
        Self::Range,
        Self::Offsets,
        Self::Doubles,
        Self::Widened,
        Self::Flags,
        Self::Sparse,
        Self::Noise,
        Self::Equal,
    ];

    /// So many bytes, of which the last ones may be no whole value.
    pub(crate) fn bytes(self, len: usize) -> Vec<u8> {
        let mut rng = ChaCha8Rng::seed_from_u64(7);
        let normal = rand_distr::Normal::new(0.0f64, 0.02).unwrap();
        let mut offset = 0u32;
        let mut value = |i: usize| -> Vec<u8> {
            match self {
                Self::Ids => {
                    (rng.random_range(0..30_000u64) >> rng.random_range(0..12)).to_le_bytes().to_vec()
                }
                Self::Range => (i as u64).to_le_bytes().to_vec(),
                Self::Offsets => {
                    offset += rng.random_range(1..40);
                    offset.to_le_bytes().to_vec()
                }
                Self::Doubles => rng.sample(normal).to_le_bytes().to_vec(),
                Self::Widened => f64::from(rng.sample(normal) as f32).to_le_bytes().to_vec(),
                Self::Flags => vec![u8::from(rng.random_range(0..100) == 0)],
                Self::Sparse => vec![if rng.random_range(0..1000) == 0 { rng.random() } else { 0 }],
                Self::Noise => vec![rng.random()],
                Self::Equal => (0..16).collect(),
            }
        };
        let mut bytes: Vec<u8> = Vec::with_capacity(len + 16);
        let mut i = 0;
        while bytes.len() < len {
            bytes.extend(value(i));
            i += 1;
        }
        bytes.truncate(len);
        bytes
    }
}

/// Bytes of a frame of plain bytes of this width, or of that of the type.
fn len_of(spec: &str, dtype: DType, values: &[u8]) -> usize {
    let frame = Frame::new(&*common::codec(spec), Layout::Compact, dtype, values);
    frame.assert_survives(spec);
    frame.len()
}

#[test]
fn equal_values_take_next_to_nothing() {
    for dtype in DType::ALL {
        let values = Content::Equal.values(dtype, 1 << 17, 1);
        let blocks = values.len().div_ceil(1 << 18);
        assert_eq!(len_of("planes", dtype, &values), 40 + 3 * blocks * dtype.width());
    }
    let values = Kind::Equal.bytes(1 << 17);
    let len = len_of("planes:width=16", DType::F8E4M3, &values);
    assert!(len == 40 + 3 * 16 && 1000 * len < values.len());
}

/// Sizes of planes at their entropy of order 0, in bits for each byte.
#[test]
fn planes_are_within_a_tenth_of_a_bit_of_their_entropy() {
    let mut rng = ChaCha8Rng::seed_from_u64(3);
    let count = 1 << 17;
    for case in 0..60 {
        // The first byte has a share, the others halve, or are alike.
        let (share, symbols) = (f64::from(case % 20) / 20.0, 1 + [1, 3, 20, 250][case as usize % 4]);
        let mut byte = || {
            if rng.random::<f64>() < share {
                return 7u8;
            }
            let next = rng.random_range(0..symbols);
            if case < 30 { next as u8 } else { (rng.random::<u32>() | 1 << 20).trailing_zeros() as u8 }
        };
        let values: Vec<u8> = (0..count).map(|_| byte()).collect();
        let mut counts = [0u32; 256];
        values.iter().for_each(|byte| counts[usize::from(*byte)] += 1);
        let shares = counts.iter().filter(|n| **n > 0).map(|n| f64::from(*n) / f64::from(count));
        let entropy: f64 = shares.map(|share| -share * libm::log2(share)).sum();
        let bits = 8.0 * (len_of("planes", DType::F8E4M3, &values) as f64 - 40.0) / f64::from(count);
        assert!(bits <= entropy + 0.1, "case {case}: {bits} bits, entropy {entropy}");
    }
}

#[test]
fn two_symbols_take_less_than_a_bit() {
    let flags = Kind::Flags.bytes(1 << 17);
    // The entropy is 0.0808 bits, of 8.
    let len = len_of("planes", DType::F8E4M3, &flags);
    assert!((1324..1700).contains(&len), "{len}");
    let sparse = Kind::Sparse.bytes(1 << 17);
    let len = len_of("planes", DType::F8E4M3, &sparse);
    assert!(len < 131 + 400, "a byte and less than three for the place of each, {len}");
}

#[test]
fn widths_find_what_bytes_of_other_types_repeat() {
    let len = |kind: Kind, width: usize| {
        len_of(&format!("planes:width={width}"), DType::F8E4M3, &kind.bytes(1 << 17)) as f64
            / f64::from(1 << 17)
    };
    for (kind, width, most) in [
        // Two of eight bytes vary, one of them little.
        (Kind::Ids, 8, 0.20),
        (Kind::Range, 8, 0.005),
        (Kind::Offsets, 4, 0.25),
        // 52 of 64 bits are the mantissa, one is the sign.
        (Kind::Doubles, 8, 0.88),
        (Kind::Widened, 8, 0.43),
    ] {
        let (with, without) = (len(kind, width), len(kind, 1));
        assert!(with < most && with < without, "{kind:?}: {with}, and {without} as bytes");
    }
    // Bytes as they are take what the frame needs, and no more.
    for width in WIDTHS {
        let noise = Kind::Noise.bytes((1 << 18) + 16_001);
        let spec = format!("planes:width={width}");
        assert_eq!(len_of(&spec, DType::F8E4M3, &noise), noise.len() + 40 + 2 * 3 * width);
    }
}

#[test]
fn signs_of_floats_are_not_with_their_exponents() {
    // FP32 values that were BF16 once: the lower halves are zeros, and what is left takes what BF16 takes.
    let short = Content::Gaussian.values(DType::Bf16, 1 << 16, 1);
    let long: Vec<u8> =
        short.as_chunks::<2>().0.iter().flat_map(|value| [0, 0, value[0], value[1]]).collect();
    let (short, long_len) = (len_of("planes", DType::Bf16, &short), len_of("planes", DType::F32, &long));
    assert_eq!(long_len, short + 6);
    // The same if a sample says so, and for integers it does not.
    let floats = Content::Gaussian.values(DType::F32, 40_000, 1);
    let frame = Planes::new().width(4).encode_to_vec(Layout::Compact, DType::F8E4M3, &floats).unwrap();
    assert_eq!((&frame[32..34], frame.len()), (&[4, 1][..], len_of("planes", DType::F32, &floats)));
    let ids = Kind::Ids.bytes(8000);
    let frame = Planes::new().width(4).encode_to_vec(Layout::Compact, DType::F32, &ids).unwrap();
    assert_eq!(frame[32..34], [4, 0]);
    let frame = Planes::new().width(8).encode_to_vec(Layout::Compact, DType::F32, &ids).unwrap();
    assert_eq!(frame[32..34], [8, 0]);
}

#[test]
fn widths_are_those_of_specs() {
    for width in WIDTHS {
        let values = Kind::Ids.bytes(5000);
        let typed =
            Planes::new().width(width).encode_to_vec(Layout::Compact, DType::F8E5M2, &values).unwrap();
        let named = common::codec(&format!("planes:width={width}")).encode_to_vec(
            Layout::Compact,
            DType::F8E5M2,
            &values,
        );
        assert_eq!(Ok(typed), named);
    }
    assert_eq!(common::spec("planes:width=type").to_string(), "planes");
    let error = "planes:width=3".parse::<zipwire_codec::Spec>().unwrap_err();
    assert_eq!(error.to_string(), "option `width` of codec `planes` cannot be `3`");
    assert!(std::panic::catch_unwind(|| Planes::new().width(3)).is_err());
}

/// Readers of version 1 refuse frames of a later one by their fifth byte; this one refuses those that no zipwire writes.
#[test]
fn frames_have_the_version_that_has_their_codec() {
    let values = Content::Gaussian.values(DType::Bf16, 100, 1);
    for id in zipwire_codec::Spec::ids().filter(|id| *id != "auto") {
        let expected = if id == "planes" { 2 } else { 1 };
        let mut frame = common::codec(id).encode_to_vec(Layout::Compact, DType::Bf16, &values).unwrap();
        assert_eq!((frame[4], FrameInfo::peek(&frame).unwrap().version), (expected, expected));
        frame[4] = 3 - expected;
        let codec = FrameInfo::peek(&frame).unwrap_err();
        assert_eq!(DECODER.decompress(&frame), Err(codec.clone()));
        assert!(matches!(codec, DecodeError::CodecVersion { codec, .. } if codec == id), "{codec}");
        for found in [0, 3] {
            frame[4] = found;
            assert_eq!(DECODER.decompress(&frame), Err(DecodeError::Version { found }));
        }
    }
}

/// A frame of bytes whose planes are these, with the checksum of the values; and what is found in it.
fn found(count: usize, front: [u8; 8], planes: &[u8]) -> DecodeError {
    let values = vec![0; count];
    let front = [&[0; 32][..], &front].concat();
    let sections =
        common::sections(10, Layout::Compact, DType::F8E4M3, &values, [front, Vec::new(), planes.to_vec()]);
    let mut frame = sections.1;
    frame[4] = 2;
    let mut out = vec![0; count];
    DECODER.decode(Layout::Compact, DType::F8E4M3, &[], &frame, &mut out).unwrap_err()
}

#[test]
fn damage_has_a_name() {
    let plane = |fault| DecodeError::Plane { block: 0, plane: 0, fault };
    let one = [1, 0, 0, 0, 0, 0, 0, 0];
    for (width, order) in [(0, 0), (3, 0), (32, 0), (1, 1), (8, 1), (4, 2)] {
        let error = DecodeError::PlaneOrder { width, order };
        assert_eq!(found(8, [width, order, 0, 0, 0, 0, 0, 0], &[]), error);
    }
    assert_eq!(found(8, [1, 0, 0, 0, 0, 0, 0, 1], &[0, 0, 0x10]), DecodeError::Padding);
    let length = |found| plane(PlaneFault::Length { found, bytes: 8 });
    for (planes, expected) in [
        (&[][..], plane(PlaneFault::Overrun)),
        (&[8, 0, 0, 1, 2, 3], plane(PlaneFault::Overrun)),
        (&[7, 0, 0, 1, 2, 3, 4, 5, 6, 7], length(7)),
        (&[0, 1, 0x10], length(256)),
        (&[8, 0, 0x20], length(8)),
        (&[4, 0, 0x20, 0], plane(PlaneFault::Overrun)),
        (&[4, 0, 0x20, 0, 0, 0, 0], plane(PlaneFault::Lengths)),
        (&[0, 1, 0x30], length(256)),
        (&[1, 0, 0x40], length(1)),
        (&[0, 0, 0x50], plane(PlaneFault::Method(5))),
        // Steps of steps, a mask of no others, one of all.
        (&[0, 0, 0x40, 0, 0, 0x40], plane(PlaneFault::Method(4))),
        (&[0, 0, 0x30, 0, 0, 0x10], plane(PlaneFault::Mask)),
        (&[0, 0, 0x30, 0xff, 0, 0x10], plane(PlaneFault::Mask)),
        // The other byte is none.
        (&[0, 0, 0x30, 1, 0, 0x10, 0, 0, 0x10], plane(PlaneFault::Mask)),
    ] {
        assert_eq!(found(8, one, planes), expected, "{planes:x?}");
    }
    // The other value is the one that is left out.
    let two = [2, 0, 0, 0, 0, 0, 0, 0];
    let without = [&[0, 0, 0x50, 7, 9][..], &[1, 0, 0x10], &[7, 0, 0x10], &[9, 0, 0x10]].concat();
    assert_eq!(found(16, two, &without), plane(PlaneFault::Mask));
    // Bits beyond the last byte.
    let error = DecodeError::Plane { block: 0, plane: 0, fault: PlaneFault::Mask };
    assert_eq!(found(7, one, &[0, 0, 0x30, 0x81, 0, 0x10]), error);
    // Five masks within each other.
    let deep = [[0, 0, 0x30]; 5].concat();
    assert_eq!(found(8, one, &deep), plane(PlaneFault::Method(3)));
    // A tail that is cut.
    let cut = found(9, [8, 0, 0, 0, 0, 0, 0, 0], &[[0, 0, 0x10]; 8].concat());
    assert!(matches!(cut, DecodeError::Truncated { needed: 1, found: 0, .. }), "{cut}");
}

/// A header that asks for much has an entry for each block; entries that are there cannot ask for more than the header does.
#[test]
fn short_frames_ask_for_little() {
    let count = 1 << 30;
    let shape = FrameShape::new(Layout::Compact, DType::F8E4M3, count);
    let least = zipwire_codec::Codec::min_len(&Planes::new(), shape);
    assert_eq!(least, 40 + 3 * 4096);
    let mut frame = Planes::new().encode_to_vec(Layout::Compact, DType::F8E4M3, &[0; 4096]).unwrap();
    frame[8..16].copy_from_slice(&(count as u64).to_le_bytes());
    assert!(matches!(FrameInfo::peek(&frame), Err(DecodeError::Implausible { .. })));
}

#[test]
fn differences_and_repeated_rows_are_in_front_of_planes_as_of_others() {
    use zipwire_codec::{Base, Decoder, Delta, DeltaCoding};
    let base = Kind::Ids.bytes(1 << 20);
    let mut decoder = Decoder::new();
    decoder.add_base(Base::new(DType::F8E4M3, base.clone())).unwrap();
    let spec = common::spec("delta+planes:width=8").against(Base::new(DType::F8E4M3, base.clone()));
    let same = spec.codec().encode_to_vec(Layout::Compact, DType::F8E4M3, &base).unwrap();
    assert!(1000 * same.len() < base.len() && decoder.decompress(&same).unwrap() == base);
    // Half of the values are others: they are in a frame of planes, by the width that the spec says.
    let others = Kind::Range.bytes(1 << 20);
    let half = [&base[..1 << 19], &others[1 << 19..]].concat();
    let frame = spec.codec().encode_to_vec(Layout::Compact, DType::F8E4M3, &half).unwrap();
    assert!((frame[4], frame[5]) == (1, 6) && decoder.decompress(&frame).unwrap() == half);
    assert!(100 * frame.len() < half.len(), "{}", frame.len());
    let plain = Delta::new(DeltaCoding::Planes, Base::new(DType::F8E4M3, base.clone())).encode_to_vec(
        Layout::Compact,
        DType::F8E4M3,
        &half,
    );
    assert!(decoder.decompress(&plain.unwrap()).unwrap() == half);

    // Bytes that differ from others at random are shorter without them.
    let other: Vec<u8> = base.as_chunks::<8>().0.iter().rev().flatten().copied().collect();
    let frame = spec.codec().encode_to_vec(Layout::Compact, DType::F8E4M3, &other).unwrap();
    assert_eq!(frame, Planes::new().width(8).encode_to_vec(Layout::Compact, DType::F8E4M3, &other).unwrap());

    let rows = Kind::Noise.bytes(4096).repeat(16);
    let frame =
        common::codec("dedup:row=4096+planes").encode_to_vec(Layout::Compact, DType::F8E4M3, &rows).unwrap();
    assert!((frame[4], frame[5]) == (1, 4) && frame.len() < 4300);
    assert!(decoder.decompress(&frame).unwrap() == rows);
}
