//! Frames whose signs and mantissas travel by themselves: kernels take them out of values and out of encoded frames, and put frames together before these
//! are decoded. `codec/src/sign_mantissa.rs` does the same on the CPU.

#![allow(unsafe_code, reason = "kernels are launched")]

use zipwire_codec::{DType, FrameShape, Layout, Spec, sign_mantissa_len};

use crate::batch::{Batch, Block, Described, Needs, need};
use crate::coder::{Coder, Decoder, Encoder, Kernels, parameter};
use crate::device::{Code, DeviceRegion, Function, Stream};
use crate::error::GpuError;
use crate::module::Module;

/// Threads of a block, which has a tile.
const THREADS: u32 = 256;
/// Bytes of `Apart` in `cuda/sign_mantissa.cu`.
const PARTS_LEN: usize = 24;
/// Where sections begin.
const ALIGN: u64 = 128;

/// A frame whose signs and mantissas are apart from it.
#[derive(Clone, Debug)]
pub struct Apart {
    /// The frame. Its static section is exactly as long as [`Codec::static_len`](zipwire_codec::Codec::static_len) less
    /// [`sign_mantissa_len`], at a multiple of 128 bytes.
    pub block: Block,
    /// Signs and mantissas: a byte per value, at a multiple of 16 bytes.
    pub sign_mantissa: DeviceRegion,
}

/// The kernels of a codec and type whose frames have signs and mantissas.
pub(crate) struct Functions {
    rests: Function,
    strip: Function,
    merge: Function,
    merge_stored: Function,
}

impl Functions {
    pub(crate) fn load(code: &Code, module: Module, dtype: DType) -> Result<Option<Self>, GpuError> {
        if !module.has_sign_mantissa(dtype) {
            return Ok(None);
        }
        let function = |work: &str| code.function(&module.kernel(work, dtype));
        Ok(Some(Self {
            rests: function("rests")?,
            strip: function("strip")?,
            merge: function("merge")?,
            merge_stored: function("merge_stored")?,
        }))
    }
}

/// Takes signs and mantissas out of the same values, again and again.
#[derive(Debug)]
pub struct Splitter {
    coder: Coder,
    /// Frames whose static sections are their signs and mantissas.
    batch: Batch,
}

impl Splitter {
    /// Queues the writing of the signs and mantissas of all blocks.
    ///
    /// # Errors
    /// If the driver fails.
    pub fn launch(&self, stream: &Stream) -> Result<(), GpuError> {
        // SAFETY: the kernel takes the descriptions and their number.
        unsafe { launch(&self.coder.functions()?.rests, stream, &self.batch, None) }
    }
}

/// Parts of the frames of a batch. The batch has whole frames, in memory of its own where they are not in regions of the caller.
#[derive(Debug)]
pub(crate) struct Parts {
    described: DeviceRegion,
    /// Regions that the descriptions point to; whole frames are kept by their batch.
    _kept: Vec<Apart>,
}

impl Parts {
    /// Behind an encoder of whole frames.
    pub(crate) fn strip(&self, coder: &Coder, stream: &Stream, batch: &Batch) -> Result<(), GpuError> {
        // SAFETY: the kernel takes the descriptions, their number, and what the frames are apart.
        unsafe { launch(&coder.functions()?.strip, stream, batch, Some(self)) }
    }

    /// In front of a decoder of whole frames.
    pub(crate) fn merge(&self, coder: &Coder, stream: &Stream, batch: &Batch) -> Result<(), GpuError> {
        let Functions { merge, merge_stored, .. } = coder.functions()?;
        // SAFETY: as for `strip`.
        [merge, merge_stored]
            .into_iter()
            .try_for_each(|function| unsafe { launch(function, stream, batch, Some(self)) })
    }
}

impl Coder {
    /// Bytes of device memory that [`Self::encoder_apart`] takes for a frame of so many values more than [`Self::frame_len`] says, and
    /// [`Self::decoder_apart`] more than [`Self::decoded_frame_len`], in one allocation for all frames of a launch each. Needs no GPU.
    pub fn apart_lens(spec: &Spec, dtype: DType, count: u64) -> [u64; 2] {
        let shape = FrameShape::new(Layout::Split, dtype, usize::try_from(count).expect("it is in memory"));
        let codec = spec.codec();
        let static_len = codec.static_len(shape) as u64;
        let dynamic_len = codec.bound(shape) as u64 - static_len;
        let fixed = static_len.next_multiple_of(ALIGN) + PARTS_LEN as u64;
        [fixed, fixed + dynamic_len.next_multiple_of(ALIGN)]
    }

    /// Prepares a launch that writes signs and mantissas of values: of each frame these two regions only are looked at. Waits for the device.
    ///
    /// # Errors
    /// [`GpuError::Unsupported`] if frames of this codec and type have no signs and mantissas; if a region is not as [`Apart`] says, or the device
    /// has no room.
    pub fn splitter(&self, frames: &[Apart]) -> Result<Splitter, GpuError> {
        self.functions()?;
        let Kernels { device, module, .. } = self.kernels();
        let described = frames.iter().map(|frame| {
            let (values, rests) = (frame.block.values.clone(), frame.sign_mantissa.clone());
            let count = self.needs().count(&values)?;
            need_rests(&rests, count)?;
            let none = rests.part(0..0);
            Ok(Described { count, values, static_section: rests, dynamic_section: none.clone(), size: none })
        });
        let described = described.collect::<Result<_, GpuError>>()?;
        // They keep nothing between blocks of threads.
        let module = Module { kept: (0, 0), ..*module };
        Ok(Splitter { coder: self.clone(), batch: Batch::new(device, module, described, false)? })
    }

    /// Prepares a launch that encodes these frames without their signs and mantissas, which a [`Splitter`] writes. Waits for the device.
    ///
    /// # Errors
    /// Errors of [`Self::splitter`].
    pub fn encoder_apart(&self, frames: Vec<Apart>) -> Result<Encoder, GpuError> {
        let whole = self.whole(&frames, false)?;
        Ok(Encoder { parts: Some(self.parts(frames)?), ..self.encoder(whole)? })
    }

    /// Prepares a launch that decodes such frames, which are put together in memory of their own. Waits for the device.
    ///
    /// # Errors
    /// Errors of [`Self::splitter`].
    pub fn decoder_apart(&self, frames: Vec<Apart>) -> Result<Decoder, GpuError> {
        let whole = self.whole(&frames, true)?;
        Ok(Decoder { parts: Some(self.parts(frames)?), ..self.decoder(whole)? })
    }

    fn functions(&self) -> Result<&Functions, GpuError> {
        let Kernels { module, dtype, apart, .. } = self.kernels();
        apart.as_ref().ok_or_else(|| {
            zipwire_paper_codecs::register();
            let spec = module.name.parse().expect("modules have names of codecs");
            GpuError::Unsupported { spec: Box::new(spec), dtype: *dtype }
        })
    }

    /// The whole frames, in new memory but for their values, their sizes and, unless they are decoded, dynamic sections.
    fn whole(&self, frames: &[Apart], is_decoded: bool) -> Result<Vec<Block>, GpuError> {
        self.functions()?;
        let Kernels { device, codec, dtype, .. } = self.kernels();
        let (mut len, mut places) = (0, Vec::new());
        let mut place = |bytes: u64| {
            let begin = len;
            len += bytes.next_multiple_of(ALIGN);
            begin..begin + bytes
        };
        for Apart { block, sign_mantissa } in frames {
            let count = self.needs().count(&block.values)?;
            let static_len = codec.static_len(FrameShape::new(Layout::Split, *dtype, count)) as u64;
            need_rests(sign_mantissa, count)?;
            let bare = sign_mantissa_len(&**codec, *dtype, count).map(|rests| static_len - rests as u64);
            let bare = bare.expect("there are functions only where frames have some");
            let fits = block.static_section.len() == bare;
            need("a static section", &block.static_section, count, fits, ALIGN, &format!("{bare} bytes"))?;
            places.push((place(static_len), is_decoded.then(|| place(block.dynamic_section.len()))));
        }
        let room = DeviceRegion::allocate(device, len)?;
        let whole = frames.iter().zip(places).map(|(Apart { block, .. }, (fixed, dynamic))| Block {
            static_section: room.part(fixed),
            dynamic_section: dynamic
                .map_or_else(|| block.dynamic_section.clone(), |dynamic| room.part(dynamic)),
            ..block.clone()
        });
        Ok(whole.collect())
    }

    fn parts(&self, frames: Vec<Apart>) -> Result<Parts, GpuError> {
        let described = DeviceRegion::allocate(&self.kernels().device, (PARTS_LEN * frames.len()) as u64)?;
        let fields = |Apart { block, sign_mantissa }: &Apart| {
            [sign_mantissa.address(), block.static_section.address(), block.dynamic_section.address()]
        };
        let bytes: Vec<u8> = frames.iter().flat_map(fields).flat_map(u64::to_le_bytes).collect();
        described.write(&bytes)?;
        Ok(Parts { described, _kept: frames })
    }

    fn needs(&self) -> Needs<'_> {
        let Kernels { codec, dtype, .. } = self.kernels();
        Needs { codec: &**codec, dtype: *dtype }
    }
}

fn need_rests(rests: &DeviceRegion, count: usize) -> Result<(), GpuError> {
    let fits = rests.len() == count as u64;
    need("signs and mantissas", rests, count, fits, 16, &format!("{count} bytes"))
}

/// Launches a kernel with a block of threads for each tile of a batch.
///
/// # Safety
/// The function is a kernel that takes descriptions of frames, their number, and what they are apart if there is such.
unsafe fn launch(
    function: &Function,
    stream: &Stream,
    batch: &Batch,
    parts: Option<&Parts>,
) -> Result<(), GpuError> {
    if batch.tile_count == 0 {
        return Ok(());
    }
    let (mut frames, mut count) = (batch.frames.address(), batch.frame_count);
    let mut parts = parts.map(|parts| parts.described.address());
    let mut params = vec![parameter(&mut frames), parameter(&mut count)];
    params.extend(parts.as_mut().map(parameter));
    // SAFETY: as the caller promises; the batch has checked what descriptions point to and keeps it.
    unsafe { function.launch(stream, (batch.tile_count, 1), THREADS, &mut params) }
}
