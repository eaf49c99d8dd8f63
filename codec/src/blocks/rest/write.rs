//! The rest of a block, written.

use super::{FORMS, Form, PLANES, PlaneTiers, Shape, bit_plane_bytes, plane_byte};
use crate::kernel::bits::{together, word};
use crate::kernel::{BASE_GROUP, Kernel, WORD_VALUES};

/// Writer of the rest of a block, group after group.
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

    /// With one more byte plane, of which `tops` has a byte for each value.
    #[must_use]
    pub(in crate::blocks) fn with_tops(mut self, tops: &'a mut [u8]) -> Self {
        self.planes[self.byte_planes] = PlaneMut { form: Form::Raw, bytes: tops, bits: &mut [], nonzero: 0 };
        Self { byte_planes: self.byte_planes + 1, ..self }
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

    /// Writes the rests of `count` values from `position` on, at most a group, which a function puts into planes, a byte of each: all of
    /// these, but planes with tiers.
    pub(in crate::blocks) fn put(
        &mut self,
        kernel: &Kernel,
        position: usize,
        count: usize,
        put: impl FnOnce([&mut [u8]; PLANES]),
    ) {
        let mut own = [[0; BASE_GROUP]; PLANES];
        let mut to =
            self.planes.iter_mut().zip(&mut own).enumerate().map(|(number, (plane, own))| match plane.form {
                Form::Raw if number < self.byte_planes => &mut plane.bytes[position..position + count],
                _ => &mut own[..count],
            });
        put(std::array::from_fn(|_| to.next().expect("there is room for each plane")));
        drop(to);
        if self.bit_planes > 0 {
            put_bits(kernel, self.bits, self.bit_planes, position, &own[self.byte_planes][..count]);
        }
        for (plane, own) in self.planes[..self.byte_planes].iter_mut().zip(&own) {
            let bytes = &own[..count];
            match plane.form {
                Form::Raw | Form::Constant(_) | Form::Tiers(_) => {}
                Form::Sparse(_) => {
                    for (i, byte) in (position..).zip(bytes).filter(|(_, byte)| **byte != 0) {
                        plane.bits[i / 8] |= 1 << (i % 8);
                        plane.bytes[plane.nonzero] = *byte;
                        plane.nonzero += 1;
                    }
                }
                Form::Signed(_) => put_bits(kernel, plane.bits, 7, position, bytes),
            }
        }
    }
}

/// Sets the lowest bits of bytes from `position` on, in planes that are zero; the highest bit may be set as well.
fn put_bits(kernel: &Kernel, out: &mut [u8], planes: usize, position: usize, bytes: &[u8]) {
    if position.is_multiple_of(WORD_VALUES) {
        let first = plane_byte(position / 8, planes);
        return (kernel.pack_bits)(bytes, planes, &mut out[first..]);
    }
    for (bytes, position) in bytes.chunks(8).zip((position..).step_by(8)) {
        let bytes = word(bytes);
        let (byte, next) = (plane_byte(position / 8, planes), plane_byte(position / 8 + 1, planes));
        for plane in 0..planes {
            let bits = u16::from(together(bytes, plane as u32)) << (position % 8);
            out[byte + 8 * plane] |= bits as u8;
            // Bits of eight values are in two bytes, unless a byte begins with the first.
            if bits >> 8 != 0 {
                out[next + 8 * plane] |= (bits >> 8) as u8;
            }
        }
    }
}
