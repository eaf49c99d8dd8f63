//! Containers, and what must hold of intact ones, of damaged ones, and of bytes that may be none.

use std::io::{self, Cursor, Read, Write};

use arbitrary::{Result, Unstructured};
use zipwire_codec::{ContainerError, Decoder, Reader, SeekReader, WriterOptions};

use crate::{SPECS, codec, values};

/// Offset of the checksum in the header, and its distance from the end of the index.
const HEADER_SUM: usize = 12;
const INDEX_SUM_FROM_END: usize = 8;

/// Bytes of values that a chunk may have here: fuzzers have no time for more.
const LIMIT: usize = 1 << 16;

/// A container of short chunks, by any codec, and its data.
///
/// # Errors
/// If there are too few bytes.
///
/// # Panics
/// If it is longer than its writer said.
pub fn container(input: &mut Unstructured<'_>) -> Result<(Vec<u8>, Vec<u8>)> {
    let codec = codec(input.choose(&SPECS)?);
    let dtype = crate::dtype(input, &*codec)?;
    let options = WriterOptions::new(dtype)
        .codec(codec)
        .chunk_values(input.int_in_range(1..=300)?)
        .chunks_at_once(input.int_in_range(1..=3)?);
    let mut data = values(input, dtype)?;
    data.extend(vec![7; input.int_in_range(0..=dtype.width() - 1)?]);
    let bound = options.bound(data.len() as u64).expect("the options are possible");
    let mut writer = options.open(Vec::new()).expect("the options are possible");
    writer.write_all(&data).expect("memory takes all");
    let bytes = writer.finish().expect("memory takes all");
    assert!(bytes.len() as u64 <= bound, "{} bytes, the bound is {bound}", bytes.len());
    Ok((bytes, data))
}

/// The data of bytes that may be a container, once the checksums of header and index are those that they call for: front to
/// end and by the index it is the same, or no container either way.
///
/// # Panics
/// If it is not, or an error is not one of the container's.
pub fn check_container(bytes: &mut [u8]) -> Option<Vec<u8>> {
    let mut result = sought(bytes);
    for _ in 0..2 {
        let (at, sum) = match &result {
            Err(ContainerError::HeaderChecksum { found, .. }) => (HEADER_SUM, *found),
            Err(ContainerError::IndexChecksum { found, .. }) => (bytes.len() - INDEX_SUM_FROM_END, *found),
            _ => break,
        };
        bytes[at..at + 4].copy_from_slice(&sum.to_le_bytes());
        result = sought(bytes);
    }
    let mut data = Vec::new();
    let streamed = Reader::with_decoder(&*bytes, decoder()).read_to_end(&mut data).map_err(typed);
    assert_eq!(
        streamed.is_ok(),
        result.is_ok(),
        "{streamed:?} front to end, {:?} by the index",
        result.err()
    );
    if let Ok(found) = &result {
        assert!(*found == data, "front to end the data are others");
    }
    result.ok()
}

fn decoder() -> Decoder {
    Decoder::new().max_values_len(LIMIT)
}

fn sought(bytes: &[u8]) -> std::result::Result<Vec<u8>, ContainerError> {
    let read = || {
        let mut data = Vec::new();
        SeekReader::with_decoder(Cursor::new(bytes), decoder())?.read_to_end(&mut data)?;
        Ok(data)
    };
    read().map_err(typed)
}

fn typed(error: io::Error) -> ContainerError {
    assert!(!error.to_string().is_empty());
    ContainerError::of(&error).unwrap_or_else(|| panic!("`{error}` is not one of containers")).clone()
}
