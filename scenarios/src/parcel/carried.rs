//! Contents of a parcel that replace files.

use std::collections::BTreeMap;
use std::io;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use zipwire_payload::Rows;
use zipwire_schedule::DType;
use zipwire_traces::read_rows;

use super::Parcel;
use crate::error::Result;
use crate::origin::TensorName;
use crate::problem::{ParcelProblem, Problem};

/// Files and tensors, by the names that the scenario gives them.
#[derive(Debug)]
pub(crate) struct Carried {
    parcel: Arc<Parcel>,
    rows: BTreeMap<TensorName, Arc<Rows>>,
}

/// A tensor that every host has in a file of its own.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct CarriedTensor {
    /// The file as the scenario calls it.
    file: String,
    /// Where it lies, on every host.
    path: String,
    tensor: String,
    /// Name of the type of its values.
    dtype: String,
    /// Hash of the rows, in hexadecimal: not every format has integers of 128 bits.
    digest: String,
}

impl Carried {
    pub(super) fn new(parcel: Arc<Parcel>, rows: BTreeMap<TensorName, Arc<Rows>>) -> Self {
        Self { parcel, rows }
    }

    /// The content of a file.
    pub(crate) fn file(&self, name: &str) -> io::Result<&[u8]> {
        self.parcel.files.get(name).map(Vec::as_slice).ok_or_else(not_carried)
    }

    /// The rows of a tensor.
    pub(crate) fn rows(&self, name: &TensorName) -> io::Result<Arc<Rows>> {
        self.rows.get(name).cloned().ok_or_else(not_carried)
    }
}

/// Error for a file that the parcel lacks: requests follow from the text, so the sending host has understood it differently.
fn not_carried() -> io::Error {
    io::Error::new(io::ErrorKind::NotFound, "the host that sent the scenario did not send it along")
}

impl CarriedTensor {
    /// The tensor of the file at `path`, whose rows had this hash when they were read.
    pub(super) fn new(name: &TensorName, path: &Path, digest: u128) -> Result<Self> {
        let TensorName { file, tensor, dtype } = name.clone();
        let path = straight(path)
            .map_err(|source| Problem::Unreadable { path: path.to_owned(), source }.nowhere())?;
        let path = path.into_os_string().into_string();
        let path = path.map_err(|path| ParcelProblem::NotText { path: path.into() }.nowhere())?;
        Ok(Self { file, path, tensor, dtype: dtype.name().to_owned(), digest: hexadecimal(digest) })
    }

    /// Its rows, from this host's file.
    pub(super) fn read(&self) -> Result<(TensorName, Arc<Rows>)> {
        let Self { file, path, tensor, dtype, digest } = self;
        let path = PathBuf::from(path);
        let Some(dtype) = DType::from_name(dtype) else {
            return Err(ParcelProblem::UnknownType { dtype: dtype.clone() }.nowhere());
        };
        let rows =
            read_rows(&path, tensor, dtype).map_err(|error| ParcelProblem::Tensor { error }.nowhere())?;
        if hexadecimal(rows.digest()) != *digest {
            return Err(ParcelProblem::OtherRows { path, tensor: tensor.clone() }.nowhere());
        }
        let name = TensorName { file: file.clone(), tensor: tensor.clone(), dtype };
        Ok((name, Arc::new(rows)))
    }
}

/// The absolute path without `..`, if that is the same file: other hosts may not have the folders that it leads back from. Links
/// stay what they are, since they may lead elsewhere there.
fn straight(path: &Path) -> io::Result<PathBuf> {
    let absolute = std::path::absolute(path)?;
    let mut straight = PathBuf::new();
    for part in absolute.components() {
        match part {
            Component::ParentDir => {
                straight.pop();
            }
            _ => straight.push(part),
        }
    }
    let is_same =
        straight.canonicalize().is_ok_and(|file| absolute.canonicalize().is_ok_and(|other| file == other));
    Ok(if is_same { straight } else { absolute })
}

fn hexadecimal(digest: u128) -> String {
    format!("{digest:032x}")
}
