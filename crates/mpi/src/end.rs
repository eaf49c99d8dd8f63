//! The end of a process in the middle of a call of MPI.

#![allow(unsafe_code, reason = "a function of the C library is called")]

use std::ffi::c_int;

unsafe extern "C" {
    fn _exit(code: c_int) -> !;
}

/// Ends this process with an exit code at once, from any thread: no handler of a library runs, as one could wait for a call that never returns.
pub fn end_process(code: u8) -> ! {
    // SAFETY: it takes any code, and does not return.
    unsafe { _exit(code.into()) }
}
