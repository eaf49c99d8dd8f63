//! `zipwire_tensors._native`: what the Python package of the folder `python` is made of. Its functions take plain buffers, names of types and shapes;
//! arrays and tensors are made of these in Python.

#![allow(unsafe_code, reason = "buffers of Python are pointers")]
#![allow(
    clippy::needless_pass_by_value,
    clippy::too_many_arguments,
    reason = "arguments are those of Python, made anew for each call"
)]

mod buffers;
mod command;
mod errors;
mod files;
mod kv;
mod store;
mod tensors;
mod work;

use pyo3::pymodule;

/// Native part of `zipwire_tensors`.
#[pymodule]
mod _native {
    use pyo3::prelude::*;

    #[pymodule_export]
    use crate::command::run_command;
    #[pymodule_export]
    use crate::files::{Model, begins_compressed, compress_file, decompress_file, verify_file};
    #[pymodule_export]
    use crate::kv::KvCodec;
    #[pymodule_export]
    use crate::store::Store;
    #[pymodule_export]
    use crate::tensors::{advise, bound, compress, compress_into, decompress, decompress_into, describe};

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        zipwire::paper_codecs::register();
        module.add("__version__", env!("CARGO_PKG_VERSION"))
    }
}
