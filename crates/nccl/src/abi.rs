//! The C interface of NCCL: the functions that are called, the id of a communicator, its settings.
#![allow(unsafe_code, reason = "functions of a C library")]

use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::path::Path;

use libloading::Library as Shared;

use crate::{NcclError, Version};

/// A communicator (`ncclComm_t`).
pub(crate) type Handle = *mut c_void;

/// `ncclSuccess` and `ncclInProgress`; other results are errors.
pub(crate) const SUCCESS: c_int = 0;
pub(crate) const IN_PROGRESS: c_int = 7;
/// `ncclUint8`.
pub(crate) const BYTES: c_int = 1;
/// `ncclSum`.
pub(crate) const SUM: c_int = 0;

/// Bytes of a [`UniqueId`].
const ID_BYTES: usize = 128;

/// Name of a communicator (`ncclUniqueId`): one rank draws it and gives it to all the others.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UniqueId([u8; ID_BYTES]);

impl UniqueId {
    /// The id as bytes, for a message.
    pub const fn to_bytes(self) -> [u8; ID_BYTES] {
        self.0
    }

    /// The id that was these bytes.
    pub const fn from_bytes(bytes: [u8; ID_BYTES]) -> Self {
        Self(bytes)
    }
}

/// Settings of a communicator (`ncclConfig_t`), as version 2.27 has them. Later versions append fields, and take the default for those that a shorter
/// one lacks; earlier ones read as much of it as they know.
#[repr(C)]
#[derive(Debug)]
pub(crate) struct Settings {
    size: usize,
    magic: c_uint,
    version: c_uint,
    blocking: c_int,
    cga_cluster_size: c_int,
    min_ctas: c_int,
    max_ctas: c_int,
    net_name: *const c_char,
    split_share: c_int,
    /// From 2.26 on; padding before.
    traffic_class: c_int,
    /// From 2.27 on.
    name: *const c_char,
}

impl Settings {
    /// Settings that are not blocking, for a library of `version`. `max_ctas` limits the blocks that a kernel of NCCL has; the name is for
    /// NCCL's messages, and is read for as long as the communicator lives.
    pub(crate) fn new(version: Version, max_ctas: Option<u32>, name: Option<&CStr>) -> Self {
        const MAGIC: c_uint = 0xcafe_beef;
        const DEFAULT: c_int = c_int::MIN;
        // The layout of all earlier versions that are worked with ends behind `splitShare`, which `trafficClass` pads.
        let size = if version < Version::NAMES {
            std::mem::offset_of!(Self, name)
        } else {
            std::mem::size_of::<Self>()
        };
        Self {
            size,
            magic: MAGIC,
            version: version.code(),
            blocking: 0,
            cga_cluster_size: DEFAULT,
            min_ctas: DEFAULT,
            max_ctas: max_ctas.map_or(DEFAULT, |count| c_int::try_from(count).unwrap_or(c_int::MAX)),
            net_name: std::ptr::null(),
            split_share: DEFAULT,
            traffic_class: DEFAULT,
            name: name.map_or(std::ptr::null(), CStr::as_ptr),
        }
    }
}

macro_rules! functions {
    (
        needed { $($name:ident = $symbol:literal: fn($($argument:ty),*) -> $result:ty;)* }
        optional { $($optional:ident = $optional_symbol:literal: fn($($optional_argument:ty),*) -> $optional_result:ty;)* }
    ) => {
        /// The functions. Those with a result of `c_int` return an `ncclResult_t`.
        #[derive(Clone, Copy, Debug)]
        pub(crate) struct Calls {
            $(pub(crate) $name: unsafe extern "C" fn($($argument),*) -> $result,)*
            $(pub(crate) $optional: Option<unsafe extern "C" fn($($optional_argument),*) -> $optional_result>,)*
        }

        impl Calls {
            /// Looks them up in a library, which is never closed.
            pub(crate) fn of(shared: &'static Shared, library: &Path) -> Result<Self, NcclError> {
                let missing = |symbol| NcclError::Symbol { library: library.to_owned(), symbol };
                Ok(Self {
                    $($name: {
                        // SAFETY: the type is that of the function in NCCL's header, the same in all versions of major 2.
                        let found = unsafe { shared.get(concat!($symbol, "\0").as_bytes()) };
                        *found.map_err(|_| missing($symbol))?
                    },)*
                    $($optional: {
                        // SAFETY: as above.
                        let found = unsafe { shared.get(concat!($optional_symbol, "\0").as_bytes()) };
                        found.ok().map(|found| *found)
                    },)*
                })
            }
        }
    };
}

functions! {
    needed {
        get_unique_id = "ncclGetUniqueId": fn(*mut UniqueId) -> c_int;
        get_error_string = "ncclGetErrorString": fn(c_int) -> *const c_char;
        get_last_error = "ncclGetLastError": fn(Handle) -> *const c_char;
        comm_init_rank_config = "ncclCommInitRankConfig": fn(*mut Handle, c_int, UniqueId, c_int, *mut Settings) -> c_int;
        comm_get_async_error = "ncclCommGetAsyncError": fn(Handle, *mut c_int) -> c_int;
        comm_finalize = "ncclCommFinalize": fn(Handle) -> c_int;
        comm_destroy = "ncclCommDestroy": fn(Handle) -> c_int;
        comm_abort = "ncclCommAbort": fn(Handle) -> c_int;
        group_start = "ncclGroupStart": fn() -> c_int;
        group_end = "ncclGroupEnd": fn() -> c_int;
        send = "ncclSend": fn(*const c_void, usize, c_int, c_int, Handle, *mut c_void) -> c_int;
        receive = "ncclRecv": fn(*mut c_void, usize, c_int, c_int, Handle, *mut c_void) -> c_int;
        broadcast = "ncclBroadcast": fn(*const c_void, *mut c_void, usize, c_int, c_int, Handle, *mut c_void) -> c_int;
        all_gather = "ncclAllGather": fn(*const c_void, *mut c_void, usize, c_int, Handle, *mut c_void) -> c_int;
        all_reduce = "ncclAllReduce": fn(*const c_void, *mut c_void, usize, c_int, c_int, Handle, *mut c_void) -> c_int;
        reduce_scatter = "ncclReduceScatter": fn(*const c_void, *mut c_void, usize, c_int, c_int, Handle, *mut c_void) -> c_int;
    }
    optional {
        all_to_all = "ncclAlltoAll": fn(*const c_void, *mut c_void, usize, c_int, Handle, *mut c_void) -> c_int;
    }
}

#[cfg(test)]
mod tests {
    use std::mem::{offset_of, size_of};

    use super::{Settings, UniqueId};
    use crate::Version;

    #[test]
    fn settings_have_the_places_of_the_header() {
        let places = [
            offset_of!(Settings, blocking),
            offset_of!(Settings, max_ctas),
            offset_of!(Settings, net_name),
            offset_of!(Settings, split_share),
            offset_of!(Settings, traffic_class),
            offset_of!(Settings, name),
            size_of::<Settings>(),
        ];
        assert_eq!(places, [16, 28, 32, 40, 44, 48, 56]);
        assert_eq!(size_of::<UniqueId>(), 128);
    }

    #[test]
    fn settings_are_as_long_as_the_library_knows_them() {
        let size = |version| Settings::new(version, None, None).size;
        assert_eq!([size(Version::OLDEST), size(Version::new(2, 26, 6))], [48, 48]);
        assert_eq!([size(Version::NAMES), size(Version::new(2, 30, 7))], [56, 56]);
        let limited = Settings::new(Version::OLDEST, Some(4), Some(c"name"));
        assert_eq!((limited.max_ctas, limited.version, limited.blocking), (4, 21_900, 0));
    }
}
