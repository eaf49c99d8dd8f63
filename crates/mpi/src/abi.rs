//! The two binary interfaces of MPI: the functions that are called, and how the interfaces differ, in values of constants and the layout of a status. In both,
//! handles are pointers and counts are C integers.
#![allow(unsafe_code, reason = "functions and constants of a C library")]

use std::ffi::{c_char, c_int, c_void};

use libloading::Library as Shared;

use crate::MpiError;

/// A communicator, a data type, a request, an operation.
pub(crate) type Handle = *mut c_void;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Dialect {
    /// That of the standard, from MPI 5.0 on: constants have values.
    Standard,
    /// That of Open MPI 3 to 5: constants are addresses.
    OpenMpi,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Constants {
    pub(crate) world: Handle,
    /// The communicator of a process with itself.
    pub(crate) own: Handle,
    pub(crate) byte: Handle,
    pub(crate) float: Handle,
    pub(crate) sum: Handle,
    pub(crate) no_request: Handle,
    pub(crate) errors_return: Handle,
    pub(crate) any_source: c_int,
    pub(crate) tag_ub: c_int,
    /// `MPI_THREAD_SINGLE` and those after it.
    pub(crate) thread_levels: [c_int; 4],
    /// Bytes of a status, of which the first three integers are source, tag and error in both.
    pub(crate) status_bytes: usize,
}

// SAFETY: handles are names that only MPI looks behind; these are constants.
unsafe impl Send for Constants {}
// SAFETY: as above.
unsafe impl Sync for Constants {}

/// `MPI_UNDEFINED`, in both.
pub(crate) const UNDEFINED: c_int = -32_766;
/// `MPI_MAX_ERROR_STRING`, the longer of the two.
pub(crate) const LONGEST_ERROR: usize = 512;
/// `MPI_MAX_PROCESSOR_NAME`, of both.
pub(crate) const LONGEST_HOST: usize = 256;
/// `MPI_MAX_LIBRARY_VERSION_STRING`, the longer of the two.
pub(crate) const LONGEST_VERSION: usize = 8192;
pub(crate) const THREAD_LEVELS: [&str; 4] =
    ["MPI_THREAD_SINGLE", "MPI_THREAD_FUNNELED", "MPI_THREAD_SERIALIZED", "MPI_THREAD_MULTIPLE"];

impl Dialect {
    /// That of a library, by what only it has; `None` if it is neither.
    pub(crate) fn of(shared: &Shared) -> Option<Self> {
        // SAFETY: the symbols are looked at and not used.
        let has = |name: &[u8]| unsafe { shared.get::<*const c_void>(name).is_ok() };
        if has(b"ompi_mpi_comm_world\0") {
            Some(Self::OpenMpi)
        } else if has(b"MPI_Abi_get_version\0") {
            Some(Self::Standard)
        } else {
            None
        }
    }

    pub(crate) fn constants(self, shared: &Shared, name: &str) -> Result<Constants, MpiError> {
        match self {
            Self::Standard => Ok(Constants {
                world: value(0x101),
                own: value(0x102),
                byte: value(0x247),
                float: value(0x210),
                sum: value(0x21),
                no_request: value(0x180),
                errors_return: value(0x143),
                any_source: -1,
                tag_ub: 501,
                thread_levels: [0, 1024, 2048, 4096],
                status_bytes: 32,
            }),
            Self::OpenMpi => {
                let address = |symbol: &'static str| {
                    // SAFETY: only the address is taken; what lies there is Open MPI's own.
                    let found = unsafe { shared.get::<*mut c_void>(symbol.as_bytes()) };
                    let found = found.map_err(|_| MpiError::Symbol { library: name.to_owned(), symbol })?;
                    // SAFETY: the library is never closed, so the address stays what it is.
                    Ok(unsafe { found.try_as_raw_ptr() }.unwrap_or(std::ptr::null_mut()))
                };
                Ok(Constants {
                    world: address("ompi_mpi_comm_world")?,
                    own: address("ompi_mpi_comm_self")?,
                    byte: address("ompi_mpi_byte")?,
                    float: address("ompi_mpi_float")?,
                    sum: address("ompi_mpi_op_sum")?,
                    no_request: address("ompi_request_null")?,
                    errors_return: address("ompi_mpi_errors_return")?,
                    any_source: -1,
                    tag_ub: 0,
                    thread_levels: [0, 1, 2, 3],
                    status_bytes: 24,
                })
            }
        }
    }
}

/// A handle that is a number and points to nothing.
fn value(number: usize) -> Handle {
    std::ptr::without_provenance_mut(number)
}

macro_rules! functions {
    ($($(#[$doc:meta])* $name:ident = $symbol:literal: fn($($argument:ty),*);)*) => {
        /// The functions. All return an error code, 0 for none.
        #[derive(Clone, Copy, Debug)]
        pub(crate) struct Calls {
            $($(#[$doc])* pub(crate) $name: unsafe extern "C" fn($($argument),*) -> c_int,)*
        }

        impl Calls {
            /// Looks them up in a library, which is never closed.
            pub(crate) fn of(shared: &'static Shared, library: &str) -> Result<Self, MpiError> {
                Ok(Self {
                    $($name: {
                        // SAFETY: the type is that of the function in the C interface of MPI, where both dialects have pointers for
                        // handles.
                        let found = unsafe {
                            shared.get::<unsafe extern "C" fn($($argument),*) -> c_int>(concat!($symbol, "\0").as_bytes())
                        };
                        *found.map_err(|_| MpiError::Symbol { library: library.to_owned(), symbol: $symbol })?
                    },)*
                })
            }
        }
    };
}

functions! {
    init_thread = "MPI_Init_thread": fn(*mut c_int, *mut *mut *mut c_char, c_int, *mut c_int);
    initialized = "MPI_Initialized": fn(*mut c_int);
    finalize = "MPI_Finalize": fn();
    comm_rank = "MPI_Comm_rank": fn(Handle, *mut c_int);
    comm_size = "MPI_Comm_size": fn(Handle, *mut c_int);
    comm_dup = "MPI_Comm_dup": fn(Handle, *mut Handle);
    comm_set_errhandler = "MPI_Comm_set_errhandler": fn(Handle, Handle);
    /// Yields a pointer to a C integer for `MPI_TAG_UB`.
    comm_get_attr = "MPI_Comm_get_attr": fn(Handle, c_int, *mut *mut c_int, *mut c_int);
    get_processor_name = "MPI_Get_processor_name": fn(*mut c_char, *mut c_int);
    get_library_version = "MPI_Get_library_version": fn(*mut c_char, *mut c_int);
    isend = "MPI_Isend": fn(*const c_void, c_int, Handle, c_int, c_int, Handle, *mut Handle);
    irecv = "MPI_Irecv": fn(*mut c_void, c_int, Handle, c_int, c_int, Handle, *mut Handle);
    testsome = "MPI_Testsome": fn(c_int, *mut Handle, *mut c_int, *mut c_int, *mut c_void);
    get_count = "MPI_Get_count": fn(*const c_void, Handle, *mut c_int);
    alltoall = "MPI_Alltoall": fn(*const c_void, c_int, Handle, *mut c_void, c_int, Handle, Handle);
    allgather = "MPI_Allgather": fn(*const c_void, c_int, Handle, *mut c_void, c_int, Handle, Handle);
    bcast = "MPI_Bcast": fn(*mut c_void, c_int, Handle, c_int, Handle);
    allreduce = "MPI_Allreduce": fn(*const c_void, *mut c_void, c_int, Handle, Handle, Handle);
    reduce_scatter_block = "MPI_Reduce_scatter_block": fn(*const c_void, *mut c_void, c_int, Handle, Handle, Handle);
    error_class = "MPI_Error_class": fn(c_int, *mut c_int);
    error_string = "MPI_Error_string": fn(c_int, *mut c_char, *mut c_int);
}
