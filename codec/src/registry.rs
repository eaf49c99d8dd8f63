//! The table of all codecs: what a new codec of this crate adds, beside its own module, is an entry here; those of other crates are registered.

use crate::auto::{self, Auto};
use crate::codebook16::{self, Codebook16};
use crate::custom::{self, Custom, CustomCodec};
use crate::dedup::{self, Dedup};
use crate::delta::{self, Delta};
use crate::groups::{self, Blockwise, Grouped, Scheme};
use crate::huffman::{self, Huffman};
use crate::options::{Choice, Value};
use crate::planes::{self, Planes};
use crate::rans::{self, Rans};
use crate::raw::{self, Raw};
use crate::sections::{Body, Pieces};
use crate::tiered::{self, Tiered};
use crate::window7::{self, Window7};
use crate::{Codec, DecodeError, FrameShape};

/// Everything that the crate knows about a codec.
pub(crate) struct Entry {
    /// Tag in frame headers. Never reused.
    pub(crate) tag: u8,
    /// The codec with default options. It gives the id and the sizes.
    pub(crate) codec: &'static dyn Codec,
    /// Its options.
    pub(crate) options: &'static [Choice],
    /// Maker of the codec, and reader of its frames.
    pub(crate) of: Of,
    /// Whether its frames can name a table that is kept elsewhere ([`crate::tables`]): its last option is then [`crate::options::TABLE`].
    pub(crate) takes_table: bool,
    /// Places of the signs and mantissas of BF16 values in the split layout, if it has any.
    pub(crate) pieces: Option<Pieces>,
}

/// Maker of a codec and reader of its frames: this crate's, or another one's.
pub(crate) enum Of {
    /// One of this crate.
    Own {
        /// See [`Entry::build`].
        build: fn(&[Value]) -> Box<dyn Codec>,
        /// See [`Entry::decode`].
        decode: fn(&Body<'_>, &mut [u8]) -> Result<u32, DecodeError>,
    },
    /// One of another crate.
    Other(&'static dyn CustomCodec),
}

impl Entry {
    /// The codec with these values of its options, one of each, in the same order.
    pub(crate) fn build(&self, chosen: &[Value]) -> Box<dyn Codec> {
        match self.of {
            Of::Own { build, .. } => build(chosen),
            Of::Other(codec) => Box::new(Custom(codec)),
        }
    }

    /// Decodes what follows the header. Returns the checksum of values and front matter, the header's part excluded.
    pub(crate) fn decode(&self, body: &Body<'_>, out: &mut [u8]) -> Result<u32, DecodeError> {
        match self.of {
            Of::Own { decode, .. } => decode(body, out),
            Of::Other(codec) => custom::decode(codec, body, out),
        }
    }
}

/// All codecs of this crate, in the order in which they are listed.
#[rustfmt::skip]
pub(crate) static CODECS: &[Entry] = &[
    Entry { tag: raw::TAG, codec: &Raw, options: &[], of: Of::Own { build: |_| Box::new(Raw), decode: raw::decode }, takes_table: false, pieces: None },
    Entry { tag: window7::TAG, codec: &Window7::new(), options: window7::OPTIONS, of: Of::Own { build: window7::build, decode: window7::decode }, takes_table: false, pieces: Some(window7::PIECES) },
    Entry { tag: tiered::TAG, codec: &Tiered::new(), options: tiered::OPTIONS, of: Of::Own { build: tiered::build, decode: tiered::decode }, takes_table: false, pieces: Some(tiered::PIECES) },
    Entry { tag: rans::TAG, codec: &Rans::new(), options: rans::OPTIONS, of: Of::Own { build: rans::build, decode: rans::decode }, takes_table: true, pieces: Some(rans::PIECES) },
    Entry { tag: codebook16::TAG, codec: &Codebook16::new(), options: codebook16::OPTIONS, of: Of::Own { build: |_| Box::new(Codebook16::new()), decode: codebook16::decode }, takes_table: true, pieces: Some(codebook16::PIECES) },
    Entry { tag: Scheme::Grouped.tag(), codec: &Grouped, options: &[], of: Of::Own { build: |_| Box::new(Grouped), decode: groups::decode_grouped }, takes_table: false, pieces: Some(groups::GROUPED_PIECES) },
    Entry { tag: Scheme::Blockwise.tag(), codec: &Blockwise, options: &[], of: Of::Own { build: |_| Box::new(Blockwise), decode: groups::decode_blockwise }, takes_table: false, pieces: None },
    Entry { tag: huffman::TAG, codec: &Huffman, options: &[], of: Of::Own { build: |_| Box::new(Huffman), decode: huffman::decode }, takes_table: false, pieces: None },
    Entry { tag: planes::TAG, codec: &Planes::new(), options: planes::OPTIONS, of: Of::Own { build: planes::build, decode: planes::decode }, takes_table: false, pieces: None },
];

/// Frames that hold another frame. What makes them is a prefix of specs, not a codec that can be asked for.
#[rustfmt::skip]
static DEDUP: Entry =
    Entry { tag: dedup::TAG, codec: &Dedup::ANY, options: &[], of: Of::Own { build: |_| Box::new(Dedup::ANY), decode: dedup::decode_rows }, takes_table: false, pieces: None };

/// A codec that has no frames of its own: those that it makes are of the codec that it chooses. Nothing finds it by its tag.
#[rustfmt::skip]
pub(crate) static AUTO: Entry =
    Entry { tag: u8::MAX, codec: &Auto::new(auto::DEFAULT), options: auto::OPTIONS, of: Of::Own { build: auto::build, decode: auto::decode_nothing }, takes_table: false, pieces: None };

/// Whatever can be asked for by an id, in the order in which it is listed.
pub(crate) fn named() -> impl Iterator<Item = &'static Entry> {
    CODECS.iter().chain([&AUTO]).chain(custom::all())
}

#[rustfmt::skip]
static DELTA: Entry =
    Entry { tag: delta::TAG, codec: &Delta::ANY, options: &[], of: Of::Own { build: |_| Box::new(Delta::ANY), decode: delta::decode }, takes_table: false, pieces: None };

/// The highest tag that frames of version 1 have.
const LAST_OF_VERSION_1: u8 = huffman::TAG;

/// The version of frames with the tag of this codec: the lowest one that has it.
pub(crate) fn version_of(tag: u8) -> u8 {
    if tag <= LAST_OF_VERSION_1 { 1 } else { 2 }
}

/// The highest version of frames that an entry makes with these values of its options: its own, or of the codecs that it chooses from.
pub(crate) fn highest_version(entry: &Entry, chosen: &[Value]) -> u8 {
    if !std::ptr::eq(entry, &AUTO) {
        return version_of(entry.tag);
    }
    auto::of(chosen).ids().filter_map(by_id).map(|entry| version_of(entry.tag)).max().unwrap_or(1)
}

/// The most bytes that a frame of any codec takes.
pub(crate) fn highest_bound(shape: FrameShape) -> usize {
    let own = CODECS.iter().map(|entry| entry.codec.bound(shape)).max().unwrap_or(usize::MAX);
    custom::highest_bound(shape).map_or(own, |other| own.max(other))
}

/// The codec with this id.
pub(crate) fn by_id(id: &str) -> Option<&'static Entry> {
    own_by_id(id).or_else(|| custom::find(|entry| entry.codec.id() == id))
}

/// The codec of this crate with this id.
pub(crate) fn own_by_id(id: &str) -> Option<&'static Entry> {
    CODECS.iter().chain([&AUTO]).find(|entry| entry.codec.id() == id)
}

/// The codec whose frames have this tag.
pub(crate) fn by_tag(tag: u8) -> Option<&'static Entry> {
    let own = CODECS.iter().chain([&DEDUP, &DELTA]).find(|entry| entry.tag == tag);
    own.or_else(|| custom::find(|entry| entry.tag == tag))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::Values;

    #[test]
    fn ids_and_tags_are_unique_and_every_combination_of_options_builds_the_codec_it_names() {
        assert!(std::ptr::eq(by_tag(dedup::TAG).unwrap(), &DEDUP));
        assert!(std::ptr::eq(by_tag(delta::TAG).unwrap(), &DELTA));
        assert!(by_tag(AUTO.tag).is_none());
        assert!(CODECS.iter().all(|entry| std::ptr::eq(by_tag(entry.tag).unwrap(), entry)));
        for entry in named() {
            assert!(std::ptr::eq(by_id(entry.codec.id()).unwrap(), entry));
            let values = |option: &Choice| match option.values {
                Values::Names(names) => names.iter().map(|name| Value::Name(name)).collect::<Vec<_>>(),
                Values::UpTo(most) => [0, 1, most].map(Value::Number).to_vec(),
                Values::Speed(default) => [default, 1, 12_500_000_000].map(Value::Speed).to_vec(),
                Values::Table => vec![Value::Table(0x0a0b_0c0d)],
            };
            let combinations: usize = entry.options.iter().map(|option| values(option).len()).product();
            for number in 0..combinations {
                let mut left = number;
                let chosen: Vec<_> = entry
                    .options
                    .iter()
                    .map(|option| {
                        let values = values(option);
                        let value = values[left % values.len()];
                        left /= values.len();
                        assert_eq!(option.values.parse(&value.to_string()), Some(value));
                        value
                    })
                    .collect();
                assert_eq!(entry.build(&chosen).id(), entry.codec.id());
            }
        }
    }
}
