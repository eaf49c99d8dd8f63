//! MPI, loaded at run time: nonblocking messages of bytes between the processes of a job.
//!
//! Nothing of MPI is needed to build. Two binary interfaces are spoken, which cover the libraries in use: that of the standard (MPI 5.0,
//! chapter "Application Binary Interface"; `libmpi_abi.so.1` of MPICH and of what descends from it) and that of Open MPI 3 to 5
//! (`libmpi.so.40`). [`Endpoint`] is all that a process does with MPI; [`environment`] tells the launcher, rank and size.
//!
//! This crate has the `unsafe` of calling a C library. What is above it need only show that the bytes which it lends ([`Lent`]) stay where
//! they are, and that nobody else touches them meanwhile.

mod abi;
mod end;
mod endpoint;
pub mod environment;
mod library;

pub use end::end_process;
pub use endpoint::{Bytes, Channel, Collective, CollectiveBuffers, Done, Endpoint, Lent, Ticket};
pub use library::{LIBRARY_VARIABLE, Library, MpiError, launcher, library};
