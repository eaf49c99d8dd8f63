//! Compiled kernels on disk, by what they were made from: the second run of a program compiles nothing.
//!
//! The folder is `ZIPWIRE_KERNEL_CACHE`, or `zipwire/kernels` in the user's cache folder. An empty `ZIPWIRE_KERNEL_CACHE`
//! switches the cache off. A file is named by module, type, architecture and a hash of the source and of the compiler's options. The
//! compiler's version is not among these, so that a file is found where there is no compiler: on a machine that gets its kernels from
//! another one ([`crate::compile_all`]). A checksum at the end of each file finds damaged ones.

use std::ffi::OsString;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};
use std::{env, fs, io};

use xxhash_rust::xxh3::{xxh3_64, xxh3_128};

use crate::module::{Source, suffix};

/// Modules of this process, by where they came from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CacheUse {
    /// Modules that were in the cache.
    pub found: usize,
    /// Modules that were compiled.
    pub compiled: usize,
    /// Files whose checksum is wrong.
    pub damaged: Vec<PathBuf>,
}

static USE: Mutex<CacheUse> = Mutex::new(CacheUse { found: 0, compiled: 0, damaged: Vec::new() });

/// Returns what became of the modules that this process has asked for so far.
pub fn used() -> CacheUse {
    USE.lock().unwrap_or_else(std::sync::PoisonError::into_inner).clone()
}

/// Notes what became of a module.
pub(crate) fn note(change: impl FnOnce(&mut CacheUse)) {
    change(&mut USE.lock().unwrap_or_else(std::sync::PoisonError::into_inner));
}

/// The folder of the cache; `None` if it is switched off or the user has no home.
pub fn folder() -> Option<PathBuf> {
    let set = |name: &str| env::var_os(name).filter(|value: &OsString| !value.is_empty());
    match env::var_os("ZIPWIRE_KERNEL_CACHE") {
        Some(folder) if folder.is_empty() => None,
        Some(folder) => Some(folder.into()),
        None => {
            let caches = set("XDG_CACHE_HOME").map(PathBuf::from);
            let caches = caches.or_else(|| set("HOME").map(|home| PathBuf::from(home).join(".cache")));
            caches.map(|caches| caches.join("zipwire/kernels"))
        }
    }
}

/// Name of the file with the machine code of `source` for `arch`, which the compiler makes with these options.
pub(crate) fn file_name(source: &Source, arch: &str, options: &[String]) -> String {
    let made_from = format!("{}\0{}", options.join("\0"), source.text);
    let dtype = source.dtype.map_or_else(String::new, |dtype| format!("-{}", suffix(dtype)));
    format!("{}{dtype}-{arch}-{:032x}.cubin", source.name, xxh3_128(made_from.as_bytes()))
}

/// Content of a file of the cache.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Cached {
    /// There is no such file, or it cannot be read.
    Missing,
    /// Its checksum is wrong.
    Damaged,
    /// Machine code.
    Found(Vec<u8>),
}

pub(crate) fn load(path: &Path) -> Cached {
    let Ok(mut bytes) = fs::read(path) else { return Cached::Missing };
    let Some(end) = bytes.len().checked_sub(8) else { return Cached::Damaged };
    let sum = bytes.split_off(end);
    if sum == xxh3_64(&bytes).to_le_bytes() { Cached::Found(bytes) } else { Cached::Damaged }
}

/// Keeps what was compiled. The file appears whole or not at all.
pub(crate) fn save(path: &Path, cubin: &[u8]) -> io::Result<()> {
    static SAVED: AtomicU64 = AtomicU64::new(0);
    fs::create_dir_all(path.parent().unwrap_or(Path::new(".")))?;
    // A name of its own, also among threads, and among processes of hosts that share the folder.
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_nanos());
    let count = SAVED.fetch_add(1, Ordering::Relaxed);
    let written = path.with_extension(format!("{}-{now:x}-{count}.tmp", std::process::id()));
    let mut file = fs::File::create_new(&written)?;
    file.write_all(cubin)
        .and_then(|()| file.write_all(&xxh3_64(cubin).to_le_bytes()))
        .and_then(|()| fs::rename(&written, path))
        // What was begun is of no use.
        .inspect_err(|_| _ = fs::remove_file(&written))
}
