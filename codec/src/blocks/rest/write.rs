//! The rest of a block, written.

use super::{FORMS, Form, PLANES, PlaneTiers, Shape, bit_plane_bytes, plane_byte};
use crate::kernel::BASE_GROUP;
use crate::kernel::eight::{together, word};

/// Where the rest of a block is written, group after group.
pub(in crate::blocks) struct RestMut<'a> {
    planes: [PlaneMut<'a>; PLANES],
    byte_planes: usize,
    bits: &'a mut [u8],
    bit_planes: usize,
}

struct PlaneMut<'a> {
    form: Form,
    /// The bytes, or those of a sparse plane that are not zero.
    bytes: &'a mut [u8],
    /// Bit planes or mask.
    bits: &'a mut [u8],
    /// Nonzero bytes so far.
    nonzero: usize,
}

impl<'a> RestMut<'a> {
    /// Takes `out`, which has the length of the shape.
    pub(in crate::blocks) fn new(shape: &Shape, mut out: &'a mut [u8]) -> Self {
        // Bits are set where they belong, padding stays.
        if shape.stated || shape.bit_planes() > 0 {
            out.fill(0);
        }
        let mut take = |len| out.split_off_mut(..len).expect("the part has the length of the shape");
        if shape.stated {
            take(FORMS).copy_from_slice(&shape.to_bytes());
        }
        let planes = std::array::from_fn(|plane| {
            let form = shape.forms[plane];
            let len = if plane < shape.byte_planes() { form.len(shape.count) } else { 0 };
            let bits = match form {
                Form::Sparse(_) => bit_plane_bytes(shape.count, 1),
                Form::Signed(_) => len,
                Form::Raw | Form::Constant(_) | Form::Tiers(_) => 0,
            };
            let (bits, bytes) = take(len).split_at_mut(bits);
            if form == Form::Raw && len > 0 {
                bytes[shape.count..].fill(0);
            }
            PlaneMut { form, bytes, bits, nonzero: 0 }
        });
        let bits = take(bit_plane_bytes(shape.count, shape.bit_planes()));
        Self { planes, byte_planes: shape.byte_planes(), bits, bit_planes: shape.bit_planes() }
    }

    /// The plane of BF16.
    pub(in crate::blocks) fn bytes(&mut self) -> &mut [u8] {
        self.planes[0].bytes
    }

    /// Number, tiers and room of each plane that has tiers: these are written as a whole.
    pub(in crate::blocks) fn tiered(&mut self) -> impl Iterator<Item = (usize, PlaneTiers, &mut [u8])> {
        let planes = self.planes[..self.byte_planes].iter_mut().enumerate();
        planes.filter_map(|(number, plane)| match plane.form {
            Form::Tiers(tiers) => Some((number, tiers, &mut *plane.bytes)),
            _ => None,
        })
    }

    /// Writes the rests of the values from `position` on, but planes with tiers.
    pub(in crate::blocks) fn put(&mut self, rests: &[u32], position: usize) {
        for (number, plane) in self.planes[..self.byte_planes].iter_mut().enumerate() {
            let bytes = rests.iter().map(|rest| (rest >> (8 * number)) as u8);
            match plane.form {
                Form::Raw => {
                    plane.bytes[position..].iter_mut().zip(bytes).for_each(|(out, byte)| *out = byte);
                }
                Form::Constant(_) | Form::Tiers(_) => {}
                Form::Sparse(_) => {
                    for (i, byte) in (position..).zip(bytes).filter(|(_, byte)| *byte != 0) {
                        plane.bits[i / 8] |= 1 << (i % 8);
                        plane.bytes[plane.nonzero] = byte;
                        plane.nonzero += 1;
                    }
                }
                Form::Signed(_) => put_bits(plane.bits, 7, position, bytes),
            }
        }
        let shift = 8 * self.byte_planes;
        if self.bit_planes > 0 {
            put_bits(self.bits, self.bit_planes, position, rests.iter().map(|rest| (rest >> shift) as u8));
        }
    }
}

/// Sets the bits of values, at most those of a group, from `position` on, in planes that are zero.
fn put_bits(out: &mut [u8], planes: usize, position: usize, values: impl Iterator<Item = u8>) {
    let mut group = [0; BASE_GROUP];
    let mut count = 0;
    for (byte, value) in group.iter_mut().zip(values) {
        *byte = value;
        count += 1;
    }
    for (values, position) in group[..count].chunks(8).zip((position..).step_by(8)) {
        let values = word(values);
        let (byte, next) = (plane_byte(position / 8, planes), plane_byte(position / 8 + 1, planes));
        for plane in 0..planes {
            let bits = u16::from(together(values, plane as u32)) << (position % 8);
            out[byte + 8 * plane] |= bits as u8;
            // Bits of eight values are in two bytes, unless a byte begins with the first.
            if bits >> 8 != 0 {
                out[next + 8 * plane] |= (bits >> 8) as u8;
            }
        }
    }
}
