//! Frames in the memory of a GPU, decoded there.

use std::ops::Range;
use std::sync::Mutex;

use crate::file::TensorInfo;
use zipwire_codec::{DType, FrameInfo, HEADER_LEN, Spec};
use zipwire_kernels::{Coder, CompactBlock, Decoder, Device, DeviceRegion, Stream};

use crate::held::error::HeldError;
use crate::held::model::{Block, Form, Held, HeldModel};
use crate::held::walk::Room;

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
        let image = Image::new(block, kept)?;
        let device = coders.device;
        let on_device = DeviceRegion::allocate(device, image.bytes.len() as u64)?;
        let lens = DeviceRegion::allocate(device, image.sizes.len() as u64)?;
        on_device.write(&image.bytes)?;
        lens.write(&image.sizes)?;

        let mut tensors = tensors_of(block, values, &on_device);
        let mut of_kinds: Vec<Together> = Vec::new();
        let (mut size, mut launch) = (0, 0);
        for Piece { tensor, frame, bytes } in &image.pieces {
            let Some((kind, chunk, chunk_len)) = *frame else {
                tensors[*tensor].1 = on_device.part(bytes.start..bytes.start + tensors[*tensor].0.bytes());
                continue;
            };
            let region = &tensors[*tensor].1;
            let first = chunk as u64 * chunk_len;
            let values = region.part(first..(first + chunk_len).min(region.len()));
            let (spec, dtype) = (spec(kind.0), kind.1);
            launch += Coder::decoded_frame_len(&spec, dtype, values.len() / dtype.width() as u64)?;
            let (frame, size_of_frame) = (on_device.part(bytes.clone()), lens.part(size..size + 8));
            size += 8;
            let of_kind = of_kinds.iter().position(|of_kind| of_kind.kind == kind).unwrap_or_else(|| {
                of_kinds.push(Together { kind, blocks: Vec::new(), frames: Vec::new() });
                of_kinds.len() - 1
            });
            of_kinds[of_kind].blocks.push(CompactBlock { values, frame, size: size_of_frame });
            of_kinds[of_kind].frames.push((*tensor, chunk));
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

/// Bytes of a block as they are copied to the device: raw values and frames, each at a multiple of [`ALIGN`].
struct Image {
    bytes: Vec<u8>,
    /// Length of each frame, 8 bytes little-endian.
    sizes: Vec<u8>,
    pieces: Vec<Piece>,
}

/// A raw tensor or a frame in an [`Image`].
struct Piece {
    /// Index of the tensor in the block.
    tensor: usize,
    /// Codec and type, chunk number, and bytes of a chunk of values; `None` of a raw tensor.
    frame: Option<(Kind, usize, u64)>,
    /// Its bytes in the image, up to where the next piece begins: whole words.
    bytes: Range<u64>,
}

impl Image {
    fn new(block: &Block, kept: &[u8]) -> Result<Self, HeldError> {
        let mut image = Self { bytes: Vec::new(), sizes: Vec::new(), pieces: Vec::new() };
        for (number, tensor) in block.tensors.iter().enumerate() {
            let Form::Frames { chunk_len, ends, .. } = &tensor.form else {
                image.push(number, None, &kept[tensor.at..tensor.at + tensor.bytes_kept()]);
                continue;
            };
            let mut start = 0;
            for (chunk, end) in ends.iter().enumerate() {
                let frame = &kept[tensor.at + start..tensor.at + end];
                let kind = kind_of(&tensor.info.name, chunk, frame)?;
                image.push(number, Some((kind, chunk, *chunk_len as u64)), frame);
                image.sizes.extend_from_slice(&(frame.len() as u64).to_le_bytes());
                start = *end;
            }
        }
        Ok(image)
    }

    fn push(&mut self, tensor: usize, frame: Option<(Kind, usize, u64)>, bytes: &[u8]) {
        let start = self.bytes.len() as u64;
        self.bytes.extend_from_slice(bytes);
        self.bytes.resize(self.bytes.len().next_multiple_of(ALIGN as usize), 0);
        self.pieces.push(Piece { tensor, frame, bytes: start..self.bytes.len() as u64 });
    }
}

/// Tensors of a block, each with its region of the buffer `values`; those that are not decoded have an empty one yet.
fn tensors_of(
    block: &Block,
    values: &DeviceRegion,
    on_device: &DeviceRegion,
) -> Vec<(TensorInfo, DeviceRegion)> {
    let mut to = 0;
    let place = |tensor: &Held| {
        let len = tensor.info.bytes();
        let region = match tensor.form {
            Form::Raw => on_device.part(0..0),
            Form::Frames { .. } => {
                let from = to;
                to += len.next_multiple_of(ALIGN);
                values.part(from..from + len)
            }
        };
        (tensor.info.clone(), region)
    };
    block.tensors.iter().map(place).collect()
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
