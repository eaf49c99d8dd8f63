//! Compressed model files: whole ones, and tensors of one.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};
use zipwire::models::file::{self, Bases, Compression, FileError};

use crate::buffers::{Held, filled};
use crate::errors::{Kind, raise, raised};
use crate::tensors::spec_of;
use crate::work::{threads, watched};

/// Tensors of base files, which are open.
fn bases(paths: &[PathBuf]) -> PyResult<Option<Bases>> {
    let open = |path: &PathBuf| file::Model::open(path).map(Arc::new);
    let models = paths.iter().map(open).collect::<Result<Vec<_>, _>>().map_err(|error| raise(&error))?;
    Ok((!models.is_empty()).then(|| Bases::new([models])))
}

fn bytes_of(path: &Path) -> usize {
    std::fs::metadata(path).map_or(usize::MAX, |found| usize::try_from(found.len()).unwrap_or(usize::MAX))
}

/// Whether there is a file that begins as a compressed model does.
#[pyfunction]
pub(crate) fn begins_compressed(path: PathBuf) -> bool {
    file::begins_compressed(&path)
}

/// Compresses a model file.
#[pyfunction]
#[pyo3(signature = (input, output, codec, base=Vec::new(), force=false, keep_trailing=false, threads=None))]
pub(crate) fn compress_file(
    py: Python<'_>,
    input: PathBuf,
    output: PathBuf,
    codec: &str,
    base: Vec<PathBuf>,
    force: bool,
    keep_trailing: bool,
    threads: Option<usize>,
) -> PyResult<Py<PyDict>> {
    let (compression, bases) = (Compression { spec: spec_of(codec)?, force, keep_trailing }, bases(&base)?);
    let threads = self::threads(threads, bytes_of(&input));
    let made =
        watched(py, threads, |watch| file::compress(&input, &output, &compression, bases.as_ref(), watch))?;
    let result = PyDict::new(py);
    result.set_item("bytes_raw", made.bytes_raw)?;
    result.set_item("bytes_coded", made.bytes_coded)?;
    result.set_item("tensors_coded", made.tensors.0)?;
    result.set_item("tensors_kept", made.tensors.1)?;
    result.set_item("tensors_against_base", made.against)?;
    result.set_item("digest", made.digest)?;
    Ok(result.unbind())
}

/// Restores a model file.
#[pyfunction]
#[pyo3(signature = (input, output, base=Vec::new(), force=false, threads=None))]
pub(crate) fn decompress_file(
    py: Python<'_>,
    input: PathBuf,
    output: PathBuf,
    base: Vec<PathBuf>,
    force: bool,
    threads: Option<usize>,
) -> PyResult<()> {
    let model = open(&input, &base)?;
    let threads = self::threads(threads, bytes_of(&input));
    watched(py, threads, |watch| file::restore(&model, &output, force, watch))
}

/// Decodes all of a model file and compares it with its digests.
#[pyfunction]
#[pyo3(signature = (path, base=Vec::new(), threads=None))]
pub(crate) fn verify_file(
    py: Python<'_>,
    path: PathBuf,
    base: Vec<PathBuf>,
    threads: Option<usize>,
) -> PyResult<()> {
    let model = open(&path, &base)?;
    watched(py, self::threads(threads, bytes_of(&path)), |watch| file::verify(&model, watch))
}

fn open(path: &Path, base: &[PathBuf]) -> PyResult<file::Model> {
    file::Model::open_with(path, bases(base)?).map_err(|error| raise(&error))
}

/// A safetensors file, compressed or not, of which tensors are read one by one.
#[pyclass(frozen, module = "zipwire_tensors._native")]
pub(crate) struct Model(file::Model);

#[pymethods]
impl Model {
    #[new]
    #[pyo3(signature = (path, base=Vec::new()))]
    fn new(py: Python<'_>, path: PathBuf, base: Vec<PathBuf>) -> PyResult<Self> {
        py.detach(|| open(&path, &base).map(Self))
    }

    /// Opens a file to see what it has; tensors that are differences from a base cannot be read then.
    #[staticmethod]
    fn list(path: PathBuf) -> PyResult<Self> {
        file::Model::list(&path).map(Self).map_err(|error| raise(&error))
    }

    /// Whether tensors are differences from another file.
    #[getter]
    fn needs_base(&self) -> bool {
        self.0.needs_base()
    }

    /// Names, types, shapes and bytes of all tensors, in the order of the file.
    fn tensors(&self) -> Vec<(&str, &str, Vec<usize>, u64)> {
        let tensors = self.0.tensors().iter();
        tensors.map(|tensor| (&*tensor.name, &*tensor.dtype, tensor.shape.clone(), tensor.bytes())).collect()
    }

    /// Metadata of the original.
    fn metadata(&self) -> HashMap<String, String> {
        self.0.notes().clone()
    }

    /// Whether the file is compressed.
    #[getter]
    fn is_compressed(&self) -> bool {
        self.0.is_compressed()
    }

    /// Bytes that a tensor takes in the file.
    fn kept(&self, name: &str) -> PyResult<u64> {
        self.0.bytes_kept(name).map_err(|error| raise(&error))
    }

    /// Fills a writable buffer with the values of a tensor from the byte `start` on.
    fn read_into(&self, py: Python<'_>, name: &str, start: u64, out: &Bound<'_, PyAny>) -> PyResult<()> {
        let mut out = Held::writable(out)?;
        let out = out.bytes_mut();
        self.check(name, start, out.len())?;
        py.detach(|| self.0.read_into(name, start, out)).map_err(|error| raise(&error))
    }

    /// Bytes of a tensor.
    fn read(&self, py: Python<'_>, name: &str, start: u64, len: usize) -> PyResult<Py<PyBytes>> {
        self.check(name, start, len)?;
        let read = |out: &mut [u8]| py.detach(|| self.0.read_into(name, start, out));
        filled(py, len, |out| read(out).map(|()| len).map_err(|error| raise(&error)))
    }
}

impl Model {
    /// Refuses bytes that a tensor does not have.
    fn check(&self, name: &str, start: u64, len: usize) -> PyResult<()> {
        let bytes = self.0.tensor(name).map_err(|error: FileError| raise(&error))?.bytes();
        match start.checked_add(len as u64) {
            Some(end) if end <= bytes => Ok(()),
            _ => Err(raised(
                Kind::Tensor,
                format!("`{name}` has {bytes} bytes, and not {len} from {start} on"),
            )),
        }
    }
}
