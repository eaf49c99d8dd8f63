//! Values to frames, and back: chunks, and the byte groups of each.

use super::method::{self, Coder, Method};
use super::{ENTRY, Scheme, chunk_values, coded_sum, front_len, mapped_groups};
use crate::error::{GroupFault, in_group};
use zipwire_codec::canonical;
use zipwire_codec::frame::{self, HEADER_LEN};
use zipwire_codec::kernel::Kernel;
use zipwire_codec::sections::{Body, Reader, Tails, Writer};
use zipwire_codec::{DType, DecodeError, FrameShape, Layout, checksum, levels};

/// Chunks that are stored without a look behind one of whose group nothing is saved (ZipNN, section 3.2: "the following few chunks").
const SKIPPED: usize = 8;

/// Encodes values of a frame of this shape, for which the sections have room; returns the length of the dynamic one.
pub(crate) fn encode(
    scheme: Scheme,
    shape: FrameShape,
    values: &[u8],
    static_out: &mut [u8],
    dynamic_out: &mut [u8],
) -> usize {
    let FrameShape { layout, dtype, count } = shape;
    let (kernel, width) = (levels::active(), dtype.width());
    let writer = Writer::new(layout, front_len(scheme, shape), static_out, dynamic_out);
    let chunk_values = chunk_values(scheme, dtype);
    let mapped = mapped_groups(layout, dtype);
    let mut scratch = vec![0; chunk_values.min(count) * width];
    let mut coder = Coder::new(kernel, scheme);
    // For each group, chunks that are still to be skipped.
    let mut skip = vec![0; width];
    let (mut sum, mut at) = (0u32, 0);
    let mut bodies = writer.bodies;
    let mut entries = writer.front[HEADER_LEN..].chunks_mut(ENTRY);
    for (number, values) in values.chunks(chunk_values * width).enumerate() {
        sum = sum.wrapping_add(checksum::of_values_at(kernel, values, number * chunk_values * width));
        let count = values.len() / width;
        let mut groups: Vec<&mut [u8]> = scratch[..values.len()].chunks_mut(count).collect();
        split_chunk(kernel, scheme, dtype, values, &mut groups);
        for (group, (bytes, skip)) in groups.iter().zip(&mut skip).enumerate() {
            if group >= mapped {
                let (body, behind) = bodies.split_at_mut(count);
                body.copy_from_slice(bytes);
                bodies = behind;
                continue;
            }
            let out = &mut writer.dynamic[at..];
            let (method, len) = if *skip > 0 {
                *skip -= 1;
                out[..count].copy_from_slice(bytes);
                (Method::Stored, count)
            } else {
                let coded = coder.code(bytes, out);
                *skip = if scheme == Scheme::Grouped && coded.0 == Method::Stored { SKIPPED } else { 0 };
                coded
            };
            sum = sum.wrapping_add(coded_sum(method, &out[..len], at));
            at += len;
            if let Some(entry) = entries.next() {
                method::write_entry(method, len, entry);
            }
        }
    }
    let dynamic_len = writer.front_dynamic_len + at;
    debug_assert!(layout == Layout::Compact || bodies.is_empty());
    frame::seal(scheme.tag(), shape, 0, dynamic_len, sum, writer.front);
    dynamic_len
}

/// See [`zipwire_codec::registry::Of::decode`].
pub(crate) fn decode(scheme: Scheme, body: &Body<'_>, out: &mut [u8]) -> Result<u32, DecodeError> {
    let Body { layout, dtype, .. } = *body;
    let (kernel, width) = (levels::active(), dtype.width());
    let shape = FrameShape { layout, dtype, count: out.len() / width };
    let mut reader = Reader::new(body, front_len(scheme, shape))?;
    let chunk_values = chunk_values(scheme, dtype);
    let mapped = mapped_groups(layout, dtype);
    let mut scratch = vec![0; chunk_values.min(shape.count) * mapped];
    let mut sum = checksum::of_front(&reader.front[HEADER_LEN..], HEADER_LEN);
    let mut entries = reader.front[HEADER_LEN..].as_chunks::<ENTRY>().0.iter();
    let mut decoder = Decoder { zstd: None };
    let mut at = 0;
    for (number, values) in out.chunks_mut(chunk_values * width).enumerate() {
        let count = values.len() / width;
        let mut groups: Vec<&[u8]> = Vec::with_capacity(width);
        let rooms = scratch[..count * mapped].chunks_mut(count);
        for ((group, room), &entry) in rooms.enumerate().zip(&mut entries) {
            let failed = |fault| in_group(scheme.id(), number, group, fault);
            let (method, len) = method::read_entry(entry, count).map_err(failed)?;
            let coded = reader.dynamic.split_off(..len).ok_or_else(|| failed(GroupFault::Overrun))?;
            sum = sum.wrapping_add(coded_sum(method, coded, at));
            at += len;
            groups.push(match method {
                Method::Stored => coded,
                _ => {
                    decoder.decode(scheme, method, coded, room).map_err(failed)?;
                    room
                }
            });
        }
        for _ in mapped..width {
            // The static section has the length of all of them.
            groups.extend(reader.bodies.split_off(..count));
        }
        join_chunk(kernel, scheme, dtype, &groups, values);
        sum = sum.wrapping_add(checksum::of_values_at(kernel, values, number * chunk_values * width));
    }
    reader.finish()?;
    Ok(sum)
}

/// See [`zipwire_codec::sections::Pieces::tails`].
pub(crate) fn tails(scheme: Scheme, front: &[u8], count: usize) -> Result<Tails, DecodeError> {
    let chunk_values = chunk_values(scheme, DType::Bf16);
    let tail = |(chunk, &entry): (usize, &[u8; ENTRY])| {
        let (_, len) = method::read_entry(entry, (count - chunk * chunk_values).min(chunk_values))
            .map_err(|fault| in_group(scheme.id(), chunk, 0, fault))?;
        Ok(Some(len))
    };
    let entries = front[HEADER_LEN..].as_chunks().0;
    Ok(Tails { first: 0, lens: entries.iter().enumerate().map(tail).collect::<Result<_, DecodeError>>()? })
}

/// State that is kept from group to group: zstd's decompressor, made when first needed.
struct Decoder {
    zstd: Option<zstd::bulk::Decompressor<'static>>,
}

impl Decoder {
    fn decode(
        &mut self,
        scheme: Scheme,
        method: Method,
        coded: &[u8],
        out: &mut [u8],
    ) -> Result<(), GroupFault> {
        match (method, scheme) {
            (Method::Stored, _) => out.copy_from_slice(coded),
            (Method::Same, _) => out.fill(coded[0]),
            (Method::Huffman, _) => canonical::read_listed(coded, out)?,
            (Method::Zstd, Scheme::Grouped) => {
                if self.zstd.is_none() {
                    self.zstd = zstd::bulk::Decompressor::new().ok();
                }
                let zstd = self.zstd.as_mut().ok_or(GroupFault::Zstd)?;
                let written = zstd.decompress_to_buffer(coded, out).map_err(|_| GroupFault::Zstd)?;
                if written != out.len() {
                    return Err(GroupFault::Zstd);
                }
            }
            (Method::Runs, Scheme::Blockwise) => method::read_runs(coded, out).ok_or(GroupFault::Runs)?,
            (Method::Zstd | Method::Runs, _) => return Err(GroupFault::Method(method as u8)),
        }
        Ok(())
    }
}

/// Cuts the bytes of values into groups, most significant first, of which `groups` has as many as a value has bytes, of a byte for each value.
///
/// With ZipNN's rule the first group of BF16 and F32 is the exponent, and the sign is on top of the second (exponent extraction).
fn split_chunk(kernel: &Kernel, scheme: Scheme, dtype: DType, values: &[u8], groups: &mut [&mut [u8]]) {
    match (scheme, dtype, groups) {
        (Scheme::Grouped, DType::Bf16, [exponents, rest]) => (kernel.split)(values, 0, rest, exponents),
        (Scheme::Grouped, DType::F32, [exponents, high, middle, low]) => {
            (kernel.split_32)(values, 0, [low, middle, high], exponents);
        }
        (_, _, [high, low]) => (kernel.split_bytes_2)(values, low, high),
        (_, _, [first, second, third, fourth]) => {
            (kernel.split_bytes_4)(values, [fourth, third, second, first]);
        }
        (_, _, groups) => groups.iter_mut().for_each(|group| group.copy_from_slice(values)),
    }
}

/// The inverse.
fn join_chunk(kernel: &Kernel, scheme: Scheme, dtype: DType, groups: &[&[u8]], values: &mut [u8]) {
    match (scheme, dtype, groups) {
        (Scheme::Grouped, DType::Bf16, [exponents, rest]) => (kernel.join)(rest, exponents, 0, values),
        (Scheme::Grouped, DType::F32, [exponents, high, middle, low]) => {
            (kernel.join_32)([low, middle, high], exponents, 0, values);
        }
        (_, _, [high, low]) => (kernel.join_bytes_2)(low, high, values),
        (_, _, [first, second, third, fourth]) => {
            (kernel.join_bytes_4)([fourth, third, second, first], values);
        }
        (_, _, groups) => groups.iter().for_each(|group| values.copy_from_slice(group)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use zipwire_codec::levels;

    #[test]
    fn groups_are_bytes_by_significance_and_come_back() {
        let value = |dtype, value: u64| value.to_le_bytes()[..DType::width(dtype)].to_vec();
        for kernel in levels::all() {
            for (scheme, dtype, bits, expected) in [
                // Sign 1, exponent 0x81, mantissa 0x5a.
                (Scheme::Grouped, DType::Bf16, 0xc0da, &[0x81, 0xda][..]),
                (Scheme::Blockwise, DType::Bf16, 0xc0da, &[0xc0, 0xda]),
                (Scheme::Grouped, DType::F32, 0xc0da_1234, &[0x81, 0xda, 0x12, 0x34]),
                (Scheme::Blockwise, DType::F32, 0xc0da_1234, &[0xc0, 0xda, 0x12, 0x34]),
                (Scheme::Grouped, DType::F16, 0xc0da, &[0xc0, 0xda]),
                (Scheme::Grouped, DType::F8E4M3, 0xc0, &[0xc0]),
                (Scheme::Blockwise, DType::F8E5M2, 0xc0, &[0xc0]),
            ] {
                for count in [0, 1, 7, 300] {
                    let mut values = value(dtype, bits).repeat(count);
                    if let Some(first) = values.first_mut() {
                        *first ^= 1;
                    }
                    let mut groups = vec![vec![0; count]; dtype.width()];
                    let mut rooms: Vec<&mut [u8]> = groups.iter_mut().map(Vec::as_mut_slice).collect();
                    split_chunk(kernel, scheme, dtype, &values, &mut rooms);
                    for (group, expected) in groups.iter().zip(expected) {
                        assert!(group.iter().skip(1).all(|byte| byte == expected), "{scheme:?} {dtype}");
                    }
                    let groups: Vec<&[u8]> = groups.iter().map(Vec::as_slice).collect();
                    let mut back = vec![0xff; values.len()];
                    join_chunk(kernel, scheme, dtype, &groups, &mut back);
                    assert_eq!(back, values, "{scheme:?} {dtype}");
                }
            }
        }
    }
}
