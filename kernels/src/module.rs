//! The codecs that have kernels, and their sources as NVRTC gets them. Adding a codec is files in `cuda/` and an entry here.

use zipwire_codec::{DType, Spec};

use crate::variant::Variant;

const COMMON: &str = include_str!("../cuda/common.cuh");
const SUM: &str = include_str!("../cuda/sum.cu");
const SIGN_MANTISSA: &str = include_str!("../cuda/sign_mantissa.cu");

/// The kernels of one codec.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Module {
    /// Name of the codec, and what names of its kernels begin with.
    pub(crate) name: &'static str,
    /// Source of the codec's kernels for one type, whose names are in the place of `Dtype` and `dtype`.
    pub(crate) text: &'static str,
    /// Types that it has kernels for.
    pub(crate) dtypes: &'static [DType],
    /// Values per block of threads: those of a tile, or of two.
    pub(crate) tile: usize,
    /// Threads of a block.
    pub(crate) threads: u32,
    /// Words of 64 bits that kernels keep of each frame, and of each of its tiles.
    pub(crate) kept: (usize, usize),
    /// The kernel that runs before the encoder, if there is one: the same in all layouts.
    pub(crate) before: Option<Before>,
    /// Kernels that run between [`Self::before`] and the encoder of `split`.
    pub(crate) passes: &'static [Pass],
    /// Bytes of room that these have for each tile.
    pub(crate) work: u64,
    /// Name of the kernel that runs after the encoder with as many blocks of threads, if there is one.
    pub(crate) again: Option<&'static str>,
    /// Whether the kernel that closes decoded frames folds the sums over their tiles.
    pub(crate) folds: bool,
    /// Alignment of compact frames in bytes.
    pub(crate) compact_align: u64,
    /// Source, behind [`Self::text`], of the kernels that encode the compact layout; `None` if compact frames are only decoded.
    pub(crate) compact_encoder: Option<&'static str>,
}

/// A kernel that looks at frames before they are encoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Before {
    /// Name of the kernel.
    pub(crate) name: &'static str,
    /// Tiles that a block of threads looks at, if there are enough blocks: with four loads of each thread at once.
    pub(crate) tiles: u32,
    /// Blocks that a frame has at most: eight for each of 132 multiprocessors, or as many as there is work for.
    pub(crate) most_blocks: u32,
}

/// A kernel that does a part of an encoder's work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Pass {
    /// Name of the kernel.
    pub(crate) name: &'static str,
    /// Tiles and threads of a block of threads.
    pub(crate) tiles: u32,
    pub(crate) threads: u32,
}

/// One word per tile: the offset of its part of the dynamic section.
const OF_TILES: (usize, usize) = (0, 1);

// A codec is in several files, which make one translation unit.
const WINDOW7: Module = Module {
    name: "window7",
    text: concat!(
        include_str!("../cuda/window7.cu"),
        include_str!("../cuda/window7_encode.cu"),
        include_str!("../cuda/window7_decode.cu"),
        include_str!("../cuda/masks.cu"),
        include_str!("../cuda/window7_compact.cu"),
        include_str!("../cuda/window7_kernels.cu"),
    ),
    dtypes: &[DType::Bf16],
    tile: 8192,
    threads: 256,
    kept: OF_TILES,
    before: None,
    passes: &[],
    work: 0,
    again: None,
    folds: false,
    compact_align: 1,
    compact_encoder: Some(concat!(
        include_str!("../cuda/compact_encode.cu"),
        include_str!("../cuda/window7_compact_encode.cu"),
    )),
};

const CODEBOOK16: Module = Module {
    name: "codebook16",
    text: concat!(
        include_str!("../cuda/codebook16.cu"),
        include_str!("../cuda/codebook16_book.cu"),
        include_str!("../cuda/codebook16_encode.cu"),
        include_str!("../cuda/codebook16_decode.cu"),
        include_str!("../cuda/masks.cu"),
        include_str!("../cuda/codebook16_compact.cu"),
        include_str!("../cuda/codebook16_kernels.cu"),
    ),
    dtypes: &[DType::Bf16],
    tile: 8192,
    threads: 256,
    // Counts of exponents, and where each tile begins.
    kept: (128, 1),
    before: Some(Before { name: "book", tiles: 16, most_blocks: 1056 }),
    passes: &[],
    work: 0,
    again: None,
    folds: false,
    compact_align: 1,
    compact_encoder: Some(concat!(
        include_str!("../cuda/compact_encode.cu"),
        include_str!("../cuda/codebook16_compact_encode.cu"),
    )),
};

const TIERED: Module = Module {
    name: "tiered",
    text: concat!(
        include_str!("../cuda/tiered.cu"),
        include_str!("../cuda/tiered_encode.cu"),
        include_str!("../cuda/tiered_decode.cu"),
        include_str!("../cuda/tiered_compact.cu"),
        include_str!("../cuda/tiered_compact_decode.cu"),
        include_str!("../cuda/tiered_compact_blocks.cu"),
        include_str!("../cuda/tiered_compact_planes.cu"),
        include_str!("../cuda/tiered_kernels.cu"),
    ),
    dtypes: &[DType::Bf16],
    tile: 32768,
    threads: 512,
    kept: OF_TILES,
    before: None,
    passes: &[],
    work: 0,
    again: None,
    folds: false,
    compact_align: 1,
    compact_encoder: Some(concat!(
        include_str!("../cuda/compact_encode.cu"),
        include_str!("../cuda/tiered_compact_encode.cu"),
    )),
};

const RANS: Module = Module {
    name: "rans",
    // Frames of `tiered` with another code for residuals.
    text: concat!(
        include_str!("../cuda/tiered.cu"),
        include_str!("../cuda/rans.cu"),
        include_str!("../cuda/tiered_encode.cu"),
        include_str!("../cuda/rans_table.cu"),
        include_str!("../cuda/rans_encode.cu"),
        include_str!("../cuda/tiered_decode.cu"),
        include_str!("../cuda/rans_rows.cu"),
        include_str!("../cuda/rans_decode.cu"),
        include_str!("../cuda/tiered_compact.cu"),
        include_str!("../cuda/tiered_compact_decode.cu"),
        include_str!("../cuda/tiered_compact_blocks.cu"),
        include_str!("../cuda/tiered_compact_planes.cu"),
        include_str!("../cuda/rans_compact_open.cu"),
        include_str!("../cuda/rans_compact_decode.cu"),
        include_str!("../cuda/rans_kernels.cu"),
    ),
    dtypes: &DType::ALL,
    tile: 32768,
    threads: 512,
    // `Scratch`, and two sums of each tile.
    kept: (2126, 2),
    before: Some(Before { name: "table", tiles: 1, most_blocks: 16 }),
    passes: &[Pass { name: "split", tiles: 1, threads: 512 }, Pass { name: "chain", tiles: 4, threads: 128 }],
    work: 36112,
    again: Some("again"),
    folds: false,
    compact_align: 1,
    compact_encoder: None,
};

const HUFFMAN: Module = Module {
    name: "huffman",
    text: concat!(
        include_str!("../cuda/huffman.cu"),
        include_str!("../cuda/huffman_code.cu"),
        include_str!("../cuda/compact_encode.cu"),
        include_str!("../cuda/huffman_encode.cu"),
        include_str!("../cuda/huffman_open.cu"),
        include_str!("../cuda/huffman_decode.cu"),
    ),
    dtypes: &[DType::Bf16],
    tile: 8192,
    // A block of a frame has 256; a warp more reads on behind it, or looks at the tiles before.
    threads: 288,
    // `Scratch`, and two words of each tile.
    kept: (1094, 2),
    before: Some(Before { name: "code", tiles: 4, most_blocks: 1056 }),
    passes: &[],
    work: 0,
    again: None,
    // Blocks of a frame straddle tiles.
    folds: true,
    compact_align: 16,
    // The sources of `split` have its kernels, too.
    compact_encoder: Some(""),
};

const FP8: &[DType] = &[DType::F8E4M3, DType::F8E5M2];
const F16_AND_FP8: &[DType] = &[DType::F16, DType::F8E4M3, DType::F8E5M2];

impl Module {
    /// A codec has an entry for each number of values that a block has; its entries follow one another.
    pub(crate) const ALL: &[Self] = &[
        WINDOW7,
        Self { dtypes: &[DType::F32], ..WINDOW7 },
        CODEBOOK16,
        Self { dtypes: FP8, tile: 16384, threads: 512, ..CODEBOOK16 },
        TIERED,
        Self { dtypes: F16_AND_FP8, ..TIERED },
        // Byte planes have forms in `compact`.
        Self { dtypes: &[DType::F32], compact_encoder: None, ..TIERED },
        RANS,
        HUFFMAN,
    ];

    /// The kernels for the frames of `spec`, if there are any.
    pub(crate) fn of(spec: &Spec, dtype: DType) -> Option<Self> {
        let name = spec.to_string();
        Self::ALL.iter().find(|module| module.name == name && module.dtypes.contains(&dtype)).copied()
    }

    /// Bytes that kernels keep of a frame of so many values.
    pub(crate) fn kept_len(self, count: u64) -> u64 {
        let (of_frame, of_tile) = self.kept;
        8 * (of_frame as u64 + of_tile as u64 * count.div_ceil(self.tile as u64))
    }

    /// Bytes of room that encoders of `split` have for a frame of so many values.
    pub(crate) fn work_len(self, count: u64) -> u64 {
        self.work * count.div_ceil(self.tile as u64)
    }

    /// Whether kernels encode the compact layout, and do not only decode it.
    pub(crate) fn encodes_compact(self) -> bool {
        self.compact_encoder.is_some()
    }

    /// Whether kernels take signs and mantissas out of frames of this type, and put them in: wherever the codec has such.
    pub(crate) fn has_sign_mantissa(self, dtype: DType) -> bool {
        zipwire_paper_codecs::register();
        let spec: Spec = self.name.parse().expect("modules have names of codecs");
        zipwire_codec::sign_mantissa_len(&*spec.codec(), dtype, self.tile).is_some()
    }

    /// Translation unit with the kernels for this type.
    pub(crate) fn source(self, dtype: DType, variant: Variant) -> Source {
        let apart = if self.has_sign_mantissa(dtype) { SIGN_MANTISSA } else { "" };
        let apart = apart.replace("codec_", &format!("{}_", self.name));
        let own = [self.text, self.compact_encoder.unwrap_or(""), &apart].concat();
        let own = own.replace("Dtype", &type_name(dtype)).replace("_dtype(", &format!("_{}(", suffix(dtype)));
        Source {
            name: self.name,
            dtype: Some(dtype),
            text: format!("{}{COMMON}\n{own}", variant.constants()),
        }
    }

    /// Name of a kernel.
    pub(crate) fn kernel(self, work: &str, dtype: DType) -> String {
        format!("{}_{work}_{}", self.name, suffix(dtype))
    }
}

/// The kernels of one codec for one type, or of sums: a complete translation unit.
#[derive(Clone, Debug)]
pub struct Source {
    /// Name of the codec, or `sum`.
    pub name: &'static str,
    /// Type of the values; `None` for the kernel of sums, which takes several.
    pub dtype: Option<DType>,
    /// CUDA C++ without includes.
    pub text: String,
}

/// Sources of all codecs that have kernels, for each of their types, and of sums; in the variant that the environment names, if there is such.
pub fn sources() -> Vec<Source> {
    let variant = Variant::of_environment().unwrap_or_default();
    let of_module = |module: &Module| {
        module.dtypes.iter().map(|dtype| module.source(*dtype, variant)).collect::<Vec<_>>()
    };
    let all = Module::ALL.iter().flat_map(of_module);
    all.chain([Source::sum()]).collect()
}

impl Source {
    /// Source of the kernel that sums decoded values.
    pub(crate) fn sum() -> Self {
        Self { name: "sum", dtype: None, text: format!("{COMMON}\n{SUM}") }
    }
}

/// Suffix of kernel names for a type.
pub(crate) fn suffix(dtype: DType) -> &'static str {
    match dtype {
        DType::Bf16 => "bf16",
        DType::F16 => "f16",
        DType::F32 => "f32",
        DType::F8E4M3 => "e4m3",
        DType::F8E5M2 => "e5m2",
    }
}

/// Name of a type in the sources.
fn type_name(dtype: DType) -> String {
    let suffix = suffix(dtype);
    suffix[..1].to_uppercase() + &suffix[1..]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_source_has_the_kernels_of_its_type_only() {
        for module in Module::ALL {
            for &dtype in module.dtypes {
                let text = module.source(dtype, Variant::default()).text;
                let kernels: Vec<&str> = text.split("extern \"C\" __global__").skip(1).map(name).collect();
                let before = module.before.map(|before| before.name);
                let works = [
                    Some("encode"),
                    Some("seal"),
                    Some("open"),
                    Some("decode"),
                    Some("close"),
                    before,
                    module.again,
                ];
                let compact =
                    ["open_compact", "decode_compact", "close_compact", "encode_compact", "seal_compact"];
                let compact = &compact[..if module.compact_encoder.is_some() { 5 } else { 3 }];
                let passes = module.passes.iter().map(|pass| pass.name);
                let apart = ["rests", "strip", "merge", "merge_stored"];
                let apart = &apart[..if module.has_sign_mantissa(dtype) { 4 } else { 0 }];
                let works = works.into_iter().flatten().chain(passes);
                let works = works.chain(compact.iter().chain(apart).copied());
                let mut expected: Vec<String> = works.map(|work| module.kernel(work, dtype)).collect();
                expected.sort();
                let mut found = kernels.clone();
                found.sort_unstable();
                assert_eq!(found, expected, "{} {dtype}", module.name);
            }
        }
    }

    /// The name of a kernel, from its text behind `__global__`.
    fn name(kernel: &str) -> &str {
        let end = kernel.find("(const Frame*").expect("kernels take frames");
        let start = kernel[..end].rfind([' ', '\n']).expect("a name has something in front");
        &kernel[start + 1..end]
    }
}
