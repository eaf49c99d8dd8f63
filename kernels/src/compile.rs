//! CUDA C++ to machine code, by NVRTC.
#![allow(unsafe_code, reason = "NVRTC is a C library")]

use std::ffi::{CStr, CString, OsString};
use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::{env, fs, thread};

use cudarc::nvrtc::{result, sys};

use zipwire_codec::{DType, Spec};

use crate::cache::Cached;
use crate::device::{Code, Device};
use crate::module::{Module, Source, sources};
use crate::variant::Variant;
use crate::{GpuError, cache};

/// Versions of CUDA whose compiler is looked for.
const VERSIONS: [&str; 2] = ["13", "12"];

/// Machine code for `arch`, such as `sm_90`; from the cache if it is there, which takes no compiler.
///
/// # Errors
/// If it is not in the cache and there is no compiler, or the compiler refuses the source.
pub(crate) fn compile(source: &Source, arch: &str) -> Result<Vec<u8>, GpuError> {
    let path = path(source, arch);
    let cached = path.as_deref().map_or(Cached::Missing, cache::load);
    let damaged = match cached {
        Cached::Found(cubin) => {
            cache::note(|used| used.found += 1);
            return Ok(cubin);
        }
        Cached::Damaged => path.clone(),
        Cached::Missing => None,
    };
    if let Some(path) = &damaged {
        tracing::warn!(path = %path.display(), "compiled kernels are damaged");
        cache::note(|used| used.damaged.push(path.clone()));
    }
    let _span = tracing::info_span!("compile kernels", module = source.name, arch).entered();
    let cubin = compile_now(source, arch).map_err(|error| match (error, damaged) {
        (GpuError::NoCompiler, Some(path)) => GpuError::DamagedCache { path },
        (error, _) => error,
    })?;
    cache::note(|used| used.compiled += 1);
    if let Some(path) = &path {
        keep(path, &cubin);
    }
    Ok(cubin)
}

/// Keeps what was compiled, if that can be.
fn keep(path: &Path, cubin: &[u8]) {
    if let Err(error) = cache::save(path, cubin) {
        tracing::warn!(path = %path.display(), %error, "compiled kernels are not kept");
    }
}

/// Loads the kernels of a source. Where the driver refuses a file of the cache, as one that a newer compiler has written, they are made anew if there is
/// a compiler.
///
/// # Errors
/// Errors of [`compile`], and of the driver.
pub(crate) fn load(device: &Device, source: &Source) -> Result<Code, GpuError> {
    let arch = device.arch()?;
    let cubin = compile(source, &arch)?;
    match Code::load(device, &cubin) {
        Err(refused) if refused.is_of_image() && compiler().is_ok() => {
            let anew = compile_now(source, &arch)?;
            if anew == cubin {
                return Err(refused);
            }
            let code = Code::load(device, &anew)?;
            cache::note(|used| used.compiled += 1);
            if let Some(path) = path(source, &arch) {
                keep(&path, &anew);
            }
            Ok(code)
        }
        loaded => loaded,
    }
}

/// Whether machine code for `arch` can be had of the kernels of a codec for a type, or of sums: from the cache, or by a compiler.
///
/// # Errors
/// If not, or there are no kernels for this codec and type.
pub fn check_code(of: Option<(&Spec, DType)>, arch: &str) -> Result<(), GpuError> {
    let unsupported = |spec: &Spec, dtype| GpuError::Unsupported { spec: Box::new(spec.clone()), dtype };
    let source = match of {
        Some((spec, dtype)) => Module::of(spec, dtype)
            .ok_or_else(|| unsupported(spec, dtype))?
            .source(dtype, Variant::of_environment()?.checked()?),
        None => Source::sum(),
    };
    let Err(absent) = compiler() else { return Ok(()) };
    let Some(path) = path(&source, arch) else { return Err(absent) };
    match cache::load(&path) {
        Cached::Found(_) => Ok(()),
        Cached::Missing => Err(absent),
        Cached::Damaged => Err(GpuError::DamagedCache { path }),
    }
}

/// The source's file in the cache, if there is a cache.
fn path(source: &Source, arch: &str) -> Option<PathBuf> {
    cache::folder().map(|folder| folder.join(cache::file_name(source, arch, &options(arch))))
}

/// A module that [`compile_all`] has compiled.
#[derive(Clone, Debug)]
pub struct CompiledModule {
    /// Name of the codec, or `sum`.
    pub name: &'static str,
    /// Type of the values; `None` for sums, which take several.
    pub dtype: Option<DType>,
    /// Machine code and checksum.
    pub path: PathBuf,
    /// Bytes of machine code.
    pub bytes: usize,
}

/// Compiles every module for `arch`, such as `sm_90`, on all cores, and writes files that a program finds whose `ZIPWIRE_KERNEL_CACHE`
/// names `folder`. Takes neither a GPU nor a driver. What is there already is compiled anew, for instance by a newer compiler.
/// `is_stopped` is asked before each module; if it says so, `None` comes back.
///
/// # Errors
/// If there is no compiler, it refuses a module, `ZIPWIRE_KERNELS` names no variant, or a file cannot be written.
pub fn compile_all(
    arch: &str,
    folder: &Path,
    is_stopped: impl Fn() -> bool + Sync,
) -> Result<Option<Vec<CompiledModule>>, GpuError> {
    compiler()?;
    Variant::of_environment()?;
    let (sources, next) = (sources(), AtomicUsize::new(0));
    let compile = |source: &Source| {
        let path = folder.join(cache::file_name(source, arch, &options(arch)));
        let cubin = compile_now(source, arch)?;
        cache::save(&path, &cubin)
            .map_err(|error| GpuError::Cache { path: path.clone(), why: error.to_string() })?;
        Ok(CompiledModule { name: source.name, dtype: source.dtype, path, bytes: cubin.len() })
    };
    let work = || {
        let mut compiled = Vec::new();
        while !is_stopped() {
            let index = next.fetch_add(1, Ordering::Relaxed);
            let Some(source) = sources.get(index) else { break };
            let module = compile(source);
            if module.is_err() {
                // The others need not go on.
                next.store(sources.len(), Ordering::Relaxed);
            }
            compiled.push(module.map(|module| (index, module)));
        }
        compiled
    };
    let threads = thread::available_parallelism().map_or(1, NonZero::get).min(sources.len());
    let compiled: Vec<Result<_, GpuError>> = thread::scope(|scope| {
        let threads: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        threads.into_iter().flat_map(|thread| thread.join().expect("compiling does not panic")).collect()
    });
    let mut compiled = compiled.into_iter().collect::<Result<Vec<_>, _>>()?;
    compiled.sort_by_key(|(index, _)| *index);
    let is_whole = compiled.len() == sources.len();
    Ok(is_whole.then(|| compiled.into_iter().map(|(_, module)| module).collect()))
}

/// Name and version of the compiler that kernels take.
///
/// # Errors
/// If there is none.
pub fn compiler() -> Result<String, GpuError> {
    if crate::IS_STATIC {
        return Err(GpuError::Static { library: "libnvrtc.so" });
    }
    static IS_FOUND: OnceLock<bool> = OnceLock::new();
    let is_found =
        IS_FOUND.get_or_init(|| match env::var_os("ZIPWIRE_NVRTC").filter(|folder| !folder.is_empty()) {
            // No other one is taken where one is named.
            Some(folder) => load_from(Path::new(&folder)) && is_present(),
            None if is_present() => true,
            None => {
                let roots = ["CUDA_HOME", "CUDA_PATH"].into_iter().filter_map(env::var_os);
                let mut roots = roots.chain([OsString::from("/usr/local/cuda")]);
                roots.any(|root| load_from(&Path::new(&root).join("lib64"))) && is_present()
            }
        });
    if !is_found {
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

/// Options of the compiler.
fn options(arch: &str) -> [String; 3] {
    [format!("--gpu-architecture={arch}"), "--std=c++17".to_owned(), "-lineinfo".to_owned()]
}

fn compile_now(source: &Source, arch: &str) -> Result<Vec<u8>, GpuError> {
    let refused = |log: String| GpuError::Compile { module: source.name, arch: arch.to_owned(), log };
    let text = CString::new(source.text.as_str()).expect("sources have no zero bytes");
    let name = CString::new(format!("{}.cu", source.name)).expect("names have no zero bytes");
    compiler()?;
    let program =
        result::create_program(&text, Some(&name)).map_err(|error| refused(format!("{error:?}")))?;
    // SAFETY: the program was created above and is destroyed below only; `text` and `name` outlive it.
    let outcome = unsafe { result::compile_program(program, &options(arch)) };
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
