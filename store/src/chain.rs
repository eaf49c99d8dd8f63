//! An object with all that its values are differences from.

use std::sync::Arc;

use zipwire_codec::{Base, DType, Decoder};

use crate::address::{PIECE, address_of, hash_of_piece, pieces_of};
use crate::object::{Object, ObjectHeader, chunk_len};
use crate::store::is_absent;
use crate::{Address, Store, StoreError};

/// Objects of a chain at the most, for readers.
pub(crate) const LONGEST_CHAIN: usize = 64;
/// The same for writers: an object that is put back where it was lost may itself be at the end of a chain, and have one behind it.
pub(crate) const LONGEST_WRITTEN: usize = LONGEST_CHAIN / 2;
/// How often a chain is opened again of which another process has replaced a part.
const ATTEMPTS: usize = 3;

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

/// Values that a base has while a chunk is decoded, and that are taken back.
#[derive(Clone)]
struct Shared(Arc<Vec<u8>>);

impl AsRef<[u8]> for Shared {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

impl Chain {
    /// Opens an object and its bases.
    ///
    /// # Errors
    /// As [`Object::open`]; if the bases of a chain do not end, or have other values.
    pub(crate) fn open(store: &Store, address: Address) -> Result<Self, StoreError> {
        let mut attempt = 1;
        loop {
            match Self::try_open(store, address) {
                // Another process has made an object of the chain one by itself, and then removed what was its base.
                Err(error) if attempt < ATTEMPTS && is_absent(&error) => attempt += 1,
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

    /// How many objects it has.
    pub(crate) fn len(&self) -> usize {
        self.links.len()
    }

    /// What the object that was asked for says of itself.
    pub(crate) fn header(&self) -> &ObjectHeader {
        &self.links[self.links.len() - 1].header
    }

    /// Addresses, from the one that is by itself on.
    pub(crate) fn addresses(&self) -> impl Iterator<Item = Address> {
        self.links.iter().map(|link| link.header.address)
    }

    /// Decodes a chunk of each link, and gives it its number and values.
    ///
    /// # Errors
    /// [`StoreError::Object`].
    pub(crate) fn visit_chunk(
        &self,
        chunk: u64,
        scratch: &mut Scratch,
        mut visit: impl FnMut(usize, &[u8]),
    ) -> Result<(), StoreError> {
        let dtype = self.header().frame_dtype();
        let len = self.chunk_bytes(dtype, chunk);
        let mut has_base = false;
        for (number, link) in self.links.iter().enumerate() {
            link.read_chunk(chunk, &mut scratch.frame)?;
            let wrong = |what: String| StoreError::object(link.header.address, what);
            if !link.header.is_coded {
                std::mem::swap(&mut scratch.values, &mut scratch.frame);
            } else {
                let mut decoder = Decoder::new();
                let shared = Shared(Arc::new(std::mem::take(&mut scratch.values)));
                if has_base {
                    decoder.add_base(Base::new(dtype, shared.clone())).expect("it is the only one");
                }
                scratch.spare.resize(len, 0);
                decoder
                    .decompress_into(&scratch.frame, &mut scratch.spare)
                    .map_err(|error| wrong(format!("chunk {chunk}: {error}")))?;
                drop(decoder);
                scratch.values = Arc::try_unwrap(shared.0).unwrap_or_default();
                std::mem::swap(&mut scratch.values, &mut scratch.spare);
            }
            has_base = true;
            visit(number, &scratch.values);
        }
        Ok(())
    }

    /// The values of a chunk of the object that was asked for, until the scratch is used again.
    ///
    /// # Errors
    /// [`StoreError::Object`].
    pub(crate) fn read_chunk<'a>(
        &self,
        chunk: u64,
        scratch: &'a mut Scratch,
    ) -> Result<&'a [u8], StoreError> {
        self.visit_chunk(chunk, scratch, |_, _| ())?;
        Ok(&scratch.values)
    }

    /// Fills `out` with the values of a piece.
    ///
    /// # Errors
    /// [`StoreError::Object`].
    pub(crate) fn read_piece(
        &self,
        piece: u64,
        out: &mut Vec<u8>,
        scratch: &mut Scratch,
    ) -> Result<(), StoreError> {
        let chunk_len = chunk_len(self.header().frame_dtype());
        let (start, end) = (piece * PIECE, self.header().bytes.min((piece + 1) * PIECE));
        out.clear();
        for chunk in start / chunk_len..end.div_ceil(chunk_len) {
            out.extend_from_slice(self.read_chunk(chunk, scratch)?);
        }
        Ok(())
    }

    /// Decodes all values and compares them with the address.
    ///
    /// # Errors
    /// [`StoreError::Object`].
    pub(crate) fn check_values(&self, dtype: &str) -> Result<(), StoreError> {
        let (mut piece, mut scratch, mut hashes) = (Vec::new(), Scratch::default(), Vec::new());
        for number in 0..pieces_of(self.header().bytes) {
            self.read_piece(number, &mut piece, &mut scratch)?;
            hashes.push(hash_of_piece(&piece));
        }
        let address = self.header().address;
        if address_of(dtype, self.header().bytes, &hashes) != address {
            return Err(StoreError::object(address, "its values have another hash"));
        }
        Ok(())
    }

    fn chunk_bytes(&self, dtype: DType, chunk: u64) -> usize {
        let chunk_len = chunk_len(dtype);
        (self.header().bytes - chunk * chunk_len).min(chunk_len) as usize
    }
}
