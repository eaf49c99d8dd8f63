//! Differences from values that are on the device: what a frame of `delta+tiered` says of the weights before an update gives those after it.
//!
//! It is no [`crate::Coder`]: frames are compact, come from the CPU, and have a base beside them.
#![allow(unsafe_code, reason = "kernels are launched")]

use std::fmt;
use std::sync::Arc;

use zipwire_codec::DType;

use crate::batch::{Batch, Described, faults, need};
use crate::coder::parameter;
use crate::compile::compile;
use crate::device::{Code, Device, DeviceRegion, Function, Stream};
use crate::error::GpuError;
use crate::fault::Fault;
use crate::module::Module;

/// Threads of the block that opens a frame.
const OPEN_THREADS: u32 = 1024;
/// Bytes in front of the block table, and of an entry.
const FRONT_LEN: usize = 40;
const ENTRY_LEN: usize = 24;

/// A compact frame of differences of BF16 values, and the values that they are differences from.
#[derive(Clone, Debug)]
pub struct DeltaBlock {
    /// Where values are written, at a multiple of 16 bytes. It may be the region of the base, which is then updated; if its frame is
    /// refused, neither is there.
    pub values: DeviceRegion,
    /// As many values, at a multiple of 16 bytes.
    pub base: DeviceRegion,
    /// What frames name them by: `zipwire_codec::Base::id`.
    pub base_id: u64,
    /// Room for the frame, which is in front, at a multiple of 16 bytes; a multiple of 8 bytes long.
    pub frame: DeviceRegion,
    /// The length of the frame in bytes, a `u64` at a multiple of 8 bytes.
    pub size: DeviceRegion,
}

/// The kernels that decode frames of `delta+tiered`, BF16, on a device.
#[derive(Clone, Debug)]
pub struct DeltaCoder(Arc<Kernels>);

struct Kernels {
    device: Device,
    open: Function,
    decode: Function,
    /// The functions are in it.
    _code: Code,
}

/// Decodes the same blocks, again and again.
#[derive(Debug)]
pub struct DeltaDecoder {
    coder: DeltaCoder,
    batch: Batch,
    /// Of each frame, what its base is named by.
    base_ids: DeviceRegion,
}

impl DeltaCoder {
    /// Compiles the kernels, or takes them from the cache, and loads them.
    ///
    /// # Errors
    /// If there is no compiler, or the driver fails.
    pub fn new(device: &Device) -> Result<Self, GpuError> {
        let module = Module::DELTA;
        let code = Code::load(device, &compile(&module.source([DType::Bf16]), &device.arch()?)?)?;
        let function = |work| code.function(&module.kernel(work, DType::Bf16));
        let (open, decode) = (function("open")?, function("decode")?);
        Ok(Self(Arc::new(Kernels { device: device.clone(), open, decode, _code: code })))
    }

    /// Prepares a launch that decodes these blocks. Waits for the device.
    ///
    /// # Errors
    /// If a region is not as [`DeltaBlock`] says, or the device has no room.
    pub fn decoder(&self, blocks: Vec<DeltaBlock>) -> Result<DeltaDecoder, GpuError> {
        let Kernels { device, .. } = &*self.0;
        let base_ids = DeviceRegion::allocate(device, 8 * blocks.len() as u64)?;
        base_ids.write(&blocks.iter().flat_map(|block| block.base_id.to_le_bytes()).collect::<Vec<_>>())?;
        let frames = blocks.into_iter().map(described).collect::<Result<Vec<_>, _>>()?;
        Ok(DeltaDecoder {
            coder: self.clone(),
            batch: Batch::new(device, Module::DELTA, 1, frames)?,
            base_ids,
        })
    }
}

/// The frame as the kernels get it: the base is in the place of a static section.
fn described(block: DeltaBlock) -> Result<Described, GpuError> {
    let DeltaBlock { values, base, frame, size, .. } = block;
    let width = DType::Bf16.width();
    let count = usize::try_from(values.len()).expect("it is in memory") / width;
    let bytes = (width * count) as u64;
    let fits = count > 0 && values.len() == bytes;
    need("values", &values, count, fits, 16, "whole values, at least one,")?;
    need("a base", &base, count, base.len() == bytes, 16, &format!("{bytes} bytes"))?;
    let least = (FRONT_LEN + ENTRY_LEN * count.div_ceil(Module::DELTA.tile)) as u64;
    let fits = frame.len() >= least && frame.len().is_multiple_of(8);
    need("a frame", &frame, count, fits, 16, &format!("at least {least} bytes, in whole words of 8,"))?;
    need("a size", &size, count, size.len() == 8, 8, "8 bytes")?;
    Ok(Described {
        count,
        values: Some(values),
        static_section: Some(base),
        dynamic_section: frame,
        size: Some(size),
    })
}

impl DeltaDecoder {
    /// Queues the decoding of all blocks. What is wrong is in [`Self::states`] afterwards, for [`crate::Decoder::faults`]; values of
    /// wrong frames are anything.
    ///
    /// # Errors
    /// If the driver fails.
    pub fn launch(&self, stream: &Stream) -> Result<(), GpuError> {
        let Self { coder: DeltaCoder(kernels), batch, base_ids } = self;
        if batch.tile_count() == 0 {
            return Ok(());
        }
        let (mut frames, mut frame_count, mut ids) =
            (batch.frames(), batch.frame_count(), base_ids.address());
        let mut open = [parameter(&mut frames), parameter(&mut ids)];
        // SAFETY: the first kernel takes the addresses of the descriptions and of an id for each, the second one that of the
        // descriptions and their number. The batch has the regions, which have been checked; whatever the frames hold, the kernels
        // stay within them.
        unsafe {
            kernels.open.launch(stream, (batch.frame_count(), 1), OPEN_THREADS, &mut open)?;
            let mut decode = [parameter(&mut frames), parameter(&mut frame_count)];
            kernels.decode.launch(stream, (batch.tile_count(), 1), Module::DELTA.threads, &mut decode)
        }
    }

    /// Where the findings of the last launch are: to be copied to the host behind it.
    pub fn states(&self) -> &DeviceRegion {
        self.batch.states()
    }

    /// What is wrong with each block, from a copy of [`Self::states`].
    pub fn faults(states: &[u8]) -> Vec<Option<Fault>> {
        faults(states)
    }
}

impl fmt::Debug for Kernels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Kernels").field("device", &self.device).finish_non_exhaustive()
    }
}
