//! Allocations: which calls make none, and which stay within their stated bounds. Its allocator counts, so it is a process of its own.

#![allow(clippy::unwrap_used, reason = "in tests a panic is the report")]

#[path = "it/common/mod.rs"]
mod common;

use std::io::{Cursor, Read, Write};

use allocation_counter::measure;
use common::content::Content;
use zipwire_codec::{
    Codec, DType, Decoder, FrameInfo, FrameShape, Layout, Raw, Reader, SeekReader, Tiered, Writer,
    WriterOptions, compress_bound, compress_into, decompress, decompress_into,
};
use zipwire_paper_codecs::Window7;

/// Longer than caches are trusted with, and no whole number of blocks.
const COUNT: usize = (1 << 20) + 777;

/// Kinds of values for which codecs take different ways.
const CONTENTS: [Content; 4] = [Content::Gaussian, Content::Rows, Content::SomeZeros, Content::Noise];

#[test]
fn coding_in_buffers_of_the_callers_allocates_nothing() {
    // Levels are chosen once.
    common::codec("window7").encode_to_vec(Layout::Compact, DType::Bf16, &[1; 64]).unwrap();
    for dtype in DType::ALL {
        for content in CONTENTS {
            let values = content.values(dtype, COUNT, 1);
            let mut frame = vec![0; compress_bound(values.len(), dtype)];
            let mut out = vec![0; values.len()];
            let info = measure(|| {
                let len = compress_into(&values, dtype, &mut frame).unwrap();
                FrameInfo::peek(&frame[..len]).unwrap();
                decompress_into(&frame[..len], &mut out).unwrap();
            });
            assert_eq!(info.count_total, 0, "{dtype} {content:?}");
            assert!(out == values);
            let codecs: [&dyn Codec; 3] = [&Raw, &Window7::new(), &Tiered::new()];
            for codec in codecs.into_iter().filter(|codec| codec.supports(dtype)) {
                for layout in Layout::ALL {
                    let shape = FrameShape::new(layout, dtype, COUNT);
                    let mut fixed = vec![0; codec.static_len(shape)];
                    let mut dynamic = vec![0; codec.bound(shape) - fixed.len()];
                    let info = measure(|| {
                        let len = codec.encode(layout, dtype, &values, &mut fixed, &mut dynamic).unwrap();
                        Decoder::new().decode(layout, dtype, &fixed, &dynamic[..len], &mut out).unwrap();
                    });
                    assert_eq!(info.count_total, 0, "{codec:?} {dtype} {layout} {content:?}");
                }
                let mut frame = vec![0; codec.bound(FrameShape::new(Layout::Compact, dtype, COUNT))];
                let info = measure(|| {
                    codec.encode(Layout::Compact, dtype, &values, &mut [], &mut frame).unwrap();
                });
                assert_eq!(info.count_total, 0, "{codec:?} {dtype} {content:?}");
            }
        }
    }
}

/// A header can name any number of values: memory is for those that a frame of its length can have.
#[test]
fn headers_alone_take_no_memory() {
    for dtype in DType::ALL {
        let mut frame = zipwire_codec::compress(&[], dtype).unwrap();
        for count in [1_u64 << 30, 1 << 40, 1 << 59, u64::MAX] {
            frame[8..16].copy_from_slice(&count.to_le_bytes());
            let info = measure(|| {
                decompress(&frame).unwrap_err();
                FrameInfo::peek(&frame).unwrap_err();
            });
            assert_eq!(info.bytes_total, 0, "{dtype} {count}");
        }
    }
}

#[test]
fn streams_take_memory_for_a_chunk_however_long_they_are() {
    let values = Content::Gaussian.values(DType::Bf16, 1 << 20, 2);
    let chunk_len = 2 << 14;
    let options = || WriterOptions::new(DType::Bf16).chunk_values(1 << 14).chunks_at_once(1);
    let mut container = Vec::with_capacity(values.len());
    let info = measure(|| {
        let mut writer = options().open(&mut container).unwrap();
        writer.write_all(&values).unwrap();
        writer.finish().unwrap();
    });
    assert!(info.bytes_max < 2 * chunk_len + 5_000, "{} bytes to write", info.bytes_max);
    let mut out = vec![0; values.len()];
    let info = measure(|| Reader::new(&container[..]).chunks_at_once(1).read_exact(&mut out).unwrap());
    assert!(out == values);
    assert!(info.bytes_max < 3 * chunk_len, "{} bytes to read", info.bytes_max);
}

/// A few bytes cannot ask for more than the values of one chunk, whatever they say.
#[test]
fn damaged_containers_take_memory_for_a_chunk_at_the_most() {
    let chunk_len = 4 * zipwire_codec::DEFAULT_CHUNK_VALUES;
    let mut writer = Writer::new(Vec::new(), DType::F32);
    writer.write_all(&Content::Noise.values(DType::F32, 100, 3)).unwrap();
    let container = writer.finish().unwrap();
    for at in 0..container.len() {
        for byte in [0, 0x7f, 0xff] {
            let mut damaged = container.clone();
            damaged[at] = byte;
            let info = measure(|| {
                let _ = Reader::new(&damaged[..]).read(&mut [0; 1]);
                let _ = SeekReader::new(Cursor::new(&damaged[..])).map(|mut reader| reader.read(&mut [0; 1]));
            });
            assert!(info.bytes_max < u64::from(chunk_len) + 20_000, "byte {at}: {} bytes", info.bytes_max);
        }
    }
}
