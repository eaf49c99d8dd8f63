//! Canonical Huffman codes of bytes: what `grouped`, `blockwise` and `huffman` are made of.
//!
//! Code words follow from their lengths alone (Schwartz and Kallick 1964): symbols are ordered by length, then by number, and get consecutive
//! words. Words are written lowest bit first, so a reader looks at the next bits of a stream as they lie in a word of memory; where a canonical word would
//! be read from its highest bit, here it is kept with its bits reversed.

mod decode;
mod encode;
mod lengths;
mod listed;

pub(crate) use decode::{DecodeTable, STREAMS, Stream, decode_streams, is_end};
pub(crate) use encode::{EncodeTable, SPARE, Words, encode_streams, streams_len};
pub(crate) use lengths::{Lengths, coded_bits, histogram, limited};
pub(crate) use listed::{MOST_LISTED, read_lengths, write_lengths};

/// The longest word of codes that are read by one look into a table, in bits: that of the implementation which ZipNN uses.
pub(crate) const LONGEST: usize = 11;
