//! The front door: whole frames in and out, typed codecs, tables and limits.

use crate::common::content::Content;
use zipwire_codec::{
    Codec, DType, DecodeError, Decoder, Dedup, EncodeError, FrameInfo, FrameShape, HEADER_LEN, Layout,
    Planes, Raw, Section, Spec, Table, Tiered, compress, compress_bound, compress_into, decompress,
    decompress_into,
};
use zipwire_paper_codecs::scale::Estimator;
use zipwire_paper_codecs::{Codebook, Codebook16, Window7};

/// Around nothing, one value, tiles and blocks.
const COUNTS: [usize; 10] = [0, 1, 2, 63, 513, 8191, 8193, 32_768, 32_769, 70_001];

/// Typed codecs and the specs that ask for the same.
fn typed() -> Vec<(&'static str, Box<dyn Codec>)> {
    zipwire_paper_codecs::register();
    vec![
        ("raw", Box::new(Raw)),
        ("window7", Box::new(Window7::new())),
        ("window7", Box::new(Window7::new().scale(Estimator::Exact))),
        ("window7:scale=std", Box::new(Window7::new().scale(Estimator::Std))),
        ("window7:scale=mean-abs", Box::new(Window7::new().scale(Estimator::MeanAbs))),
        ("tiered", Box::new(Tiered::new())),
        ("tiered", Box::new(Tiered::new().row(u32::MAX))),
        ("tiered:row=8", Box::new(Tiered::new().row(8))),
        ("codebook16", Box::new(Codebook16::new())),
        ("planes", Box::new(Planes::new())),
        ("planes:width=8", Box::new(Planes::new().width(8))),
        ("dedup:row=16+tiered:row=8", Box::new(Dedup::new(Box::new(Tiered::new().row(8)), 16))),
    ]
}

#[test]
fn typed_codecs_are_those_of_specs() {
    for (spec, codec) in typed() {
        let spec = spec.parse::<Spec>().unwrap();
        let named = spec.codec();
        assert_eq!(format!("{codec:?}"), format!("{named:?}"));
        for dtype in DType::ALL.into_iter().filter(|dtype| codec.supports(*dtype)) {
            let values = Content::Columns.values(dtype, 20_001, 1);
            for layout in Layout::ALL {
                let frame = codec.encode_to_vec(layout, dtype, &values).unwrap();
                assert!(
                    frame == named.encode_to_vec(layout, dtype, &values).unwrap(),
                    "{spec} {dtype} {layout}"
                );
                assert_eq!(FrameInfo::peek(&frame).unwrap().version, spec.frame_version(), "{spec}");
            }
        }
    }
    assert_eq!(format!("{:?}", Window7::default()), format!("{:?}", Window7::new()));
    assert_eq!(format!("{:?}", Tiered::default()), format!("{:?}", Tiered::new()));
    assert_eq!(format!("{:?}", Codebook16::default()), format!("{:?}", Codebook16::new()));
}

#[test]
fn frames_say_what_they_are_of() {
    for (spec, codec) in typed() {
        for dtype in DType::ALL.into_iter().filter(|dtype| codec.supports(*dtype)) {
            for (layout, count) in
                Layout::ALL.into_iter().flat_map(|layout| COUNTS.map(|count| (layout, count)))
            {
                let content = Content::ALL[count % Content::ALL.len()];
                let values = content.values(dtype, count, 2);
                let frame = codec.encode_to_vec(layout, dtype, &values).unwrap();
                let shape = FrameShape::new(layout, dtype, count);
                assert!(frame.len() <= codec.bound(shape) && frame.len() >= codec.min_len(shape));
                let info = FrameInfo::peek(&frame[..HEADER_LEN]).unwrap();
                assert_eq!((info.shape, info.frame_len(), info.table), (shape, frame.len(), None), "{spec}");
                assert_eq!(info.static_len, codec.static_len(shape), "{spec}");
                assert!(decompress(&frame).unwrap() == values, "{spec} {shape}");
                let mut out = vec![0xa5; values.len() + 3];
                assert_eq!(decompress_into(&frame, &mut out), Ok(values.len()));
                assert!(out[..values.len()] == values && out[values.len()..] == [0xa5; 3]);
            }
        }
    }
}

#[test]
fn compress_is_tiered_in_compact() {
    zipwire_paper_codecs::register();
    for dtype in DType::ALL {
        for count in COUNTS {
            let values = Content::Noise.values(dtype, count, 3);
            let frame = compress(&values, dtype).unwrap();
            assert!(frame == Tiered::new().encode_to_vec(Layout::Compact, dtype, &values).unwrap());
            let bound = compress_bound(values.len(), dtype);
            assert!(frame.len() <= bound && bound <= values.len() + values.len() / 2500 + 56, "{bound}");
            let mut out = vec![0xa5; bound];
            let len = compress_into(&values, dtype, &mut out).unwrap();
            assert!(out[..len] == frame);
        }
    }
    let partial = EncodeError::PartialValue { bytes: 5, dtype: DType::F32 };
    assert_eq!(compress(&[0; 5], DType::F32), Err(partial.clone()));
    assert_eq!(compress_into(&[0; 5], DType::F32, &mut [0; 100]), Err(partial));
    let error = EncodeError::DynamicBuffer { needed: 56, found: 55 };
    assert_eq!(compress_into(&[0; 8], DType::F32, &mut [0; 55]), Err(error));
    let error = EncodeError::Unsupported { codec: "window7", dtype: DType::F16 };
    assert_eq!(Window7::new().encode_to_vec(Layout::Compact, DType::F16, &[]), Err(error.clone()));
    assert_eq!(Window7::new().encode(Layout::Compact, DType::F16, &[], &mut [], &mut []), Err(error));
}

#[test]
fn every_flip_and_cut_of_a_frame_is_an_error_whoever_is_asked() {
    for (_, codec) in typed() {
        for layout in Layout::ALL {
            let values = Content::Rows.values(DType::Bf16, 130, 4);
            let frame = codec.encode_to_vec(layout, DType::Bf16, &values).unwrap();
            let mut out = vec![0; values.len() + 1000];
            for bit in 0..8 * frame.len() {
                let mut damaged = frame.clone();
                damaged[bit / 8] ^= 1 << (bit % 8);
                decompress(&damaged).unwrap_err();
                decompress_into(&damaged, &mut out).unwrap_err();
            }
            for len in 0..frame.len() {
                decompress(&frame[..len]).unwrap_err();
                decompress_into(&frame[..len], &mut out).unwrap_err();
            }
            decompress(&[&frame[..], &[0]].concat()).unwrap_err();
            let (needed, found) = (values.len(), values.len() - 1);
            let error = decompress_into(&frame, &mut out[..found]).unwrap_err();
            assert_eq!(error, DecodeError::OutputBuffer { needed, found });
        }
    }
}

#[test]
fn frames_that_name_a_book_are_read_by_who_has_it() {
    zipwire_paper_codecs::register();
    let values = Content::Gaussian.values(DType::Bf16, 20_001, 5);
    let book = Codebook::calibrate(DType::Bf16, [&values[..]]).unwrap();
    let shared = Codebook16::new().shared_book(book);
    let mut decoder = Decoder::new();
    decoder.add_table(book.table()).unwrap();
    decoder.add_table(Table::new(book.table().as_bytes())).unwrap();
    for layout in Layout::ALL {
        let carried = Codebook16::new().book(book).encode_to_vec(layout, DType::Bf16, &values).unwrap();
        let frame = shared.encode_to_vec(layout, DType::Bf16, &values).unwrap();
        assert_eq!(frame.len(), carried.len(), "lengths depend on no option");
        assert_eq!(FrameInfo::peek(&frame).unwrap().table, Some(book.id()));
        assert!(decoder.decompress(&frame).unwrap() == values);
        assert!(decoder.decompress(&carried).unwrap() == values);
        let shape = FrameInfo::peek(&frame).unwrap().shape;
        let (fixed, dynamic) = frame.split_at(shared.static_len(shape));
        let mut out = vec![0; values.len()];
        decoder.decode(layout, DType::Bf16, fixed, dynamic, &mut out).unwrap();
        assert!(out == values);

        let unknown = DecodeError::UnknownTable { id: book.id() };
        assert_eq!(decompress(&frame), Err(unknown.clone()));
        assert!(unknown.to_string().contains(&format!("{:#010x}", book.id())));
        assert!(unknown.help().unwrap().contains("add_table"));
    }
}

#[test]
fn a_table_that_is_not_the_frames_is_an_error() {
    zipwire_paper_codecs::register();
    let values = Content::Gaussian.values(DType::Bf16, 100, 6);
    let book = Codebook::calibrate(DType::Bf16, [&values[..]]).unwrap();
    let frame =
        Codebook16::new().shared_book(book).encode_to_vec(Layout::Compact, DType::Bf16, &values).unwrap();
    // The header is given the id of another table, and then what the values call for as its checksum.
    let with_table = |table: Table| {
        let mut frame = frame.clone();
        frame[28..32].copy_from_slice(&table.id().to_le_bytes());
        let mut decoder = Decoder::new();
        decoder.add_table(table).unwrap();
        decoder.decompress(&frame).unwrap_err()
    };
    let e5m2 = Codebook::calibrate(DType::F8E5M2, []).unwrap().table();
    for table in [e5m2, Table::new([]), Table::new([9; 18]), Table::new([3, 0, 7])] {
        let id = table.id();
        assert_eq!(with_table(table), DecodeError::Table { id, codec: "codebook16", dtype: DType::Bf16 });
    }
    let other = Codebook::from_exponents(DType::Bf16, std::array::from_fn(|i| 1 + i as u8)).unwrap();
    assert!(
        matches!(with_table(other.table()), DecodeError::Checksum { .. }),
        "other exponents, other values"
    );
    // A frame has a book of its own or names one, not both.
    let mut both = Codebook16::new().book(book).encode_to_vec(Layout::Compact, DType::Bf16, &values).unwrap();
    both[28..32].copy_from_slice(&book.id().to_le_bytes());
    let mut decoder = Decoder::new();
    decoder.add_table(book.table()).unwrap();
    assert_eq!(decoder.decompress(&both), Err(DecodeError::Padding));
}

#[test]
fn headers_ask_for_no_more_than_the_limit_or_than_there_is() {
    let frame = compress(&[0; 8000], DType::F32).unwrap();
    let limited = |limit| Decoder::new().max_values_len(limit).decompress(&frame);
    assert_eq!(limited(8000).unwrap(), [0; 8000]);
    let error = DecodeError::Limit { bytes: 8000, limit: 7999 };
    assert!(error.help().unwrap().contains("max_values_len"));
    assert_eq!(limited(7999), Err(error));
    // A bit for each row of 65536 values: 64 MiB of them earn 2^47 bytes, more than a process can address.
    let count: u64 = 1 << 45;
    let mut frame = vec![0; 40 + (count as usize >> 16) / 8];
    frame[..8].copy_from_slice(&[b'Z', b'P', b'W', b'R', 1, 4, 2, 1]);
    frame[8..16].copy_from_slice(&count.to_le_bytes());
    let len = frame.len() as u64;
    frame[16..24].copy_from_slice(&len.to_le_bytes());
    assert_eq!(decompress(&frame), Err(DecodeError::OutOfMemory { bytes: 1 << 47 }));
    let truncated =
        DecodeError::Truncated { section: Section::Dynamic, needed: len as usize, found: len as usize - 1 };
    assert_eq!(decompress(&frame[..len as usize - 1]), Err(truncated));
}
