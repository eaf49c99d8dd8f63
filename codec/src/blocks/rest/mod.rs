//! Sign and mantissa of the coded values: a plane for each whole byte of them, then bit planes for what is above.
//!
//! BF16 has one byte plane, F16 one and three bit planes, FP8 has only bit planes, F32 three byte planes. Those of F32
//! often hold little, in gradients above all: in the compact layout each is kept in the shortest of five forms.

mod tiers;

pub(super) use tiers::PlaneTiers;

use super::fields::Fields;
use super::geometry::ALIGN;
use crate::kernel::bits::{spread, together, word};
use crate::kernel::fields::{PLANES, PlaneStats};
use crate::kernel::{BASE_GROUP, Kernel, WORD_VALUES, joint};
use crate::{BlockFault, DType, Layout};

/// Bytes of the forms of the byte planes of F32 in the compact layout.
const FORMS: usize = 16;
/// The sign in the highest byte plane of F32.
const SIGN: u8 = 0x80;

/// Form of a byte plane, in the order of the tags.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    /// A byte per value.
    Raw,
    /// All bytes are this one.
    Constant(u8),
    /// A mask of the bytes that are not zero, and these; this many.
    Sparse(u16),
    /// Seven bit planes; the eighth bit is the same everywhere. Highest plane only.
    Signed(u8),
    /// Codes of two bits in tiers.
    Tiers(PlaneTiers),
}

/// Statistics by which the forms of byte planes are chosen, over the values of a block that are not +0.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct RestStats {
    planes: PlaneStats,
    /// How often each byte is in each plane, where tiers may be short.
    histograms: [[u32; 256]; PLANES],
    may_have_tiers: [bool; PLANES],
}

/// Values of the sample that says whether tiers may be short: enough for each byte of noise to be rare.
const SAMPLE: usize = 1024;
/// Bits that a byte takes in tiers at most, by the sample, where they are looked at.
const FEW_BITS: usize = 9;

impl RestStats {
    /// Statistics of no values.
    pub(super) const EMPTY: Self = Self {
        planes: PlaneStats { any: 0, all: 0xff_ffff, nonzero: [0; PLANES] },
        histograms: [[0; 256]; PLANES],
        may_have_tiers: [false; PLANES],
    };

    /// Replaces the statistics by those of the values of a block, if that has forms.
    pub(super) fn collect(&mut self, kernel: &Kernel, layout: Layout, fields: Fields, values: &[u8]) {
        if !has_forms(layout, fields) {
            return;
        }
        self.planes = (kernel.plane_stats)(values);
        let count = values.len() / fields.width();
        // Every so many groups of 32.
        const RUN_VALUES: usize = 32;
        let step = count.div_ceil(SAMPLE);
        let mut rests = [0; SAMPLE];
        let mut sampled = 0;
        for values in values.chunks(RUN_VALUES * fields.width()).step_by(step) {
            fields.for_each(values, |value| {
                rests[sampled] = fields.places().rest(value);
                sampled += usize::from(value != 0);
            });
        }
        let rests = &rests[..sampled];
        for plane in 0..PLANES {
            let is_constant = (self.planes.any ^ self.planes.all) >> (8 * plane) & 0xff == 0;
            let byte = |value: u32| (fields.places().rest(value) >> (8 * plane)) as usize & 0xff;
            let mut histogram = [0; 256];
            rests.iter().for_each(|rest| histogram[*rest as usize >> (8 * plane) & 0xff] += 1);
            self.may_have_tiers[plane] = !is_constant && tiers::bits(&mut histogram) <= FEW_BITS * sampled;
            if self.may_have_tiers[plane] {
                let histogram = &mut self.histograms[plane];
                histogram.fill(0);
                fields.for_each(values, |value| histogram[byte(value)] += u32::from(value != 0));
            }
        }
    }
}

/// How the rest of a block is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Shape {
    fields: Fields,
    /// Number of values.
    count: usize,
    /// Bits of the rest of a value.
    bits: usize,
    forms: [Form; PLANES],
    /// Whether the forms are written.
    stated: bool,
}

impl Shape {
    /// All planes as they are.
    pub(super) fn raw(fields: Fields, count: usize) -> Self {
        Self { fields, count, bits: fields.rest_bits(), forms: [Form::Raw; PLANES], stated: false }
    }

    /// All planes as they are, without the two highest bits of mantissas.
    pub(super) fn without_joint(fields: Fields, count: usize) -> Self {
        Self { bits: fields.rest_bits() - joint::BITS, ..Self::raw(fields, count) }
    }

    /// Its byte planes alone.
    pub(super) fn byte_planes_alone(&self) -> Self {
        Self { bits: 8 * self.byte_planes(), ..*self }
    }

    /// The shortest forms for `count` values, of which `zeros` are +0.
    pub(super) fn shortest(
        layout: Layout,
        fields: Fields,
        count: usize,
        zeros: usize,
        stats: &RestStats,
    ) -> Self {
        let mut shape = Self::raw(fields, count);
        shape.stated = has_forms(layout, fields);
        if !shape.stated {
            return shape;
        }
        let PlaneStats { any, all, nonzero } = stats.planes;
        let all = if zeros > 0 { 0 } else { all };
        for (plane, form) in shape.forms.iter_mut().enumerate() {
            let [any, all] = [any, all].map(|bits| (bits >> (8 * plane)) as u8);
            let sparse = Form::Sparse(nonzero[plane] as u16);
            let signed = (plane == PLANES - 1 && (any ^ all) & SIGN == 0).then_some(Form::Signed(any & SIGN));
            let constant = (any == all).then_some(Form::Constant(any));
            let tiers = stats.may_have_tiers[plane].then(|| {
                let mut histogram = stats.histograms[plane];
                histogram[0] += zeros as u32;
                Form::Tiers(PlaneTiers::new(&histogram, count))
            });
            // Of equal lengths the first wins.
            let candidates = [Some(Form::Raw), constant, Some(sparse), signed, tiers];
            *form = candidates
                .into_iter()
                .flatten()
                .min_by_key(|form| form.len(count))
                .expect("there are always two candidates");
        }
        shape
    }

    /// Bytes of the whole part.
    pub(super) fn len(&self) -> usize {
        let stated = if self.stated { FORMS } else { 0 };
        let planes = self.forms[..self.byte_planes()].iter().map(|form| form.len(self.count)).sum::<usize>();
        stated + planes + bit_plane_bytes(self.count, self.bit_planes())
    }

    fn byte_planes(&self) -> usize {
        self.bits / 8
    }

    pub(super) fn bit_planes(&self) -> usize {
        self.bits % 8
    }

    fn to_bytes(self) -> [u8; FORMS] {
        let mut bytes = [0; FORMS];
        for (form, bytes) in self.forms.iter().zip(bytes.as_chunks_mut::<4>().0) {
            *bytes = match *form {
                Form::Raw => [0, 0, 0, 0],
                Form::Constant(byte) => [1, byte, 0, 0],
                Form::Sparse(count) => [2, 0, count.to_le_bytes()[0], count.to_le_bytes()[1]],
                Form::Signed(sign) => [3, sign, 0, 0],
                Form::Tiers(_) => [4, 0, 0, 0],
            };
        }
        bytes
    }

    /// Takes the forms off `bytes`, where they are stated.
    pub(super) fn read(
        layout: Layout,
        fields: Fields,
        count: usize,
        bytes: &mut &[u8],
    ) -> Result<Self, BlockFault> {
        let mut shape = Self::raw(fields, count);
        shape.stated = has_forms(layout, fields);
        if !shape.stated {
            return Ok(shape);
        }
        let (stated, mut planes) = bytes.split_first_chunk::<FORMS>().ok_or(BlockFault::Overrun)?;
        for (plane, (form, bytes)) in shape.forms.iter_mut().zip(stated.as_chunks::<4>().0).enumerate() {
            *form = match *bytes {
                [0, 0, 0, 0] => Form::Raw,
                [1, byte, 0, 0] => Form::Constant(byte),
                [2, 0, low, high] => Form::Sparse(u16::from_le_bytes([low, high])),
                [3, sign, 0, 0] if plane == PLANES - 1 && sign & !SIGN == 0 => Form::Signed(sign),
                [4, 0, 0, 0] => Form::Tiers(PlaneTiers::read(count, planes)?),
                _ => return Err(BlockFault::UnusedField),
            };
            planes = planes.get(form.len(count)..).ok_or(BlockFault::Overrun)?;
        }
        if shape.to_bytes() != *stated {
            return Err(BlockFault::UnusedField);
        }
        *bytes = &bytes[FORMS..];
        Ok(shape)
    }

    /// Bytes of everything behind the forms.
    pub(super) fn planes_len(&self) -> usize {
        self.len() - if self.stated { FORMS } else { 0 }
    }
}

impl Form {
    /// Bytes of a plane of `count` values, padding included.
    fn len(self, count: usize) -> usize {
        match self {
            Self::Raw => count.next_multiple_of(ALIGN),
            Self::Constant(_) => 0,
            Self::Sparse(nonzero) => bit_plane_bytes(count, 1) + usize::from(nonzero).next_multiple_of(ALIGN),
            Self::Signed(_) => bit_plane_bytes(count, 7),
            Self::Tiers(tiers) => tiers.len(),
        }
    }
}

fn has_forms(layout: Layout, fields: Fields) -> bool {
    layout == Layout::Compact && fields.dtype == DType::F32
}

/// Bytes of `planes` bit planes: for each 64 values a 64-bit word of each plane.
fn bit_plane_bytes(count: usize, planes: usize) -> usize {
    count.div_ceil(WORD_VALUES) * 8 * planes
}

/// Offset of byte `number` of the first of `planes` bit planes; those of the others follow, eight bytes apart.
fn plane_byte(number: usize, planes: usize) -> usize {
    number / 8 * 8 * planes + number % 8
}

/// The rest of a block, read group after group.
pub(super) struct Rest<'a> {
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
    pub(super) fn new(shape: &Shape, mut source: &'a [u8]) -> Result<Self, BlockFault> {
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
    pub(super) fn with_tops(mut self, tops: &'a [u8]) -> Self {
        self.planes[self.byte_planes] = Plane { form: Form::Raw, bytes: tops, bits: &[], nonzero: 0 };
        Self { byte_planes: self.byte_planes + 1, bits: &[], bit_planes: 0, ..self }
    }

    /// The bits of the bit planes as bytes, one for each value.
    pub(super) fn tops(&self, kernel: &Kernel, out: &mut [u8]) {
        (kernel.unpack_bits)(self.bits, self.bit_planes, out);
    }

    /// The plane of BF16.
    pub(super) fn bytes(&self) -> &'a [u8] {
        self.planes[0].bytes
    }

    /// Number, tiers and bytes of each plane that has tiers.
    pub(super) fn tiered(&self) -> impl Iterator<Item = (usize, PlaneTiers, &'a [u8])> {
        self.planes[..self.byte_planes].iter().enumerate().filter_map(|(number, plane)| match plane.form {
            Form::Tiers(tiers) => Some((number, tiers, plane.bytes)),
            _ => None,
        })
    }

    /// The rests of `count` values from `position` on, at most a group, a byte of each in a plane; those with tiers are 0. `room` is zero.
    pub(super) fn get<'b>(
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

/// Writer of the rest of a block, group after group.
pub(super) struct RestMut<'a> {
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
    pub(super) fn new(shape: &Shape, mut out: &'a mut [u8]) -> Self {
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
    pub(super) fn with_tops(mut self, tops: &'a mut [u8]) -> Self {
        self.planes[self.byte_planes] = PlaneMut { form: Form::Raw, bytes: tops, bits: &mut [], nonzero: 0 };
        Self { byte_planes: self.byte_planes + 1, ..self }
    }

    /// The plane of BF16.
    pub(super) fn bytes(&mut self) -> &mut [u8] {
        self.planes[0].bytes
    }

    /// Number, tiers and room of each plane that has tiers: these are written as a whole.
    pub(super) fn tiered(&mut self) -> impl Iterator<Item = (usize, PlaneTiers, &mut [u8])> {
        let planes = self.planes[..self.byte_planes].iter_mut().enumerate();
        planes.filter_map(|(number, plane)| match plane.form {
            Form::Tiers(tiers) => Some((number, tiers, &mut *plane.bytes)),
            _ => None,
        })
    }

    /// Writes the rests of `count` values from `position` on, at most a group, which a function puts into planes, a byte of each: all of
    /// these, but planes with tiers.
    pub(super) fn put(
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::{BASE_GROUP, PORTABLE};

    /// Writes rests in groups of 100 and reads them in groups of 37.
    fn round_trip(shape: &Shape, rests: &[u32]) {
        let mut bytes = vec![0xa5; shape.len()];
        let mut writer = RestMut::new(shape, &mut bytes);
        for (group, position) in rests.chunks(100).zip((0..).step_by(100)) {
            writer.put(&PORTABLE, position, group.len(), |planes| {
                for (plane, out) in planes.into_iter().enumerate() {
                    out.iter_mut().zip(group).for_each(|(out, rest)| *out = (rest >> (8 * plane)) as u8);
                }
            });
        }
        let mut source = &bytes[..];
        let read = Shape::read(Layout::Compact, shape.fields, rests.len(), &mut source).unwrap();
        assert_eq!(read, *shape);
        assert_eq!(source.len(), shape.planes_len());
        let mut reader = Rest::new(shape, source).unwrap();
        let mut back = vec![0xdead; rests.len()];
        for (group, position) in back.chunks_mut(37).zip((0..).step_by(37)) {
            let mut room = [[0; BASE_GROUP]; PLANES];
            let planes = reader.get(&PORTABLE, position, group.len(), &mut room);
            for (i, rest) in group.iter_mut().enumerate() {
                *rest = u32::from_le_bytes([planes[0][i], planes[1][i], planes[2][i], 0]);
            }
        }
        assert_eq!(back, rests);
    }

    /// The shape that the values have without zeros.
    fn shape(values: &[u32]) -> Shape {
        let f32 = Fields::of(DType::F32);
        let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        let zeros = values.iter().filter(|value| **value == 0).count();
        let mut stats = RestStats::EMPTY;
        stats.collect(&PORTABLE, Layout::Compact, f32, &bytes);
        Shape::shortest(Layout::Compact, f32, values.len(), zeros, &stats)
    }

    #[test]
    fn byte_planes_have_the_shortest_form() {
        let noise = |i: u32| i.wrapping_mul(0x9e37_79b1);
        let rest_of = |value: &u32| value >> 31 << 23 | value & 0x7f_ffff;
        for (any, forms) in [
            (u32::MAX, [Form::Raw, Form::Raw, Form::Raw]),
            // No sign; 16 low bits zero; all of the rest the same.
            (0x7fff_ffff, [Form::Raw, Form::Raw, Form::Signed(0)]),
            (0xffff_0000, [Form::Constant(0), Form::Constant(0), Form::Raw]),
            (0x7f00_0000, [Form::Constant(0), Form::Constant(0), Form::Constant(0)]),
        ] {
            // The exponent is never 0, and neither is a value.
            let values: Vec<u32> = (1..1000).map(|i| noise(i) & any | 0x0100_0000).collect();
            let shape = shape(&values);
            assert_eq!(shape.forms, forms, "{any:#x}");
            round_trip(&shape, &values.iter().map(rest_of).collect::<Vec<_>>());
        }
        // A byte in four is not zero; a value in ten is.
        let values: Vec<u32> = (1..1000)
            .map(|i| match i {
                _ if i % 10 == 0 => 0,
                _ if i % 4 == 0 => noise(i) | 1,
                _ => noise(i) & !0xff | 0x100,
            })
            .collect();
        let shape = shape(&values);
        let nonzero = values.iter().filter(|value| **value & 0xff != 0).count();
        assert_eq!(shape.forms[0], Form::Sparse(nonzero as u16));
        round_trip(&shape, &values.iter().map(rest_of).collect::<Vec<_>>());
    }

    #[test]
    fn bit_planes_come_back() {
        for dtype in [DType::F16, DType::F8E4M3, DType::F8E5M2] {
            let fields = Fields::of(dtype);
            for count in [1, 63, 64, 65, 300] {
                let rests: Vec<u32> =
                    (0..count).map(|i: u32| i.wrapping_mul(77) % (1 << fields.rest_bits())).collect();
                round_trip(&Shape::raw(fields, rests.len()), &rests);
            }
        }
    }

    #[test]
    fn planes_that_no_encoder_writes_are_refused() {
        let f32 = Fields::of(DType::F32);
        for form in [[5, 0, 0, 0], [4, 1, 0, 0], [0, 1, 0, 0], [1, 0, 1, 0], [2, 1, 0, 0], [3, 0, 0, 0]] {
            let mut bytes = [0; FORMS];
            bytes[..4].copy_from_slice(&form);
            let read = Shape::read(Layout::Compact, f32, 10, &mut &bytes[..]);
            assert_eq!(read, Err(BlockFault::UnusedField), "{form:?}");
        }
        let mut shape = Shape { stated: true, ..Shape::raw(f32, 10) };
        shape.forms = [Form::Sparse(2), Form::Constant(0), Form::Constant(0)];
        let fault = |bytes: [u8; 16]| Rest::new(&shape, &bytes).err();
        let with = |mask: [u8; 2], end: u8| {
            std::array::from_fn(|i| [mask[0], mask[1], 0, 0, 0, 0, 0, 0, 7, 7, 0, 0, 0, 0, 0, end][i])
        };
        assert_eq!(fault(with([5, 0], 0)), None);
        assert_eq!(fault(with([7, 0], 0)), Some(BlockFault::Coded { expected: 2, found: 3 }));
        assert_eq!(fault(with([1, 4], 0)), Some(BlockFault::Padding));
        assert_eq!(fault(with([5, 0], 1)), Some(BlockFault::Padding));
    }
}
