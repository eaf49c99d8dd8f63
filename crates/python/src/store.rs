//! The store of checkpoints.

use std::num::NonZero;
use std::path::PathBuf;

use pyo3::prelude::*;
use pyo3::types::PyDict;
use zipwire::models::store::{
    self, Addition, DEFAULT_CHAIN, Keep, Listed, Parent, Selection, StoreError, Verdict, Writer,
};

use crate::errors::{Kind, raise, raised};
use crate::tensors::spec_of;
use crate::work::{threads, watched};

/// A folder of checkpoints, which keeps each tensor once.
#[pyclass(frozen, module = "zipwire_tensors._native")]
pub(crate) struct Store(store::Store);

fn raise_store(error: &StoreError) -> PyErr {
    raise(error)
}

#[pymethods]
impl Store {
    /// Makes a store in an empty or new folder.
    #[staticmethod]
    fn init(path: PathBuf) -> PyResult<Self> {
        store::Store::init(&path).map(Self).map_err(|error| raise_store(&error))
    }

    /// Opens a store that is there.
    #[staticmethod]
    fn open(path: PathBuf) -> PyResult<Self> {
        store::Store::open(&path).map(Self).map_err(|error| raise_store(&error))
    }

    /// Adds files and folders as a checkpoint.
    #[pyo3(signature = (paths, id, parent, codec, chain=DEFAULT_CHAIN, threads=None))]
    fn add(
        &self,
        py: Python<'_>,
        paths: Vec<PathBuf>,
        id: String,
        parent: Option<&str>,
        codec: &str,
        chain: usize,
        threads: Option<usize>,
    ) -> PyResult<Py<PyDict>> {
        let parent = match parent {
            None => Parent::None,
            Some("auto") => Parent::Auto,
            Some(id) => Parent::Id(id.to_owned()),
        };
        let addition =
            Addition { id, parent, spec: spec_of(codec)?, chain, allow_missing: false, keep_trailing: false };
        let added = watched(py, self::threads(threads, usize::MAX), |watch| {
            let writer = Writer::begin(&self.0)?;
            store::add(&writer, &paths, &addition, watch)
        })?;
        let result = PyDict::new(py);
        result.set_item("id", addition.id)?;
        result.set_item("bytes_stored", added.bytes_stored)?;
        result.set_item("same", added.parts.same + added.parts.rounded)?;
        result.set_item("delta", added.parts.delta)?;
        result.set_item("full", added.parts.full)?;
        result.set_item("troubles", added.troubles.iter().map(ToString::to_string).collect::<Vec<_>>())?;
        Ok(result.unbind())
    }

    /// Checkpoints, oldest first.
    fn checkpoints(&self, py: Python<'_>) -> PyResult<Vec<Py<PyDict>>> {
        let listing = py.detach(|| store::list(&self.0)).map_err(|error| raise_store(&error))?;
        if let Some(unread) = listing.unread.first() {
            return Err(raised(Kind::Format, &unread.error));
        }
        listing.checkpoints.iter().map(|listed| row(py, listed)).collect()
    }

    /// Writes the files of a checkpoint into a folder.
    #[pyo3(signature = (id, out, force=false, threads=None))]
    fn restore(
        &self,
        py: Python<'_>,
        id: &str,
        out: PathBuf,
        force: bool,
        threads: Option<usize>,
    ) -> PyResult<()> {
        watched(py, self::threads(threads, usize::MAX), |watch| {
            store::restore(&self.0, id, &out, force, watch).map(|_| ())
        })
    }

    /// Decodes all checkpoints, or these, and says what is damaged.
    #[pyo3(signature = (threads=None))]
    fn verify(&self, py: Python<'_>, threads: Option<usize>) -> PyResult<Vec<String>> {
        let verified =
            watched(py, self::threads(threads, usize::MAX), |watch| store::verify(&self.0, true, watch))?;
        Ok(verified.checkpoints.iter().filter_map(damage).collect())
    }

    /// Removes all checkpoints but the newest and every n-th, or those of these names.
    #[pyo3(signature = (newest=None, every=None, ids=None, threads=None))]
    fn prune(
        &self,
        py: Python<'_>,
        newest: Option<NonZero<usize>>,
        every: Option<NonZero<usize>>,
        ids: Option<Vec<String>>,
        threads: Option<usize>,
    ) -> PyResult<(Vec<String>, u64)> {
        let selection = match (newest, ids) {
            (Some(newest), None) => Selection::AllBut(Keep { newest, every }),
            (None, Some(ids)) => Selection::Ids(ids),
            _ => {
                return Err(raised(
                    Kind::Store,
                    "give either the number of checkpoints to keep or names to remove",
                ));
            }
        };
        let pruned = watched(py, self::threads(threads, usize::MAX), |watch| {
            let writer = Writer::begin(&self.0)?;
            store::prune(&writer, selection, watch)
        })?;
        Ok((pruned.removed, pruned.bytes_before.saturating_sub(pruned.bytes_after)))
    }
}

fn row(py: Python<'_>, listed: &Listed) -> PyResult<Py<PyDict>> {
    let row = PyDict::new(py);
    row.set_item("id", &listed.id)?;
    row.set_item("parent", &listed.parent)?;
    row.set_item("created", listed.created_unix_s)?;
    row.set_item("pinned", listed.is_pinned)?;
    row.set_item("bytes_raw", listed.bytes_raw)?;
    row.set_item("bytes_stored", listed.bytes_stored)?;
    Ok(row.unbind())
}

/// The line that says what is damaged of a checkpoint, if something is.
fn damage(verdict: &Verdict) -> Option<String> {
    let Verdict { id, manifest, lost } = verdict;
    let what = match (manifest, lost.as_slice()) {
        (Some(error), _) => error.to_string(),
        (None, []) => return None,
        (None, lost) => {
            lost.iter().map(|lost| format!("{}: `{}`", lost.file, lost.tensor)).collect::<Vec<_>>().join(", ")
        }
    };
    Some(format!("{id}: {what}"))
}
