//! The table of all codecs: what a new codec adds, beside its own module, is an entry here.

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
    pub(crate) build: fn(&[&'static str]) -> Box<dyn Codec>,
    /// Decodes what follows the header. Returns the checksum of values and front matter, the header's part excluded.
    pub(crate) decode: fn(&Body<'_>, &mut [u8]) -> Result<u32, DecodeError>,
}

/// An option with a fixed set of values.
pub(crate) struct Choice {
    /// Name.
    pub(crate) key: &'static str,
    /// All values; the first is the default.
    pub(crate) values: &'static [&'static str],
}

/// All codecs, in the order in which they are listed.
#[rustfmt::skip]
pub(crate) static CODECS: &[Entry] = &[
    Entry { tag: 0, codec: &Raw, options: &[], build: |_| Box::new(Raw), decode: raw::decode },
    Entry { tag: 1, codec: &Window7::DEFAULT, options: window7::OPTIONS, build: window7::build, decode: window7::decode },
    Entry { tag: 2, codec: &Tiered, options: &[], build: |_| Box::new(Tiered), decode: tiered::decode },
    Entry { tag: 3, codec: &Codebook16::DEFAULT, options: &[], build: |_| Box::new(Codebook16::DEFAULT), decode: codebook16::decode },
];

/// Frames that hold another frame. What makes them is a prefix of specs, not a codec that can be asked for.
#[rustfmt::skip]
static DEDUP: Entry =
    Entry { tag: dedup::TAG, codec: &Dedup::ANY, options: &[], build: |_| Box::new(Dedup::ANY), decode: dedup::decode_rows };

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
        for (index, entry) in CODECS.iter().enumerate() {
            assert!(std::ptr::eq(by_id(entry.codec.id()).unwrap(), &CODECS[index]));
            assert!(std::ptr::eq(by_tag(entry.tag).unwrap(), &CODECS[index]));
            let combinations: usize = entry.options.iter().map(|option| option.values.len()).product();
            for number in 0..combinations {
                let mut left = number;
                let chosen: Vec<_> = entry
                    .options
                    .iter()
                    .map(|option| {
                        let value = option.values[left % option.values.len()];
                        left /= option.values.len();
                        value
                    })
                    .collect();
                assert_eq!((entry.build)(&chosen).id(), entry.codec.id());
            }
        }
    }
}
