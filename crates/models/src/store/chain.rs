//! Chains of objects: one that is coded by itself, and those that are differences from the one before.

use std::sync::Arc;

use crate::store::address::PIECE;
use crate::store::layout::is_absent;
use crate::store::object::{Object, ObjectHeader, Values};
use crate::store::{Address, Store, StoreError};

/// Objects of a chain at the most, for readers.
pub(crate) const LONGEST_CHAIN: usize = 64;
/// The same for writers: an object that is put back where it was lost may itself be at the end of a chain, and have one behind it.
pub(crate) const LONGEST_WRITTEN: usize = LONGEST_CHAIN / 2;
/// How often a chain is opened again after another process has replaced a part of it.
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

impl Chain {
    /// Opens an object and its bases.
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
        let header = self.header();
        out.resize(PIECE.min(header.bytes - piece * PIECE) as usize, 0);
        let mut rest = &mut out[..];
        for chunk in header.chunks_of(piece) {
            let (values, behind) = rest.split_at_mut(header.chunk_bytes(chunk));
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
            rest = behind;
        }
        Ok(())
    }
}
