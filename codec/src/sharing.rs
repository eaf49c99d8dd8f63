//! Codecs whose frames can name a shared table: training a table, and making the codec that uses it.

use crate::options::Value;
use crate::registry::Entry;
use crate::tables::Table;
use crate::{Codec, DType, DecodeError, EncodeError, Layout, codebook16, rans};

/// Functions of a codec that takes tables. `&[Value]` are the values of its options.
pub(crate) struct Sharing {
    /// Its tag, with which the bytes of its tables begin; the tag of the type follows.
    tag: u8,
    /// The table for values like those of some samples in this layout; none if there are no values to code.
    pub(crate) train: Train,
    /// The codec with this table for all frames. Fails if it is no table of this codec.
    pub(crate) build: Build,
}

/// See [`Sharing::train`].
type Train = fn(&[Value], Layout, DType, &[&[u8]]) -> Result<Option<Table>, EncodeError>;
/// See [`Sharing::build`].
type Build = fn(&[Value], &Table) -> Result<Box<dyn Codec>, DecodeError>;

static SHARING: [Sharing; 2] = [
    Sharing { tag: rans::TAG, train: rans::train, build: rans::build_with },
    Sharing { tag: codebook16::TAG, train: codebook16::train, build: codebook16::build_with },
];

/// Functions of the codec for tables, if it takes any.
pub(crate) fn of(entry: &Entry) -> Option<&'static Sharing> {
    SHARING.iter().find(|sharing| sharing.tag == entry.tag)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options;
    use crate::registry::{self, CODECS};

    #[test]
    fn whatever_takes_tables_can_be_trained_and_has_the_option() {
        for entry in CODECS.iter().chain([&registry::AUTO]) {
            let is_last = entry.options.last().is_some_and(|option| option.key == options::TABLE.key);
            assert_eq!(entry.takes_table, of(entry).is_some());
            assert_eq!(entry.takes_table, is_last);
            assert_eq!(
                entry.options.iter().filter(|option| option.key == options::TABLE.key).count(),
                is_last.into()
            );
        }
    }
}
