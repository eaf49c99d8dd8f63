//! Errors as exceptions of `zipwire_tensors._errors`.

use std::fmt::Display;
use std::io::ErrorKind;

use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyType;
use zipwire::codec::{ContainerError, DecodeError};
use zipwire::models::file::FileError;
use zipwire::models::store::StoreError;
use zipwire::models::tensor::TensorError;

/// An exception class, by its name.
#[derive(Clone, Copy)]
pub(crate) enum Kind {
    Error,
    Format,
    Version,
    Base,
    Codec,
    Tensor,
    File,
    Exists,
    Missing,
    NotThere,
    Store,
}

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Self::Error => "Error",
            Self::Format => "FormatError",
            Self::Version => "VersionError",
            Self::Base => "BaseError",
            Self::Codec => "CodecError",
            Self::Tensor => "TensorError",
            Self::File => "FileError",
            Self::Exists => "FileThereError",
            Self::Missing => "MissingFileError",
            Self::NotThere => "NotThereError",
            Self::Store => "StoreError",
        }
    }
}

/// The exception of a kind, with a message.
pub(crate) fn raised(kind: Kind, message: impl Display) -> PyErr {
    static MODULE: PyOnceLock<Py<PyModule>> = PyOnceLock::new();
    Python::attach(|py| {
        let module =
            MODULE.get_or_try_init(py, || PyModule::import(py, "zipwire_tensors._errors").map(Bound::unbind));
        let class =
            module.and_then(|module| Ok(module.bind(py).getattr(kind.name())?.cast_into::<PyType>()?));
        match class {
            Ok(class) => PyErr::from_type(class, message.to_string()),
            Err(error) => error,
        }
    })
}

/// An error of the library, as an exception.
pub(crate) trait Raise: Display {
    /// The class that it belongs to.
    fn kind(&self) -> Kind;
}

impl Raise for TensorError {
    fn kind(&self) -> Kind {
        match self {
            Self::Spec { .. } => Kind::Codec,
            Self::NoBase | Self::OtherBase | Self::BaseLength { .. } => Kind::Base,
            Self::Version { .. } => Kind::Version,
            Self::Foreign { .. } | Self::Damaged { .. } => Kind::Format,
            Self::Container(error) => container(error),
            Self::Length { .. } | Self::Shape { .. } | Self::Output { .. } => Kind::Tensor,
            _ => Kind::Error,
        }
    }
}

fn container(error: &ContainerError) -> Kind {
    match error {
        ContainerError::Version { .. } => Kind::Version,
        ContainerError::Encode(_) => Kind::Codec,
        ContainerError::Chunk { source, .. } => frame(source),
        _ => Kind::Format,
    }
}

/// Class of an error of a frame.
pub(crate) fn frame(error: &DecodeError) -> Kind {
    match error {
        DecodeError::Version { .. } => Kind::Version,
        DecodeError::UnknownBase { .. } => Kind::Base,
        _ => Kind::Format,
    }
}

impl Raise for FileError {
    fn kind(&self) -> Kind {
        match self {
            Self::Exists { .. } | Self::FolderExists { .. } => Kind::Exists,
            Self::Io { source, .. } if source.kind() == ErrorKind::NotFound => Kind::Missing,
            Self::Version { .. } => Kind::Version,
            Self::NoTensor { .. } => Kind::NotThere,
            Self::NoBase { .. } | Self::WrongBase { .. } | Self::NoSuchBase { .. } => Kind::Base,
            Self::Delta { .. } | Self::Encode { .. } => Kind::Codec,
            Self::Damaged { .. }
            | Self::Tensor { .. }
            | Self::Container { .. }
            | Self::Digest { .. }
            | Self::Decode { .. } => Kind::Format,
            _ => Kind::File,
        }
    }
}

impl Raise for StoreError {
    fn kind(&self) -> Kind {
        match self {
            Self::File(error) => error.kind(),
            Self::NoCheckpoint { .. } => Kind::NotThere,
            Self::IdTaken { .. } => Kind::Exists,
            _ => Kind::Store,
        }
    }
}

/// The exception that an error is.
pub(crate) fn raise(error: &impl Raise) -> PyErr {
    let message = error.to_string();
    raised(
        error.kind(),
        IN_PYTHON.iter().fold(message, |message, (command, python)| message.replace(command, python)),
    )
}

/// Remedies of the command line, and what they are called in Python.
const IN_PYTHON: [(&str, &str); 8] = [
    ("`--force`", "`force=True`"),
    ("`--base FILE`", "`base=FILE`"),
    ("`--base DIR`", "`base=[FILE, ...]`"),
    ("give another `--id`", "give another `id`"),
    ("`zipwire store init` makes one", "`Store(path, create=True)` makes one"),
    ("`--keep-trailing` of `compress` and `store add`", "the command `zipwire compress --keep-trailing`"),
    (
        "restore it by `zipwire decompress`",
        "open it with `zipwire_tensors.safetensors`, or restore it by `zipwire decompress`",
    ),
    (
        "raw values of one type are compressed with `--dtype TYPE`",
        "raw values of one type are compressed by `zipwire_tensors.compress(data, dtype=TYPE)`",
    ),
];
