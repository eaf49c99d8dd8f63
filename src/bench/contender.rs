//! What is measured: the project's codecs, and those that everybody knows.

use std::fmt;
use std::str::FromStr;

use rayon::prelude::*;
use zipwire_codec::parallel::{PIECE_VALUES, Pieces};
use zipwire_codec::{Codec, DType, Layout, Spec, SpecError};

/// A codec to measure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Contender {
    /// One of the project's.
    Own(Spec),
    /// zstd at a level, over the bytes as they are.
    Zstd(i32),
    /// LZ4, over the bytes as they are.
    Lz4,
}

impl FromStr for Contender {
    type Err = SpecError;

    fn from_str(text: &str) -> Result<Self, SpecError> {
        match text {
            "zstd" => Ok(Self::Zstd(1)),
            "lz4" => Ok(Self::Lz4),
            spec => spec.parse().map(Self::Own),
        }
    }
}

impl fmt::Display for Contender {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Own(spec) => spec.fmt(f),
            Self::Zstd(_) => f.write_str("zstd"),
            Self::Lz4 => f.write_str("lz4"),
        }
    }
}

impl Contender {
    /// The project's codecs, then the others.
    pub fn all() -> Vec<Self> {
        let own = Spec::ids().map(|id| Self::Own(id.parse().expect("ids are specs")));
        own.chain([Self::Zstd(1), Self::Lz4]).collect()
    }

    /// Whether it has the layout and codes values of this type.
    pub fn supports(&self, layout: Layout, dtype: DType) -> bool {
        match self {
            Self::Own(spec) => spec.codec().supports(dtype),
            Self::Zstd(_) | Self::Lz4 => layout == Layout::Compact,
        }
    }
}

/// A contender at work on one tensor, with buffers of its own. All code in pieces of [`PIECE_VALUES`] values.
pub(super) enum Worker {
    Own(Box<dyn Codec>, Pieces),
    /// Blocks of bytes, and a level for zstd; LZ4 without.
    Bytes {
        level: Option<i32>,
        piece_len: usize,
        coded: Vec<Vec<u8>>,
    },
}

impl Worker {
    pub(super) fn new(contender: &Contender, layout: Layout, dtype: DType, len: usize) -> Self {
        let piece_len = PIECE_VALUES * dtype.width();
        let level = match contender {
            Contender::Own(spec) => {
                let codec = spec.codec();
                let pieces = Pieces::new(codec.as_ref(), layout, dtype, len);
                return Self::Own(codec, pieces);
            }
            Contender::Zstd(level) => Some(*level),
            Contender::Lz4 => None,
        };
        Self::Bytes { level, piece_len, coded: vec![Vec::new(); len.div_ceil(piece_len)] }
    }

    /// Codes the values on the threads of the current pool.
    pub(super) fn encode(&mut self, values: &[u8]) -> Result<(), String> {
        match self {
            Self::Own(codec, pieces) => {
                pieces.encode(codec.as_ref(), values).map_err(|error| error.to_string())
            }
            Self::Bytes { level, piece_len, coded } => {
                let level = *level;
                values.par_chunks(*piece_len).zip(coded).try_for_each(|(values, coded)| {
                    *coded = match level {
                        Some(level) => {
                            zstd::bulk::compress(values, level).map_err(|error| error.to_string())?
                        }
                        None => lz4_flex::block::compress(values),
                    };
                    Ok(())
                })
            }
        }
    }

    /// Decodes what was coded last.
    pub(super) fn decode(&self, out: &mut [u8]) -> Result<(), String> {
        match self {
            Self::Own(_, pieces) => pieces.decode(out).map_err(|error| error.to_string()),
            Self::Bytes { level, piece_len, coded } => {
                out.par_chunks_mut(*piece_len).zip(coded).try_for_each(|(out, coded)| {
                    let written = match level {
                        Some(_) => zstd::bulk::decompress_to_buffer(coded, out).map_err(|e| e.to_string()),
                        None => lz4_flex::block::decompress_into(coded, out).map_err(|e| e.to_string()),
                    };
                    if written? == out.len() {
                        Ok(())
                    } else {
                        Err("it decoded to another length".to_owned())
                    }
                })
            }
        }
    }

    pub(super) fn coded_len(&self) -> usize {
        match self {
            Self::Own(_, pieces) => pieces.coded_len(),
            Self::Bytes { coded, .. } => coded.iter().map(Vec::len).sum(),
        }
    }
}
