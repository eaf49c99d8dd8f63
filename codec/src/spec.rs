//! What is asked of a codec: `name[:key=value,...]`.

use std::fmt;
use std::str::FromStr;

use crate::registry::{self, CODECS, Value, listed};
use crate::{Codec, SpecError};

/// The option that [`Spec::for_rows`] sets.
pub(crate) const ROW: &str = "row";

/// A codec and its options, as written in scenarios and on the command line: `raw`, `window7`, `window7:scale=std`,
/// `tiered:row=4096`.
///
/// Two specs that ask for the same are equal: options at their defaults do not count, nor does the order of options.
/// What a codec then chose for given values is not a spec; it is in the frame.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Spec {
    id: &'static str,
    /// A value for each option of the codec, in the order of the registry.
    chosen: Vec<Value>,
}

impl Spec {
    /// The codec that does what is asked.
    pub fn codec(&self) -> Box<dyn Codec> {
        (self.entry().build)(&self.chosen)
    }

    /// The spec for a tensor whose rows (tokens, output channels) have this many values: its last dimension.
    ///
    /// Values come without a shape, so a codec that makes use of columns is told: this sets the option `row`, where the
    /// codec has it and it is not given. Any other spec stays as it is, and so does every one if no row has that length.
    /// Frames are read without the spec, whatever it was.
    #[must_use]
    pub fn for_rows(mut self, values: usize) -> Self {
        let options = self.entry().options.iter().zip(&mut self.chosen);
        for (option, chosen) in options.filter(|(option, _)| option.key == ROW) {
            if *chosen == option.values.default() {
                *chosen = option.values.parse(&values.to_string()).unwrap_or(*chosen);
            }
        }
        self
    }

    /// Ids of all codecs.
    pub fn ids() -> impl Iterator<Item = &'static str> {
        CODECS.iter().map(|entry| entry.codec.id())
    }

    fn entry(&self) -> &'static registry::Entry {
        registry::by_id(self.id).expect("the id was found in the registry when the spec was parsed")
    }
}

impl FromStr for Spec {
    type Err = SpecError;

    fn from_str(text: &str) -> Result<Self, SpecError> {
        let (id, options) = match text.split_once(':') {
            Some((id, options)) => (id, Some(options)),
            None => (text, None),
        };
        let entry = registry::by_id(id)
            .ok_or_else(|| SpecError::UnknownId { id: id.to_owned(), valid: listed(Self::ids()) })?;
        let codec = entry.codec.id();
        let mut chosen: Vec<Option<Value>> = vec![None; entry.options.len()];
        for option in options.into_iter().flat_map(|options| options.split(',')) {
            let (key, value) =
                option.split_once('=').ok_or_else(|| SpecError::Malformed { text: option.to_owned() })?;
            let index = entry.options.iter().position(|known| known.key == key).ok_or_else(|| {
                let valid = match entry.options {
                    [] => "it has none".to_owned(),
                    known => format!("its options are {}", listed(known.iter().map(|known| known.key))),
                };
                SpecError::UnknownOption { codec, key: key.to_owned(), valid }
            })?;
            let known = &entry.options[index];
            let value = known.values.parse(value).ok_or_else(|| {
                let valid = known.values.listed();
                SpecError::BadValue { codec, key: known.key, value: value.to_owned(), valid }
            })?;
            if chosen[index].replace(value).is_some() {
                return Err(SpecError::Repeated { codec, key: known.key });
            }
        }
        let defaults = entry.options.iter().map(|option| option.values.default());
        let chosen =
            chosen.into_iter().zip(defaults).map(|(value, default)| value.unwrap_or(default)).collect();
        Ok(Self { id: codec, chosen })
    }
}

impl fmt::Display for Spec {
    /// The shortest text that parses to this spec: options at their defaults are left out.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.id)?;
        let mut separator = ':';
        for (option, value) in self.entry().options.iter().zip(&self.chosen) {
            if *value != option.values.default() {
                write!(f, "{separator}{}={value}", option.key)?;
                separator = ',';
            }
        }
        Ok(())
    }
}
