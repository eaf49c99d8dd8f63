//! A model whose weights stay compressed, and how its tensors are grouped into blocks and loaded.

use std::fs;
use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rayon::prelude::*;
use rayon::{ThreadPool, ThreadPoolBuilder};
use zipwire_codec::{Codec, DEFAULT_CHUNK_VALUES, DType, Decoder, Layout, Spec};

use crate::file::{FileError, Model, TensorInfo, buffer, files_below};
use crate::held::error::HeldError;
use crate::held::walk::{Room, Walk};

/// Alignment of tensors in memory, in bytes.
pub(crate) const ALIGN: usize = 64;

/// Place of the frames.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Place {
    /// In memory.
    #[default]
    Memory,
    /// In the file: a block is read while the one before it is decoded and used.
    Disk,
}

/// How a model is held.
#[derive(Clone, Debug)]
pub struct HeldOptions {
    /// The codec that all tensors are encoded by, in memory; `raw` holds values as they are. `None` holds what is in the files as it is, frames
    /// and values, which is the only way on the disk.
    pub codec: Option<Spec>,
    /// Values of a frame, where `codec` encodes.
    pub chunk_values: NonZero<usize>,
    /// Where frames are.
    pub place: Place,
    /// Threads that encode and decode.
    pub threads: NonZero<usize>,
    /// How many blocks are held, from the first one on; `None` for all.
    pub blocks: Option<usize>,
}

impl Default for HeldOptions {
    /// By `tiered`, in memory, in frames as files have them, as many threads as the machine has.
    fn default() -> Self {
        Self {
            codec: Some("tiered".parse().expect("this codec has no options that are needed")),
            chunk_values: NonZero::new(DEFAULT_CHUNK_VALUES as usize).expect("chunks have values"),
            place: Place::default(),
            threads: std::thread::available_parallelism().unwrap_or(NonZero::<usize>::MIN),
            blocks: None,
        }
    }
}

/// A model whose weights stay compressed until a block of them is needed.
///
/// ```
/// use zipwire_models::held::{HeldError, HeldModel, HeldOptions};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path().join("model.safetensors");
/// # let values: Vec<u8> = (0..20_000u16).flat_map(|n| (0x3f80 + n % 97).to_le_bytes()).collect();
/// # let view = safetensors::tensor::TensorView::new(safetensors::Dtype::BF16, vec![200, 100], &values)?;
/// # safetensors::serialize_to_file([("layers.0.w", view)], None, &path)?;
/// let model = HeldModel::open(&[&path], &HeldOptions::default())?;
/// let mut walk = model.walk(0..model.blocks().len())?;
/// while let Some(block) = walk.next()? {
///     for (tensor, bytes) in block.tensors() {
///         println!("{}: {} of shape {:?}, {} bytes", block.name(), tensor.name, tensor.shape, bytes.len());
///     }
/// #   assert_eq!((block.name(), block.tensor("layers.0.w")), ("layers.0", Some(&values[..])));
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct HeldModel {
    pub(crate) inner: Arc<Inner>,
    pool: ThreadPool,
}

/// Files and blocks of a model, shared with the thread that reads ahead.
#[derive(Debug)]
pub(crate) struct Inner {
    pub(crate) models: Vec<Model>,
    pub(crate) blocks: Vec<Block>,
}

/// Tensors that are decoded together.
#[derive(Debug)]
pub struct Block {
    name: String,
    pub(crate) tensors: Vec<Held>,
    /// Frames and raw values, concatenated; `None` if they are on the disk.
    pub(crate) kept: Option<Room>,
    pub(crate) bytes_kept: usize,
    /// Bytes of the buffer that it is decoded to.
    bytes_decoded: usize,
}

/// A tensor of a block.
#[derive(Debug)]
pub(crate) struct Held {
    /// Number of its file.
    pub(crate) model: usize,
    pub(crate) info: TensorInfo,
    /// Where it begins among the bytes that are kept.
    pub(crate) at: usize,
    pub(crate) form: Form,
}

#[derive(Debug)]
pub(crate) enum Form {
    Raw,
    /// Coded: concatenated frames, each of a chunk of `chunk_len` bytes of values.
    Frames {
        chunk_len: usize,
        /// Where each frame ends, from the first one's beginning.
        ends: Vec<usize>,
        /// Where its values go in the buffer.
        to: usize,
    },
}

impl Held {
    /// Bytes that are kept of it.
    pub(crate) fn bytes_kept(&self) -> usize {
        match &self.form {
            Form::Raw => self.info.bytes() as usize,
            Form::Frames { ends, .. } => ends.last().copied().unwrap_or(0),
        }
    }
}

impl Block {
    /// Its name: what its tensors' names have in common, `model.layers.7`.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Bytes that are held of it: frames, and values of what does not compress.
    pub fn bytes_kept(&self) -> u64 {
        self.bytes_kept as u64
    }

    /// Bytes of its tensors.
    pub fn bytes(&self) -> u64 {
        self.tensors.iter().map(|tensor| tensor.info.bytes()).sum()
    }
}

impl HeldModel {
    /// Opens the safetensors files of a model, or folders of such, compressed ones or not. While a block is loaded, its values and frames are in
    /// memory twice.
    ///
    /// # Errors
    /// If a file cannot be read, is damaged, or has differences from a base; if two files have the same tensor; if the codec needs a base or a
    /// table; if memory or threads are lacking.
    pub fn open(paths: &[impl AsRef<Path>], options: &HeldOptions) -> Result<Self, HeldError> {
        zipwire_paper_codecs::register();
        if let Some(spec) = &options.codec {
            let complete = spec.clone().for_rows(1).complete();
            complete.map_err(|source| HeldError::Codec { codec: spec.to_string(), source })?;
        }
        let threads = options.threads.get();
        let pool = ThreadPoolBuilder::new().num_threads(threads).build();
        let pool = pool.map_err(|error| HeldError::Threads { threads, reason: error.to_string() })?;
        let mut models = Vec::new();
        for path in paths {
            for file in files_of(path.as_ref())? {
                models.push(Model::open(&file)?);
            }
        }
        let mut blocks = Vec::new();
        for (name, tensors) in blocks_of(&models)?.into_iter().take(options.blocks.unwrap_or(usize::MAX)) {
            blocks.push(pool.install(|| load(&models, name, tensors, options))?);
        }
        Ok(Self { inner: Arc::new(Inner { models, blocks }), pool })
    }

    /// Its blocks, in the order of a forward pass: embeddings, layers, norms and heads.
    pub fn blocks(&self) -> &[Block] {
        &self.inner.blocks
    }

    /// Bytes of all tensors.
    pub fn bytes(&self) -> u64 {
        self.blocks().iter().map(Block::bytes).sum()
    }

    /// Bytes that are held, in memory or on the disk.
    pub fn bytes_kept(&self) -> u64 {
        self.blocks().iter().map(Block::bytes_kept).sum()
    }

    /// Bytes of the buffer that blocks are decoded to: those of the largest block.
    pub fn bytes_decoded(&self) -> u64 {
        self.blocks().iter().map(|block| block.bytes_decoded).max().unwrap_or(0) as u64
    }

    /// Walks through blocks with these numbers, in their order.
    ///
    /// # Errors
    /// If there is no memory for the buffer.
    ///
    /// # Panics
    /// If there are no such blocks.
    pub fn walk(&self, blocks: std::ops::Range<usize>) -> Result<Walk<'_>, HeldError> {
        Walk::new(self, blocks)
    }

    /// Decodes the stored bytes `kept` of a block to `out`.
    pub(crate) fn decode(&self, block: &Block, kept: &[u8], out: &mut [u8]) -> Result<(), HeldError> {
        use rayon::prelude::*;

        let (mut tasks, mut rest, mut begin) = (Vec::new(), out, 0);
        for tensor in &block.tensors {
            let Form::Frames { chunk_len, ends, to, .. } = &tensor.form else { continue };
            let (_, behind) = rest.split_at_mut(to - begin);
            let (values, behind) = behind.split_at_mut(tensor.info.bytes() as usize);
            (rest, begin) = (behind, to + values.len());
            let mut start = tensor.at;
            for (chunk, (end, out)) in ends.iter().zip(values.chunks_mut(*chunk_len)).enumerate() {
                tasks.push((tensor, chunk, &kept[start..tensor.at + end], out));
                start = tensor.at + end;
            }
        }
        let decoder = Decoder::new();
        self.pool.install(|| {
            tasks.into_par_iter().try_for_each(|(tensor, chunk, frame, out)| {
                decoder.decompress_into(frame, out).map(|_| ()).map_err(|source| HeldError::Decode {
                    tensor: tensor.info.name.clone(),
                    chunk,
                    source,
                })
            })
        })
    }
}

impl Block {
    /// A block of tensors, with places for those that are decoded.
    pub(crate) fn new(name: String, mut tensors: Vec<Held>, bytes_kept: usize, kept: Option<Room>) -> Self {
        let mut bytes_decoded = 0;
        for tensor in &mut tensors {
            if let Form::Frames { to, .. } = &mut tensor.form {
                *to = bytes_decoded;
                bytes_decoded = (bytes_decoded + tensor.info.bytes() as usize).next_multiple_of(ALIGN);
            }
        }
        Self { name, tensors, kept, bytes_kept, bytes_decoded }
    }
}

/// The file itself, or the model files below a folder.
fn files_of(path: &Path) -> Result<Vec<PathBuf>, HeldError> {
    let kind = fs::metadata(path).map_err(FileError::io("read", path))?;
    if !kind.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let mut files = files_below(path)?;
    files.retain(|file| file.extension().is_some_and(|extension| extension == "safetensors"));
    if files.is_empty() { Err(HeldError::NoFiles { path: path.to_owned() }) } else { Ok(files) }
}

/// Numbers of a model's file and of a tensor in it.
pub(crate) type Which = (usize, usize);

/// The blocks of a model, in their order, with their tensors.
fn blocks_of(models: &[Model]) -> Result<Vec<(String, Vec<Which>)>, HeldError> {
    let mut blocks: std::collections::HashMap<&str, Vec<Which>> = std::collections::HashMap::new();
    let mut names = std::collections::HashMap::new();
    for (number, model) in models.iter().enumerate() {
        for (tensor, info) in model.tensors().iter().enumerate() {
            if let Some(first) = names.insert(&info.name, number) {
                let (first, second) = (models[first].path().to_owned(), model.path().to_owned());
                return Err(HeldError::Twice { tensor: info.name.clone(), first, second });
            }
            blocks.entry(block_of(&info.name)).or_default().push((number, tensor));
        }
    }
    let mut blocks: Vec<_> = blocks.into_iter().map(|(name, tensors)| (name.to_owned(), tensors)).collect();
    blocks.sort_by_cached_key(|(name, _)| (order(name), name.clone()));
    Ok(blocks)
}

/// Words in the names of modules that come before the layers of a forward pass.
const FIRST: [&str; 4] = ["emb", "wte", "wpe", "tok"];

/// The block of a tensor, by its name: up to the first part that is a number (`model.layers.7`), or else all but the last part
/// (`model.norm` of `model.norm.weight`). A name without parts is a block of its own.
fn block_of(tensor: &str) -> &str {
    let ends = tensor.match_indices('.').map(|(at, _)| at).chain([tensor.len()]);
    let mut start = 0;
    for end in ends {
        let part = &tensor[start..end];
        if start > 0 && !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit()) {
            return &tensor[..end];
        }
        start = end + 1;
    }
    tensor.rfind('.').map_or(tensor, |end| &tensor[..end])
}

/// Sort key of a block, in the order of a forward pass: embeddings, layers by their numbers, and the rest by name.
pub(crate) fn order(block: &str) -> impl Ord + use<> {
    let (stack, last) = block.rsplit_once('.').unwrap_or(("", block));
    let layer = last.parse::<u64>().ok().filter(|_| !stack.is_empty());
    let rank = match layer {
        Some(_) => 1,
        None if FIRST.iter().any(|word| block.contains(word)) => 0,
        // Norms are before heads, `lm_head` and the like.
        None if block.contains("norm") => 2,
        None => 3,
    };
    let text = if layer.is_some() { stack } else { block };
    (rank, text.to_owned(), layer)
}

pub(crate) fn load(
    models: &[Model],
    name: String,
    tensors: Vec<Which>,
    options: &HeldOptions,
) -> Result<Block, HeldError> {
    let (mut held, mut encoded) = (Vec::new(), Vec::new());
    let mut at = 0;
    for (number, tensor) in tensors {
        let (model, info) = (&models[number], models[number].tensors()[tensor].clone());
        let mut frames = None;
        let form = match &options.codec {
            Some(spec) if options.place == Place::Memory => {
                let (form, bytes) = encode(model, &info.name, spec, options.chunk_values.get())?;
                frames = Some(bytes);
                form
            }
            _ => model.container(&info.name)?.map_or(Form::Raw, |index| {
                let begin = if index.chunk_count() == 0 { 0 } else { index.frame(0).start };
                let ends = (0..index.chunk_count()).map(|chunk| (index.frame(chunk).end - begin) as usize);
                let chunk_len = index.chunk_values() as usize * index.dtype().width();
                Form::Frames { chunk_len, ends: ends.collect(), to: 0 }
            }),
        };
        encoded.push(frames);
        let tensor = Held { model: number, info, at, form };
        at = (at + tensor.bytes_kept()).next_multiple_of(ALIGN);
        held.push(tensor);
    }
    if options.place == Place::Disk {
        return Ok(Block::new(name, held, at, None));
    }
    let mut room = Room::new(at)?;
    for (tensor, bytes) in held.iter().zip(encoded) {
        let kept = &mut room.bytes_mut()[tensor.at..tensor.at + tensor.bytes_kept()];
        match bytes {
            Some(bytes) => kept.copy_from_slice(&bytes),
            None => read(&models[tensor.model], tensor, kept)?,
        }
    }
    Ok(Block::new(name, held, at, Some(room)))
}

impl Inner {
    /// Reads the stored bytes of a block from its files.
    pub(crate) fn read(&self, block: &Block, out: &mut [u8]) -> Result<(), HeldError> {
        block.tensors.iter().try_for_each(|tensor| {
            let kept = &mut out[tensor.at..tensor.at + tensor.bytes_kept()];
            read(&self.models[tensor.model], tensor, kept)
        })
    }
}

/// Reads the stored bytes of a tensor from its file, and compares frames with the index.
fn read(model: &Model, tensor: &Held, out: &mut [u8]) -> Result<(), HeldError> {
    let name = &tensor.info.name;
    let Form::Frames { ends, .. } = &tensor.form else { return Ok(model.read_alone(name, 0, out)?) };
    let Some(index) = model.container(name)?.filter(|index| index.chunk_count() > 0) else { return Ok(()) };
    model.read_kept(name, index.frame(0).start, out)?;
    let mut start = 0;
    for (chunk, end) in ends.iter().enumerate() {
        let checked = index.check(chunk, &out[start..*end]);
        checked.map_err(|source| HeldError::Index { tensor: name.clone(), source: Box::new(source) })?;
        start = *end;
    }
    Ok(())
}

/// Encodes a tensor in chunks, on all threads; it stays as it is if that takes no more.
fn encode(model: &Model, name: &str, spec: &Spec, chunk_values: usize) -> Result<(Form, Vec<u8>), HeldError> {
    let info = model.tensor(name)?;
    let mut values = buffer(info.bytes()).map_err(FileError::io("read", model.path()))?;
    values.resize(info.bytes() as usize, 0);
    model.read_into(name, 0, &mut values)?;
    let codec = spec.clone().for_rows(info.shape.last().copied().unwrap_or(1)).codec();
    let dtype = DType::from_name(&info.dtype).filter(|dtype| codec.supports(*dtype));
    let Some(dtype) = dtype else { return Ok((Form::Raw, values)) };
    let chunk_len = chunk_values.saturating_mul(dtype.width());
    let frames: Result<Vec<Vec<u8>>, _> = values
        .par_chunks(chunk_len)
        .map(|chunk| codec.encode_to_vec(Layout::Compact, dtype, chunk))
        .collect();
    let frames = frames.map_err(|source| HeldError::Encode { tensor: name.to_owned(), source })?;
    let ends: Vec<usize> = frames
        .iter()
        .scan(0, |end, frame| {
            *end += frame.len();
            Some(*end)
        })
        .collect();
    if ends.last().is_none_or(|end| *end >= values.len()) {
        return Ok((Form::Raw, values));
    }
    Ok((Form::Frames { chunk_len, ends, to: 0 }, frames.concat()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn layers_are_blocks() {
        for (tensor, block) in [
            ("model.layers.7.mlp.up_proj.weight", "model.layers.7"),
            ("model.layers.12.mlp.experts.3.w1.weight", "model.layers.12"),
            ("h.0.attn.c_attn.weight", "h.0"),
            ("model.norm.weight", "model.norm"),
            ("lm_head.weight", "lm_head"),
            ("weight", "weight"),
            ("7.weight", "7"),
            ("layers.7", "layers.7"),
            ("a..b", "a."),
            ("", ""),
        ] {
            assert_eq!(block_of(tensor), block, "{tensor}");
        }
    }

    #[test]
    fn blocks_are_in_the_order_of_a_forward_pass() {
        let mut blocks = ["lm_head", "model.norm", "model.layers.10", "model.layers.9", "model.embed_tokens"];
        blocks.sort_by_key(|block| order(block));
        let expected = ["model.embed_tokens", "model.layers.9", "model.layers.10", "model.norm", "lm_head"];
        assert_eq!(blocks, expected);
    }
}
