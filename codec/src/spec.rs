//! Specs, the text by which a codec is asked for: `[dedup[:row=N]+|delta+]name[:key=value,...]`.

use std::fmt;
use std::str::FromStr;

use crate::auto::{self, Auto};
use crate::dedup::{self, LONGEST_ROW};
use crate::delta::{self, DeltaCoding};
use crate::frame::version_of;
use crate::options::{self, ROW_KEY, Value, listed};
use crate::{Base, Codec, DType, Decoder, EncodeError, Layout, SpecError, Table, TableError, registry};

/// A codec and its options, as written in scenarios and on the command line: `raw`, `tiered`, `rans:mantissa=2`,
/// `tiered:row=4096`, `auto:link=25 GB/s`.
///
/// `dedup:row=256+tiered` leaves out rows of 256 values that repeat an earlier one before the others are coded
/// ([`crate::Dedup`]); in `dedup+tiered` the length of a row is left to the caller that has the values ([`Self::for_rows`]).
///
/// `delta+rans` codes differences from a base ([`crate::Delta`]), which is given apart from the text ([`Self::against`]).
///
/// `rans:table=0a1b2c3d` names a table that many frames share ([`Table`]), which is given apart as well ([`Self::with_table`]).
///
/// Two specs that ask for the same are equal: options at their defaults do not count, nor does the order of options.
/// Choices of a codec for given values are not in its spec, but in the frame.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Spec {
    /// Step before the values are coded.
    prefix: Option<Prefix>,
    id: &'static str,
    /// A value for each option of the codec, in the order of the registry.
    chosen: Vec<Value>,
    /// The table that the last option names; none if it is still to be given.
    table: Option<Table>,
}

/// Step that can be in front of a codec.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Prefix {
    Dedup(dedup::Prefix),
    Delta(delta::Prefix),
}

impl Prefix {
    /// All ids.
    const IDS: [&str; 2] = [dedup::Prefix::ID, delta::Prefix::ID];

    /// Reads what is before the `+`.
    fn parse(text: &str) -> Result<Self, SpecError> {
        match options::split(text).0 {
            dedup::Prefix::ID => dedup::Prefix::parse(text).map(Self::Dedup),
            delta::Prefix::ID => delta::Prefix::parse(text).map(Self::Delta),
            id => Err(SpecError::UnknownPrefix { id: id.to_owned(), valid: listed(Self::IDS.into_iter()) }),
        }
    }
}

impl fmt::Display for Prefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Dedup(prefix) => prefix.fmt(f),
            Self::Delta(prefix) => prefix.fmt(f),
        }
    }
}

impl Spec {
    /// The codec that does what is asked.
    pub fn codec(&self) -> Box<dyn Codec> {
        let codec = match (&self.table, self.entry().tables.as_ref()) {
            (Some(table), Some(sharing)) => {
                (sharing.build)(&self.chosen, table).expect("a spec is given no other tables")
            }
            _ => self.entry().of.build(&self.chosen),
        };
        match &self.prefix {
            Some(Prefix::Dedup(prefix)) => prefix.before(codec),
            Some(Prefix::Delta(prefix)) => prefix.clone().before(codec),
            None => codec,
        }
    }

    /// The codec if it is one that chooses by the values, with nothing in front of it.
    pub fn auto(&self) -> Option<Auto> {
        let is_auto = self.prefix.is_none() && std::ptr::eq(self.entry(), &registry::AUTO);
        is_auto.then(|| auto::of(&self.chosen))
    }

    /// The highest version of the frame format ([`crate::FRAME_VERSION`]) that its frames have, and the frames within them. Whoever gives the spec
    /// another one, or does not read this one, does not read its frames.
    pub fn frame_version(&self) -> u8 {
        let tag = match &self.prefix {
            Some(Prefix::Dedup(_)) => Some(dedup::TAG),
            Some(Prefix::Delta(_)) => Some(delta::TAG),
            None => None,
        };
        tag.map_or(1, version_of).max(registry::highest_version(self.entry(), &self.chosen))
    }

    /// The spec for a tensor whose rows (tokens, output channels) have this many values: its last dimension.
    ///
    /// Values come without a shape, so a codec that makes use of columns is told, and so is what leaves out repeated
    /// rows: this sets the option `row`, where there is one and it is not given. Any other spec stays as it is, and so
    /// does every one if no row has that length. Frames are read without the spec, whatever it was.
    #[must_use]
    pub fn for_rows(mut self, values: usize) -> Self {
        let options = self.entry().options.iter().zip(&mut self.chosen);
        for (option, chosen) in options.filter(|(option, _)| option.key == ROW_KEY) {
            if *chosen == option.values.default() {
                *chosen = option.values.parse(&values.to_string()).unwrap_or(*chosen);
            }
        }
        if let Some(Prefix::Dedup(prefix @ dedup::Prefix { row: 0 })) = &mut self.prefix {
            prefix.row = u32::try_from(values).ok().filter(|row| *row <= LONGEST_ROW).unwrap_or(0);
        }
        self
    }

    /// The spec for values that differ little from those of a base, which its codec then takes differences from. Any other spec
    /// stays as it is, and so does one that has a base.
    #[must_use]
    pub fn against(mut self, base: Base) -> Self {
        if let Some(Prefix::Delta(prefix)) = &mut self.prefix {
            prefix.base.get_or_insert(base);
        }
        self
    }

    /// Whether its codec takes differences from a base.
    pub fn takes_base(&self) -> bool {
        matches!(self.prefix, Some(Prefix::Delta(_)))
    }

    /// The spec with a table that all its frames name.
    ///
    /// # Errors
    /// If the codec takes none, if it is a table of another codec or a damaged one, and if the spec names another one.
    pub fn with_table(mut self, table: &Table) -> Result<Self, TableError> {
        let codec = self.id;
        let sharing = self.entry().tables.as_ref().ok_or(TableError::NoTables { codec })?;
        if (sharing.build)(&self.chosen, table).is_err() {
            let found = table.codec().filter(|found| *found != codec);
            return Err(TableError::Codec { id: table.id(), codec, found });
        }
        if self.table_id().is_some_and(|named| named != table.id()) {
            return Err(TableError::Other { spec: self.to_string(), found: table.id() });
        }
        if let Some(named) = self.chosen.last_mut() {
            *named = Value::Table(table.id());
        }
        self.table = Some(table.clone());
        Ok(self)
    }

    /// The spec whose frames carry their own tables, or name another one that is given next.
    #[must_use]
    pub fn without_table(mut self) -> Self {
        if let Some(Value::Table(named)) = self.chosen.last_mut() {
            *named = 0;
        }
        self.table = None;
        self
    }

    /// The table that its frames name, if it has been given ([`Self::with_table`]).
    pub fn table(&self) -> Option<&Table> {
        self.table.as_ref()
    }

    /// The id of the table that it names.
    pub fn table_id(&self) -> Option<u32> {
        match self.chosen.last() {
            Some(Value::Table(id)) if *id != 0 => Some(*id),
            _ => None,
        }
    }

    /// A table for values like these samples (little-endian, whole values of a type each), for frames in this layout: to be kept, and to be given to the
    /// spec ([`Self::with_table`]) and to readers ([`Decoder::add_table`]). What a prefix does is not done to the samples.
    ///
    /// # Errors
    /// If the codec takes no tables or does not code the type, and if there is no value to code.
    pub fn train(&self, layout: Layout, dtype: DType, samples: &[&[u8]]) -> Result<Table, TableError> {
        let codec = self.id;
        let sharing = self.entry().tables.as_ref().ok_or(TableError::NoTables { codec })?;
        for values in samples {
            if !values.len().is_multiple_of(dtype.width()) {
                return Err(EncodeError::PartialValue { bytes: values.len(), dtype }.into());
            }
        }
        (sharing.train)(&self.chosen, layout, dtype, samples)?.ok_or(TableError::NoSample { codec })
    }

    /// Decoder of the spec's frames: with the table and the base that it has been given.
    pub fn decoder(&self) -> Decoder {
        let mut decoder = Decoder::new();
        if let Some(table) = &self.table {
            decoder.add_table(table.clone()).expect("a decoder without tables takes one");
        }
        if let Some(Prefix::Delta(delta::Prefix { base: Some(base) })) = &self.prefix {
            decoder.add_base(base.clone()).expect("a decoder without bases takes one");
        }
        decoder
    }

    /// The complete spec, for values without known rows: an error if it needs the length of a row, a base, or the bytes of a table.
    ///
    /// # Errors
    /// If it does nothing without that, and leaves it open.
    pub fn complete(self) -> Result<Self, SpecError> {
        match &self.prefix {
            Some(Prefix::Dedup(dedup::Prefix { row: 0 })) => Err(SpecError::NoRow { spec: self.to_string() }),
            Some(Prefix::Delta(delta::Prefix { base: None })) => {
                Err(SpecError::NoBase { spec: self.to_string() })
            }
            Some(_) | None if self.table_id() != self.table.as_ref().map(Table::id) => {
                Err(SpecError::NoTable { spec: self.to_string() })
            }
            Some(_) | None => Ok(self),
        }
    }

    /// Ids of all codecs.
    pub fn ids() -> impl Iterator<Item = &'static str> {
        registry::named().map(|entry| entry.codec.id())
    }

    /// The codecs that take differences from a base, with default options.
    pub fn deltas() -> impl Iterator<Item = Self> {
        let spec = |coding: DeltaCoding| format!("{}+{}", delta::ID, coding.id()).parse();
        DeltaCoding::ALL.into_iter().map(move |coding| spec(coding).expect("the prefix takes these codecs"))
    }

    /// Names of the options of the codec with this id; none if there is no such codec.
    pub fn options(id: &str) -> impl Iterator<Item = &'static str> {
        registry::by_id(id).into_iter().flat_map(|entry| entry.options).map(|option| option.key)
    }

    /// Ids of what there can be in front of a codec and a `+`.
    pub fn prefixes() -> impl Iterator<Item = &'static str> {
        Prefix::IDS.into_iter()
    }

    fn entry(&self) -> &'static registry::Entry {
        registry::by_id(self.id).expect("the id was found in the registry when the spec was parsed")
    }
}

impl FromStr for Spec {
    type Err = SpecError;

    fn from_str(text: &str) -> Result<Self, SpecError> {
        // A codec may have the sign in a wrong option.
        let is_codec = |text: &str| text.split(':').next().is_some_and(|id| registry::by_id(id).is_some());
        let (prefix, text) = match text.split_once('+') {
            Some((prefix, text)) if !is_codec(prefix) => (Some(prefix), text),
            Some(_) | None => (None, text),
        };
        let (id, options) = options::split(text);
        let prefix = prefix.map(Prefix::parse).transpose()?;
        let entry = registry::by_id(id)
            .ok_or_else(|| SpecError::UnknownId { id: id.to_owned(), valid: listed(Self::ids()) })?;
        let codec = entry.codec.id();
        if std::ptr::eq(entry, &registry::AUTO) {
            auto::check(options)?;
        }
        if matches!(prefix, Some(Prefix::Delta(_))) {
            delta::Prefix::check(codec)?;
        }
        Ok(Self { prefix, id: codec, chosen: options::choose(codec, entry.options, options)?, table: None })
    }
}

impl fmt::Display for Spec {
    /// The shortest text that parses to this spec: options at their defaults are left out.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(prefix) = &self.prefix {
            prefix.fmt(f)?;
        }
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
