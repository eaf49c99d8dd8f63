//! Tables that many frames share: what frames that name one are, who reads them, and what is said about others.

use crate::common;
use crate::common::Frame;
use crate::common::content::Content;
use zipwire_codec::{
    Codec, DType, DecodeError, Decoder, EncodeError, FrameInfo, FrameShape, Layout, Spec, SpecError, Table,
    TableError, TableUsage, encode_exponents, sign_mantissa_len, write_sign_mantissa,
};

const BF16: DType = DType::Bf16;

fn plain(spec: &str) -> Spec {
    common::codec("raw");
    spec.parse().unwrap()
}

/// A spec with a table for values like these, and what reads its frames.
fn trained(spec: &str, layout: Layout, dtype: DType, values: &[u8]) -> (Spec, Decoder, Table) {
    let spec = plain(spec);
    let table = spec.train(layout, dtype, &[values]).unwrap();
    let spec = spec.with_table(&table).unwrap();
    let decoder = spec.decoder();
    (spec, decoder, table)
}

fn decode(decoder: &Decoder, frame: &Frame) -> Result<Vec<u8>, DecodeError> {
    let mut out = vec![0; frame.values.len()];
    let Frame { layout, dtype, static_section, dynamic_section, .. } = frame;
    decoder.decode(*layout, *dtype, static_section, dynamic_section, &mut out).map(|()| out)
}

fn named(frame: &Frame) -> Option<u32> {
    FrameInfo::peek(&[&frame.static_section[..], &frame.dynamic_section].concat()).unwrap().table
}

#[test]
fn frames_name_the_table_and_leave_it_out() {
    let sample = Content::Gaussian.values(BF16, 200_000, 1);
    let values = Content::Gaussian.values(BF16, 70_001, 2);
    for layout in Layout::ALL {
        let (spec, decoder, table) = trained("rans", layout, BF16, &sample);
        let own = Frame::new(&*common::codec("rans"), layout, BF16, &values);
        let shared = Frame::new(&*spec.codec(), layout, BF16, &values);
        assert_eq!((named(&own), named(&shared)), (None, Some(table.id())));
        // What the table of others costs is less than a table.
        assert!(shared.len() < own.len() - 40, "{layout}: {} and {}", shared.len(), own.len());
        assert!(decode(&decoder, &shared).unwrap() == values);
        assert!(decode(&decoder, &own).unwrap() == values);
        let unknown = DecodeError::UnknownTable { id: table.id() };
        assert_eq!(decode(&Decoder::new(), &shared), Err(unknown.clone()));
        assert!(unknown.to_string().contains(&format!("{:08x}", table.id())));
        if layout == Layout::Split {
            continue;
        }
        // So short that no table of its own would pay.
        let few = &values[..2 * 4000];
        let own = Frame::new(&*common::codec("rans"), layout, BF16, few);
        let shared = Frame::new(&*spec.codec(), layout, BF16, few);
        assert_eq!(named(&shared), Some(table.id()));
        assert!(shared.len() < own.len(), "{layout}: {} and {}", shared.len(), own.len());
        assert!(decode(&decoder, &shared).unwrap() == few);
    }
}

#[test]
fn what_a_table_does_not_fit_names_none() {
    let (spec, decoder, _) = trained("rans", Layout::Compact, BF16, &Content::Gaussian.values(BF16, 9000, 1));
    for content in [Content::Noise, Content::Zeros] {
        let values = content.values(BF16, 40_000, 3);
        // Zeros are coded in the split layout.
        for layout in Layout::ALL.into_iter().skip(usize::from(matches!(content, Content::Zeros))) {
            let own = Frame::new(&*common::codec("rans"), layout, BF16, &values);
            let shared = Frame::new(&*spec.codec(), layout, BF16, &values);
            assert_eq!(named(&shared), None, "{content:?} {layout}");
            assert!(
                own.dynamic_section == shared.dynamic_section && own.static_section == shared.static_section
            );
            assert!(decode(&decoder, &shared).unwrap() == values);
        }
    }
}

#[test]
fn bits_of_mantissas_are_in_tables_for_layouts_that_have_them() {
    for (spec, dtype) in [("rans:mantissa=2", BF16), ("rans", DType::F8E4M3)] {
        let values = Content::Gaussian.values(dtype, 80_000, 4);
        let (spec, decoder, table) = trained(spec, Layout::Compact, dtype, &values);
        assert_eq!(table.as_bytes().len(), 4 + 104);
        let frame = |layout| Frame::new(&*spec.codec(), layout, dtype, &values);
        let (compact, split) = (frame(Layout::Compact), frame(Layout::Split));
        assert_eq!((named(&compact), named(&split)), (Some(table.id()), None));
        for frame in [compact, split] {
            assert!(decode(&decoder, &frame).unwrap() == values);
        }
        let (_, _, table) = trained(&spec.id_alone(), Layout::Split, dtype, &values);
        assert_eq!(table.as_bytes().len(), 4 + 56);
    }
    let values = Content::Gaussian.values(DType::F32, 9000, 4);
    let (_, _, table) = trained("rans:mantissa=2", Layout::Compact, DType::F32, &values);
    assert_eq!(table.as_bytes().len(), 4 + 56);
}

/// The text of a spec without the table.
trait IdAlone {
    fn id_alone(&self) -> String;
}

impl IdAlone for Spec {
    fn id_alone(&self) -> String {
        self.to_string().split("table=").next().unwrap().trim_end_matches([':', ',']).to_owned()
    }
}

#[test]
fn a_table_that_is_not_the_frames_is_an_error() {
    zipwire_paper_codecs::register();
    let values = Content::Gaussian.values(BF16, 5000, 6);
    let (spec, _, table) = trained("rans", Layout::Compact, BF16, &values);
    let frame = spec.codec().encode_to_vec(Layout::Compact, BF16, &values).unwrap();
    // The header is given the id of another table.
    let read_with = |frame: &[u8], table: Table| {
        let mut frame = frame.to_vec();
        frame[28..32].copy_from_slice(&table.id().to_le_bytes());
        let mut decoder = Decoder::new();
        decoder.add_table(table).unwrap();
        decoder.decompress(&frame)
    };
    assert_eq!(read_with(&frame, table.clone()).unwrap(), values);
    let f16 = trained("rans", Layout::Compact, DType::F16, &values).2;
    let book = trained("codebook16", Layout::Compact, BF16, &values).2;
    let with = |at: usize, byte: u8| {
        let mut bytes = table.as_bytes().to_vec();
        bytes[at] = byte;
        Table::new(bytes)
    };
    let cut = Table::new(&table.as_bytes()[..59]);
    let longer = Table::new([table.as_bytes(), &[0]].concat());
    for table in
        [f16, book, cut, longer, Table::new([]), with(0, 3), with(1, 9), with(2, 3), with(2, 12), with(3, 1)]
    {
        let id = table.id();
        assert_eq!(read_with(&frame, table), Err(DecodeError::Table { id, codec: "rans", dtype: BF16 }));
    }
    let other = trained("rans", Layout::Compact, BF16, &Content::Rows.values(BF16, 5000, 1)).2;
    assert!(read_with(&frame, other).is_err(), "other frequencies, other residuals");
    // One with bits of mantissas, in the other layout.
    let joint = trained("rans:mantissa=2", Layout::Compact, BF16, &values).2;
    let split = spec.codec().encode_to_vec(Layout::Split, BF16, &values).unwrap();
    let id = joint.id();
    assert_eq!(read_with(&split, joint), Err(DecodeError::Table { id, codec: "rans", dtype: BF16 }));
    // A frame in which nothing needs the table.
    let noise =
        spec.codec().encode_to_vec(Layout::Compact, BF16, &Content::Noise.values(BF16, 1000, 1)).unwrap();
    let unused = DecodeError::UnusedTable { codec: "rans", id: table.id() };
    assert_eq!(read_with(&noise, table), Err(unused));
}

#[test]
fn a_table_with_bits_of_mantissas_is_not_in_frames_whose_lengths_are_known() {
    let values = Content::Gaussian.values(BF16, 20_000, 6);
    let frame = Frame::new(&*common::codec("rans"), Layout::Split, BF16, &values);
    let mut damaged = frame.dynamic_section.clone();
    let joint = trained("rans:mantissa=2", Layout::Compact, BF16, &values).2;
    damaged.splice(..56, joint.as_bytes()[4..].iter().copied());
    let mut fixed = frame.static_section.clone();
    fixed[16..24].copy_from_slice(&(damaged.len() as u64).to_le_bytes());
    let mut out = vec![0; values.len()];
    let found = Decoder::new().decode(Layout::Split, BF16, &fixed, &damaged, &mut out);
    assert_eq!(found, Err(DecodeError::Padding));
}

#[test]
fn signs_and_mantissas_travel_apart_from_frames_that_name_a_table() {
    zipwire_paper_codecs::register();
    let values = Content::Gaussian.values(BF16, 70_001, 7);
    let count = values.len() / 2;
    for spec in ["rans", "rans:row=8", "codebook16"] {
        let (spec, decoder, table) = trained(spec, Layout::Split, BF16, &values);
        let codec = spec.codec();
        let static_len = codec.static_len(FrameShape::new(Layout::Split, BF16, count));
        let mut rest = vec![0; sign_mantissa_len(&*codec, BF16, count).unwrap()];
        write_sign_mantissa(&values, &mut rest);
        let mut fixed = vec![0; static_len - rest.len()];
        let mut dynamic = vec![0; codec.bound(FrameShape::new(Layout::Split, BF16, count)) - static_len];
        let len = encode_exponents(&*codec, BF16, &values, &mut fixed, &mut dynamic).unwrap();
        let mut out = vec![0; values.len()];
        decoder.decode_exponents(BF16, &rest, &fixed, &dynamic[..len], &mut out).unwrap();
        assert!(out == values, "{spec}");
        let unknown = Decoder::new().decode_exponents(BF16, &rest, &fixed, &dynamic[..len], &mut out);
        assert_eq!(unknown, Err(DecodeError::UnknownTable { id: table.id() }));
    }
}

#[test]
fn specs_name_tables() {
    zipwire_paper_codecs::register();
    let values = Content::Gaussian.values(BF16, 3000, 8);
    for text in ["rans", "codebook16", "rans:row=64,mantissa=2", "dedup:row=16+codebook16", "delta+rans"] {
        let spec = plain(text);
        let table = spec.train(Layout::Compact, BF16, &[&values]).unwrap();
        let told = spec.clone().with_table(&table).unwrap();
        let id = format!("{:08x}", table.id());
        let joined = if text.contains(':') && !text.contains('+') { "," } else { ":" };
        assert_eq!(told.to_string(), format!("{text}{joined}table={id}"));
        assert_eq!((spec.table_id(), told.table_id(), told.table()), (None, Some(table.id()), Some(&table)));
        // What is read from the text has no table yet.
        let read: Spec = told.to_string().parse().unwrap();
        assert_eq!(
            (read.to_string(), read.table_id(), read.table()),
            (told.to_string(), Some(table.id()), None)
        );
        assert_eq!(read.clone().with_table(&table).unwrap(), told);
        assert_eq!(told.clone().with_table(&table).unwrap(), told);
        if !text.starts_with("delta") {
            assert_eq!(told.clone().complete(), Ok(told.clone()));
            let error = read.clone().complete().unwrap_err();
            assert_eq!(error, SpecError::NoTable { spec: told.to_string() });
            assert!(error.help().is_some());
        }
        let other = spec.train(Layout::Compact, BF16, &[&Content::Rows.values(BF16, 900, 1)]).unwrap();
        let error = read.with_table(&other).unwrap_err();
        assert_eq!(error, TableError::Other { spec: told.to_string(), found: other.id() });
        assert_eq!(told.for_rows(64).table(), Some(&table));
        assert_eq!(
            (table.codec(), table.dtype()),
            (text.split(['+', ':']).find(|part| ["rans", "codebook16"].contains(part)), Some(BF16))
        );
    }
    let book = plain("codebook16").train(Layout::Compact, BF16, &[&values]).unwrap();
    let error = plain("rans").with_table(&book).unwrap_err();
    assert_eq!(
        error.to_string(),
        format!("table `{:08x}` is none of codec `rans`, it is one of `codebook16`", book.id())
    );
    let damaged = Table::new(&book.as_bytes()[..17]);
    let error = plain("codebook16").with_table(&damaged).unwrap_err();
    assert_eq!(error.to_string(), format!("table `{:08x}` is none of codec `codebook16`", damaged.id()));
    assert_eq!(plain("tiered").with_table(&book).unwrap_err(), TableError::NoTables { codec: "tiered" });
    for value in ["", "0", "00000000", "1234567", "123456789", "0x123456", "+1234567", "1234567g"] {
        let error = format!("rans:table={value}").parse::<Spec>().unwrap_err();
        assert_eq!(
            format!("{error}; {}", error.help().unwrap()),
            format!(
                "option `table` of codec `rans` cannot be `{value}`; its values are ids of tables, with 8 hexadecimal digits"
            )
        );
    }
    assert_eq!(plain("rans:table=0A1B2C3D").to_string(), "rans:table=0a1b2c3d");
}

#[test]
fn tables_are_trained_from_all_samples_alike() {
    zipwire_paper_codecs::register();
    let sample = |seed| Content::Gaussian.values(BF16, 300_000, seed);
    let (first, second) = (sample(1), sample(2));
    for spec in ["rans", "codebook16"] {
        let spec = plain(spec);
        let train = |samples: &[&[u8]]| spec.train(Layout::Compact, BF16, samples);
        let both = train(&[&first, &second]).unwrap();
        assert_eq!(both, train(&[&second, &first]).unwrap());
        assert_eq!(both, train(&[&[], &first, &[], &second]).unwrap());
        let codec = spec.codec().id();
        for samples in [&[][..], &[&[][..], &[]]] {
            assert_eq!(train(samples), Err(TableError::NoSample { codec }));
        }
        let odd = EncodeError::PartialValue { bytes: 3, dtype: BF16 };
        assert_eq!(train(&[&first, &[1, 2, 3]]), Err(TableError::Sample(odd)));
    }
    assert_eq!(
        plain("rans").train(Layout::Compact, BF16, &[&[0; 64]]),
        Err(TableError::NoSample { codec: "rans" })
    );
    let unsupported = EncodeError::Unsupported { codec: "codebook16", dtype: DType::F32 };
    assert_eq!(
        plain("codebook16").train(Layout::Compact, DType::F32, &[&[0; 64]]),
        Err(TableError::Sample(unsupported))
    );
    assert_eq!(
        plain("raw").train(Layout::Compact, BF16, &[&[0; 64]]),
        Err(TableError::NoTables { codec: "raw" })
    );
}

#[test]
fn a_codec_with_a_table_is_for_its_type_alone() {
    for dtype in DType::ALL {
        let (spec, ..) = trained("rans", Layout::Compact, dtype, &Content::Gaussian.values(dtype, 3000, 9));
        let supported: Vec<DType> =
            DType::ALL.into_iter().filter(|dtype| spec.codec().supports(*dtype)).collect();
        assert_eq!(supported, [dtype]);
    }
}

#[test]
fn how_well_a_table_fits_is_seen_in_the_frames() {
    let gaussian = Content::Gaussian.values(BF16, 200_000, 10);
    // Values of a few binades, all over the range.
    let wide: Vec<u8> =
        (0..100_000u32).flat_map(|i| (((i * 7919 % 230 + 10) << 7) as u16).to_le_bytes()).collect();
    for spec in ["rans", "codebook16"] {
        let (spec, decoder, _) = trained(spec, Layout::Compact, BF16, &gaussian);
        let usage = |codec: &dyn Codec, layout, values: &[u8]| {
            let frame = Frame::new(codec, layout, BF16, values);
            let shape = FrameShape::new(layout, BF16, frame.count());
            decoder.table_usage(shape, &frame.static_section, &frame.dynamic_section).unwrap()
        };
        for layout in Layout::ALL {
            let mut fits = usage(&*spec.codec(), layout, &gaussian).unwrap();
            assert_eq!((fits.coded, fits.others), (200_000, 0), "{spec}");
            assert!(fits.missed() < 0.001, "{spec}: {}", fits.missed());
            let stale = usage(&*spec.codec(), layout, &wide).unwrap();
            assert!(stale.missed() > 0.5, "{spec} {layout}: {stale:?}");
            fits += stale;
            assert_eq!(fits.coded + fits.others, 300_000);
            assert_eq!(usage(&*spec.codec(), layout, &[]), Some(TableUsage::default()));
            assert_eq!(usage(&*common::codec("tiered"), layout, &gaussian), None);
        }
        assert_eq!(usage(&*spec.codec(), Layout::Compact, &[0; 2000]).unwrap().missed(), 0.0);
    }
}
