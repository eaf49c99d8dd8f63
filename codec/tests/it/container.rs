//! Containers: what is written comes back, in every way of reading and writing, and nothing that is damaged passes; containers and ids of
//! tables, read a second time from docs/format.md, and their bytes by hash.

use std::io::{self, Cursor, Read, Seek, SeekFrom, Write};

use crate::common::checksum::{behind, words};
use crate::common::content::Content;
use crate::common::reader::number;
use crate::common::tag_of;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use xxhash_rust::xxh3::xxh3_64;
use zipwire_codec::{
    Codec, ContainerError, DEFAULT_CHUNK_VALUES, DType, DecodeError, Decoder, EncodeError, MAX_CHUNK_VALUES,
    Raw, Reader, SeekReader, Table, Tiered, Writer, WriterOptions, decompress,
};
use zipwire_paper_codecs::{Codebook, Codebook16, Window7};

/// Values of a chunk in most tests: chunks are many and small.
const CHUNK: u32 = 100;

fn options(dtype: DType) -> WriterOptions {
    zipwire_paper_codecs::register();
    WriterOptions::new(dtype).chunk_values(CHUNK)
}

fn written(options: WriterOptions, data: &[u8]) -> Vec<u8> {
    let mut writer = options.open(Vec::new()).unwrap();
    writer.write_all(data).unwrap();
    writer.finish().unwrap()
}

fn streamed(container: &[u8]) -> io::Result<Vec<u8>> {
    let mut data = Vec::new();
    Reader::new(container).read_to_end(&mut data)?;
    Ok(data)
}

fn sought(container: &[u8]) -> io::Result<Vec<u8>> {
    let mut reader = SeekReader::new(Cursor::new(container))?;
    let len = reader.len();
    reader.read_range(0..len)
}

/// `len` bytes that begin with values of a kind.
fn data(content: Content, dtype: DType, len: usize) -> Vec<u8> {
    let mut data = content.values(dtype, len.div_ceil(dtype.width()), len as u64);
    data.truncate(len);
    data
}

/// The container's error, which every failure must have.
fn typed<T: std::fmt::Debug>(result: io::Result<T>) -> ContainerError {
    let error = result.unwrap_err();
    ContainerError::of(&error).unwrap_or_else(|| panic!("{error} is not typed")).clone()
}

fn codecs(dtype: DType) -> Vec<Box<dyn Codec>> {
    zipwire_paper_codecs::register();
    let all: [Box<dyn Codec>; 4] =
        [Box::new(Raw), Box::new(Window7::new()), Box::new(Tiered::new()), Box::new(Codebook16::new())];
    all.into_iter().filter(|codec| codec.supports(dtype)).collect()
}

#[test]
fn data_of_every_length_comes_back_within_the_bound() {
    for dtype in DType::ALL {
        let chunk_len = CHUNK as usize * dtype.width();
        let near = |middle: usize| middle.saturating_sub(5)..middle + 6;
        for len in near(0).chain(near(chunk_len)).chain(near(3 * chunk_len)) {
            for content in [Content::Gaussian, Content::Noise, Content::Zeros] {
                let data = data(content, dtype, len);
                for codec in codecs(dtype) {
                    let options = options(dtype).codec(codec);
                    let bound = options.bound(len as u64).unwrap();
                    let container = written(options, &data);
                    assert!(container.len() as u64 <= bound, "{dtype} {len}: {} of {bound}", container.len());
                    assert!(streamed(&container).unwrap() == data, "{dtype} {len} {content:?}");
                    assert!(sought(&container).unwrap() == data, "{dtype} {len} {content:?}");
                }
            }
        }
    }
}

#[test]
fn what_does_not_compress_costs_no_more_than_is_said() {
    for dtype in DType::ALL {
        let data = data(Content::Noise, dtype, 5 * CHUNK as usize * dtype.width());
        let container = written(options(dtype).codec(Raw), &data);
        assert_eq!(container.len(), 48 + 5 * (32 + 8) + data.len());
        let container = written(WriterOptions::new(dtype), &data);
        assert!(container.len() <= 48 + 8 + 48 + data.len());
    }
}

#[test]
fn any_codec_and_table_may_be_used() {
    let data = data(Content::Rows, DType::Bf16, 5_001);
    let book = Codebook::calibrate(DType::Bf16, [&data[..5_000]]).unwrap();
    let container = written(options(DType::Bf16).codec(Codebook16::new().shared_book(book)), &data);
    let mut decoder = Decoder::new();
    let unknown = ContainerError::Chunk { chunk: 0, source: DecodeError::UnknownTable { id: book.id() } };
    assert_eq!(typed(streamed(&container)), unknown);
    assert_eq!(typed(sought(&container)), unknown);
    decoder.add_table(book.table()).unwrap();
    let mut out = Vec::new();
    Reader::with_decoder(&container[..], decoder.clone()).read_to_end(&mut out).unwrap();
    assert!(out == data);
    let mut reader = SeekReader::with_decoder(Cursor::new(&container), decoder).unwrap();
    assert!(reader.read_range(0..5_001).unwrap() == data);
}

#[test]
fn how_it_is_written_and_on_how_many_threads_changes_no_byte() {
    for dtype in [DType::Bf16, DType::F32] {
        let data = data(Content::SomeZeros, dtype, 12_345);
        let expected = written(options(dtype).chunks_at_once(1), &data);
        for chunks in [0, 2, 3, 64] {
            assert!(written(options(dtype).chunks_at_once(chunks), &data) == expected, "{chunks} at once");
        }
        let mut rng = ChaCha8Rng::seed_from_u64(1);
        for most in [1, 3, 1000] {
            let mut writer = options(dtype).open(Vec::new()).unwrap();
            let mut left = &data[..];
            while !left.is_empty() {
                let len = rng.random_range(0..=most).min(left.len());
                writer.write_all(left.split_off(..len).unwrap()).unwrap();
                writer.flush().unwrap();
            }
            assert!(writer.finish().unwrap() == expected, "pieces of up to {most}");
        }
        for chunks in [0, 1, 2, 5, 64] {
            let mut out = Vec::new();
            Reader::new(&expected[..]).chunks_at_once(chunks).read_to_end(&mut out).unwrap();
            assert!(out == data, "{chunks} at once");
        }
    }
}

/// Gives a few bytes at a time, and is interrupted now and then.
struct Hesitant<'a>(&'a [u8], ChaCha8Rng);

impl Read for Hesitant<'_> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        if self.1.random_range(0..3) == 0 {
            return Err(io::ErrorKind::Interrupted.into());
        }
        let len = self.1.random_range(1..=7).min(out.len());
        self.0.read(&mut out[..len])
    }
}

#[test]
fn short_reads_and_interruptions_change_nothing() {
    let data = data(Content::Gaussian, DType::F32, 4_321);
    let container = written(options(DType::F32), &data);
    for seed in 0..20 {
        let mut reader = Reader::new(Hesitant(&container, ChaCha8Rng::seed_from_u64(seed)));
        assert_eq!(reader.dtype().unwrap(), DType::F32);
        let mut out = Vec::new();
        reader.read_to_end(&mut out).unwrap();
        assert!(out == data);
        assert_eq!(reader.read(&mut [0; 9]).unwrap(), 0, "the end stays the end");
    }
}

/// Takes so many writes, each of at most 50 bytes, then fails for good.
struct Failing {
    writes_left: usize,
    bytes: Vec<u8>,
}

impl Write for Failing {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.writes_left = self.writes_left.checked_sub(1).ok_or(io::ErrorKind::StorageFull)?;
        let len = bytes.len().min(50);
        self.bytes.extend_from_slice(&bytes[..len]);
        Ok(len)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_writer_that_fails_at_any_write_leaves_no_container() {
    let data = data(Content::Gaussian, DType::Bf16, 1_501);
    let expected = written(options(DType::Bf16).chunks_at_once(2), &data);
    let mut failures = 0;
    loop {
        let mut sink = Failing { writes_left: failures, bytes: Vec::new() };
        let mut writer = options(DType::Bf16).chunks_at_once(2).open(&mut sink).unwrap();
        let outcome = data.chunks(170).try_for_each(|part| writer.write_all(part));
        if let Err(error) = &outcome {
            assert_eq!(error.kind(), io::ErrorKind::StorageFull);
            assert_eq!(typed(writer.write_all(&data)), ContainerError::Failed);
            assert_eq!(typed(writer.flush()), ContainerError::Failed);
        }
        let finished = writer.finish().map(|_| ());
        let Failing { bytes, .. } = sink;
        if outcome.is_ok() && finished.is_ok() {
            assert!(bytes == expected);
            break;
        }
        finished.unwrap_err();
        assert!(bytes.len() < expected.len() && expected.starts_with(&bytes));
        assert!(
            matches!(typed(streamed(&bytes)), ContainerError::Truncated { .. }),
            "after {failures} writes"
        );
        sought(&bytes).unwrap_err();
        failures += 1;
    }
    assert!(failures > 20, "{failures} writes can fail");
}

#[test]
fn what_is_not_finished_never_looks_complete() {
    let mut sink = Vec::new();
    let mut writer = options(DType::Bf16).open(&mut sink).unwrap();
    writer.write_all(&[1; 1000]).unwrap();
    drop(writer);
    assert!(matches!(typed(streamed(&sink)), ContainerError::Truncated { .. }));
}

/// Small containers of all kinds: none, one and several chunks, with and without a tail.
fn small() -> impl Iterator<Item = (Vec<u8>, Vec<u8>)> {
    let lens = [0, 1, 2, 3, 41, 80, 83, 245];
    let kinds =
        [(DType::F32, Content::Gaussian), (DType::Bf16, Content::Rows), (DType::F8E5M2, Content::Noise)];
    kinds.into_iter().flat_map(move |(dtype, content)| {
        lens.map(|len| {
            let data = data(content, dtype, len);
            (written(WriterOptions::new(dtype).chunk_values(20), &data), data)
        })
    })
}

#[test]
fn every_flip_is_a_typed_error() {
    for (container, data) in small() {
        for bit in 0..8 * container.len() {
            let mut damaged = container.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            let mut out = Vec::new();
            let error = typed(Reader::new(&damaged[..]).read_to_end(&mut out));
            assert!(!error.to_string().is_empty());
            assert!(data.starts_with(&out), "bit {bit}: what comes before the error is what was written");
            typed(sought(&damaged));
        }
    }
}

#[test]
fn every_cut_and_every_extra_byte_is_a_typed_error() {
    for (container, data) in small() {
        for len in 0..container.len() {
            let mut out = Vec::new();
            let error = typed(Reader::new(&container[..len]).read_to_end(&mut out));
            assert!(matches!(error, ContainerError::Truncated { .. }), "{error}");
            assert!(data.starts_with(&out));
            typed(sought(&container[..len]));
        }
        for extra in [0, 1, b'Z', 0xff] {
            let longer = [&container[..], &[extra]].concat();
            assert_eq!(typed(streamed(&longer)), ContainerError::Trailing);
            typed(sought(&longer));
        }
    }
}

#[test]
fn chunks_that_are_left_out_exchanged_or_of_another_container_are_errors() {
    let values = data(Content::Gaussian, DType::Bf16, 800);
    let raw = |data: &[u8]| written(options(DType::Bf16).codec(Raw), data);
    let container = raw(&values);
    let frame = |chunk: usize| &container[16 + 232 * chunk..16 + 232 * (chunk + 1)];
    let (head, index) = (&container[..16], &container[16 + 4 * 232..]);
    let put = |chunks: &[usize]| {
        [head, &chunks.iter().map(|c| frame(*c)).collect::<Vec<_>>().concat(), index].concat()
    };
    assert!(put(&[0, 1, 2, 3]) == container);
    for chunks in [&[0, 2, 1, 3][..], &[0, 1, 2], &[0, 1, 2, 2], &[0, 1, 2, 3, 3], &[]] {
        typed(streamed(&put(chunks)));
        typed(sought(&put(chunks)));
    }
    let mut other = SeekReader::new(Cursor::new(put(&[0, 2, 1, 3]))).unwrap();
    assert!(other.read_range(0..200).unwrap() == values[..200], "chunk 0 is in its place");
    assert_eq!(typed(other.read_range(150..250)), ContainerError::ChunkIndex { chunk: 1 });
    // A short chunk in the middle, and one of another type.
    let short = raw(&values[..100]);
    let short = &short[16..16 + 132];
    let error = typed(streamed(&[head, short, frame(0), index].concat()));
    assert_eq!(error, ContainerError::Marker { chunks: 1, found: *b"ZPWR" });
    let bytes = written(options(DType::F8E5M2).codec(Raw), &values[..100]);
    let error = typed(streamed(&[head, &bytes[16..16 + 132], index].concat()));
    assert!(matches!(error, ContainerError::ChunkShape { chunk: 0, .. }), "{error}");
}

#[test]
fn any_range_is_what_streaming_gives() {
    let mut rng = ChaCha8Rng::seed_from_u64(2);
    for (dtype, len) in [(DType::F32, 9_999), (DType::Bf16, 4_000), (DType::F8E4M3, 777), (DType::F32, 3)] {
        let data = data(Content::Gaussian, dtype, len);
        let container = written(options(dtype), &data);
        assert!(streamed(&container).unwrap() == data);
        let mut reader = SeekReader::new(Cursor::new(&container)).unwrap();
        assert_eq!((reader.len(), reader.dtype(), reader.is_empty()), (len as u64, dtype, false));
        assert_eq!(reader.chunk_values(), CHUNK);
        for _ in 0..500 {
            let start = rng.random_range(0..=len);
            let end = rng.random_range(start..=len);
            let range = start as u64..end as u64;
            assert!(reader.read_range(range.clone()).unwrap() == data[start..end], "{range:?}");
        }
        let mut out = Vec::new();
        let start = rng.random_range(0..len);
        assert_eq!(reader.seek(SeekFrom::Start(start as u64)).unwrap(), start as u64);
        reader.read_to_end(&mut out).unwrap();
        assert!(out == data[start..]);
        assert_eq!(reader.stream_position().unwrap(), len as u64);
        assert_eq!(reader.seek(SeekFrom::End(-1)).unwrap(), len as u64 - 1);
        assert_eq!(reader.read(&mut [0; 5]).unwrap(), 1);
        reader.seek(SeekFrom::End(10)).unwrap();
        assert_eq!(reader.read(&mut [0; 5]).unwrap(), 0, "behind the end there is nothing");
        reader.seek(SeekFrom::Current(-(len as i64) - 11)).unwrap_err();
        let (end, len) = (len as u64 + 1, len as u64);
        assert_eq!(typed(reader.read_range(0..end)), ContainerError::Range { end, len });
        assert_eq!(typed(reader.read_at(len, &mut [0])), ContainerError::Range { end, len });
    }
}

/// Counts what is read.
struct Counting<'a>(Cursor<&'a [u8]>, u64);

impl Read for Counting<'_> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let len = self.0.read(out)?;
        self.1 += len as u64;
        Ok(len)
    }
}

impl Seek for Counting<'_> {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        self.0.seek(to)
    }
}

#[test]
fn a_range_reads_its_chunks_and_no_others_and_neighbours_read_them_once() {
    let data = data(Content::Noise, DType::Bf16, 100 * 2 * CHUNK as usize);
    let container = written(options(DType::Bf16).codec(Raw), &data);
    let mut counting = Counting(Cursor::new(&container), 0);
    let mut reader = SeekReader::new(&mut counting).unwrap();
    for start in 0..50 {
        assert!(
            reader.read_range(5_050 + start..5_051 + start).unwrap() == data[5_050 + start as usize..][..1]
        );
    }
    drop(reader);
    let index = 16 + 24 + 8 + 8 * 100;
    assert_eq!(counting.1, index + 232, "one chunk of 200 bytes was read once");
}

#[test]
fn options_that_cannot_be_are_typed_errors() {
    let unsupported = EncodeError::Unsupported { codec: "window7", dtype: DType::F16 };
    let error = options(DType::F16).codec(Window7::new()).open(io::sink()).unwrap_err();
    assert_eq!(error, ContainerError::Encode(unsupported));
    for found in [0, MAX_CHUNK_VALUES + 1] {
        let error = options(DType::F16).chunk_values(found).open(io::sink()).unwrap_err();
        assert_eq!(error, ContainerError::ChunkValues { found: u64::from(found) });
        assert_eq!(error.help().unwrap(), "chunks have `1` to `67108864` values");
    }
}

#[test]
fn memory_is_limited_where_that_is_asked_for() {
    let data = vec![0; 2 * CHUNK as usize];
    let container = written(options(DType::Bf16), &data);
    let decoder = Decoder::new().max_values_len(199);
    let error = ContainerError::Chunk { chunk: 0, source: DecodeError::Limit { bytes: 200, limit: 199 } };
    assert!(error.help().unwrap().contains("max_values_len"));
    assert_eq!(typed(Reader::with_decoder(&container[..], decoder.clone()).read(&mut [0; 9])), error);
    let mut reader = SeekReader::with_decoder(Cursor::new(&container), decoder).unwrap();
    assert_eq!(typed(reader.read_range(0..1)), error);
    assert_eq!(typed(reader.read_range(0..200)), error);
}

#[test]
fn defaults_take_any_length_and_large_chunks() {
    let len = 3 * 2 * DEFAULT_CHUNK_VALUES as usize + 4_321;
    let data = data(Content::Gaussian, DType::Bf16, len);
    let mut writer = Writer::new(Vec::new(), DType::Bf16);
    io::copy(&mut &data[..], &mut writer).unwrap();
    assert!(writer.get_ref().len() < len);
    let container = writer.finish().unwrap();
    assert!(container.len() < len * 7 / 10);
    assert!(streamed(&container).unwrap() == data);
    assert!(sought(&container).unwrap() == data);
    let mut reader = SeekReader::new(Cursor::new(&container)).unwrap();
    let mut out = Vec::new();
    io::copy(&mut reader, &mut out).unwrap();
    assert!(out == data);
}

/// The data of a container, every byte of which is looked at.
fn reference(container: &[u8], dtype: DType, chunk_values: u32) -> Vec<u8> {
    assert_eq!(container[..4], [0x5a, 0x50, 0x57, 0x53]);
    assert_eq!(container[4..8], [1, tag_of(dtype), 0, 0]);
    assert_eq!(number(&container[8..12]), u64::from(chunk_values));
    assert_eq!(number(&container[12..16]), u64::from(words(&container[..12])));

    let end = container.len();
    assert_eq!(container[end - 4..], [0x5a, 0x50, 0x57, 0x45]);
    let chunks = number(&container[end - 24..end - 16]) as usize;
    let index = &container[end - 32 - 8 * chunks..];
    assert_eq!(index[..4], [0x5a, 0x50, 0x57, 0x49]);
    let sum_at = 24 + 8 * chunks;
    assert_eq!(number(&index[sum_at..sum_at + 4]), u64::from(words(&index[..sum_at])));

    let (mut at, mut data) = (16, Vec::new());
    for (chunk, entry) in index[8..].chunks(8).take(chunks).enumerate() {
        let (len, checksum) = (number(&entry[..4]) as usize, &entry[4..]);
        let frame = &container[at..at + len];
        // In `compact`, and the length of the whole frame.
        assert_eq!((frame[7], number(&frame[16..24])), (1, len as u64));
        assert_eq!(&frame[24..28], checksum);
        assert_eq!(data.len(), chunk * chunk_values as usize * dtype.width());
        data.extend(decompress(frame).unwrap());
        at += len;
    }
    assert_eq!(at, end - index.len(), "chunks have no gaps");
    let tail_len = usize::from(index[4]);
    data.extend(&index[5..5 + tail_len]);
    assert!(index[5 + tail_len..8].iter().all(|byte| *byte == 0));
    assert_eq!(number(&container[end - 16..end - 8]), data.len() as u64);
    assert_eq!(tail_len, data.len() % dtype.width());
    data
}

#[test]
fn containers_are_what_the_format_says_and_have_not_changed() {
    let golden = [
        (DType::Bf16, 0, 0xa833_c94a_77b5_34d7_u64),
        (DType::Bf16, 30_001, 0x8c21_fdab_e5ed_64df),
        (DType::F32, 30_003, 0xfe0a_4374_f85d_f8bb),
        (DType::F8E4M3, 4_000, 0xc448_dfe1_c41b_a1b1),
    ];
    let mut changed = String::new();
    for (dtype, len, expected) in golden {
        let mut data = Content::Rows.values(dtype, len / dtype.width() + 1, 7);
        data.truncate(len);
        let mut writer = WriterOptions::new(dtype).chunk_values(4_000).open(Vec::new()).unwrap();
        writer.write_all(&data).unwrap();
        let container = writer.finish().unwrap();
        assert!(reference(&container, dtype, 4_000) == data, "{dtype} {len}");
        let found = xxh3_64(&container);
        if found != expected {
            changed += &format!("        (DType::{dtype:?}, {len}, {found:#018x}),\n");
        }
    }
    assert!(changed.is_empty(), "these containers are others now:\n{changed}");
}

#[test]
fn ids_of_tables_are_what_the_format_says() {
    let book = Codebook::from_exponents(DType::F8E5M2, std::array::from_fn(|i| 3 + i as u8)).unwrap();
    let bytes: Vec<u8> = [3, 4].into_iter().chain(3..19).collect();
    assert_eq!(book.table().as_bytes(), bytes);
    for bytes in [bytes, vec![], vec![0], vec![0, 0], vec![9; 100]] {
        let len = words(&(bytes.len() as u64).to_le_bytes());
        // Words from the second index on.
        let expected = behind(8, &bytes).wrapping_add(len).max(1);
        assert_eq!(Table::new(bytes).id(), expected);
    }
}
