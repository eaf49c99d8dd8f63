//! One tensor in memory, compressed and restored.

use std::collections::BTreeMap;

use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};
use zipwire::codec::{FrameInfo, Spec, SpecError, decompress_into as decompress_frame};
use zipwire::models::tensor::{Description, Origin, Packed, Packing, TensorError};

use crate::buffers::{Held, apart, filled, on_huge_pages};
use crate::errors::{frame, raise, raised};
use crate::work::{threads, watched};

/// Magic in front of a frame, as the libraries for C and Rust write them.
const FRAME: &[u8] = b"ZPWR";

/// The codec of this name.
pub(crate) fn spec_of(codec: &str) -> PyResult<Spec> {
    codec.parse().map_err(|error: SpecError| raise(&TensorError::Spec { source: error }))
}

fn description(dtype: &str, shape: Vec<u64>, origin: &str) -> Description {
    let origin = match origin {
        "bytes" => Origin::Bytes,
        "torch" => Origin::Torch,
        _ => Origin::Array,
    };
    Description { origin, ..Description::new(dtype, shape) }
}

/// The most bytes that a tensor takes compressed.
#[pyfunction]
#[pyo3(signature = (dtype, shape, codec))]
pub(crate) fn bound(dtype: &str, shape: Vec<u64>, codec: &str) -> PyResult<usize> {
    let description = description(dtype, shape, "array");
    let packing = Packing::new(&description, &spec_of(codec)?, None);
    packing.map(|packing| packing.bound()).map_err(|error| raise(&error))
}

/// Compresses a buffer that is a tensor of this type and shape.
#[pyfunction]
#[pyo3(signature = (values, dtype, shape, origin, codec, base=None, threads=None))]
pub(crate) fn compress(
    py: Python<'_>,
    values: &Bound<'_, PyAny>,
    dtype: &str,
    shape: Vec<u64>,
    origin: &str,
    codec: &str,
    base: Option<&Bound<'_, PyAny>>,
    threads: Option<usize>,
) -> PyResult<Py<PyBytes>> {
    let (description, spec) = (description(dtype, shape, origin), spec_of(codec)?);
    let (values, base) = (Held::of(values)?, base.map(Held::of).transpose()?);
    let packing =
        Packing::new(&description, &spec, base.as_ref().map(Held::bytes)).map_err(|error| raise(&error))?;
    let (values, threads) = (values.bytes(), self::threads(threads, values.bytes().len()));
    filled(py, packing.bound(), |out| watched(py, threads, |watch| packing.pack_into(values, out, watch)))
}

/// Compresses like `compress`, into the front of a writable buffer; returns the number of bytes.
#[pyfunction]
#[pyo3(signature = (values, dtype, shape, origin, codec, out, base=None, threads=None))]
pub(crate) fn compress_into(
    py: Python<'_>,
    values: &Bound<'_, PyAny>,
    dtype: &str,
    shape: Vec<u64>,
    origin: &str,
    codec: &str,
    out: &Bound<'_, PyAny>,
    base: Option<&Bound<'_, PyAny>>,
    threads: Option<usize>,
) -> PyResult<usize> {
    let (description, spec) = (description(dtype, shape, origin), spec_of(codec)?);
    let (values, base) = (Held::of(values)?, base.map(Held::of).transpose()?);
    let mut out = Held::writable(out)?;
    apart(&out, [Some(&values), base.as_ref()])?;
    let packing =
        Packing::new(&description, &spec, base.as_ref().map(Held::bytes)).map_err(|error| raise(&error))?;
    let (values, threads) = (values.bytes(), self::threads(threads, values.bytes().len()));
    let out = out.bytes_mut();
    watched(py, threads, |watch| packing.pack_into(values, out, watch))
}

/// A dictionary of what compressed bytes are of.
#[pyfunction]
pub(crate) fn describe<'py>(py: Python<'py>, data: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyDict>> {
    let held = Held::of(data)?;
    let bytes = held.bytes();
    let found = PyDict::new(py);
    let mut codecs: BTreeMap<&str, usize> = BTreeMap::new();
    let fail = |error| raised(frame(&error), error);
    if bytes.starts_with(FRAME) {
        let info = FrameInfo::peek(bytes).map_err(fail)?;
        found.set_item("dtype", info.shape.dtype.name())?;
        found.set_item("shape", [info.shape.count])?;
        found.set_item("origin", "frame")?;
        found.set_item("nbytes", info.shape.values_len())?;
        found.set_item("needs_base", false)?;
        codecs.insert(info.codec, 1);
    } else {
        let packed = Packed::open(bytes).map_err(|error| raise(&error))?;
        let Description { dtype, shape, origin } = packed.description();
        let origin = match origin {
            Origin::Bytes => "bytes",
            Origin::Torch => "torch",
            _ => "array",
        };
        found.set_item("dtype", dtype)?;
        found.set_item("shape", shape)?;
        found.set_item("origin", origin)?;
        found.set_item("nbytes", packed.len())?;
        found.set_item("needs_base", packed.is_against())?;
        for chunk in 0..packed.index().chunk_count() {
            *codecs.entry(FrameInfo::peek(packed.frame(chunk)).map_err(fail)?.codec).or_default() += 1;
        }
    }
    found.set_item("nbytes_compressed", bytes.len())?;
    found.set_item("codecs", codecs)?;
    Ok(found)
}

/// Restores values into a writable buffer of their length.
#[pyfunction]
#[pyo3(signature = (data, out, base=None, threads=None))]
pub(crate) fn decompress_into(
    py: Python<'_>,
    data: &Bound<'_, PyAny>,
    out: &Bound<'_, PyAny>,
    base: Option<&Bound<'_, PyAny>>,
    threads: Option<usize>,
) -> PyResult<()> {
    let (data, base, mut out) = (Held::of(data)?, base.map(Held::of).transpose()?, Held::writable(out)?);
    let is_over = base.as_ref().is_some_and(|base| base.places() == out.places());
    apart(&out, [Some(&data), base.as_ref().filter(|_| !is_over)])?;
    if is_over && !data.bytes().starts_with(FRAME) {
        drop(base);
        let out = out.bytes_mut();
        let packed = Packed::open(data.bytes()).map_err(|error| raise(&error))?;
        return watched(py, self::threads(threads, packed.len()), |watch| packed.unpack_over(out, watch));
    }
    restore(py, data.bytes(), out.bytes_mut(), base.as_ref(), threads)
}

/// Asks for huge pages for a large buffer that nothing was written to yet.
#[pyfunction]
pub(crate) fn advise(out: &Bound<'_, PyAny>) -> PyResult<()> {
    on_huge_pages(Held::writable(out)?.bytes_mut());
    Ok(())
}

/// Restores values as bytes.
#[pyfunction]
#[pyo3(signature = (data, base=None, threads=None))]
pub(crate) fn decompress(
    py: Python<'_>,
    data: &Bound<'_, PyAny>,
    base: Option<&Bound<'_, PyAny>>,
    threads: Option<usize>,
) -> PyResult<Py<PyBytes>> {
    let (data, base) = (Held::of(data)?, base.map(Held::of).transpose()?);
    let bytes = data.bytes();
    let len = if bytes.starts_with(FRAME) {
        let info = FrameInfo::peek(bytes).map_err(|error| raised(frame(&error), error))?;
        info.shape.values_len()
    } else {
        Packed::open(bytes).map_err(|error| raise(&error))?.len()
    };
    filled(py, len, |out| restore(py, bytes, out, base.as_ref(), threads).map(|()| len))
}

fn restore(
    py: Python<'_>,
    bytes: &[u8],
    out: &mut [u8],
    base: Option<&Held>,
    threads: Option<usize>,
) -> PyResult<()> {
    if bytes.starts_with(FRAME) {
        let len = py.detach(|| decompress_frame(bytes, out)).map_err(|error| raised(frame(&error), error))?;
        let found = out.len();
        let exact = (len == found).then_some(());
        return exact.ok_or_else(|| raise(&TensorError::Output { needed: len, found }));
    }
    let packed = Packed::open(bytes).map_err(|error| raise(&error))?;
    let (threads, base) = (self::threads(threads, packed.len()), base.map(Held::bytes));
    watched(py, threads, |watch| packed.unpack_into(out, base, watch))
}
