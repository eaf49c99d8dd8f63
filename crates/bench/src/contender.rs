//! Codecs that are measured: the project's, and well-known ones beside them.

use std::fmt;
use std::str::FromStr;

use rayon::prelude::*;
use zipwire_codec::parallel::{PIECE_VALUES, Pieces, piece_len, room_len};
use zipwire_codec::{Base, Codec, DType, Decoder, Layout, Spec, SpecError};

/// A codec to measure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Contender {
    /// One of the project's; with a table, if frames are to name one.
    Own(Spec),
    /// zstd at a level, over the bytes as they are.
    Zstd(i32),
    /// LZ4, over the bytes as they are.
    Lz4,
}

impl FromStr for Contender {
    type Err = SpecError;

    fn from_str(text: &str) -> Result<Self, SpecError> {
        zipwire_paper_codecs::register();
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
    /// The project's codecs, those that take differences only where values have a base, then the others.
    pub fn all(has_base: bool) -> Vec<Self> {
        zipwire_paper_codecs::register();
        let plain = Spec::ids().map(|id| id.parse().expect("ids are specs"));
        let own = plain.chain(Spec::deltas().filter(|_| has_base));
        own.map(Self::Own).chain([Self::Zstd(1), Self::Lz4]).collect()
    }

    /// Whether it names a table that it has not been given.
    pub fn lacks_table(&self) -> bool {
        matches!(self, Self::Own(spec) if spec.table_id().is_some() && spec.table().is_none())
    }

    /// Whether it takes differences from a base.
    pub fn takes_base(&self) -> bool {
        matches!(self, Self::Own(spec) if spec.takes_base())
    }

    /// The codec for rows of so many values, if it is one of the project's.
    fn codec(&self, row: usize) -> Option<Box<dyn Codec>> {
        self.codec_against(row, None)
    }

    /// The same for values that differ from those of a base.
    fn codec_against(&self, row: usize, base: Option<Base>) -> Option<Box<dyn Codec>> {
        match self {
            Self::Own(spec) => {
                let spec = spec.clone().for_rows(row);
                Some(base.map_or(spec.clone(), |base| spec.against(base)).codec())
            }
            Self::Zstd(_) | Self::Lz4 => None,
        }
    }

    /// Decoder of its frames, without bases.
    fn decoder(&self) -> Decoder {
        match self {
            Self::Own(spec) => spec.decoder(),
            Self::Zstd(_) | Self::Lz4 => Decoder::new(),
        }
    }

    /// How it codes bytes, if it is none of the project's.
    fn method(&self) -> Method {
        match self {
            Self::Zstd(level) => Method::Zstd(*level),
            _ => Method::Lz4,
        }
    }

    /// Whether it has the layout and codes values of this type.
    pub fn supports(&self, layout: Layout, dtype: DType) -> bool {
        self.codec(0).map_or(layout == Layout::Compact, |codec| codec.supports(dtype))
    }
}

/// A contender at work on one tensor, with a room for the frames. All code in pieces of about [`PIECE_VALUES`] values.
pub(super) enum Worker<'a> {
    Own {
        codec: Box<dyn Codec>,
        /// With the table, if frames name one.
        decoder: Decoder,
        pieces: Pieces<&'a mut [u8]>,
    },
    /// Pieces that differ from those of a base.
    Deltas {
        /// One for each piece.
        codecs: Vec<Box<dyn Codec>>,
        /// With the bases.
        decoder: Decoder,
        pieces: Pieces<&'a mut [u8]>,
    },
    /// Blocks of bytes.
    Bytes { method: Method, piece_len: usize, pieces: Vec<Coded<'a>> },
}

/// Contender, layout, type and sizes of one tensor.
#[derive(Clone, Copy)]
pub(super) struct Task<'a> {
    pub(super) contender: &'a Contender,
    pub(super) layout: Layout,
    pub(super) dtype: DType,
    /// Values of a row, which codecs that make use of rows are told; 0 if there are none.
    pub(super) row: usize,
    pub(super) len: usize,
    /// Base of the same length, for codecs that code differences.
    pub(super) base: Option<&'a [u8]>,
}

/// How blocks of bytes are coded.
#[derive(Clone, Copy)]
pub(super) enum Method {
    Zstd(i32),
    Lz4,
}

/// A coded block in memory that is used again.
pub(super) struct Coded<'a> {
    buffer: &'a mut [u8],
    len: usize,
}

impl Method {
    fn bound(self, len: usize) -> usize {
        match self {
            Self::Zstd(_) => zstd::zstd_safe::compress_bound(len),
            Self::Lz4 => lz4_flex::block::get_maximum_output_size(len),
        }
    }
}

impl Task<'_> {
    /// Bytes of the room that its frames take at most.
    pub(super) fn room_len(self) -> usize {
        let Self { contender, layout, dtype, row, len, base: _ } = self;
        match contender.codec(row) {
            Some(codec) => room_len(codec.as_ref(), layout, dtype, len, row),
            None => {
                let piece_len = PIECE_VALUES * dtype.width();
                len.div_ceil(piece_len) * contender.method().bound(piece_len.min(len))
            }
        }
    }
}

impl<'a> Worker<'a> {
    /// With this room of [`Task::room_len`] bytes. Bases are read here.
    ///
    /// # Errors
    /// If pieces of the base that differ have the same id.
    pub(super) fn new(task: Task<'_>, room: &'a mut [u8]) -> Result<Self, String> {
        let Task { contender, layout, dtype, row, len, base } = task;
        if let Some(codec) = contender.codec(row) {
            let pieces = Pieces::within(codec.as_ref(), layout, dtype, len, row, room);
            let Some(base) = base.filter(|_| contender.takes_base()) else {
                return Ok(Self::Own { codec, decoder: contender.decoder(), pieces });
            };
            let mut decoder = contender.decoder();
            let mut codecs = Vec::new();
            for piece in base.chunks(piece_len(dtype, row)) {
                let base = Base::new(dtype, piece.to_vec());
                decoder.add_base(base.clone()).map_err(|error| error.to_string())?;
                codecs.extend(contender.codec_against(row, Some(base)));
            }
            return Ok(Self::Deltas { codecs, decoder, pieces });
        }
        let method = contender.method();
        let piece_len = PIECE_VALUES * dtype.width();
        // Rooms of no bytes have no pieces.
        let buffers = room.chunks_mut(method.bound(piece_len.min(len)).max(1));
        let pieces = buffers.map(|buffer| Coded { buffer, len: 0 }).collect();
        Ok(Self::Bytes { method, piece_len, pieces })
    }

    /// Codes the values on the threads of the current pool.
    pub(super) fn encode(&mut self, values: &[u8]) -> Result<(), String> {
        match self {
            Self::Own { codec, pieces, .. } => {
                pieces.encode(codec.as_ref(), values).map_err(|error| error.to_string())
            }
            Self::Deltas { codecs, pieces, .. } => {
                pieces.encode_by(|piece| codecs[piece].as_ref(), values).map_err(|error| error.to_string())
            }
            Self::Bytes { method: Method::Zstd(level), piece_len, pieces } => {
                let pairs = values.par_chunks(*piece_len).zip(pieces);
                pairs.try_for_each_init(
                    || zstd::bulk::Compressor::new(*level),
                    |compressor, (values, Coded { buffer, len })| {
                        let compressor = compressor.as_mut().map_err(|error| error.to_string())?;
                        *len = compressor
                            .compress_to_buffer(values, *buffer)
                            .map_err(|error| error.to_string())?;
                        Ok(())
                    },
                )
            }
            Self::Bytes { method: Method::Lz4, piece_len, pieces } => {
                values.par_chunks(*piece_len).zip(pieces).try_for_each(|(values, Coded { buffer, len })| {
                    *len =
                        lz4_flex::block::compress_into(values, buffer).map_err(|error| error.to_string())?;
                    Ok(())
                })
            }
        }
    }

    /// Decodes what was coded last.
    pub(super) fn decode(&self, out: &mut [u8]) -> Result<(), String> {
        let whole = |written: usize, out: &[u8]| {
            if written == out.len() { Ok(()) } else { Err("it decoded to another length".to_owned()) }
        };
        match self {
            Self::Own { decoder, pieces, .. } | Self::Deltas { decoder, pieces, .. } => {
                pieces.decode_with(decoder, out).map_err(|error| error.to_string())
            }
            Self::Bytes { method: Method::Zstd(_), piece_len, pieces } => {
                let pairs = out.par_chunks_mut(*piece_len).zip(pieces);
                pairs.try_for_each_init(zstd::bulk::Decompressor::new, |decompressor, (out, coded)| {
                    let decompressor = decompressor.as_mut().map_err(|error| error.to_string())?;
                    let written = decompressor.decompress_to_buffer(&coded.buffer[..coded.len], out);
                    whole(written.map_err(|error| error.to_string())?, out)
                })
            }
            Self::Bytes { method: Method::Lz4, piece_len, pieces } => {
                out.par_chunks_mut(*piece_len).zip(pieces).try_for_each(|(out, coded)| {
                    let written = lz4_flex::block::decompress_into(&coded.buffer[..coded.len], out);
                    whole(written.map_err(|error| error.to_string())?, out)
                })
            }
        }
    }

    pub(super) fn coded_len(&self) -> usize {
        match self {
            Self::Own { pieces, .. } | Self::Deltas { pieces, .. } => pieces.coded_len(),
            Self::Bytes { pieces, .. } => pieces.iter().map(|piece| piece.len).sum(),
        }
    }
}
