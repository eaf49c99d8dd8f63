//! The functions of MPI that are used, as C has them.
#![allow(unsafe_code, reason = "functions of a C library")]

use std::ffi::{c_char, c_int, c_void};

use libloading::Library as Shared;

use crate::MpiError;
use crate::dialect::Handle;

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
