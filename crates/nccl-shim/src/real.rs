//! The real NCCL: where its functions are.

#![allow(unsafe_code, reason = "the dynamic linker is asked")]

use std::ffi::{CStr, CString, c_int, c_void};
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

/// Address of the function of this name that the program would call without this library; null, with a line on stderr, if there is none.
pub(crate) fn find(name: &CStr) -> *mut c_void {
    let behind = look(libc::RTLD_NEXT, name);
    let found = if behind.is_null() { look(library(), name) } else { behind };
    if found.is_null() {
        let name = name.to_string_lossy();
        tell(&format!("NCCL has no `{name}`, or was not found; ZIPWIRE_NCCL_LIB names its file"));
    }
    found
}

/// Address of a function in a library and those that it depends on; null if they have none but this library's own.
///
/// NCCL has each function a second time, with a `p` in front of its name, for libraries such as this one. The plain name is looked for first, so
/// that another library between this one and NCCL is not left out.
fn look(handle: *mut c_void, name: &CStr) -> *mut c_void {
    let twin = CString::new([b"p", name.to_bytes()].concat()).expect("a name has no zero bytes");
    // SAFETY: names are strings of C; a lookup changes nothing.
    let address = |name: &CStr| unsafe { libc::dlsym(handle, name.as_ptr()) };
    let is_usable = |address: &*mut c_void| !address.is_null() && object_of(*address) != object_of(SELF);
    [name, &twin].into_iter().map(address).find(is_usable).unwrap_or(null_mut())
}

/// An address in this library.
const SELF: *mut c_void = find as fn(&CStr) -> *mut c_void as *mut c_void;

/// Address at which the library lies that an address is in; null if there is none.
fn object_of(address: *mut c_void) -> *mut c_void {
    // SAFETY: all zero is a value of it, and there is room for the result.
    unsafe {
        let mut object: libc::Dl_info = std::mem::zeroed();
        if libc::dladdr(address, &raw mut object) == 0 { null_mut() } else { object.dli_fbase }
    }
}

/// NCCL as a library of its own; null if there is none. A second NCCL beside one that the process has would not know its communicators, so what is
/// loaded goes before what can be: the one that the environment names, then `libnccl.so.2`, then any library with NCCL in it.
fn library() -> *mut c_void {
    static LIBRARY_HANDLE: OnceLock<usize> = OnceLock::new();
    *LIBRARY_HANDLE.get_or_init(|| {
        let named = std::env::var(VARIABLE).ok().filter(|name| !name.is_empty()).map(|name| {
            let is_folder = std::path::Path::new(&name).is_dir();
            if is_folder { format!("{name}/{}", LIBRARY.to_string_lossy()) } else { name }
        });
        let named = named.and_then(|name| CString::new(name).ok());
        let names = loaded_libraries();
        let usual = named.iter().map(CString::as_c_str).chain([LIBRARY]);
        let loaded = usual.chain(names.iter().map(CString::as_c_str)).find_map(opened_with_nccl);
        loaded.unwrap_or_else(|| open(named.as_deref().unwrap_or(LIBRARY), 0)) as usize
    }) as *mut c_void
}

/// Opens a library; null if that fails.
fn open(name: &CStr, flags: c_int) -> *mut c_void {
    // SAFETY: NCCL is loaded as its own users do; its constructors are those of any C++ library.
    unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL | flags) }
}

/// A library that is loaded, if NCCL is in it.
fn opened_with_nccl(name: &CStr) -> Option<*mut c_void> {
    let handle = open(name, libc::RTLD_NOLOAD);
    if handle.is_null() {
        return None;
    }
    let has_nccl = !look(handle, c"ncclCommInitRank").is_null();
    if !has_nccl {
        // SAFETY: it has just been opened, and stays for those who have loaded it.
        unsafe { libc::dlclose(handle) };
    }
    has_nccl.then_some(handle)
}

/// Names of all libraries that the process has loaded.
fn loaded_libraries() -> Vec<CString> {
    unsafe extern "C" fn note(object: *mut libc::dl_phdr_info, _: usize, names: *mut c_void) -> c_int {
        // SAFETY: the linker gives a description that is valid for this call, and the list below.
        let (name, names) = unsafe { ((*object).dlpi_name, &mut *names.cast::<Vec<CString>>()) };
        if !name.is_null() {
            // SAFETY: it is a string of C.
            names.push(unsafe { CStr::from_ptr(name) }.to_owned());
        }
        0
    }
    let mut names: Vec<CString> = Vec::new();
    // SAFETY: the list lives as long as the call, which hands it on.
    unsafe { libc::dl_iterate_phdr(Some(note), (&raw mut names).cast()) };
    // The program itself has no name; its functions would have been called in the place of this library's.
    names.retain(|name| !name.is_empty());
    names
}
