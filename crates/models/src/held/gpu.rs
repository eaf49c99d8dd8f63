//! Frames in the memory of a GPU, decoded there.

use std::sync::Mutex;

use crate::file::TensorInfo;
use zipwire_codec::{DType, FrameInfo, HEADER_LEN, Spec};
use zipwire_kernels::{Coder, CompactBlock, Decoder, Device, DeviceRegion, Stream};

use crate::held::error::HeldError;
use crate::held::model::{Block, Form, HeldModel};
use crate::held::room::Room;

/// Alignment of frames and values on the device, in bytes.
const ALIGN: u64 = 128;

/// A model whose frames are in the memory of a GPU: a block of tensors is decoded there in one launch (DFloat11, arXiv:2504.11651,
/// section 2.3.3), into a buffer that all blocks share. [`HeldModel::on_device`] makes it.
///
/// Frames are those of any codecs that kernels decode in `compact` ([`Coder::check`]); longer ones than those of files take less memory
/// beside them, so [`HeldOptions::chunk_values`](crate::held::HeldOptions::chunk_values) of 2^23 is a good choice.
#[derive(Debug)]
pub struct DeviceModel {
    blocks: Vec<DeviceBlock>,
    values: DeviceRegion,
    /// Blocks that were launched since the last [`DeviceModel::check`].
    launched: Mutex<Vec<usize>>,
    bytes_kept: u64,
}

/// A block's frames, raw tensors and decoders on the device.
#[derive(Debug)]
struct DeviceBlock {
    name: String,
    /// Tensors, each with the region of its values once the block is decoded.
    tensors: Vec<(TensorInfo, DeviceRegion)>,
    decoders: Vec<BlockDecoder>,
}

/// Decoder for the frames of a block that share a codec and a type.
#[derive(Debug)]
struct BlockDecoder {
    decoder: Decoder,
    /// Tensor index and chunk number of each frame.
    frames: Vec<(usize, usize)>,
}

/// A codec and a type.
type Kind = (&'static str, DType);

/// Frames of a block that are decoded in one launch, with the tensor index and chunk number of each.
struct Together {
    kind: Kind,
    blocks: Vec<CompactBlock>,
    frames: Vec<(usize, usize)>,
}

/// The kernels that a model needs, each loaded when the first frame asks for them.
struct Coders<'a> {
    device: &'a Device,
    loaded: Vec<(Kind, Coder)>,
}

impl Coders<'_> {
    fn of(&mut self, kind: Kind) -> Result<&Coder, HeldError> {
        let found = self.loaded.iter().position(|(loaded, _)| *loaded == kind);
        let place = match found {
            Some(place) => place,
            None => {
                self.loaded.push((kind, Coder::new(self.device, &spec(kind.0), kind.1)?));
                self.loaded.len() - 1
            }
        };
        Ok(&self.loaded[place].1)
    }
}

impl HeldModel {
    /// Copies the model to a device, where its blocks are then decoded. Frames on the disk are read. Waits for the device.
    ///
    /// # Errors
    /// [`HeldError::DeviceCodec`] if there are no kernels for frames, and [`HeldError::Gpu`] if the device has no room or the driver fails.
    pub fn on_device(&self, device: &Device) -> Result<DeviceModel, HeldError> {
        let mut coders = Coders { device, loaded: Vec::new() };
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
            let (block, bytes) = DeviceBlock::new(&mut coders, block, kept, &values)?;
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
        for BlockDecoder { decoder, .. } in &of.decoders {
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
            let DeviceBlock { tensors, decoders, .. } = &self.blocks[block];
            for BlockDecoder { decoder, frames } in decoders {
                let found = Decoder::faults(&decoder.states().read()?);
                if let Some((fault, (tensor, chunk))) =
                    found.into_iter().zip(frames).find_map(|(fault, frame)| Some((fault?, *frame)))
                {
                    let tensor = tensors[tensor].0.name.clone();
                    return Err(HeldError::Device { tensor, chunk, fault });
                }
            }
        }
        Ok(())
    }
}

impl DeviceBlock {
    /// Copies the stored bytes of a block to the device and prepares its launch. Returns it with the bytes that it takes there.
    fn new(
        coders: &mut Coders<'_>,
        block: &Block,
        kept: &[u8],
        values: &DeviceRegion,
    ) -> Result<(Self, u64), HeldError> {
        let device = coders.device;
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
                let kind = kind_of(&tensor.info.name, chunk, frame)?;
                align(&mut bytes);
                places.push((number, Some((kind, chunk, *chunk_len as u64)), bytes.len()));
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
        let mut of_kinds: Vec<Together> = Vec::new();
        let (mut size, mut launch) = (0, 0);
        for (place, (number, chunk, at)) in places.iter().enumerate() {
            let (info, region) = &mut tensors[*number];
            let at = *at as u64;
            let Some((kind, chunk, chunk_len)) = *chunk else {
                *region = on_device.part(at..at + info.bytes());
                continue;
            };
            // Up to where the next one begins: whole words.
            let end = places.get(place + 1).map_or(bytes.len(), |(.., next)| *next) as u64;
            let first = chunk as u64 * chunk_len;
            let values = region.part(first..(first + chunk_len).min(region.len()));
            let (spec, dtype) = (spec(kind.0), kind.1);
            launch += Coder::frame_len(&spec, dtype, values.len() / dtype.width() as u64)?;
            let compact =
                CompactBlock { values, frame: on_device.part(at..end), size: lens.part(size..size + 8) };
            size += 8;
            let of_kind = of_kinds.iter().position(|of_kind| of_kind.kind == kind).unwrap_or_else(|| {
                of_kinds.push(Together { kind, blocks: Vec::new(), frames: Vec::new() });
                of_kinds.len() - 1
            });
            of_kinds[of_kind].blocks.push(compact);
            of_kinds[of_kind].frames.push((*number, chunk));
        }
        let taken = on_device.len() + lens.len() + launch;
        let decoder = |Together { kind, blocks, frames }| {
            let decoder = coders.of(kind)?.compact_decoder(blocks)?;
            Ok(BlockDecoder { decoder, frames })
        };
        let decoders = of_kinds.into_iter().map(decoder).collect::<Result<Vec<_>, HeldError>>()?;
        Ok((Self { name: block.name().to_owned(), tensors, decoders }, taken))
    }
}

fn spec(codec: &str) -> Spec {
    codec.parse().expect("it is a codec without options")
}

/// The codec and the type of a frame that kernels decode, as far as its header says.
fn kind_of(tensor: &str, chunk: usize, frame: &[u8]) -> Result<Kind, HeldError> {
    let info = FrameInfo::peek(&frame[..frame.len().min(HEADER_LEN)]);
    let info = info.map_err(|source| HeldError::Decode { tensor: tensor.to_owned(), chunk, source })?;
    let (codec, dtype) = (info.codec, info.shape.dtype);
    let has_kernels = codec.parse().is_ok_and(|spec| Coder::check(&spec, dtype).is_ok());
    if has_kernels {
        return Ok((codec, dtype));
    }
    Err(HeldError::DeviceCodec { tensor: tensor.to_owned(), codec, dtype })
}
