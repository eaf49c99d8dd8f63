//! Buffers of Python objects as slices.

use std::ffi::c_int;
use std::ops::Range;
use std::slice::{from_raw_parts, from_raw_parts_mut};
#[cfg(unix)]
use std::sync::OnceLock;

use pyo3::buffer::PyUntypedBuffer;
use pyo3::exceptions::PyMemoryError;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::errors::{Kind, raised};

/// A buffer in one piece, held until this is dropped: its owner can neither free nor resize it.
pub(crate) struct Held(PyUntypedBuffer);

impl Held {
    /// The buffer of an object.
    ///
    /// Python lets others write to it meanwhile, as it does for its own compressors: then what is read is undefined, and nothing else.
    pub(crate) fn of(object: &Bound<'_, PyAny>) -> PyResult<Self> {
        let no_buffer = |error: PyErr| {
            raised(
                Kind::Tensor,
                format!("no buffer of bytes: {error}\nhelp: give `bytes`, or an array of NumPy"),
            )
        };
        let buffer = PyUntypedBuffer::get(object).map_err(no_buffer)?;
        if !buffer.is_c_contiguous() {
            let remedy = "copy it to one first, as `numpy.ascontiguousarray` does";
            return Err(raised(
                Kind::Tensor,
                format!("the values are not in one piece of memory\nhelp: {remedy}"),
            ));
        }
        Ok(Self(buffer))
    }

    /// The buffer of an object that is to be written.
    pub(crate) fn writable(object: &Bound<'_, PyAny>) -> PyResult<Self> {
        let held = Self::of(object)?;
        if held.0.readonly() {
            return Err(raised(
                Kind::Tensor,
                "the output is read-only\nhelp: give a `bytearray` or a writable array",
            ));
        }
        Ok(held)
    }

    /// Addresses of the bytes.
    pub(crate) fn places(&self) -> Range<usize> {
        let start = self.0.buf_ptr().addr();
        start..start + self.0.len_bytes()
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        match self.0.len_bytes() {
            0 => &[],
            // SAFETY: the buffer has so many bytes for as long as it is held.
            len => unsafe { from_raw_parts(self.0.buf_ptr().cast(), len) },
        }
    }

    pub(crate) fn bytes_mut(&mut self) -> &mut [u8] {
        match self.0.len_bytes() {
            0 => &mut [],
            // SAFETY: the buffer has so many bytes for as long as it is held, and can be written.
            len => unsafe { from_raw_parts_mut(self.0.buf_ptr().cast(), len) },
        }
    }
}

/// Refuses an output that shares memory with an input, which is read while it is written.
pub(crate) fn apart(out: &Held, inputs: [Option<&Held>; 2]) -> PyResult<()> {
    let out = out.places();
    let shares = |input: Range<usize>| input.start < out.end && out.start < input.end;
    match inputs.into_iter().flatten().map(Held::places).any(shares) {
        true => {
            Err(raised(Kind::Tensor, "the output shares memory with an input\nhelp: give memory of its own"))
        }
        false => Ok(()),
    }
}

/// A `bytes` object of `most` bytes, of which as many are kept as `fill` says that it has written.
pub(crate) fn filled(
    py: Python<'_>,
    most: usize,
    fill: impl FnOnce(&mut [u8]) -> PyResult<usize>,
) -> PyResult<Py<PyBytes>> {
    let len = isize::try_from(most).map_err(|_| PyMemoryError::new_err(()))?;
    // SAFETY: an object of its own with that many bytes, which nobody else knows yet. No compiler sees where they come from, and `fill` only writes them.
    let (object, bytes) = unsafe {
        let object = ffi::PyBytes_FromStringAndSize(std::ptr::null(), len);
        let object = Bound::from_owned_ptr_or_err(py, object)?.cast_into_unchecked::<PyBytes>();
        let bytes = from_raw_parts_mut(ffi::PyBytes_AsString(object.as_ptr()).cast::<u8>(), most);
        (object, bytes)
    };
    on_huge_pages(bytes);
    let used = fill(bytes)?;
    if used == most {
        return Ok(object.unbind());
    }
    let Some(resize) = resize() else { return Ok(PyBytes::new(py, &bytes[..used]).unbind()) };
    let mut object = object.into_ptr();
    // SAFETY: nobody else knows the object, which is shortened, and is gone where that fails.
    unsafe {
        resize(&raw mut object, used as isize);
        Ok(Bound::from_owned_ptr_or_err(py, object)?.cast_into_unchecked::<PyBytes>().unbind())
    }
}

/// Bytes from which on new memory is asked to be on huge pages: page faults would take longer than coding.
const LARGE: usize = 4 << 20;

/// Asks for huge pages where Linux gives them to those who ask, as NumPy does for its arrays.
pub(crate) fn on_huge_pages(bytes: &mut [u8]) {
    #[cfg(target_os = "linux")]
    if bytes.len() >= LARGE {
        let page = rustix::param::page_size();
        let skipped = bytes.as_ptr().align_offset(page);
        let at = bytes[skipped..].as_mut_ptr();
        // SAFETY: the pages are ones of this memory, whose contents stay. Where the system refuses, nothing changes.
        let _ = unsafe {
            rustix::mm::madvise(
                at.cast(),
                (bytes.len() - skipped) / page * page,
                rustix::mm::Advice::LinuxHugepage,
            )
        };
    }
}

/// `_PyBytes_Resize`: gives memory behind the end of an object back without a copy. All CPythons have it, and the stable interface has not: where it is absent, bytes are
/// copied.
type Resize = unsafe extern "C" fn(*mut *mut ffi::PyObject, isize) -> c_int;

#[cfg(unix)]
fn resize() -> Option<Resize> {
    static RESIZE: OnceLock<Option<Resize>> = OnceLock::new();
    // SAFETY: the function of that name has this signature in all versions of CPython.
    let find = || unsafe {
        libloading::os::unix::Library::this().get(b"_PyBytes_Resize\0").ok().map(|found| *found)
    };
    *RESIZE.get_or_init(find)
}

#[cfg(not(unix))]
fn resize() -> Option<Resize> {
    None
}
