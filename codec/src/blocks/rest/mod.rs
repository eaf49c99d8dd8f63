//! Sign and mantissa of the coded values: a plane for each whole byte of them, then bit planes for what is above.
//!
//! BF16 has one byte plane, F16 one and three bit planes, FP8 has only bit planes, F32 three byte planes. Those of F32
//! often hold little, in gradients above all: in the compact layout each is kept in the shortest of five forms.

mod read;
mod tiers;
mod write;

use super::fields::Fields;
use super::geometry::ALIGN;
use crate::kernel::words::{PLANES, PlaneStats};
use crate::kernel::{Kernel, WORD_VALUES, joint};
use crate::{BlockFault, DType, Layout};
pub(super) use read::Rest;
pub(super) use tiers::PlaneTiers;
pub(super) use write::RestMut;

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
