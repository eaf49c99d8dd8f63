//! CUDA C++ to machine code, by NVRTC.
#![allow(unsafe_code, reason = "NVRTC is a C library")]

use std::ffi::{CStr, CString, OsString};
use std::path::{Path, PathBuf};
use std::sync::Once;
use std::{env, fs};

use cudarc::nvrtc::{result, sys};

use crate::module::Source;
use crate::{GpuError, cache};

/// Versions of CUDA whose compiler is looked for.
const VERSIONS: [&str; 2] = ["13", "12"];

/// Machine code for `arch`, such as `sm_90`; from the cache if it is there.
///
/// # Errors
/// If there is no compiler, or it refuses the source.
pub(crate) fn compile(source: &Source, arch: &str) -> Result<Vec<u8>, GpuError> {
    let compiler = compiler()?;
    if let Some(cubin) = cache::load(source.name, &source.text, &compiler, arch) {
        return Ok(cubin);
    }
    let _span = tracing::info_span!("compile kernels", module = source.name, arch).entered();
    let cubin = compile_now(source, arch)?;
    cache::save(source.name, &source.text, &compiler, arch, &cubin);
    Ok(cubin)
}

/// Name and version of the compiler that kernels take.
///
/// # Errors
/// If there is none.
pub fn compiler() -> Result<String, GpuError> {
    static SEARCH: Once = Once::new();
    SEARCH.call_once(|| match env::var_os("ZIPWIRE_NVRTC") {
        Some(folder) => _ = load_from(Path::new(&folder)),
        None if is_present() => {}
        None => {
            let roots = ["CUDA_HOME", "CUDA_PATH"].into_iter().filter_map(env::var_os);
            let mut roots = roots.chain([OsString::from("/usr/local/cuda")]);
            roots.any(|root| load_from(&Path::new(&root).join("lib64")));
        }
    });
    if !is_present() {
        return Err(GpuError::NoCompiler);
    }
    let (mut major, mut minor) = (0, 0);
    // SAFETY: both pointers are to live integers.
    unsafe { sys::nvrtcVersion(&raw mut major, &raw mut minor) };
    Ok(format!("nvrtc {major}.{minor}"))
}

/// Whether the linker finds NVRTC, or it is loaded.
fn is_present() -> bool {
    // SAFETY: it tries to load the library and looks at the result; loading NVRTC runs no code that has conditions.
    unsafe { sys::is_culib_present() }
}

/// Loads NVRTC from a folder that the linker does not search; whether it is there. A loaded library is found by its
/// name. It asks for its built-in functions by their bare name, so these are loaded before.
fn load_from(folder: &Path) -> bool {
    let Some(version) = VERSIONS.into_iter().find(|version| compiler_in(folder, version).exists()) else {
        return false;
    };
    let builtins = format!("libnvrtc-builtins.so.{version}.");
    let is_builtins =
        |path: &PathBuf| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(&builtins));
    let entries = fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    entries.filter(is_builtins).chain([compiler_in(folder, version)]).for_each(|path| load_for_good(&path));
    true
}

fn compiler_in(folder: &Path, version: &str) -> PathBuf {
    folder.join(format!("libnvrtc.so.{version}"))
}

#[cfg(unix)]
fn load_for_good(path: &Path) {
    use libloading::os::unix::{Library, RTLD_GLOBAL, RTLD_NOW};
    // SAFETY: these are NVRTC's libraries, whose loading has no conditions; they stay loaded.
    match unsafe { Library::open(Some(path), RTLD_NOW | RTLD_GLOBAL) } {
        Ok(library) => std::mem::forget(library),
        Err(error) => tracing::warn!(path = %path.display(), %error, "NVRTC is there and cannot be loaded"),
    }
}

#[cfg(not(unix))]
fn load_for_good(_: &Path) {}

fn compile_now(source: &Source, arch: &str) -> Result<Vec<u8>, GpuError> {
    let refused = |log: String| GpuError::Compile { module: source.name, arch: arch.to_owned(), log };
    let text = CString::new(source.text.as_str()).expect("sources have no zero bytes");
    let name = CString::new(format!("{}.cu", source.name)).expect("names have no zero bytes");
    let program =
        result::create_program(&text, Some(&name)).map_err(|error| refused(format!("{error:?}")))?;
    let options = [format!("--gpu-architecture={arch}"), "--std=c++17".to_owned(), "-lineinfo".to_owned()];
    // SAFETY: the program was created above and is destroyed below only; `text` and `name` outlive it.
    let outcome = unsafe { result::compile_program(program, &options) };
    let cubin = match outcome {
        Ok(()) => cubin(program).map_err(|error| refused(format!("{error:?}"))),
        Err(error) => {
            // SAFETY: the program is alive, and its log is a string that ends with a zero.
            let log = unsafe { result::get_program_log(program) };
            let log = log.map(|log| {
                // SAFETY: as above.
                unsafe { CStr::from_ptr(log.as_ptr()) }.to_string_lossy().into_owned()
            });
            Err(refused(log.unwrap_or_else(|_| format!("{error:?}"))))
        }
    };
    // SAFETY: it was created above, and is not used any more.
    let destroyed = unsafe { result::destroy_program(program) };
    debug_assert!(destroyed.is_ok());
    cubin
}

fn cubin(program: sys::nvrtcProgram) -> Result<Vec<u8>, result::NvrtcError> {
    let mut len = 0;
    // SAFETY: the program is alive and compiled, `len` is a live integer.
    unsafe { sys::nvrtcGetCUBINSize(program, &raw mut len) }.result()?;
    let mut cubin = vec![0u8; len];
    // SAFETY: as above, and there is room for as many bytes as the compiler said.
    unsafe { sys::nvrtcGetCUBIN(program, cubin.as_mut_ptr().cast()) }.result()?;
    Ok(cubin)
}
