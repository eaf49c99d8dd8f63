//! The rest of a block, read.

use super::{Form, PLANES, PlaneTiers, Shape, bit_plane_bytes, plane_byte};
use crate::BlockFault;
use crate::kernel::bits::spread;
use crate::kernel::{BASE_GROUP, Kernel, WORD_VALUES};

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

    /// With bytes of their own, one for each value, in place of the bit planes.
    #[must_use]
    pub(in crate::blocks) fn with_tops(mut self, tops: &'a [u8]) -> Self {
        self.planes[self.byte_planes] = Plane { form: Form::Raw, bytes: tops, bits: &[], nonzero: 0 };
        Self { byte_planes: self.byte_planes + 1, bits: &[], bit_planes: 0, ..self }
    }

    /// The bits of the bit planes as bytes, one for each value.
    pub(in crate::blocks) fn tops(&self, kernel: &Kernel, out: &mut [u8]) {
        (kernel.unpack_bits)(self.bits, self.bit_planes, out);
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

    /// The rests of `count` values from `position` on, at most a group, a byte of each in a plane; those with tiers are 0. `room` is zero.
    pub(in crate::blocks) fn get<'b>(
        &'b mut self,
        kernel: &Kernel,
        position: usize,
        count: usize,
        room: &'b mut [[u8; BASE_GROUP]; PLANES],
    ) -> [&'b [u8]; PLANES] {
        let (byte_planes, bit_planes, bits) = (self.byte_planes, self.bit_planes, self.bits);
        let mut planes = self.planes.iter_mut().zip(room).enumerate().map(|(number, (plane, room))| {
            let room = &mut room[..count];
            if number >= byte_planes {
                if number == byte_planes && bit_planes > 0 {
                    get_bits(kernel, bits, bit_planes, position, room);
                }
                return &*room;
            }
            match plane.form {
                Form::Raw => return &plane.bytes[position..position + count],
                Form::Tiers(_) => {}
                Form::Constant(byte) => room.fill(byte),
                Form::Sparse(_) => {
                    for (i, out) in (position..).zip(room.iter_mut()) {
                        if plane.bits[i / 8] >> (i % 8) & 1 == 1 {
                            *out = plane.bytes[plane.nonzero];
                            plane.nonzero += 1;
                        }
                    }
                }
                Form::Signed(sign) => {
                    get_bits(kernel, plane.bits, 7, position, room);
                    room.iter_mut().for_each(|byte| *byte |= sign);
                }
            }
            room
        });
        std::array::from_fn(|_| planes.next().expect("there is room for each plane"))
    }
}

/// The inverse of `put_bits`.
fn get_bits(kernel: &Kernel, bits: &[u8], planes: usize, position: usize, out: &mut [u8]) {
    if position.is_multiple_of(WORD_VALUES) {
        let first = plane_byte(position / 8, planes);
        return (kernel.unpack_bits)(&bits[first..], planes, out);
    }
    for (out, position) in out.chunks_mut(8).zip((position..).step_by(8)) {
        let (byte, next) = (plane_byte(position / 8, planes), plane_byte(position / 8 + 1, planes));
        let mut word = 0;
        for plane in 0..planes {
            // Bits of eight values are in two bytes, unless a byte begins with the first; behind the last there is none.
            let low = u16::from(bits[byte + 8 * plane]);
            let high = u16::from(bits.get(next + 8 * plane).copied().unwrap_or(0));
            word |= spread(((low | high << 8) >> (position % 8)) as u8) << plane;
        }
        out.copy_from_slice(&word.to_le_bytes()[..out.len()]);
    }
}

/// Whether no bit beyond the last of `count` values is set.
fn end_clear(bits: &[u8], planes: usize, count: usize) -> bool {
    let words = bits.as_chunks::<8>().0;
    let last = &words[words.len().saturating_sub(planes)..];
    count.is_multiple_of(WORD_VALUES)
        || last.iter().all(|word| u64::from_le_bytes(*word) >> (count % WORD_VALUES) == 0)
}
