//! Objects: tensors on the disk, each in a file that is never changed, what such a file begins with, and chains
//! of differences that begin with an object that is coded by itself.

use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::Arc;

use zipwire_codec::{Base, ContainerIndex, DEFAULT_CHUNK_VALUES, DType, Decoder};

use crate::file::at::{self, Window};
use crate::file::{FileError, open_input};
use crate::store::address::{DTYPE_BYTES, PIECE, PieceHash, hash_of_piece};
use crate::store::layout::is_absent;
use crate::store::{Address, FORMAT_VERSION, Store, StoreError};

pub(crate) const HEADER_BYTES: usize = 160;
const MAGIC: [u8; 4] = *b"ZPWO";
/// Bytes of the header that its checksum is of.
const SUMMED: usize = 136;

/// Header of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObjectHeader {
    /// Hash that names the object.
    pub address: Address,
    /// Name of the values' type, with zeros behind it.
    pub(crate) dtype: [u8; DTYPE_BYTES],
    /// Bytes of the values.
    pub bytes: u64,
    /// Bytes stored after the header.
    pub stored: u64,
    /// Whether that is a container of frames, and not the values themselves.
    pub is_coded: bool,
    /// The object that the frames are differences from, if they are.
    pub base: Option<Address>,
    /// Hash of the stored bytes: the hash of the hashes of their pieces. A piece of a container is the frames of a piece of the values.
    pub(crate) hash: PieceHash,
}

impl ObjectHeader {
    pub(crate) fn to_bytes(&self) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        bytes[..4].copy_from_slice(&MAGIC);
        bytes[4] = FORMAT_VERSION as u8;
        bytes[5] = u8::from(self.is_coded);
        bytes[6] = u8::from(self.base.is_some());
        bytes[8..16].copy_from_slice(&self.bytes.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.stored.to_le_bytes());
        bytes[24..40].copy_from_slice(&self.dtype);
        bytes[40..72].copy_from_slice(self.address.as_bytes());
        if let Some(base) = &self.base {
            bytes[72..104].copy_from_slice(base.as_bytes());
        }
        bytes[104..136].copy_from_slice(&self.hash);
        let sum = hash_of_piece(&bytes[..SUMMED]);
        bytes[SUMMED..].copy_from_slice(&sum[..HEADER_BYTES - SUMMED]);
        bytes
    }

    /// Reads a header; `path` and `address` are those of its file.
    ///
    /// # Errors
    /// [`StoreError::Version`], [`StoreError::Object`].
    pub fn parse(bytes: &[u8; HEADER_BYTES], path: &Path, address: Address) -> Result<Self, StoreError> {
        let wrong = |what: &str| StoreError::object(address, what);
        if bytes[..4] != MAGIC {
            return Err(wrong("it begins as no object does"));
        }
        let found = u64::from(bytes[4]);
        if found != FORMAT_VERSION {
            return Err(StoreError::Version { path: path.to_owned(), found, known: FORMAT_VERSION });
        }
        if bytes[SUMMED..] != hash_of_piece(&bytes[..SUMMED])[..HEADER_BYTES - SUMMED] {
            return Err(wrong("its header is not what was written"));
        }
        let field = |at: usize| {
            let bytes = bytes[at..].first_chunk::<32>().expect("the header has all fields");
            *bytes
        };
        let word = |at: usize| {
            let bytes = bytes[at..].first_chunk::<8>().expect("the header has all fields");
            u64::from_le_bytes(*bytes)
        };
        let base = Address::from_bytes(field(72));
        let header = Self {
            address: Address::from_bytes(field(40)),
            dtype: *bytes[24..].first_chunk().expect("the header has all fields"),
            bytes: word(8),
            stored: word(16),
            is_coded: bytes[5] == 1,
            base: (bytes[6] == 1).then_some(base),
            hash: field(104),
        };
        if header.address != address {
            return Err(wrong("it is another one, under this name"));
        }
        let is_sound = bytes[5] <= 1 && bytes[6] <= 1 && bytes[7] == 0;
        let is_based = header.base.is_none_or(|base| header.is_coded && base != address);
        let is_whole = header.is_coded || header.stored == header.bytes;
        if !(is_sound && is_based && is_whole) {
            return Err(wrong("its header says what cannot be"));
        }
        Ok(header)
    }

    pub(crate) fn dtype_name(&self) -> &str {
        let len = self.dtype.iter().position(|byte| *byte == 0).unwrap_or(DTYPE_BYTES);
        std::str::from_utf8(&self.dtype[..len]).unwrap_or_default()
    }

    /// The type of the values of the frames: of those of other types, bytes.
    pub(crate) fn frame_dtype(&self) -> DType {
        frame_dtype(self.dtype_name())
    }

    /// Bytes of the values of a chunk.
    pub(crate) fn chunk_bytes(&self, chunk: u64) -> usize {
        let chunk_len = chunk_len(self.frame_dtype());
        (self.bytes - chunk * chunk_len).min(chunk_len) as usize
    }

    pub(crate) fn chunks_of(&self, piece: u64) -> std::ops::Range<u64> {
        let chunk_len = chunk_len(self.frame_dtype());
        let end = self.bytes.min((piece + 1) * PIECE);
        piece * PIECE / chunk_len..end.div_ceil(chunk_len)
    }
}

/// The type of the values of frames for a type: of those that no codec knows, bytes.
pub(crate) fn frame_dtype(name: &str) -> DType {
    DType::from_name(name).unwrap_or(DType::F8E4M3)
}

/// Bytes of the values of a chunk.
pub(crate) fn chunk_len(dtype: DType) -> u64 {
    u64::from(DEFAULT_CHUNK_VALUES) * dtype.width() as u64
}

/// A file with an object, and where its chunks are.
#[derive(Debug)]
pub(crate) struct Object {
    pub(crate) header: ObjectHeader,
    file: File,
    index: Option<ContainerIndex>,
}

impl Object {
    /// Opens it, and holds what it says of itself against its length; values are not read.
    ///
    /// # Errors
    /// [`StoreError::Version`], [`StoreError::Object`], and [`StoreError::File`] if it cannot be read or is not there.
    pub(crate) fn open(path: &Path, address: Address) -> Result<Self, StoreError> {
        zipwire_paper_codecs::register();
        let (file, header) = open_header(path, address)?;
        let index = if header.is_coded {
            let mut window = Window::new(&file, HEADER_BYTES as u64, header.stored);
            let index = ContainerIndex::read(&mut window).map_err(|error| match error.raw_os_error() {
                Some(_) => FileError::io("read", path)(error).into(),
                None => StoreError::object(address, error.to_string()),
            })?;
            let dtype = header.frame_dtype();
            let fits = index.dtype() == dtype
                && index.len() == header.bytes
                && index.chunk_values() == DEFAULT_CHUNK_VALUES
                && index.tail().is_empty();
            if !fits {
                return Err(StoreError::object(address, "its container is not of its values"));
            }
            Some(index)
        } else {
            None
        };
        Ok(Self { header, file, index })
    }

    /// Fills `out` with the bytes of the object from `at` on.
    fn read(&self, out: &mut [u8], at: u64) -> Result<(), StoreError> {
        at::read_exact(&self.file, out, HEADER_BYTES as u64 + at).map_err(|error| {
            let what = match error.kind() {
                io::ErrorKind::UnexpectedEof => "it was cut".to_owned(),
                _ => format!("it cannot be read: {error}"),
            };
            StoreError::object(self.header.address, what)
        })
    }

    /// Reads the stored bytes of a piece: frames, or the values themselves.
    pub(crate) fn read_piece(&self, piece: u64, kept: &mut Vec<u8>) -> Result<(), StoreError> {
        let (start, end) = match &self.index {
            None => (piece * PIECE, self.header.bytes.min((piece + 1) * PIECE)),
            Some(index) => {
                let mut chunks = self.header.chunks_of(piece);
                match (chunks.next(), chunks.next_back()) {
                    (Some(first), last) => {
                        let last = last.unwrap_or(first);
                        (index.frame(first as usize).start, index.frame(last as usize).end)
                    }
                    (None, _) => (0, 0),
                }
            }
        };
        // Places are within the file, whose length is known: no more is taken than there is.
        kept.resize((end - start) as usize, 0);
        self.read(kept, start)
    }

    fn read_frame(&self, chunk: u64, kept: &mut Vec<u8>) -> Result<(), StoreError> {
        let index = self.index.as_ref().expect("who is coded has an index");
        let place = index.frame(chunk as usize);
        kept.resize((place.end - place.start) as usize, 0);
        self.read(kept, place.start)?;
        index
            .check(chunk as usize, kept)
            .map_err(|error| StoreError::object(self.header.address, error.to_string()))
    }

    /// Decodes a chunk into `out`, which is as long as its values. `frame` is what its frame is read into.
    pub(crate) fn decode_chunk(
        &self,
        chunk: u64,
        base: Option<Values>,
        frame: &mut Vec<u8>,
        out: &mut [u8],
    ) -> Result<(), StoreError> {
        if !self.header.is_coded {
            return self.read(out, chunk * chunk_len(self.header.frame_dtype()));
        }
        self.read_frame(chunk, frame)?;
        let mut decoder = Decoder::new();
        if let Some(base) = base {
            let base = Base::new(self.header.frame_dtype(), base);
            decoder.add_base(base).expect("it is the only one");
        }
        let decoded = decoder.decompress_into(frame, out);
        decoded
            .map(|_| ())
            .map_err(|error| StoreError::object(self.header.address, format!("chunk {chunk}: {error}")))
    }
}

/// Values that others are differences from, shared and not copied.
#[derive(Clone, Debug)]
pub(crate) struct Values(pub(crate) Arc<Vec<u8>>);

impl AsRef<[u8]> for Values {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

/// Opens the file of an object and reads its header.
pub(crate) fn open_header(path: &Path, address: Address) -> Result<(File, ObjectHeader), StoreError> {
    let file = open_input(path).map_err(FileError::io("read", path))?;
    let found = file.metadata().map_err(FileError::io("read", path))?.len();
    let mut bytes = [0; HEADER_BYTES];
    if found < HEADER_BYTES as u64 {
        return Err(StoreError::object(address, format!("it was cut: it has {found} bytes")));
    }
    at::read_exact(&file, &mut bytes, 0).map_err(FileError::io("read", path))?;
    let header = ObjectHeader::parse(&bytes, path, address)?;
    let needed = header.stored.saturating_add(HEADER_BYTES as u64);
    if found != needed {
        let what = format!("it was cut: it has {found} bytes, and its header says {needed}");
        return Err(StoreError::object(address, what));
    }
    Ok((file, header))
}

/// Objects of a chain at the most, for readers.
pub(crate) const LONGEST_CHAIN: usize = 64;
/// The same for writers: an object that is put back where it was lost may itself be at the end of a chain, and have one behind it.
pub(crate) const LONGEST_WRITTEN: usize = LONGEST_CHAIN / 2;
/// How often a chain is opened again after another process has replaced a part of it.
pub(crate) const ATTEMPTS: usize = 3;

/// Objects from one that is by itself to one that is asked for, each differences from the one before.
#[derive(Debug)]
pub(crate) struct Chain {
    links: Vec<Object>,
}

/// Memory for chunks that is used again.
#[derive(Debug, Default)]
pub(crate) struct Scratch {
    frame: Vec<u8>,
    values: Vec<u8>,
    spare: Vec<u8>,
}

impl Chain {
    /// Opens an object and all that it is differences from.
    ///
    /// # Errors
    /// [`StoreError::Object`] and [`StoreError::Version`] for what is damaged or gone; if a file cannot be read now.
    pub(crate) fn open(store: &Store, address: Address) -> Result<Self, StoreError> {
        let mut attempt = 1;
        loop {
            match Self::try_open(store, address) {
                // Another process has made an object of the chain one by itself, and then removed what was its base.
                Err(error) if attempt < ATTEMPTS && is_absent(&error) => attempt += 1,
                Err(error) if is_absent(&error) => return Err(StoreError::object(address, NOT_THERE)),
                result => return result,
            }
        }
    }

    fn try_open(store: &Store, address: Address) -> Result<Self, StoreError> {
        let mut links = vec![store.open_object(address)?];
        while let Some(base) = links[links.len() - 1].header.base {
            if links.len() == LONGEST_CHAIN {
                return Err(StoreError::object(address, "its chain of differences does not end"));
            }
            let link = store.open_object(base)?;
            if (link.header.dtype, link.header.bytes) != (links[0].header.dtype, links[0].header.bytes) {
                return Err(StoreError::object(address, format!("its base {base} is of other values")));
            }
            links.push(link);
        }
        links.reverse();
        Ok(Self { links })
    }

    /// Header of the object that was asked for, the last of the chain.
    pub(crate) fn header(&self) -> &ObjectHeader {
        &self.links[self.links.len() - 1].header
    }

    /// Addresses, from the one that is by itself on.
    pub(crate) fn addresses(&self) -> impl Iterator<Item = Address> {
        self.links.iter().map(|link| link.header.address)
    }

    /// Decodes a chunk of each link, and gives it its number and values.
    pub(crate) fn visit_chunk(
        &self,
        chunk: u64,
        scratch: &mut Scratch,
        mut visit: impl FnMut(usize, &[u8]),
    ) -> Result<(), StoreError> {
        let Scratch { frame, values, spare } = scratch;
        for (number, link) in self.links.iter().enumerate() {
            let base = Values(Arc::new(std::mem::take(values)));
            spare.resize(self.header().chunk_bytes(chunk), 0);
            link.decode_chunk(chunk, (number > 0).then(|| base.clone()), frame, spare)?;
            visit(number, spare);
            // The memory of the base is what the next link is decoded into.
            *values = std::mem::replace(spare, Arc::try_unwrap(base.0).unwrap_or_default());
        }
        Ok(())
    }

    /// The values of a chunk of the object that was asked for, until the scratch is used again.
    pub(crate) fn read_chunk<'a>(
        &self,
        chunk: u64,
        scratch: &'a mut Scratch,
    ) -> Result<&'a [u8], StoreError> {
        self.visit_chunk(chunk, scratch, |_, _| ())?;
        Ok(&scratch.values)
    }

    /// Fills `out` with the values of a piece.
    pub(crate) fn read_piece(
        &self,
        piece: u64,
        out: &mut Vec<u8>,
        scratch: &mut Scratch,
    ) -> Result<(), StoreError> {
        out.resize(PIECE.min(self.header().bytes - piece * PIECE) as usize, 0);
        self.read(piece * PIECE, out, scratch)
    }

    /// Fills `out` with the values from byte `at` on: whole chunks, the last one of the object shorter.
    pub(crate) fn read(&self, at: u64, out: &mut [u8], scratch: &mut Scratch) -> Result<(), StoreError> {
        let chunk_len = chunk_len(self.header().frame_dtype());
        for (chunk, values) in (at / chunk_len..).zip(out.chunks_mut(chunk_len as usize)) {
            let mut base = None;
            for (number, link) in self.links.iter().enumerate() {
                if number + 1 == self.links.len() {
                    link.decode_chunk(chunk, base.take(), &mut scratch.frame, values)?;
                } else {
                    let mut decoded = std::mem::take(&mut scratch.spare);
                    decoded.resize(values.len(), 0);
                    link.decode_chunk(chunk, base.clone(), &mut scratch.frame, &mut decoded)?;
                    // The memory of the base before is used again.
                    let before = base.replace(Values(Arc::new(decoded)));
                    scratch.spare = before.and_then(|base| Arc::try_unwrap(base.0).ok()).unwrap_or_default();
                }
            }
        }
        Ok(())
    }
}

/// Message where a chain is not whole.
pub(crate) const NOT_THERE: &str = "it is not there, or what it is differences from";
/// Message where values have not the hash that names them.
pub(crate) const OTHER_HASH: &str = "its values have another hash";
