//! The real NCCL: where its functions are.

#![allow(unsafe_code, reason = "the dynamic linker is asked")]

use std::ffi::{CStr, CString, c_void};
use std::ptr::null_mut;
use std::sync::OnceLock;

use crate::process::tell;

/// Names that NCCL is opened by where it is not behind this library: a file or a folder of the environment, and its own name.
const VARIABLE: &str = "ZIPWIRE_NCCL_LIB";
const LIBRARY: &CStr = c"libnccl.so.2";

/// Calls a function of the real NCCL, whose type is `fn(ARGUMENTS) -> RESULT`. Returns `ncclInvalidUsage` from the calling function where NCCL
/// has none of this name.
macro_rules! real {
    ($name:literal, fn($($argument:ty),*)) => {{
        static ADDRESS: std::sync::OnceLock<usize> = std::sync::OnceLock::new();
        let address = *ADDRESS.get_or_init(|| $crate::real::find($name) as usize);
        if address == 0 {
            return $crate::abi::INVALID_USAGE;
        }
        // SAFETY: the address is that of NCCL's function of this name, whose type nccl.h has.
        unsafe { std::mem::transmute::<usize, unsafe extern "C" fn($($argument),*) -> std::ffi::c_int>(address) }
    }};
}
pub(crate) use real;

/// Address of NCCL's function of this name; null, with a line on stderr, if there is none.
///
/// NCCL has each function a second time, with a `p` in front of its name, for libraries such as this one.
pub(crate) fn find(name: &CStr) -> *mut c_void {
    let twin = CString::new([b"p", name.to_bytes()].concat()).expect("a name has no zero bytes");
    let names = [twin.as_c_str(), name];
    // SAFETY: names are strings of C; a lookup changes nothing.
    let next = |name: &&CStr| unsafe { libc::dlsym(libc::RTLD_NEXT, name.as_ptr()) };
    let opened = |name: &&CStr| match library() {
        handle if handle.is_null() => handle,
        // SAFETY: the handle is that of a library that stays open.
        handle => unsafe { libc::dlsym(handle, name.as_ptr()) },
    };
    let found = names.iter().map(next).chain(names.iter().map(opened)).find(|address| !address.is_null());
    found.unwrap_or_else(|| {
        let name = name.to_string_lossy();
        tell(&format!("NCCL has no `{name}`, or was not found; ZIPWIRE_NCCL_LIB names its file"));
        null_mut()
    })
}

/// NCCL as a library of its own: what the program has loaded, or else what can be. Null if there is none.
fn library() -> *mut c_void {
    static LIBRARY_HANDLE: OnceLock<usize> = OnceLock::new();
    *LIBRARY_HANDLE.get_or_init(|| {
        let named = std::env::var(VARIABLE).ok().filter(|name| !name.is_empty()).map(|name| {
            let is_folder = std::path::Path::new(&name).is_dir();
            if is_folder { format!("{name}/{}", LIBRARY.to_string_lossy()) } else { name }
        });
        let named = named.and_then(|name| CString::new(name).ok());
        let name = named.as_deref().unwrap_or(LIBRARY);
        let flags = libc::RTLD_NOW | libc::RTLD_LOCAL;
        // SAFETY: NCCL is loaded as its own users do; its constructors are those of any C++ library.
        unsafe {
            let loaded = libc::dlopen(name.as_ptr(), flags | libc::RTLD_NOLOAD);
            let handle = if loaded.is_null() { libc::dlopen(name.as_ptr(), flags) } else { loaded };
            handle as usize
        }
    }) as *mut c_void
}
