//! Frames to values.

use super::geometry::{ENTRY, chunk_values, front_len, mapped_groups};
use super::method::{self, Method};
use super::{Scheme, chunk, coded_sum, runs};
use crate::body::Body;
use crate::canonical::{self, DecodeTable};
use crate::fault::GroupFault;
use crate::header::HEADER_LEN;
use crate::pieces::Tails;
use crate::sections::Reader;
use crate::{DType, DecodeError, FrameShape, checksum, levels};

/// See [`crate::registry::Entry::decode`].
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
            let failed = |fault| DecodeError::Group { chunk: number, group, fault };
            let (method, len) = method::read(entry, count).map_err(failed)?;
            let coded = reader.dynamic.split_off(..len).ok_or(failed(GroupFault::Overrun))?;
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
        chunk::join(kernel, scheme, dtype, &groups, values);
        sum = sum.wrapping_add(checksum::of_values_at(kernel, values, number * chunk_values * width));
    }
    reader.finish()?;
    Ok(sum)
}

/// See [`crate::pieces::Pieces::tails`].
pub(crate) fn tails(scheme: Scheme, front: &[u8], count: usize) -> Result<Tails, DecodeError> {
    let chunk_values = chunk_values(scheme, DType::Bf16);
    let tail = |(chunk, &entry): (usize, &[u8; ENTRY])| {
        let (_, len) = method::read(entry, (count - chunk * chunk_values).min(chunk_values))
            .map_err(|fault| DecodeError::Group { chunk, group: 0, fault })?;
        Ok(Some(len))
    };
    let entries = front[HEADER_LEN..].as_chunks().0;
    Ok(Tails { first: 0, lens: entries.iter().enumerate().map(tail).collect::<Result<_, _>>()? })
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
        mut coded: &[u8],
        out: &mut [u8],
    ) -> Result<(), GroupFault> {
        match (method, scheme) {
            (Method::Stored, _) => out.copy_from_slice(coded),
            (Method::Same, _) => out.fill(coded[0]),
            (Method::Huffman, _) => {
                let lengths = canonical::read_lengths(&mut coded).ok_or(GroupFault::Lengths)?;
                let table = DecodeTable::new(&lengths).ok_or(GroupFault::Lengths)?;
                canonical::decode_streams(&table, coded, out).ok_or(GroupFault::Words)?;
            }
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
            (Method::Runs, Scheme::Blockwise) => runs::decode(coded, out).ok_or(GroupFault::Runs)?,
            (Method::Zstd | Method::Runs, _) => return Err(GroupFault::Method(method as u8)),
        }
        Ok(())
    }
}
