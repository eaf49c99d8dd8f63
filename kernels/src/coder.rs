//! The kernels of a codec on a device, and what launches them.

#![allow(unsafe_code, reason = "kernels are launched")]

use std::ffi::c_void;
use std::sync::Arc;

use zipwire_codec::{Codec, DType, FrameShape, Spec};

use crate::batch::{
    Batch, Block, CompactBlock, Described, FRAME_LEN, Needs, STATE_LEN, STATUS_AT, encoder_len, frame_len,
};
use crate::compile::load;
use crate::device::{Code, Device, DeviceRegion, Function, Stream};
use crate::error::{Fault, GpuError};
use crate::module::{Before, Module, Pass};
use crate::sign_mantissa::{Functions, Parts};
use crate::variant::Variant;

/// Threads of a block that seals a frame or folds sums over its tiles, and how many such blocks a frame has at most.
const FOLD_THREADS: u32 = 256;
const FOLD_BLOCKS: u32 = 64;
/// Tiles that such a block has, if there are enough blocks.
const FOLD_TILES: u32 = 256;
/// Threads of a block that compares the checksum of a frame.
const CLOSE_THREADS: u32 = 32;
/// Frames that a launch with blocks for each frame may have: the second dimension of a grid has 16 bits.
const MOST_FRAMES: u32 = 65_535;
/// Threads of a block that looks at a frame before it is encoded.
const BEFORE_THREADS: u32 = 256;
/// Blocks of threads that look for what is to be coded once more: one for each of 132 multiprocessors.
const AGAIN_BLOCKS: u32 = 132;
/// Threads of the block that opens a frame.
const OPEN_THREADS: u32 = 1024;

/// The kernels of a codec for a type, on a device. Frames have the split layout where nothing else is said.
#[derive(Clone, Debug)]
pub struct Coder(Arc<Kernels>);

pub(crate) struct Kernels {
    pub(crate) device: Device,
    pub(crate) module: Module,
    pub(crate) codec: Box<dyn Codec>,
    pub(crate) dtype: DType,
    /// Kernel before encoders of either layout.
    before: Option<Look>,
    encode: Encoding,
    /// The same for the compact layout, if there are such.
    encode_compact: Option<Encoding>,
    decode: Decoding,
    decode_compact: Decoding,
    /// For frames whose signs and mantissas are apart, if they can be.
    pub(crate) apart: Option<Functions>,
    /// The functions are in it.
    _code: Code,
}

/// Kernel before encoders.
struct Look {
    function: Function,
    /// Tiles that a block looks at, and how many blocks a frame has at most.
    tiles: u32,
    most_blocks: u32,
}

/// Kernels that encode a layout, in launch order: passes in front, the encoder, a second pass if there is one, and the one that seals frames.
struct Encoding {
    passes: Vec<(Function, Pass)>,
    encode: Function,
    again: Option<Function>,
    seal: Function,
}

/// Kernels that decode a layout, in launch order. The last one compares checksums, if the decoder does not.
struct Decoding {
    open: Function,
    decode: Function,
    close: Option<Function>,
}

/// Encodes the same blocks, again and again.
#[derive(Debug)]
pub struct Encoder {
    pub(crate) coder: Coder,
    pub(crate) batch: Batch,
    pub(crate) is_compact: bool,
    /// Parts of the frames, if signs and mantissas travel by themselves.
    pub(crate) parts: Option<Parts>,
}

/// Decodes the same blocks, again and again.
#[derive(Debug)]
pub struct Decoder {
    pub(crate) coder: Coder,
    pub(crate) batch: Batch,
    pub(crate) is_compact: bool,
    /// Parts of the frames, if signs and mantissas travel by themselves.
    pub(crate) parts: Option<Parts>,
}

impl Coder {
    /// Whether there are kernels that encode and decode frames of this codec and type, and decode compact ones. Needs no GPU.
    ///
    /// # Errors
    /// [`GpuError::Unsupported`] if there are none.
    pub fn check(spec: &Spec, dtype: DType) -> Result<(), GpuError> {
        module(spec, dtype).map(drop)
    }

    /// Whether there are kernels that encode compact frames of this codec and type. Needs no GPU.
    ///
    /// # Errors
    /// Errors of [`Self::check`], and [`GpuError::NoCompact`] if compact frames are only decoded.
    pub fn check_compact(spec: &Spec, dtype: DType) -> Result<(), GpuError> {
        let module = module(spec, dtype)?;
        match module.encodes_compact() {
            true => Ok(()),
            false => Err(GpuError::NoCompact { codec: module.name, dtype }),
        }
    }

    /// Bytes of device memory that a launch takes for a frame of so many values beside its regions, which are some
    /// allocations for all frames of a launch. Needs no GPU.
    ///
    /// # Errors
    /// Errors of [`Self::check`].
    pub fn frame_len(spec: &Spec, dtype: DType, count: u64) -> Result<u64, GpuError> {
        Ok(encoder_len(module(spec, dtype)?, count))
    }

    /// The same of a launch that decodes, which takes no more and for some codecs much less.
    ///
    /// # Errors
    /// Errors of [`Self::check`].
    pub fn decoded_frame_len(spec: &Spec, dtype: DType, count: u64) -> Result<u64, GpuError> {
        Ok(frame_len(module(spec, dtype)?, count))
    }

    /// Compiles the kernels, or takes them from the cache, and loads them.
    ///
    /// # Errors
    /// If there are none for this codec and type, there is no compiler, or the driver fails.
    pub fn new(device: &Device, spec: &Spec, dtype: DType) -> Result<Self, GpuError> {
        Self::with(device, spec, dtype, Variant::of_environment()?.checked()?)
    }

    /// The same for measuring: `ZIPWIRE_KERNELS` may ask for decoders that compare no checksums.
    ///
    /// # Errors
    /// Errors of [`Self::new`].
    pub fn for_measuring(device: &Device, spec: &Spec, dtype: DType) -> Result<Self, GpuError> {
        Self::with(device, spec, dtype, Variant::of_environment()?)
    }

    fn with(device: &Device, spec: &Spec, dtype: DType, variant: Variant) -> Result<Self, GpuError> {
        let module = module(spec, dtype)?;
        let code = load(device, &module.source(dtype, variant))?;
        let function = |work: &str| code.function(&module.kernel(work, dtype));
        let encoding = |layout: &str| -> Result<Encoding, GpuError> {
            let passes = if layout.is_empty() { module.passes } else { &[] };
            let passes = passes.iter().map(|pass| Ok((function(pass.name)?, *pass)));
            let function = |work: &str| function(&format!("{work}{layout}"));
            Ok(Encoding {
                passes: passes.collect::<Result<_, GpuError>>()?,
                encode: function("encode")?,
                again: module.again.map(function).transpose()?,
                seal: function("seal")?,
            })
        };
        let closes = !variant.has("unchecked");
        let decoding = |layout: &str| -> Result<Decoding, GpuError> {
            let function = |work: &str| function(&format!("{work}{layout}"));
            let close = closes.then(|| function("close")).transpose()?;
            Ok(Decoding { open: function("open")?, decode: function("decode")?, close })
        };
        let before = |before: Before| -> Result<Look, GpuError> {
            let Before { name, tiles, most_blocks } = before;
            Ok(Look { function: function(name)?, tiles, most_blocks })
        };
        Ok(Self(Arc::new(Kernels {
            device: device.clone(),
            module,
            codec: spec.codec(),
            dtype,
            before: module.before.map(before).transpose()?,
            encode: encoding("")?,
            encode_compact: module.encodes_compact().then(|| encoding("_compact")).transpose()?,
            decode: decoding("")?,
            decode_compact: decoding("_compact")?,
            apart: Functions::load(&code, module, dtype)?,
            _code: code,
        })))
    }

    /// Prepares a launch that encodes these blocks. Waits for the device.
    ///
    /// # Errors
    /// If a region is not as [`Block`] says, or the device has no room.
    pub fn encoder(&self, blocks: Vec<Block>) -> Result<Encoder, GpuError> {
        Ok(Encoder { coder: self.clone(), batch: self.batch(blocks, true)?, is_compact: false, parts: None })
    }

    /// Prepares a launch that encodes values to compact frames, each of which has room for what [`Codec::bound`] says. The lengths of the frames are
    /// written to their sizes, on the device. Waits for the device.
    ///
    /// # Errors
    /// [`GpuError::NoCompact`] if this codec's kernels encode no compact frames; or if a region is not as [`CompactBlock`] says, or the device has no
    /// room.
    pub fn compact_encoder(&self, blocks: Vec<CompactBlock>) -> Result<Encoder, GpuError> {
        let Kernels { module, dtype, encode_compact, .. } = &*self.0;
        if encode_compact.is_none() {
            return Err(GpuError::NoCompact { codec: module.name, dtype: *dtype });
        }
        Ok(Encoder {
            coder: self.clone(),
            batch: self.compact_batch(blocks, |codec, shape| codec.bound(shape))?,
            is_compact: true,
            parts: None,
        })
    }

    /// Prepares a launch that decodes these blocks: any number of frames, such as all matrices of a transformer block. Waits for the device.
    ///
    /// # Errors
    /// If a region is not as [`Block`] says, or the device has no room.
    pub fn decoder(&self, blocks: Vec<Block>) -> Result<Decoder, GpuError> {
        Ok(Decoder { coder: self.clone(), batch: self.batch(blocks, false)?, is_compact: false, parts: None })
    }

    /// Prepares a launch that decodes compact frames, any number of them. Waits for the device.
    ///
    /// # Errors
    /// If a region is not as [`CompactBlock`] says, or the device has no room.
    pub fn compact_decoder(&self, blocks: Vec<CompactBlock>) -> Result<Decoder, GpuError> {
        let batch = self.compact_batch(blocks, |codec, shape| codec.min_len(shape))?;
        Ok(Decoder { coder: self.clone(), batch, is_compact: true, parts: None })
    }

    pub(crate) fn kernels(&self) -> &Kernels {
        &self.0
    }

    /// Frames in the split layout, to be encoded or not.
    fn batch(&self, blocks: Vec<Block>, is_encoded: bool) -> Result<Batch, GpuError> {
        let Kernels { device, module, encode, .. } = &*self.0;
        Batch::new(device, *module, self.described(blocks)?, is_encoded && !encode.passes.is_empty())
    }

    fn described(&self, blocks: Vec<Block>) -> Result<Vec<Described>, GpuError> {
        let Kernels { codec, dtype, .. } = &*self.0;
        let needs = Needs { codec: &**codec, dtype: *dtype };
        blocks.into_iter().map(|block| needs.block(block)).collect()
    }

    /// Compact frames, each of which has room for as many bytes as `least` says.
    fn compact_batch(
        &self,
        blocks: Vec<CompactBlock>,
        least: fn(&dyn Codec, FrameShape) -> usize,
    ) -> Result<Batch, GpuError> {
        let Kernels { device, module, codec, dtype, .. } = &*self.0;
        let needs = Needs { codec: &**codec, dtype: *dtype };
        let frames = blocks.into_iter().map(|block| needs.compact(block, module.compact_align, least));
        Batch::new(device, *module, frames.collect::<Result<Vec<_>, _>>()?, false)
    }
}

impl Encoder {
    /// Prepares the launch for other blocks, in the memory that it has: nothing is allocated or freed. No launch of it may be under way. Returns whether
    /// they have room there; if not, it is what it was, as those of [`Coder::encoder_apart`] and [`Coder::decoder_apart`] always are. After an error it must not be launched.
    ///
    /// # Errors
    /// If a region is not as [`Block`] says, or the driver fails.
    pub fn reuse(&mut self, blocks: Vec<Block>) -> Result<bool, GpuError> {
        if self.parts.is_some() {
            return Ok(false);
        }
        let Kernels { module, encode, .. } = &*self.coder.0;
        let reused = self.batch.reused(*module, self.coder.described(blocks)?, !encode.passes.is_empty());
        let is_reused = reused.transpose()?.map(|batch| self.batch = batch).is_some();
        Ok(is_reused)
    }

    /// Queues the encoding of all blocks: values are read, sections and sizes written. One launch at a time.
    ///
    /// # Errors
    /// If the driver fails.
    pub fn launch(&self, stream: &Stream) -> Result<(), GpuError> {
        let Self { coder, batch, is_compact, parts } = self;
        let kernels = &coder.0;
        let compact = kernels.encode_compact.as_ref().filter(|_| *is_compact);
        let Encoding { passes, encode, again, seal } = compact.unwrap_or(&kernels.encode);
        if batch.tile_count == 0 {
            return Ok(());
        }
        let (mut frames, mut frame_count) = (batch.frames.address(), batch.frame_count);
        let mut params = [parameter(&mut frames), parameter(&mut frame_count)];
        // SAFETY: the kernels take the address of the descriptions and their number. The batch has checked what they point
        // to and keeps it; the functions' code is kept by `kernels`.
        unsafe {
            if let Some(Look { function, tiles, most_blocks }) = &kernels.before {
                let blocks = batch.most_tiles.div_ceil(*tiles).min(*most_blocks);
                launch_for_frames(function, stream, batch, blocks, BEFORE_THREADS)?;
            }
            for (function, Pass { tiles, threads, .. }) in passes {
                function.launch(stream, (batch.tile_count.div_ceil(*tiles), 1), *threads, &mut params)?;
            }
            encode.launch(stream, (batch.tile_count, 1), kernels.module.threads, &mut params)?;
            if let Some(again) = again {
                let blocks = batch.tile_count.min(AGAIN_BLOCKS);
                again.launch(stream, (blocks, 1), kernels.module.threads, &mut params)?;
            }
            launch_for_frames(seal, stream, batch, fold_blocks(batch), FOLD_THREADS)?;
        }
        parts.as_ref().map_or(Ok(()), |parts| parts.strip(coder, stream, batch))
    }
}

impl Decoder {
    /// Prepares the launch for other blocks, as [`Encoder::reuse`] does.
    ///
    /// # Errors
    /// Errors of [`Encoder::reuse`].
    pub fn reuse(&mut self, blocks: Vec<Block>) -> Result<bool, GpuError> {
        if self.parts.is_some() {
            return Ok(false);
        }
        let reused = self.batch.reused(self.coder.0.module, self.coder.described(blocks)?, false);
        let is_reused = reused.transpose()?.map(|batch| self.batch = batch).is_some();
        Ok(is_reused)
    }

    /// Queues the decoding of all blocks: sizes and sections are read, values written. What is wrong is in
    /// [`Self::states`] afterwards; values of wrong frames are anything.
    ///
    /// # Errors
    /// If the driver fails.
    pub fn launch(&self, stream: &Stream) -> Result<(), GpuError> {
        let Self { coder, batch, is_compact, parts } = self;
        let kernels = &coder.0;
        if batch.tile_count == 0 {
            return Ok(());
        }
        parts.as_ref().map_or(Ok(()), |parts| parts.merge(coder, stream, batch))?;
        let Decoding { open, decode, close } =
            if *is_compact { &kernels.decode_compact } else { &kernels.decode };
        let (close_blocks, close_threads) =
            if kernels.module.folds { (fold_blocks(batch), FOLD_THREADS) } else { (1, CLOSE_THREADS) };
        let (mut frames, mut frame_count) = (batch.frames.address(), batch.frame_count);
        let mut params = [parameter(&mut frames), parameter(&mut frame_count)];
        // SAFETY: as for the encoder; whatever the frames hold, the kernels stay within the regions.
        unsafe {
            open.launch(stream, (batch.frame_count, 1), OPEN_THREADS, &mut params[..1])?;
            decode.launch(stream, (batch.tile_count, 1), kernels.module.threads, &mut params)?;
            close
                .as_ref()
                .map_or(Ok(()), |close| launch_for_frames(close, stream, batch, close_blocks, close_threads))
        }
    }

    /// Where the findings of the last launch are: to be copied to the host behind it, for [`Self::faults`].
    pub fn states(&self) -> &DeviceRegion {
        &self.batch.states
    }

    /// Fault of each block, from a copy of [`Self::states`]; `None` where a block is right.
    pub fn faults(states: &[u8]) -> Vec<Option<Fault>> {
        let status = |state: &[u8; STATE_LEN]| {
            let bytes = state[STATUS_AT..].first_chunk().expect("it is in the state");
            Fault::of(u32::from_le_bytes(*bytes))
        };
        states.as_chunks().0.iter().map(status).collect()
    }
}

fn module(spec: &Spec, dtype: DType) -> Result<Module, GpuError> {
    Module::of(spec, dtype).ok_or_else(|| GpuError::Unsupported { spec: Box::new(spec.clone()), dtype })
}

/// Blocks of threads that seal a frame or fold sums over its tiles.
fn fold_blocks(batch: &Batch) -> u32 {
    batch.most_tiles.div_ceil(FOLD_TILES).min(FOLD_BLOCKS)
}

/// Launches a kernel that has so many blocks of threads for each frame of a batch: once, or as often as a grid has too few places for the frames.
///
/// # Safety
/// The function is a kernel that takes the address of the first description.
unsafe fn launch_for_frames(
    function: &Function,
    stream: &Stream,
    batch: &Batch,
    blocks: u32,
    threads: u32,
) -> Result<(), GpuError> {
    for (first, frame_count) in parts_of(batch.frame_count) {
        let mut frames = batch.frames.address() + u64::from(first) * FRAME_LEN as u64;
        let grid = (blocks, frame_count);
        // SAFETY: as the caller promises; the batch has as many descriptions from there on.
        unsafe { function.launch(stream, grid, threads, &mut [parameter(&mut frames)]) }?;
    }
    Ok(())
}

/// The first frame of each launch that has blocks for each frame, and how many frames it has.
fn parts_of(frame_count: u32) -> impl Iterator<Item = (u32, u32)> {
    (0..frame_count)
        .step_by(MOST_FRAMES as usize)
        .map(move |first| (first, (frame_count - first).min(MOST_FRAMES)))
}

/// A parameter of a kernel, as the driver wants it.
pub(crate) fn parameter<T>(value: &mut T) -> *mut c_void {
    std::ptr::from_mut(value).cast()
}

impl std::fmt::Debug for Kernels {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { device, module, dtype, .. } = self;
        f.debug_struct("Kernels")
            .field("device", device)
            .field("module", &module.name)
            .field("dtype", dtype)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn launches_have_no_more_frames_than_a_grid() {
        let parts = |frames| parts_of(frames).collect::<Vec<_>>();
        assert_eq!(parts(1), [(0, 1)]);
        assert_eq!(parts(65_535), [(0, 65_535)]);
        assert_eq!(parts(131_071), [(0, 65_535), (65_535, 65_535), (131_070, 1)]);
    }
}
