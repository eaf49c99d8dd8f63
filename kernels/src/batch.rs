//! The frames of one launch, as the kernels see them.

use zipwire_codec::{Codec, DType, Layout};

use crate::GpuError;
use crate::device::{Device, DeviceRegion};
use crate::fault::Fault;
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

/// Bytes of `Frame` and of `State` in `cuda/common.cuh`, and where the status is in the latter.
const FRAME_LEN: usize = 72;
const STATE_LEN: usize = 32;
const STATUS_AT: usize = 20;

/// Descriptions of frames on the device, and room for what kernels keep between their blocks.
#[derive(Debug)]
pub(crate) struct Batch {
    frames: DeviceRegion,
    states: DeviceRegion,
    frame_count: u32,
    /// Of all frames.
    tile_count: u32,
    /// What the frames point to.
    _kept: (Vec<Block>, DeviceRegion),
}

impl Batch {
    /// Checks the blocks and describes them to the kernels. Waits for the device.
    pub(crate) fn new(
        device: &Device,
        module: Module,
        codec: &dyn Codec,
        dtype: DType,
        blocks: Vec<Block>,
    ) -> Result<Self, GpuError> {
        let counts = blocks.iter().map(|block| values_of(block, codec, dtype));
        let counts = counts.collect::<Result<Vec<usize>, _>>()?;
        let tile_counts: Vec<u64> = counts.iter().map(|count| count.div_ceil(module.tile) as u64).collect();
        let all_tiles: u64 = tile_counts.iter().sum();
        let frames = DeviceRegion::allocate(device, (FRAME_LEN * blocks.len()) as u64)?;
        let states = zeros(device, (STATE_LEN * blocks.len()) as u64)?;
        let tile_states = zeros(device, 8 * all_tiles)?;
        let (mut described, mut first_tile) = (Vec::with_capacity(FRAME_LEN * blocks.len()), 0);
        for (number, ((block, count), tile_count)) in blocks.iter().zip(&counts).zip(&tile_counts).enumerate()
        {
            let fields = [
                block.values.address(),
                *count as u64,
                block.static_section.address(),
                block.dynamic_section.address(),
                block.dynamic_section.len(),
                block.size.address(),
                tile_states.address() + 8 * first_tile,
                states.address() + (STATE_LEN * number) as u64,
                first_tile | tile_count << 32,
            ];
            described.extend(fields.iter().flat_map(|field| field.to_le_bytes()));
            first_tile += tile_count;
        }
        frames.write(&described)?;
        Ok(Self {
            frames,
            states,
            frame_count: u32::try_from(blocks.len()).expect("frames are counted in 32 bits"),
            tile_count: u32::try_from(all_tiles).expect("tiles are counted in 32 bits"),
            _kept: (blocks, tile_states),
        })
    }

    /// Address of the descriptions.
    pub(crate) fn frames(&self) -> u64 {
        self.frames.address()
    }

    pub(crate) fn frame_count(&self) -> u32 {
        self.frame_count
    }

    pub(crate) fn tile_count(&self) -> u32 {
        self.tile_count
    }

    /// What the blocks of each frame have in common; decoders leave their findings there.
    pub(crate) fn states(&self) -> &DeviceRegion {
        &self.states
    }
}

/// What decoders found, from a copy of their states.
pub(crate) fn faults(states: &[u8]) -> Vec<Option<Fault>> {
    let status = |state: &[u8; STATE_LEN]| {
        let bytes = state[STATUS_AT..].first_chunk().expect("it is in the state");
        Fault::of(u32::from_le_bytes(*bytes))
    };
    states.as_chunks().0.iter().map(status).collect()
}

fn zeros(device: &Device, len: u64) -> Result<DeviceRegion, GpuError> {
    let region = DeviceRegion::allocate(device, len)?;
    region.write(&vec![0; usize::try_from(len).expect("it is in memory")])?;
    Ok(region)
}

/// The number of values of a block whose regions are as the kernels need them.
fn values_of(block: &Block, codec: &dyn Codec, dtype: DType) -> Result<usize, GpuError> {
    let Block { values, static_section, dynamic_section, size } = block;
    let count = usize::try_from(values.len()).expect("it is in memory") / dtype.width();
    let static_len = codec.static_len(Layout::Split, dtype, count) as u64;
    let room = codec.bound(Layout::Split, dtype, count) as u64 - static_len;
    let whole = (count * dtype.width()) as u64;
    let needs = [
        ("values", values, count > 0 && values.len() == whole, 16, "whole values, at least one,"),
        ("a static section", static_section, static_section.len() == static_len, 128, "its exact length"),
        ("a dynamic section", dynamic_section, dynamic_section.len() >= room, 16, "its bound"),
        ("a size", size, size.len() == 8, 8, "eight bytes"),
    ];
    for (what, region, fits, align, length) in needs {
        if !fits || region.address() % align != 0 {
            let (found, address) = (region.len(), region.address());
            let needed = format!("{length} at a multiple of {align}");
            return Err(GpuError::Region { what, values: count, found, address, needed });
        }
    }
    Ok(count)
}
