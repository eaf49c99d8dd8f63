//! Registry of codecs: an entry for each of this crate, and those that other crates add.

use std::sync::{Mutex, OnceLock, PoisonError};

use crate::auto::{self, Auto};
use crate::dedup::{self, Dedup};
use crate::delta::{self, Delta};
use crate::frame::{Header, version_of};
use crate::options::{Choice, Value};
use crate::planes::{self, Planes};
use crate::rans::{self, Rans};
use crate::raw::{self, Raw};
use crate::sections::{Body, Pieces, TableFns};
use crate::tiered::{self, Tiered};
use crate::{Codec, DecodeError, FrameShape, RegisterError, Table};

/// A codec as specs and readers know it.
pub struct Entry {
    /// Tag in frame headers. Never reused.
    pub tag: u8,
    /// The codec with default options. It gives the id and the sizes.
    pub codec: &'static dyn Codec,
    /// Its options.
    pub options: &'static [Choice],
    /// Maker of the codec, and reader of its frames.
    pub of: &'static (dyn Of + Sync),
    /// Functions for tables that its frames can name, if they can: its last option is then [`crate::options::TABLE`].
    pub tables: Option<TableFns>,
    /// Places of the signs and mantissas of BF16 values in the split layout, if it has any.
    pub pieces: Option<Pieces>,
}

/// Maker of a codec, and reader of its frames.
pub trait Of {
    /// The codec with these values of its options, one of each, in the same order.
    fn build(&self, chosen: &[Value]) -> Box<dyn Codec>;

    /// Decodes what follows the header. Returns the checksum of values and front matter, the header's part excluded.
    ///
    /// # Errors
    /// If no encoder writes such a frame.
    fn decode(&self, body: &Body<'_>, out: &mut [u8]) -> Result<u32, DecodeError>;
}

/// [`Of`] by two functions.
pub struct Own {
    /// See [`Of::build`].
    pub build: fn(&[Value]) -> Box<dyn Codec>,
    /// See [`Of::decode`].
    pub decode: fn(&Body<'_>, &mut [u8]) -> Result<u32, DecodeError>,
}

impl Of for Own {
    fn build(&self, chosen: &[Value]) -> Box<dyn Codec> {
        (self.build)(chosen)
    }

    fn decode(&self, body: &Body<'_>, out: &mut [u8]) -> Result<u32, DecodeError> {
        (self.decode)(body, out)
    }
}

/// All codecs of this crate, in the order in which they are listed.
#[rustfmt::skip]
static CODECS: &[Entry] = &[
    Entry { tag: raw::TAG, codec: &Raw, options: &[], of: &Own { build: |_| Box::new(Raw), decode: raw::decode }, tables: None, pieces: None },
    Entry { tag: tiered::TAG, codec: &Tiered::new(), options: tiered::OPTIONS, of: &Own { build: tiered::build, decode: tiered::decode }, tables: None, pieces: Some(tiered::PIECES) },
    Entry { tag: rans::TAG, codec: &Rans::new(), options: rans::OPTIONS, of: &Own { build: rans::build, decode: rans::decode }, tables: Some(rans::TABLES), pieces: Some(rans::PIECES) },
    Entry { tag: planes::TAG, codec: &Planes::new(), options: planes::OPTIONS, of: &Own { build: planes::build, decode: planes::decode }, tables: None, pieces: None },
];

/// A codec that has no frames of its own: those that it makes are of the codec that it chooses. Nothing finds it by its tag.
#[rustfmt::skip]
pub(crate) static AUTO: Entry =
    Entry { tag: u8::MAX, codec: &Auto::new(auto::DEFAULT), options: auto::OPTIONS, of: &Own { build: auto::build, decode: auto::decode_nothing }, tables: None, pieces: None };

/// Frames that hold another frame. What makes them is a prefix of specs, not a codec that can be asked for.
#[rustfmt::skip]
static OUTER: [Entry; 2] = [
    Entry { tag: dedup::TAG, codec: &Dedup::ANY, options: &[], of: &Own { build: |_| Box::new(Dedup::ANY), decode: dedup::decode_rows }, tables: None, pieces: None },
    Entry { tag: delta::TAG, codec: &Delta::ANY, options: &[], of: &Own { build: |_| Box::new(Delta::ANY), decode: delta::decode }, tables: None, pieces: None },
];

/// Codecs that other crates have added, up to the first free place; none is ever taken out. There are as many places as tags.
static ADDED: [OnceLock<&Entry>; 256] = [const { OnceLock::new() }; 256];
/// Held by whoever adds one. Readers wait for nobody.
static ADDING: Mutex<()> = Mutex::new(());

/// Adds a codec for the rest of the process.
///
/// # Errors
/// If its id or its tag is that of another codec.
pub fn add(entry: &'static Entry) -> Result<(), RegisterError> {
    let (id, tag) = (entry.codec.id(), entry.tag);
    let _adding = ADDING.lock().unwrap_or_else(PoisonError::into_inner);
    let known = || own().chain(&OUTER).chain(added());
    if known().any(|other| other.codec.id() == id) {
        return Err(RegisterError::IdTaken { id });
    }
    if let Some(other) = known().find(|other| other.tag == tag) {
        return Err(RegisterError::TagTaken { id, tag, other: other.codec.id() });
    }
    let is_free = ADDED.iter().any(|place| place.set(entry).is_ok());
    assert!(is_free, "no two of 256 tags are equal");
    Ok(())
}

/// Codecs of this crate that can be asked for by an id.
fn own() -> impl Iterator<Item = &'static Entry> {
    CODECS.iter().chain([&AUTO])
}

fn added() -> impl Iterator<Item = &'static Entry> {
    ADDED.iter().map_while(|place| place.get().copied())
}

/// Whatever can be asked for by an id, in the order in which it is listed.
pub(crate) fn named() -> impl Iterator<Item = &'static Entry> {
    own().chain(added())
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
    let bound = |entry: &Entry| entry.codec.bound(shape);
    CODECS.iter().chain(added()).map(bound).max().unwrap_or(usize::MAX)
}

/// The codec with this id.
pub(crate) fn by_id(id: &str) -> Option<&'static Entry> {
    let is_it = |entry: &&'static Entry| entry.codec.id() == id;
    own().find(is_it).or_else(|| added().find(is_it))
}

/// The codec whose frames have this tag.
pub(crate) fn by_tag(tag: u8) -> Option<&'static Entry> {
    let is_it = |entry: &&'static Entry| entry.tag == tag;
    CODECS.iter().chain(&OUTER).find(is_it).or_else(|| added().find(is_it))
}

/// The codec of the frame with this header.
///
/// # Errors
/// If there is none with its tag, or frames of that have another version.
pub(crate) fn of_header(header: &Header) -> Result<&'static Entry, DecodeError> {
    let entry = by_tag(header.codec).ok_or(DecodeError::UnknownCodec { tag: header.codec })?;
    let (expected, found) = (version_of(header.codec), header.version);
    if found != expected {
        return Err(DecodeError::CodecVersion { codec: entry.codec.id(), expected, found });
    }
    Ok(entry)
}

impl Table {
    /// Id of the codec that it is for, if its bytes begin as those of a table.
    pub fn codec(&self) -> Option<&'static str> {
        let entry = by_tag(*self.as_bytes().first()?)?;
        entry.tables.is_some().then(|| entry.codec.id())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::{self, Values};

    #[test]
    fn ids_and_tags_are_unique_and_every_combination_of_options_builds_the_codec_it_names() {
        assert!(OUTER.iter().all(|entry| std::ptr::eq(by_tag(entry.tag).unwrap(), entry)));
        assert!(by_tag(AUTO.tag).is_none());
        assert!(CODECS.iter().all(|entry| std::ptr::eq(by_tag(entry.tag).unwrap(), entry)));
        for entry in named() {
            assert!(std::ptr::eq(by_id(entry.codec.id()).unwrap(), entry));
            let named = entry.options.iter().filter(|option| option.key == options::TABLE.key).count();
            let is_last = entry.options.last().is_some_and(|option| option.key == options::TABLE.key);
            assert_eq!((named, is_last), (usize::from(entry.tables.is_some()), entry.tables.is_some()));
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
                assert_eq!(entry.of.build(&chosen).id(), entry.codec.id());
            }
        }
    }
}
