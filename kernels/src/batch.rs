//! The frames of one launch, as the kernels see them.

use zipwire_codec::{Codec, DType, FrameShape, Layout};

use crate::GpuError;
use crate::device::{Device, DeviceRegion};
use crate::module::Module;

/// A frame on a device: its values, its sections, and the length of the dynamic one.
#[derive(Clone, Debug)]
pub struct Block {
    /// The values, at a multiple of 16 bytes. At least one.
    pub values: DeviceRegion,
    /// Exactly as long as [`Codec::static_len`] says, at a multiple of 128 bytes.
    pub static_section: DeviceRegion,
    /// At least as long as what [`Codec::bound`] leaves for it, at a multiple of 16 bytes.
    pub dynamic_section: DeviceRegion,
    /// Eight bytes: how many of the dynamic section are live. Encoders write it, decoders read it.
    pub size: DeviceRegion,
}

/// A frame in the compact layout, such as files and held weights have, and the values in it. Encoders write the frame and its length, decoders read
/// them.
#[derive(Clone, Debug)]
pub struct CompactBlock {
    /// The values, at a multiple of 16 bytes.
    pub values: DeviceRegion,
    /// Room for the frame, which is in front: for an encoder at least as long as [`Codec::bound`] says, for a decoder no longer than the frame.
    /// Frames may be adjacent and begin at any byte; those of `huffman` at multiples of 16 bytes. Kernels read whole words of 32 bits, of
    /// which at least a byte is in the region, and write none but bytes of the frame.
    pub frame: DeviceRegion,
    /// The length of the frame in bytes, a `u64` at a multiple of 8 bytes.
    pub size: DeviceRegion,
}

/// Bytes of `Frame` and of `State` in `cuda/common.cuh`, and where the status is in the latter.
pub(crate) const FRAME_LEN: usize = 80;
pub(crate) const STATE_LEN: usize = 40;
pub(crate) const STATUS_AT: usize = 20;

/// Where the room for the work of encoders begins is a multiple of this.
const WORK_ALIGN: u64 = 16;

/// Bytes that a decoder takes on the device for a frame of so many values, beside its regions.
pub(crate) fn frame_len(module: Module, count: u64) -> u64 {
    (FRAME_LEN + STATE_LEN) as u64 + module.kept_len(count)
}

/// The same of an encoder.
pub(crate) fn encoder_len(module: Module, count: u64) -> u64 {
    let work = module.work_len(count);
    frame_len(module, count) + work + if work > 0 { WORK_ALIGN } else { 0 }
}

/// Descriptions of frames on the device, and room for what kernels keep between their blocks.
#[derive(Debug)]
pub(crate) struct Batch {
    pub(crate) frames: DeviceRegion,
    /// State of each frame, shared by its blocks; decoders leave their findings there.
    pub(crate) states: DeviceRegion,
    pub(crate) frame_count: u32,
    /// Tiles of all frames, and of the one that has most.
    pub(crate) tile_count: u32,
    pub(crate) most_tiles: u32,
    /// Descriptions, states, and what tiles keep; longer than these frames need where other ones were there before.
    memory: [DeviceRegion; 3],
    /// Regions that the descriptions point to.
    _kept: Vec<Described>,
}

/// Regions of a frame, as the kernels need them. A compact frame is both sections.
#[derive(Clone, Debug)]
pub(crate) struct Described {
    pub(crate) count: usize,
    pub(crate) values: DeviceRegion,
    pub(crate) static_section: DeviceRegion,
    pub(crate) dynamic_section: DeviceRegion,
    pub(crate) size: DeviceRegion,
}

impl Batch {
    /// Describes frames to the kernels, whose encoders have room for their work if it `has_work`. Waits for the device.
    pub(crate) fn new(
        device: &Device,
        module: Module,
        frames: Vec<Described>,
        has_work: bool,
    ) -> Result<Self, GpuError> {
        let lens = Lens::of(module, &frames, has_work);
        let allocate = |len: u64| DeviceRegion::allocate(device, len);
        let [described, states, tiles] =
            [allocate(lens.frames)?, allocate(lens.states)?, allocate(lens.tiles)?];
        Self::within([described, states, tiles], module, frames, has_work)
    }

    /// Describes other frames in the memory of this batch, of which no launch may be under way. `None` if it is too small: then nothing is changed.
    pub(crate) fn reused(
        &self,
        module: Module,
        frames: Vec<Described>,
        has_work: bool,
    ) -> Option<Result<Self, GpuError>> {
        let lens = Lens::of(module, &frames, has_work);
        let fits = |region: &DeviceRegion, len: u64| (region.len() >= len).then(|| region.clone());
        let memory = [
            fits(&self.memory[0], lens.frames)?,
            fits(&self.memory[1], lens.states)?,
            fits(&self.memory[2], lens.tiles)?,
        ];
        Some(Self::within(memory, module, frames, has_work))
    }

    /// Describes frames in memory that has room for them: that of descriptions, of states, and of what tiles keep.
    fn within(
        memory: [DeviceRegion; 3],
        module: Module,
        frames: Vec<Described>,
        has_work: bool,
    ) -> Result<Self, GpuError> {
        let tiles = |frame: &Described| frame.count.div_ceil(module.tile) as u64;
        let most_tiles = frames.iter().map(tiles).max().unwrap_or(0);
        let kept = |frame: &Described| module.kept_len(frame.count as u64);
        let lens = Lens::of(module, &frames, has_work);
        let described = memory[0].part(0..lens.frames);
        let states = memory[1].part(0..lens.states);
        clear(&states)?;
        let work = |frame: &Described| if has_work { module.work_len(frame.count as u64) } else { 0 };
        let tile_states = &memory[2];
        clear(&tile_states.part(0..lens.kept))?;
        let mut work_at = lens.kept.next_multiple_of(WORK_ALIGN);
        let (mut bytes, mut first_tile, mut kept_at) = (Vec::new(), 0, 0);
        for (number, frame) in frames.iter().enumerate() {
            let fields = [
                frame.values.address(),
                frame.count as u64,
                frame.static_section.address(),
                frame.dynamic_section.address(),
                frame.dynamic_section.len(),
                frame.size.address(),
                tile_states.address() + kept_at,
                states.address() + (STATE_LEN * number) as u64,
                if work(frame) > 0 { tile_states.address() + work_at } else { 0 },
                first_tile | tiles(frame) << 32,
            ];
            bytes.extend(fields.iter().flat_map(|field| field.to_le_bytes()));
            kept_at += kept(frame);
            work_at += work(frame);
            first_tile += tiles(frame);
        }
        described.write(&bytes)?;
        Ok(Self {
            frames: described,
            states,
            frame_count: u32::try_from(frames.len()).expect("frames are counted in 32 bits"),
            tile_count: u32::try_from(first_tile).expect("tiles are counted in 32 bits"),
            most_tiles: u32::try_from(most_tiles).expect("they are some of these"),
            memory,
            _kept: frames,
        })
    }
}

/// Lengths of the memory of a batch.
struct Lens {
    frames: u64,
    states: u64,
    /// Bytes that tiles keep, and the same with the work of encoders.
    kept: u64,
    tiles: u64,
}

impl Lens {
    fn of(module: Module, frames: &[Described], has_work: bool) -> Self {
        let sum = |of: fn(&Module, u64) -> u64| -> u64 {
            frames.iter().map(|frame| of(&module, frame.count as u64)).sum()
        };
        let kept = sum(|module, count| module.kept_len(count));
        let work = if has_work { sum(|module, count| module.work_len(count)) } else { 0 };
        let [frame_len, state_len] = [FRAME_LEN, STATE_LEN].map(|len| (len * frames.len()) as u64);
        Self { frames: frame_len, states: state_len, kept, tiles: kept.next_multiple_of(WORK_ALIGN) + work }
    }
}

fn clear(region: &DeviceRegion) -> Result<(), GpuError> {
    region.write(&vec![0; usize::try_from(region.len()).expect("it is in memory")])
}

/// Lengths and alignments that the regions of a block must have.
pub(crate) struct Needs<'a> {
    pub(crate) codec: &'a dyn Codec,
    pub(crate) dtype: DType,
}

impl Needs<'_> {
    /// A frame with values of its own.
    pub(crate) fn block(&self, block: Block) -> Result<Described, GpuError> {
        let Block { values, static_section, dynamic_section, size } = block;
        let count = self.count(&values)?;
        let shape = FrameShape::new(Layout::Split, self.dtype, count);
        let static_len = self.codec.static_len(shape) as u64;
        let room = self.codec.bound(shape) as u64 - static_len;
        let fits = static_section.len() == static_len;
        need("a static section", &static_section, count, fits, 128, &format!("{static_len} bytes"))?;
        let fits = dynamic_section.len() >= room;
        need("a dynamic section", &dynamic_section, count, fits, 16, &format!("at least {room} bytes"))?;
        need("a size", &size, count, size.len() == 8, 8, "8 bytes")?;
        Ok(Described { count, values, static_section, dynamic_section, size })
    }

    /// A compact frame, which is both sections of what kernels get. `least` gives how long its region is at least.
    pub(crate) fn compact(
        &self,
        block: CompactBlock,
        align: u64,
        least: fn(&dyn Codec, FrameShape) -> usize,
    ) -> Result<Described, GpuError> {
        let CompactBlock { values, frame, size } = block;
        let count = self.count(&values)?;
        let least = least(self.codec, FrameShape::new(Layout::Compact, self.dtype, count)) as u64;
        need("a frame", &frame, count, frame.len() >= least, align, &format!("at least {least} bytes"))?;
        need("a size", &size, count, size.len() == 8, 8, "8 bytes")?;
        Ok(Described { count, values, static_section: frame.clone(), dynamic_section: frame, size })
    }

    pub(crate) fn count(&self, values: &DeviceRegion) -> Result<usize, GpuError> {
        let width = self.dtype.width();
        let count = usize::try_from(values.len()).expect("it is in memory") / width;
        let fits = count > 0 && values.len() == (count * width) as u64;
        need("values", values, count, fits, 16, "whole values, at least one and as many as all others,")?;
        Ok(count)
    }
}

pub(crate) fn need(
    what: &'static str,
    region: &DeviceRegion,
    values: usize,
    fits: bool,
    align: u64,
    needed: &str,
) -> Result<(), GpuError> {
    let (found, address) = (region.len(), region.address());
    if fits && address % align == 0 {
        return Ok(());
    }
    let needed = format!("{needed} at a multiple of {align}");
    Err(GpuError::Region { what, values, found, address, needed })
}
