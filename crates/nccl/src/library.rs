//! Finds and loads the library of NCCL.

#![allow(unsafe_code, reason = "a library runs code when it is loaded, and its functions are called")]

use std::cell::Cell;
use std::ffi::{CStr, c_char, c_int};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use libloading::Library as Shared;

use crate::abi::{Calls, Handle, IN_PROGRESS, SUCCESS, UniqueId};
use crate::communicator::State;
use crate::error::code_name;
use crate::search::Search;
use crate::{NcclError, Version};

/// A library of NCCL, loaded for as long as the process runs.
#[derive(Debug)]
pub struct Library {
    path: PathBuf,
    version: Version,
    pub(crate) calls: Calls,
}

/// The library of this process, loaded when it is first asked for.
///
/// It is the file or in the folder that [`LIBRARY_VARIABLE`](crate::LIBRARY_VARIABLE) names, else what the linker finds as `libnccl.so.2` or
/// `libnccl.so`, else what Python's packages have: beneath `VIRTUAL_ENV`, `CONDA_PREFIX` and the prefix of the `python3` in PATH. One that
/// is older than [`Version::OLDEST`] or lacks functions is passed over, and reported if no other fits.
///
/// # Errors
/// If there is none that fits.
pub fn library() -> Result<&'static Library, NcclError> {
    static LIBRARY: OnceLock<Result<&'static Library, NcclError>> = OnceLock::new();
    LIBRARY
        .get_or_init(|| load(&Search::of_environment()).map(|library| &*Box::leak(Box::new(library))))
        .clone()
}

fn load(search: &Search) -> Result<Library, NcclError> {
    if zipwire_kernels::IS_STATIC {
        return Err(NcclError::Static);
    }
    if let Some(path) = search.named_file() {
        let path = path?;
        let refused = |why: String| NcclError::NotLibrary { path: path.clone(), why };
        let shared = open(&path).map_err(|error| refused(format!("cannot be loaded: {error}")))?;
        return ready(&path, shared).map_err(|error| match error {
            NcclError::Symbol { symbol, .. } => refused(format!("has no `{symbol}`")),
            other => other,
        });
    }
    let mut refused = None;
    for path in search.candidates() {
        let Ok(shared) = open(&path) else { continue };
        match ready(&path, shared) {
            Ok(library) => return Ok(library),
            Err(error) => _ = refused.get_or_insert(error),
        }
    }
    Err(refused.unwrap_or_else(|| NcclError::Absent(search.in_vain())))
}

fn open(path: &Path) -> Result<Shared, libloading::Error> {
    // SAFETY: NCCL runs no code on loading that has conditions for the program.
    unsafe { Shared::new(path) }
}

/// The library if it is one that can be worked with. It is never closed: it may have started threads.
fn ready(path: &Path, shared: Shared) -> Result<Library, NcclError> {
    let shared: &'static Shared = Box::leak(Box::new(shared));
    let version = version_of(shared, path)?;
    if version < Version::OLDEST {
        return Err(NcclError::TooOld {
            library: file_of(shared).unwrap_or_else(|| path.to_owned()),
            found: version,
        });
    }
    let calls = Calls::of(shared, path)?;
    Ok(Library { path: file_of(shared).unwrap_or_else(|| path.to_owned()), version, calls })
}

const GET_VERSION: &str = "ncclGetVersion";

type GetVersion = unsafe extern "C" fn(*mut c_int) -> c_int;

/// Version of a library, which is looked at before functions that an old one may lack.
fn version_of(shared: &Shared, path: &Path) -> Result<Version, NcclError> {
    // SAFETY: the type is that of the function in all versions.
    let found = unsafe { shared.get::<GetVersion>(GET_VERSION) };
    let get = found.map_err(|_| NcclError::Symbol { library: path.to_owned(), symbol: GET_VERSION })?;
    let mut code = 0;
    // SAFETY: the pointer is to a live integer.
    let result = unsafe { get(&raw mut code) };
    // It fails only if there is no integer to write to.
    let code = u32::try_from(code).ok().filter(|_| result == SUCCESS).unwrap_or(0);
    Ok(Version::from_code(code))
}

/// File that a library was loaded from, which the linker may have found by name; `None` where the system does not tell.
fn file_of(shared: &Shared) -> Option<PathBuf> {
    // SAFETY: only the address is used.
    let found = unsafe { shared.get::<GetVersion>(GET_VERSION) }.ok()?;
    let address = *found as usize;
    let maps = std::fs::read_to_string("/proc/self/maps").ok()?;
    maps.lines().find_map(|line| {
        let (range, rest) = line.split_once(' ')?;
        let (first, end) = range.split_once('-')?;
        let bound = |hexadecimal| usize::from_str_radix(hexadecimal, 16).ok();
        let path = rest.find('/').map(|begin| PathBuf::from(&rest[begin..]));
        path.filter(|_| {
            bound(first).is_some_and(|first| first <= address) && bound(end).is_some_and(|end| address < end)
        })
    })
}

thread_local! {
    /// Groups that are open on this thread.
    static GROUPS: Cell<u32> = const { Cell::new(0) };
}

/// Whether calls of this thread are only noted down, for the end of a group.
pub(crate) fn is_in_group() -> bool {
    GROUPS.get() > 0
}

/// A group that is open, and ended at the latest when it is dropped.
struct Group<'l> {
    library: &'l Library,
    is_open: bool,
}

impl<'l> Group<'l> {
    fn open(library: &'l Library) -> Result<Self, NcclError> {
        // SAFETY: it has no conditions.
        library.check("ncclGroupStart", unsafe { (library.calls.group_start)() })?;
        GROUPS.set(GROUPS.get() + 1);
        Ok(Self { library, is_open: true })
    }

    fn end(&mut self) -> Result<(), NcclError> {
        self.is_open = false;
        GROUPS.set(GROUPS.get() - 1);
        // SAFETY: this thread has started the group. What its calls refer to is held by their communicators.
        self.library.check("ncclGroupEnd", unsafe { (self.library.calls.group_end)() })?;
        Ok(())
    }
}

impl Drop for Group<'_> {
    fn drop(&mut self) {
        if self.is_open {
            // Only a panic leaves it open, and that says more.
            _ = self.end();
        }
    }
}

/// Asks NCCL, by the environment, to let ranks of one process share a GPU, which it does from version 2.30 on and calls experimental. A setting of
/// the user stays.
///
/// # Safety
/// No other thread may run, and NCCL must not have been called.
pub unsafe fn share_gpus() {
    const VARIABLE: &str = "NCCL_MULTI_RANK_GPU_ENABLE";
    if std::env::var_os(VARIABLE).is_none() {
        // SAFETY: the caller promises that nobody reads the environment meanwhile.
        unsafe { std::env::set_var(VARIABLE, "1") };
    }
}

impl Library {
    /// File that it was loaded from.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Version.
    pub fn version(&self) -> Version {
        self.version
    }

    /// An id for a communicator that is to be begun. The process that draws it listens for the ranks that meet by it.
    ///
    /// # Errors
    /// If NCCL finds no interface to listen on.
    pub fn unique_id(&self) -> Result<UniqueId, NcclError> {
        let mut id = UniqueId::from_bytes([0; 128]);
        // SAFETY: the pointer is to a live id.
        self.check("ncclGetUniqueId", unsafe { (self.calls.get_unique_id)(&raw mut id) })?;
        Ok(id)
    }

    /// The last error or warning that NCCL has noted in this process.
    pub fn last_error(&self) -> Option<String> {
        // SAFETY: NCCL takes null for any communicator.
        let text = unsafe { (self.calls.get_last_error)(std::ptr::null_mut() as Handle) };
        Some(text_of(text)).filter(|text| !text.is_empty())
    }

    /// Makes the calls of the closure one: NCCL begins them together at the end. Sends and receives that wait for one another must be in
    /// one group, and so must calls of several communicators by one thread. Groups within a group end with it.
    ///
    /// The group is ended also if the closure fails, and what it has called until then is begun: NCCL has no call that drops it. Afterwards
    /// each communicator that took part is to be polled ([`Communicator::state`](crate::Communicator::state)).
    ///
    /// # Errors
    /// If the closure fails, or NCCL.
    pub fn group<T, E: From<NcclError>>(&self, calls: impl FnOnce() -> Result<T, E>) -> Result<T, E> {
        let mut group = Group::open(self)?;
        let result = calls();
        let ended = group.end();
        let value = result?;
        ended?;
        Ok(value)
    }

    /// The meaning of a result (`ncclResult_t`) of a function.
    pub(crate) fn check(&self, function: &'static str, result: c_int) -> Result<State, NcclError> {
        match result {
            SUCCESS => Ok(State::Ready),
            IN_PROGRESS => Ok(State::InProgress),
            _ => {
                // SAFETY: it takes any number.
                let text = text_of(unsafe { (self.calls.get_error_string)(result) });
                let last = self.last_error().unwrap_or_default();
                Err(NcclError::Call { function, code: code_name(result), text, last })
            }
        }
    }
}

/// Copy of a text of NCCL's own.
fn text_of(text: *const c_char) -> String {
    if text.is_null() {
        return String::new();
    }
    // SAFETY: NCCL's texts end with zero and stay where they are. The last error may be overwritten meanwhile, and stays terminated.
    let text = unsafe { CStr::from_ptr(text) };
    text.to_string_lossy().trim().to_owned()
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::load;
    use crate::search::Search;

    fn refusal(named: &Path) -> String {
        load(&Search::of_named(named)).unwrap_err().to_string()
    }

    #[test]
    fn file_that_the_variable_names_is_named_with_its_defect() {
        let folder = tempfile::tempdir().unwrap();
        let absent = folder.path().join("libnccl.so.2");
        let error = refusal(&absent);
        let begin = format!("ZIPWIRE_NCCL_LIB names `{}`, which cannot be loaded: ", absent.display());
        assert!(error.starts_with(&begin) && error.contains("\nhelp: `libnccl.so.2`"), "{error}");
        std::fs::write(&absent, "no library").unwrap();
        assert!(refusal(&absent).starts_with(&begin));
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn other_libraries_are_refused() {
        let error = refusal(Path::new("libc.so.6"));
        assert!(error.contains("names `libc.so.6`, which has no `ncclGetVersion`"), "{error}");
    }
}
