//! Values to frames.

use super::choose::Coder;
use super::geometry::{ENTRY, chunk_values, front_len, mapped_groups};
use super::method::{self, Method};
use super::{Scheme, chunk, coded_sum};
use crate::header::HEADER_LEN;
use crate::sections::Writer;
use crate::{FrameShape, Layout, checksum, frame, levels};

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
        chunk::split(kernel, scheme, dtype, values, &mut groups);
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
                method::write(method, len, entry);
            }
        }
    }
    let dynamic_len = writer.front_dynamic_len + at;
    let sum = sum.wrapping_add(checksum::of_front(&writer.front[HEADER_LEN..], HEADER_LEN));
    debug_assert!(layout == Layout::Compact || bodies.is_empty());
    frame::seal(scheme.tag(), shape, 0, dynamic_len, sum, writer.front);
    dynamic_len
}
