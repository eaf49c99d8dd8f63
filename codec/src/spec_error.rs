//! Errors of specs.

#![allow(missing_docs, reason = "fields are named by the messages")]

/// A spec that names no codec.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SpecError {
    /// No codec has this id.
    #[error("unknown codec `{id}`")]
    UnknownId {
        id: String,
        /// All ids, in backticks.
        valid: String,
    },
    /// Nothing that can be in front of a codec has this id.
    #[error("unknown prefix `{id}`")]
    UnknownPrefix {
        id: String,
        /// All of them, in backticks.
        valid: String,
    },
    /// The codec has no such option.
    #[error("codec `{codec}` has no option `{key}`")]
    UnknownOption { codec: &'static str, key: String, valid: String },
    /// The option cannot have this value.
    #[error("option `{key}` of codec `{codec}` cannot be `{value}`")]
    BadValue { codec: &'static str, key: &'static str, value: String, valid: String },
    /// The option is given twice.
    #[error("option `{key}` of codec `{codec}` is given twice")]
    Repeated { codec: &'static str, key: &'static str },
    /// Two options are given of which one says what the other does.
    #[error("codec `{codec}` takes either `{key}` or `{other}`")]
    Alternatives { codec: &'static str, key: &'static str, other: &'static str },
    /// The length of rows is left open where nothing tells it.
    #[error("`{spec}` does not say how long a row is")]
    NoRow { spec: String },
    /// The values that differences are taken from are left open where nothing tells them.
    #[error("`{spec}` does not say what values differ from")]
    NoBase { spec: String },
    /// The table that the spec names is left open where nothing gives it.
    #[error("`{spec}` names a table and does not say what is in it")]
    NoTable { spec: String },
    /// Differences are coded by other means than this codec's.
    #[error("differences are not coded by `{codec}`")]
    DeltaCodec {
        codec: &'static str,
        /// Codecs that can be behind `delta+`, in backticks.
        valid: String,
    },
    /// An option without a value.
    #[error("`{text}` is not an option")]
    Malformed { text: String },
}

impl SpecError {
    /// Advice on what would be right, in one line.
    pub fn help(&self) -> Option<String> {
        match self {
            Self::UnknownId { valid, .. } => Some(format!("the codecs are {valid}")),
            Self::UnknownPrefix { valid, .. } => Some(format!("in front of a codec there can be {valid}")),
            Self::UnknownOption { valid, .. } => Some(valid.clone()),
            Self::BadValue { valid, .. } => Some(format!("its values are {valid}")),
            Self::Repeated { .. } => None,
            Self::Alternatives { key, .. } => Some(format!("leave `{key}` out, or the other one")),
            Self::NoRow { .. } => {
                Some("write `dedup:row=N+...` with the number of values in a row".to_owned())
            }
            Self::NoBase { .. } => {
                Some("give the base (`Spec::against`); `zipwire inspect --base FILE` does".to_owned())
            }
            Self::NoTable { .. } => {
                Some("give the table (`Spec::with_table`); where there is a file, name the file".to_owned())
            }
            Self::DeltaCodec { valid, .. } => Some(format!("behind `delta+` there can be {valid}")),
            Self::Malformed { .. } => Some("write `name:key=value,key=value`".to_owned()),
        }
    }
}
