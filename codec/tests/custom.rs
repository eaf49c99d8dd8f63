//! Codecs of other crates, registered as one does. A program of its own: what is registered stays for all tests of a process.
#![allow(clippy::unwrap_used, reason = "in tests a panic is the report")]

use zipwire_codec::{
    Codec, CustomCodec, DType, DecodeError, FrameInfo, FrameShape, Layout, RegisterError, Spec, decompress,
    register,
};

/// The first half of the bytes in the static section, the others reversed.
#[derive(Debug)]
struct Halves {
    id: &'static str,
    tag: u8,
}

impl CustomCodec for Halves {
    fn id(&self) -> &'static str {
        self.id
    }

    fn tag(&self) -> u8 {
        self.tag
    }

    fn supports(&self, dtype: DType) -> bool {
        dtype != DType::F32
    }

    fn static_len(&self, shape: FrameShape) -> usize {
        shape.values_len() / 2
    }

    fn bound(&self, shape: FrameShape) -> usize {
        shape.values_len()
    }

    fn min_len(&self, shape: FrameShape) -> usize {
        shape.values_len()
    }

    fn encode(&self, _: FrameShape, values: &[u8], static_out: &mut [u8], dynamic_out: &mut [u8]) -> usize {
        assert!(static_out.iter().all(|byte| *byte == 0));
        let (first, second) = values.split_at(static_out.len());
        static_out.copy_from_slice(first);
        assert_eq!(dynamic_out.len(), second.len(), "there is room for what the bound leaves");
        dynamic_out.iter_mut().zip(second.iter().rev()).for_each(|(out, byte)| *out = *byte);
        second.len()
    }

    fn decode(&self, _: FrameShape, first: &[u8], second: &[u8], out: &mut [u8]) -> Result<(), String> {
        let (front, back) = out.split_at_mut(first.len());
        if back.len() != second.len() {
            return Err(format!("{} bytes instead of {}", second.len(), back.len()));
        }
        front.copy_from_slice(first);
        back.iter_mut().zip(second.iter().rev()).for_each(|(out, byte)| *out = *byte);
        Ok(())
    }
}

fn spec_of(id: &'static str, tag: u8) -> Spec {
    register(Halves { id, tag }).unwrap();
    id.parse().unwrap()
}

#[test]
fn frames_of_a_registered_codec_come_back() {
    let codec = spec_of("halves", 130).codec();
    assert!(Spec::ids().any(|id| id == "halves"));
    for layout in [Layout::Split, Layout::Compact] {
        for count in [0, 1, 2, 3, 1000] {
            let values: Vec<u8> = (0..2 * count).map(|index| (index * 37 % 251) as u8).collect();
            let frame = codec.encode_to_vec(layout, DType::Bf16, &values).unwrap();
            let shape = FrameShape { layout, dtype: DType::Bf16, count };
            assert_eq!(decompress(&frame).unwrap(), values, "{shape:?}");
            let info = FrameInfo::peek(&frame).unwrap();
            assert_eq!((info.codec, info.shape, info.frame_len()), ("halves", shape, frame.len()));
        }
    }
    let error = codec.encode_to_vec(Layout::Compact, DType::F32, &[0; 8]).unwrap_err();
    assert!(error.to_string().contains("halves"), "{error}");
}

#[test]
fn every_flip_and_every_cut_of_its_frames_is_an_error() {
    let codec = spec_of("halves-flipped", 131).codec();
    let values: Vec<u8> = (0..40).collect();
    let frame = codec.encode_to_vec(Layout::Split, DType::Bf16, &values).unwrap();
    for bit in 0..8 * frame.len() {
        let mut damaged = frame.clone();
        damaged[bit / 8] ^= 1 << (bit % 8);
        assert!(decompress(&damaged).is_err(), "bit {bit}");
    }
    for len in 0..frame.len() {
        assert!(decompress(&frame[..len]).is_err(), "{len} bytes");
    }
}

/// A prefix codes what is left in the compact layout, by a codec that it does not know.
#[test]
fn rows_can_be_left_out_in_front_of_it() {
    register(Halves { id: "halves-of-rows", tag: 132 }).unwrap();
    let codec = "dedup:row=16+halves-of-rows".parse::<Spec>().unwrap().codec();
    let values: Vec<u8> = (0..100).flat_map(|_| 0..32).collect();
    let frame = codec.encode_to_vec(Layout::Compact, DType::Bf16, &values).unwrap();
    assert!(frame.len() < values.len() / 10, "{} bytes", frame.len());
    assert_eq!(decompress(&frame).unwrap(), values);
}

#[test]
fn a_codec_that_cannot_be_told_from_another_is_refused() {
    let refused = |id, tag| register(Halves { id, tag }).unwrap_err();
    assert_eq!(refused("tiered", 140), RegisterError::IdTaken { id: "tiered" });
    for id in ["auto", "dedup", "delta"] {
        assert_eq!(refused(id, 140), RegisterError::IdTaken { id });
    }
    for tag in [0, 127, 255] {
        assert_eq!(refused("mine", tag), RegisterError::Tag { id: "mine", tag });
    }
    for id in ["", "Mine", "a+b", "a:b"] {
        assert_eq!(refused(id, 140), RegisterError::Id { id });
    }
    register(Halves { id: "first", tag: 141 }).unwrap();
    assert_eq!(refused("first", 142), RegisterError::IdTaken { id: "first" });
    assert_eq!(refused("second", 141), RegisterError::TagTaken { id: "second", tag: 141, other: "first" });
    assert!("second".parse::<Spec>().is_err());
}

#[test]
fn its_frames_are_refused_where_it_is_not_known() {
    let codec = spec_of("known", 150).codec();
    let mut frame = codec.encode_to_vec(Layout::Compact, DType::Bf16, &[1, 2, 3, 4]).unwrap();
    frame[5] = 151;
    assert_eq!(decompress(&frame), Err(DecodeError::UnknownCodec { tag: 151 }));
    assert_eq!(
        DecodeError::UnknownCodec { tag: 151 }.help().unwrap(),
        "register the codec of another crate that has it (`register`)"
    );
    assert_eq!(DecodeError::UnknownCodec { tag: 90 }.help(), None);
}

/// Every byte twice: of two thousand bytes for a thousand, which no codec of this crate has.
#[derive(Debug)]
struct Twice;

impl CustomCodec for Twice {
    fn id(&self) -> &'static str {
        "twice"
    }

    fn tag(&self) -> u8 {
        160
    }

    fn supports(&self, _: DType) -> bool {
        true
    }

    /// Longer than the bound, which then is as long.
    fn static_len(&self, shape: FrameShape) -> usize {
        shape.values_len().saturating_mul(2)
    }

    fn bound(&self, shape: FrameShape) -> usize {
        if shape.layout == Layout::Split { 0 } else { shape.values_len().saturating_mul(2) }
    }

    fn min_len(&self, shape: FrameShape) -> usize {
        shape.values_len()
    }

    fn encode(&self, _: FrameShape, values: &[u8], static_out: &mut [u8], dynamic_out: &mut [u8]) -> usize {
        let is_split = dynamic_out.is_empty();
        let out = if is_split { static_out } else { dynamic_out };
        out.chunks_mut(2).zip(values).for_each(|(twice, byte)| twice.fill(*byte));
        if is_split { 0 } else { 2 * values.len() }
    }

    fn decode(&self, _: FrameShape, first: &[u8], second: &[u8], out: &mut [u8]) -> Result<(), String> {
        if first.len() + second.len() != 2 * out.len() {
            return Err("not twice as many bytes".to_owned());
        }
        let twice = first.iter().chain(second).step_by(2);
        out.iter_mut().zip(twice).for_each(|(out, byte)| *out = *byte);
        Ok(())
    }
}

#[test]
fn a_codec_may_take_more_than_all_others() {
    register(Twice).unwrap();
    let values: Vec<u8> =
        (0..90_u32).flat_map(|row| (0..32).map(move |at| (row * 37 + at * at) as u8)).collect();
    // Ninety rows that differ and ten that do not.
    let values = [&values[..], &values[..320]].concat();
    for spec in ["twice", "dedup:row=16+twice"] {
        let codec = spec.parse::<Spec>().unwrap().codec();
        for layout in [Layout::Split, Layout::Compact] {
            let frame = codec.encode_to_vec(layout, DType::Bf16, &values).unwrap();
            assert_eq!(decompress(&frame).unwrap(), values, "{spec}, {layout}");
        }
    }
}
