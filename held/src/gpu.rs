//! Frames in the memory of a GPU, decoded there.

use std::sync::Mutex;

use zipwire_codec::{DType, FrameInfo, HEADER_LEN, Spec};
use zipwire_files::TensorInfo;
use zipwire_kernels::{Coder, CompactBlock, Decoder, Device, DeviceRegion, Stream};

use crate::error::HeldError;
use crate::model::{Block, Form, HeldModel};
use crate::room::Room;

/// The codec whose compact frames GPUs have a kernel for.
const CODEC: &str = "huffman";
/// What frames and values begin at multiples of on the device.
const ALIGN: u64 = 128;

/// A model whose frames are in the memory of a GPU: a block of tensors is decoded there in one launch (DFloat11, arXiv:2504.11651,
/// section 2.3.3), into a buffer that all blocks share. [`HeldModel::on_device`] makes it.
///
/// Frames are those of `huffman`; longer ones than those of files take less memory beside them, so
/// [`HeldOptions::chunk_values`](crate::HeldOptions::chunk_values) of 2^23 is a good choice.
#[derive(Debug)]
pub struct DeviceModel {
    blocks: Vec<DeviceBlock>,
    values: DeviceRegion,
    /// Blocks whose findings nobody has looked at.
    launched: Mutex<Vec<usize>>,
    bytes_kept: u64,
}

/// What is on the device of a block.
#[derive(Debug)]
struct DeviceBlock {
    name: String,
    /// Its tensors, and where their values are once it is decoded.
    tensors: Vec<(TensorInfo, DeviceRegion)>,
    decoder: Option<Decoder>,
    /// Of each frame of the decoder, the tensor and the chunk.
    frames: Vec<(usize, usize)>,
}

impl HeldModel {
    /// Copies the model to a device, where its blocks are then decoded. Frames on the disk are read. Waits for the device.
    ///
    /// # Errors
    /// [`HeldError::DeviceCodec`] if frames are not those of `huffman`, and [`HeldError::Gpu`] if the device has no room or the driver fails.
    pub fn on_device(&self, device: &Device) -> Result<DeviceModel, HeldError> {
        let coder = Coder::new(device, &spec(), DType::Bf16)?;
        let values = DeviceRegion::allocate(device, self.device_len())?;
        let (mut blocks, mut bytes_kept, mut room) = (Vec::new(), 0, Room::default());
        for block in self.blocks() {
            let kept = match &block.kept {
                Some(kept) => kept.bytes(),
                None => {
                    let out = room.at_least(block.bytes_kept)?;
                    self.inner.read(block, out)?;
                    out
                }
            };
            let (block, bytes) = DeviceBlock::new(device, &coder, block, kept, &values)?;
            blocks.push(block);
            bytes_kept += bytes;
        }
        Ok(DeviceModel { blocks, values, launched: Mutex::default(), bytes_kept })
    }

    /// Bytes that the largest block takes, decoded, with each tensor at a multiple of [`ALIGN`].
    fn device_len(&self) -> u64 {
        let decoded = |block: &Block| {
            let tensors = block.tensors.iter().filter(|tensor| matches!(tensor.form, Form::Frames { .. }));
            tensors.map(|tensor| tensor.info.bytes().next_multiple_of(ALIGN)).sum::<u64>()
        };
        self.blocks().iter().map(decoded).max().unwrap_or(0)
    }
}

impl DeviceModel {
    /// How many blocks there are, in the order of a forward pass.
    pub fn block_count(&self) -> usize {
        self.blocks.len()
    }

    /// Name of a block.
    ///
    /// # Panics
    /// If there is no such block.
    pub fn name(&self, block: usize) -> &str {
        &self.blocks[block].name
    }

    /// Bytes of frames, of values that are held as they are, and of what launches keep, on the device.
    pub fn bytes_kept(&self) -> u64 {
        self.bytes_kept
    }

    /// Bytes of the buffer that blocks are decoded to.
    pub fn bytes_decoded(&self) -> u64 {
        self.values.len()
    }

    /// Queues the decoding of a block on a stream, and gives its tensors with the regions where their values are once the stream is there. The
    /// values of the block before are gone then: whatever reads them is to be in front, on the same stream or behind an event of it. Frames
    /// that are damaged give any values, and an error of [`Self::check`].
    ///
    /// # Errors
    /// If the driver fails.
    ///
    /// # Panics
    /// If there is no such block.
    pub fn decode(
        &self,
        block: usize,
        stream: &Stream,
    ) -> Result<impl Iterator<Item = (&TensorInfo, &DeviceRegion)>, HeldError> {
        let of = &self.blocks[block];
        if let Some(decoder) = &of.decoder {
            decoder.launch(stream)?;
            let mut launched = self.launched.lock().expect("nothing panics while it is held");
            if !launched.contains(&block) {
                launched.push(block);
            }
        }
        Ok(of.tensors.iter().map(|(info, region)| (info, region)))
    }

    /// Waits for a stream, and says whether all frames that were decoded since the last check were sound. A block that was decoded several times counts
    /// as it was at last.
    ///
    /// # Errors
    /// [`HeldError::Device`] for the first frame that was not, in the order of launches; and if the driver fails.
    pub fn check(&self, stream: &Stream) -> Result<(), HeldError> {
        stream.synchronize()?;
        let launched = std::mem::take(&mut *self.launched.lock().expect("nothing panics while it is held"));
        for block in launched {
            let DeviceBlock { tensors, decoder, frames, .. } = &self.blocks[block];
            let Some(decoder) = decoder else { continue };
            let found = Decoder::faults(&decoder.states().read()?);
            if let Some((fault, (tensor, chunk))) =
                found.into_iter().zip(frames).find_map(|(fault, frame)| Some((fault?, *frame)))
            {
                let tensor = tensors[tensor].0.name.clone();
                return Err(HeldError::Device { tensor, chunk, fault });
            }
        }
        Ok(())
    }
}

impl DeviceBlock {
    /// Copies what is kept of a block, and prepares its launch; the bytes that it takes on the device.
    fn new(
        device: &Device,
        coder: &Coder,
        block: &Block,
        kept: &[u8],
        values: &DeviceRegion,
    ) -> Result<(Self, u64), HeldError> {
        // What goes to the device, one behind the other: values as they are, frames, and of each frame its length.
        let (mut bytes, mut places, mut sizes) = (Vec::new(), Vec::new(), Vec::<u8>::new());
        let align = |bytes: &mut Vec<u8>| bytes.resize(bytes.len().next_multiple_of(ALIGN as usize), 0);
        for (number, tensor) in block.tensors.iter().enumerate() {
            let Form::Frames { chunk_len, ends, .. } = &tensor.form else {
                align(&mut bytes);
                places.push((number, None, bytes.len()));
                bytes.extend_from_slice(&kept[tensor.at..tensor.at + tensor.bytes_kept()]);
                continue;
            };
            let mut start = 0;
            for (chunk, end) in ends.iter().enumerate() {
                let frame = &kept[tensor.at + start..tensor.at + end];
                check_codec(&tensor.info.name, chunk, frame)?;
                align(&mut bytes);
                places.push((number, Some((chunk, *chunk_len as u64)), bytes.len()));
                bytes.extend_from_slice(frame);
                sizes.extend_from_slice(&(frame.len() as u64).to_le_bytes());
                start = *end;
            }
        }
        align(&mut bytes);
        let (on_device, lens) = (
            DeviceRegion::allocate(device, bytes.len() as u64)?,
            DeviceRegion::allocate(device, sizes.len() as u64)?,
        );
        on_device.write(&bytes)?;
        lens.write(&sizes)?;

        let mut to = 0;
        let mut tensors: Vec<(TensorInfo, DeviceRegion)> = Vec::new();
        for tensor in &block.tensors {
            let len = tensor.info.bytes();
            // Where it is held as it is, its place is put in below.
            let is_decoded = matches!(tensor.form, Form::Frames { .. });
            let region = if is_decoded { values.part(to..to + len) } else { on_device.part(0..0) };
            to += if is_decoded { len.next_multiple_of(ALIGN) } else { 0 };
            tensors.push((tensor.info.clone(), region));
        }
        let (mut blocks, mut frames) = (Vec::new(), Vec::new());
        for (place, (number, chunk, at)) in places.iter().enumerate() {
            let (info, region) = &mut tensors[*number];
            let at = *at as u64;
            let Some((chunk, chunk_len)) = *chunk else {
                *region = on_device.part(at..at + info.bytes());
                continue;
            };
            // Up to where the next one begins: whole words.
            let end = places.get(place + 1).map_or(bytes.len(), |(.., next)| *next) as u64;
            let first = chunk as u64 * chunk_len;
            let size = 8 * frames.len() as u64;
            blocks.push(CompactBlock {
                values: region.part(first..(first + chunk_len).min(region.len())),
                frame: on_device.part(at..end),
                size: lens.part(size..size + 8),
            });
            frames.push((*number, chunk));
        }
        let counts = blocks.iter().map(|block| block.values.len() / DType::Bf16.width() as u64);
        let spec = spec();
        let launch: u64 =
            counts.map(|count| Coder::frame_len(&spec, DType::Bf16, count)).sum::<Result<_, _>>()?;
        let taken = on_device.len() + lens.len() + launch;
        let decoder = if blocks.is_empty() { None } else { Some(coder.compact_decoder(blocks)?) };
        Ok((Self { name: block.name().to_owned(), tensors, decoder, frames }, taken))
    }
}

fn spec() -> Spec {
    CODEC.parse().expect("it is a codec without options")
}

/// Whether a frame is one that the kernels decode, as far as its header says.
fn check_codec(tensor: &str, chunk: usize, frame: &[u8]) -> Result<(), HeldError> {
    let info = FrameInfo::peek(&frame[..frame.len().min(HEADER_LEN)]);
    let info = info.map_err(|source| HeldError::Decode { tensor: tensor.to_owned(), chunk, source })?;
    if (info.codec, info.shape.dtype) == (CODEC, DType::Bf16) {
        return Ok(());
    }
    Err(HeldError::DeviceCodec { tensor: tensor.to_owned(), codec: info.codec, dtype: info.shape.dtype })
}
