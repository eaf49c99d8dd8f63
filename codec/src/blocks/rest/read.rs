//! The rest of a block, read.

use super::{Form, PLANES, PlaneTiers, Shape, bit_plane_bytes, plane_byte};
use crate::BlockFault;
use crate::kernel::eight::spread;
use crate::kernel::tier::STEP;

/// The rest of a block, read group after group.
pub(in crate::blocks) struct Rest<'a> {
    planes: [Plane<'a>; PLANES],
    byte_planes: usize,
    bits: &'a [u8],
    bit_planes: usize,
}

struct Plane<'a> {
    form: Form,
    bytes: &'a [u8],
    bits: &'a [u8],
    nonzero: usize,
}

impl<'a> Rest<'a> {
    /// Takes `source`, which has the length of everything behind the forms.
    ///
    /// # Errors
    /// If a mask has another number of bits than the form says, or what fills up a plane is not zero.
    pub(in crate::blocks) fn new(shape: &Shape, mut source: &'a [u8]) -> Result<Self, BlockFault> {
        let mut rest = Self {
            planes: [const { Plane { form: Form::Raw, bytes: &[], bits: &[], nonzero: 0 } }; PLANES],
            byte_planes: shape.byte_planes(),
            bits: &[],
            bit_planes: shape.bit_planes(),
        };
        let count = shape.count;
        let mut take = |len| source.split_off(..len).ok_or(BlockFault::Overrun);
        for (plane, form) in rest.planes[..rest.byte_planes].iter_mut().zip(shape.forms) {
            let (bits, planes, used) = match form {
                Form::Raw => (0, 1, count),
                Form::Constant(_) => (0, 1, 0),
                // They are looked at when they are unpacked.
                Form::Tiers(_) => (0, 1, form.len(count)),
                Form::Sparse(nonzero) => (bit_plane_bytes(count, 1), 1, usize::from(nonzero)),
                Form::Signed(_) => (bit_plane_bytes(count, 7), 7, 0),
            };
            let (bits, bytes) = take(form.len(count))?.split_at(bits);
            if !end_clear(bits, planes, count) || bytes[used..].iter().any(|byte| *byte != 0) {
                return Err(BlockFault::Padding);
            }
            let found = bits.iter().map(|bits| bits.count_ones() as usize).sum();
            match form {
                Form::Sparse(_) if found != used => {
                    return Err(BlockFault::Coded { expected: used, found });
                }
                _ => *plane = Plane { form, bytes: &bytes[..used], bits, nonzero: 0 },
            }
        }
        rest.bits = take(bit_plane_bytes(count, rest.bit_planes))?;
        if !end_clear(rest.bits, rest.bit_planes.max(1), count) {
            return Err(BlockFault::Padding);
        }
        Ok(rest)
    }

    /// The plane of BF16.
    pub(in crate::blocks) fn bytes(&self) -> &'a [u8] {
        self.planes[0].bytes
    }

    /// Number, tiers and bytes of each plane that has tiers.
    pub(in crate::blocks) fn tiered(&self) -> impl Iterator<Item = (usize, PlaneTiers, &'a [u8])> {
        self.planes[..self.byte_planes].iter().enumerate().filter_map(|(number, plane)| match plane.form {
            Form::Tiers(tiers) => Some((number, tiers, plane.bytes)),
            _ => None,
        })
    }

    /// Reads the rests of the values from `position` on; planes with tiers are 0.
    pub(in crate::blocks) fn get(&mut self, rests: &mut [u32], position: usize) {
        rests.fill(0);
        for (number, plane) in self.planes[..self.byte_planes].iter_mut().enumerate() {
            let shift = 8 * number;
            match plane.form {
                Form::Tiers(_) => {}
                Form::Raw => {
                    let bytes = &plane.bytes[position..];
                    rests.iter_mut().zip(bytes).for_each(|(rest, byte)| *rest |= u32::from(*byte) << shift);
                }
                Form::Constant(byte) => rests.iter_mut().for_each(|rest| *rest |= u32::from(byte) << shift),
                Form::Sparse(_) => {
                    for (i, rest) in (position..).zip(rests.iter_mut()) {
                        if plane.bits[i / 8] >> (i % 8) & 1 == 1 {
                            *rest |= u32::from(plane.bytes[plane.nonzero]) << shift;
                            plane.nonzero += 1;
                        }
                    }
                }
                Form::Signed(sign) => {
                    get_bits(plane.bits, 7, position, rests, shift);
                    rests.iter_mut().for_each(|rest| *rest |= u32::from(sign) << shift);
                }
            }
        }
        if self.bit_planes > 0 {
            get_bits(self.bits, self.bit_planes, position, rests, 8 * self.byte_planes);
        }
    }
}

/// The inverse of `put_bits`, to bits from `shift` on.
fn get_bits(bits: &[u8], planes: usize, position: usize, rests: &mut [u32], shift: usize) {
    for (rests, position) in rests.chunks_mut(8).zip((position..).step_by(8)) {
        let (byte, next) = (plane_byte(position / 8, planes), plane_byte(position / 8 + 1, planes));
        let mut word = 0;
        for plane in 0..planes {
            // Bits of eight values are in two bytes, unless a byte begins with the first; behind the last there is none.
            let low = u16::from(bits[byte + 8 * plane]);
            let high = u16::from(bits.get(next + 8 * plane).copied().unwrap_or(0));
            word |= spread(((low | high << 8) >> (position % 8)) as u8) << plane;
        }
        for (rest, value) in rests.iter_mut().zip(word.to_le_bytes()) {
            *rest |= u32::from(value) << shift;
        }
    }
}

/// Whether no bit beyond the last of `count` values is set.
fn end_clear(bits: &[u8], planes: usize, count: usize) -> bool {
    let words = bits.as_chunks::<8>().0;
    let last = &words[words.len().saturating_sub(planes)..];
    count.is_multiple_of(STEP) || last.iter().all(|word| u64::from_le_bytes(*word) >> (count % STEP) == 0)
}
