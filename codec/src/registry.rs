//! The table of all codecs: what a new codec adds, beside its own module, is an entry here.

use crate::apart::Pieces;
use crate::codebook16::{self, Codebook16};
use crate::dedup::{self, Dedup};
use crate::frame::Body;
use crate::raw::{self, Raw};
use crate::tiered::{self, Tiered};
use crate::window7::{self, Window7};
use crate::{Codec, DecodeError};

/// Everything that the crate knows about a codec.
pub(crate) struct Entry {
    /// Tag in frame headers. Never reused.
    pub(crate) tag: u8,
    /// The codec with default options. It gives the id and the sizes.
    pub(crate) codec: &'static dyn Codec,
    /// Its options.
    pub(crate) options: &'static [Choice],
    /// The codec with these values of `options`, one of each, in the same order.
    pub(crate) build: fn(&[Value]) -> Box<dyn Codec>,
    /// Decodes what follows the header. Returns the checksum of values and front matter, the header's part excluded.
    pub(crate) decode: fn(&Body<'_>, &mut [u8]) -> Result<u32, DecodeError>,
    /// Where the rests of BF16 values are in the split layout, if it has any.
    pub(crate) pieces: Option<Pieces>,
}

/// An option of a codec.
pub(crate) struct Choice {
    /// Name.
    pub(crate) key: &'static str,
    /// What it can be.
    pub(crate) values: Values,
}

/// What an option can be.
pub(crate) enum Values {
    /// One of these names, of which the first is the default.
    Names(&'static [&'static str]),
    /// A whole number up to this one; 0 is the default.
    UpTo(u32),
}

/// What an option is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Value {
    /// One of [`Values::Names`].
    Name(&'static str),
    /// A number within [`Values::UpTo`].
    Number(u32),
}

impl Values {
    pub(crate) fn default(&self) -> Value {
        match self {
            Self::Names(names) => Value::Name(names[0]),
            Self::UpTo(_) => Value::Number(0),
        }
    }

    /// The value that the text stands for, if there is such a one.
    pub(crate) fn parse(&self, text: &str) -> Option<Value> {
        match self {
            Self::Names(names) => names.iter().find(|name| **name == text).map(|name| Value::Name(name)),
            // Nothing but digits: the library would take a sign as well.
            Self::UpTo(_) if !text.bytes().all(|byte| byte.is_ascii_digit()) => None,
            Self::UpTo(most) => text.parse().ok().filter(|number| number <= most).map(Value::Number),
        }
    }

    /// All values, in backticks.
    pub(crate) fn listed(&self) -> String {
        match self {
            Self::Names(names) => listed(names.iter().copied()),
            Self::UpTo(most) => format!("whole numbers from `0` to `{most}`"),
        }
    }
}

impl Value {
    /// The name.
    ///
    /// # Panics
    /// If it is a number.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Name(name) => name,
            Self::Number(number) => panic!("the option is a name, not `{number}`"),
        }
    }

    /// The number.
    ///
    /// # Panics
    /// If it is a name.
    pub(crate) fn number(self) -> u32 {
        match self {
            Self::Name(name) => panic!("the option is a number, not `{name}`"),
            Self::Number(number) => number,
        }
    }
}

impl std::fmt::Display for Value {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Name(name) => f.write_str(name),
            Self::Number(number) => number.fmt(f),
        }
    }
}

/// The names in backticks, with commas between them.
pub(crate) fn listed(names: impl Iterator<Item = &'static str>) -> String {
    names.map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
}

/// All codecs, in the order in which they are listed.
#[rustfmt::skip]
pub(crate) static CODECS: &[Entry] = &[
    Entry { tag: 0, codec: &Raw, options: &[], build: |_| Box::new(Raw), decode: raw::decode, pieces: None },
    Entry { tag: 1, codec: &Window7::DEFAULT, options: window7::OPTIONS, build: window7::build, decode: window7::decode, pieces: Some(window7::PIECES) },
    Entry { tag: 2, codec: &Tiered::DEFAULT, options: tiered::OPTIONS, build: tiered::build, decode: tiered::decode, pieces: Some(tiered::PIECES) },
    Entry { tag: 3, codec: &Codebook16::DEFAULT, options: &[], build: |_| Box::new(Codebook16::DEFAULT), decode: codebook16::decode, pieces: Some(codebook16::PIECES) },
];

/// Frames that hold another frame. What makes them is a prefix of specs, not a codec that can be asked for.
#[rustfmt::skip]
static DEDUP: Entry =
    Entry { tag: dedup::TAG, codec: &Dedup::ANY, options: &[], build: |_| Box::new(Dedup::ANY), decode: dedup::decode_rows, pieces: None };

/// The codec with this id.
pub(crate) fn by_id(id: &str) -> Option<&'static Entry> {
    CODECS.iter().find(|entry| entry.codec.id() == id)
}

/// What frames with this tag are of.
pub(crate) fn by_tag(tag: u8) -> Option<&'static Entry> {
    CODECS.iter().chain([&DEDUP]).find(|entry| entry.tag == tag)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_and_tags_are_unique_and_every_combination_of_options_builds_the_codec_it_names() {
        assert!(std::ptr::eq(by_tag(dedup::TAG).unwrap(), &DEDUP));
        for (index, entry) in CODECS.iter().enumerate() {
            assert!(std::ptr::eq(by_id(entry.codec.id()).unwrap(), &CODECS[index]));
            assert!(std::ptr::eq(by_tag(entry.tag).unwrap(), &CODECS[index]));
            let values = |option: &Choice| match option.values {
                Values::Names(names) => names.iter().map(|name| Value::Name(name)).collect::<Vec<_>>(),
                Values::UpTo(most) => [0, 1, most].map(Value::Number).to_vec(),
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
                assert_eq!((entry.build)(&chosen).id(), entry.codec.id());
            }
        }
    }
}
