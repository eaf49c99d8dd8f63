//! Compiled kernels on disk, by what they were made from: the second run of a program compiles nothing.
//!
//! The folder is `ZIPWIRE_KERNEL_CACHE`, or `zipwire/kernels` in the user's cache folder. An empty `ZIPWIRE_KERNEL_CACHE`
//! switches the cache off. A file that cannot be read or written is as good as none: the kernels are compiled again.

use std::env;
use std::ffi::OsString;
use std::fs;
use std::path::PathBuf;

use xxhash_rust::xxh3::{xxh3_64, xxh3_128};

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

/// Where the result of compiling `text` lies. `compiler` and `arch` are part of what it depends on.
fn path(name: &str, text: &str, compiler: &str, arch: &str) -> Option<PathBuf> {
    let made_from = format!("{compiler}\0{arch}\0{text}");
    folder().map(|folder| folder.join(format!("{name}-{arch}-{:032x}.cubin", xxh3_128(made_from.as_bytes()))))
}

/// Loads compiled code from the cache; `None` if it is missing or damaged.
pub(crate) fn load(name: &str, text: &str, compiler: &str, arch: &str) -> Option<Vec<u8>> {
    let mut bytes = fs::read(path(name, text, compiler, arch)?).ok()?;
    let sum = bytes.split_off(bytes.len().checked_sub(8)?);
    (sum == xxh3_64(&bytes).to_le_bytes()).then_some(bytes)
}

/// Keeps what was compiled. The file appears whole or not at all.
pub(crate) fn save(name: &str, text: &str, compiler: &str, arch: &str, cubin: &[u8]) {
    let Some(path) = path(name, text, compiler, arch) else { return };
    let written = path.with_extension(format!("{}.tmp", std::process::id()));
    let bytes = [cubin, &xxh3_64(cubin).to_le_bytes()].concat();
    let result = path
        .parent()
        .map_or(Ok(()), fs::create_dir_all)
        .and_then(|()| fs::write(&written, bytes))
        .and_then(|()| fs::rename(&written, &path));
    if let Err(error) = result {
        tracing::warn!(path = %path.display(), %error, "compiled kernels are not kept");
    }
}
