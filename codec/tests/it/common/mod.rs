//! Shared by the tests of codecs: values of many kinds, and frames that check themselves.

#![allow(dead_code, reason = "not every test target uses all of it")]
pub(crate) mod checksum;
pub(crate) mod content;
pub(crate) mod frequencies;
pub(crate) mod reader;

use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use content::Content;
use safetensors::{Dtype, SafeTensors};
use zipwire_codec::{
    Codec, DType, DecodeError, Decoder, FrameShape, Layout, SimdLevel, Spec, Table, force_simd, simd_levels,
};

/// Environment variable that names the SIMD level of a process of these tests.
pub(crate) const LEVEL: &str = "ZIPWIRE_TEST_LEVEL";

/// SIMD level of this process: the one that [`LEVEL`] names, or the best one.
#[allow(clippy::disallowed_methods, reason = "tests may ask which level they are for")]
pub(crate) fn level() -> SimdLevel {
    std::env::var(LEVEL).map_or_else(
        |_| simd_levels().into_iter().next_back().unwrap(),
        |name| SimdLevel::from_name(&name).unwrap(),
    )
}

/// Tag of a type in headers.
pub(crate) fn tag_of(dtype: DType) -> u8 {
    DType::ALL.into_iter().position(|other| other == dtype).unwrap() as u8
}

/// The codec with this spec, to run on [`level`]. `table=TYPE` in it stands for [`table`].
pub(crate) fn codec(spec: &str) -> Box<dyn Codec> {
    force_simd(level()).unwrap();
    self::spec(spec).codec()
}

/// The spec of such a text.
pub(crate) fn spec(text: &str) -> Spec {
    zipwire_paper_codecs::register();
    let Some((front, dtype)) = text.split_once("table=") else { return text.parse().unwrap() };
    let spec: Spec = front.trim_end_matches([':', ',']).parse().unwrap();
    let table = table(&spec, DType::from_name(dtype).unwrap());
    spec.with_table(&table).unwrap()
}

/// A table for values of this type as they are in the tests.
pub(crate) fn table(spec: &Spec, dtype: DType) -> Table {
    let samples = [Content::Gaussian, Content::Rows].map(|content| content.values(dtype, 5000, 77));
    spec.train(Layout::Compact, dtype, &samples.each_ref().map(Vec::as_slice)).unwrap()
}

/// Has all tables that [`codec`] can stand for.
pub(crate) static DECODER: LazyLock<Decoder> = LazyLock::new(|| {
    zipwire_paper_codecs::register();
    let mut decoder = Decoder::new();
    for (spec, dtype) in ["rans", "rans:mantissa=2", "codebook16"]
        .into_iter()
        .flat_map(|spec| DType::ALL.map(|dtype| (spec, dtype)))
    {
        let spec: Spec = spec.parse().unwrap();
        if spec.codec().supports(dtype) {
            decoder.add_table(table(&spec, dtype)).unwrap();
        }
    }
    decoder
});

/// Folder of recorded tensors.
pub(crate) fn samples_dir() -> PathBuf {
    let up = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors();
    up.map(|dir| dir.join("traces/samples")).find(|dir| dir.exists()).unwrap()
}

/// Compares the sizes, in percent in the split layout and in the compact one, of the recorded BF16 tensors of files that have 8 KiB at least, a
/// frame each of the codec for their rows.
#[allow(clippy::disallowed_methods, reason = "the samples are files")]
pub(crate) fn assert_sizes_of_samples(spec: &str, samples: &[(&str, f64, f64)]) {
    force_simd(level()).unwrap();
    let (mut found, mut differs) = (String::new(), false);
    for (file, split, compact) in samples {
        let path = samples_dir().join(format!("{file}.bf16.safetensors"));
        let bytes = std::fs::read(path).unwrap();
        let tensors = SafeTensors::deserialize(&bytes).unwrap().tensors();
        let sizes = Layout::ALL.map(|layout| {
            let (mut raw, mut coded) = (0, 0);
            for (_, tensor) in &tensors {
                if tensor.dtype() == Dtype::BF16 && tensor.data().len() >= 8 << 10 {
                    let row = tensor.shape().last().copied().unwrap_or(0);
                    let codec = spec.parse::<Spec>().unwrap().for_rows(row).codec();
                    let frame = Frame::new(&*codec, layout, DType::Bf16, tensor.data());
                    frame.assert_survives(file);
                    raw += frame.values.len();
                    coded += frame.len();
                }
            }
            100.0 * coded as f64 / raw as f64
        });
        differs |= (sizes[0] - split).abs() > 0.05 || (sizes[1] - compact).abs() > 0.05;
        found += &format!("    (\"{file}\", {:.2}, {:.2}),\n", sizes[0], sizes[1]);
    }
    assert!(!differs, "these sizes are others now:\n{found}");
}

/// Static and dynamic section of a frame with a codec's tag and these parts: front matter, in which the header is still to be filled in but for
/// the id of a table, bodies that are behind it in either layout, and what is in the dynamic section.
pub(crate) fn sections(
    codec: u8,
    layout: Layout,
    dtype: DType,
    values: &[u8],
    [mut front, bodies, dynamic]: [Vec<u8>; 3],
) -> (Vec<u8>, Vec<u8>) {
    let in_front = if layout == Layout::Compact { front.len() + bodies.len() } else { 0 };
    front[..4].copy_from_slice(b"ZPWR");
    front[4..8].copy_from_slice(&[1, codec, tag_of(dtype), u8::from(layout == Layout::Compact)]);
    front[8..16].copy_from_slice(&((values.len() / dtype.width()) as u64).to_le_bytes());
    front[16..24].copy_from_slice(&((dynamic.len() + in_front) as u64).to_le_bytes());
    let checksum = checksum::checksum(values, &front);
    front[24..28].copy_from_slice(&checksum.to_le_bytes());
    match layout {
        Layout::Split => ([front, bodies].concat(), dynamic),
        Layout::Compact => (vec![], [front, bodies, dynamic].concat()),
    }
}

/// A frame and what it is of.
pub(crate) struct Frame {
    pub(crate) layout: Layout,
    pub(crate) dtype: DType,
    pub(crate) values: Vec<u8>,
    pub(crate) static_section: Vec<u8>,
    pub(crate) dynamic_section: Vec<u8>,
}

impl Frame {
    /// Encodes, and checks what holds for every frame.
    pub(crate) fn new(codec: &dyn Codec, layout: Layout, dtype: DType, values: &[u8]) -> Self {
        let shape = FrameShape::new(layout, dtype, values.len() / dtype.width());
        let (static_len, bound) = (codec.static_len(shape), codec.bound(shape));
        assert!(static_len <= bound);
        assert!(layout == Layout::Split || static_len == 0);
        let encode = |poison: u8| {
            let values = values.to_vec();
            let (mut static_out, mut dynamic_out) =
                (vec![poison; static_len], vec![poison; bound - static_len]);
            let len = codec.encode(layout, dtype, &values, &mut static_out, &mut dynamic_out).unwrap();
            dynamic_out.truncate(len);
            assert!(static_len + len >= codec.min_len(shape), "shorter than can be");
            (values, static_out, dynamic_out)
        };
        let first = encode(0x00);
        let second = encode(0xa5);
        assert!(first.0 == values, "the input was changed");
        assert!(first == second, "bytes depend on what was in the buffers, or are not written");
        let (values, static_section, dynamic_section) = first;
        Self { layout, dtype, values, static_section, dynamic_section }
    }

    pub(crate) fn count(&self) -> usize {
        self.values.len() / self.dtype.width()
    }

    pub(crate) fn decode(&self) -> Result<Vec<u8>, DecodeError> {
        let mut out = vec![0x5a; self.values.len()];
        DECODER.decode(self.layout, self.dtype, &self.static_section, &self.dynamic_section, &mut out)?;
        Ok(out)
    }

    pub(crate) fn assert_survives(&self, context: &str) {
        match self.decode() {
            Ok(out) => {
                assert!(out == self.values, "{context}: {} {} other values", self.layout, self.count());
            }
            Err(error) => panic!("{context}: {} {}: {error}", self.layout, self.count()),
        }
    }

    pub(crate) fn assert_fails(&self, context: std::fmt::Arguments<'_>) {
        assert!(self.decode().is_err(), "{} {}: {context} goes unnoticed", self.layout, self.count());
    }

    /// Bytes of both sections.
    pub(crate) fn len(&self) -> usize {
        self.static_section.len() + self.dynamic_section.len()
    }

    pub(crate) fn bits(&self) -> usize {
        8 * self.len()
    }

    /// Size in percent of the values.
    pub(crate) fn percent(&self) -> f64 {
        100.0 * self.len() as f64 / self.values.len() as f64
    }

    /// The section that begins with the header.
    pub(crate) fn first_section(&self) -> &[u8] {
        if self.layout == Layout::Split { &self.static_section } else { &self.dynamic_section }
    }

    /// Damages it and says what is found.
    pub(crate) fn damaged(mut self, damage: impl FnOnce(&mut Self)) -> DecodeError {
        damage(&mut self);
        self.decode().unwrap_err()
    }

    pub(crate) fn byte(&mut self, position: usize) -> &mut u8 {
        let static_len = self.static_section.len();
        match position.checked_sub(static_len) {
            None => &mut self.static_section[position],
            Some(position) => &mut self.dynamic_section[position],
        }
    }

    pub(crate) fn flip(&mut self, bit: usize) {
        *self.byte(bit / 8) ^= 1 << (bit % 8);
    }
}
