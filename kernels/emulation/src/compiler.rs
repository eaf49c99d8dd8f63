//! Calls the C++ compiler, once for each content: what is compiled stays in a folder that is named by a hash of all inputs.

use std::ffi::OsString;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::{env, fs, io};

use rayon::prelude::*;
use xxhash_rust::xxh3::xxh3_128;

use crate::{BuildError, scan};

/// File with the compiler's warnings, beside a module.
pub(crate) const WARNINGS: &str = "warnings.txt";
/// The folder of everything that is compiled.
pub(crate) const CACHE: &str = "zipwire-emulation";

/// The C++ compiler of the system, and the folder of what it has compiled.
pub(crate) struct Compiler {
    program: OsString,
    /// Output of `--version`, which is part of every cache key.
    version: Vec<u8>,
    cache: PathBuf,
}

/// Flags for kernels, which read the same memory as values of several types.
const KERNEL_FLAGS: [&str; 11] = [
    "-std=c++17",
    "-O2",
    "-fPIC",
    "-fno-strict-aliasing",
    "-ffp-contract=off",
    "-fno-plt",
    "-fvisibility=hidden",
    "-Wall",
    "-Wno-unknown-pragmas",
    "-Wno-unused-function",
    // Of `extern __shared__`: see `cuda.h`.
    "-Wno-attributes",
];
/// Flags for kernels that end the process, with the line, where they read or write at an address that is no multiple of what the type needs.
pub(crate) const ALIGNED_FLAGS: [&str; 2] = ["-fsanitize=alignment", "-fno-sanitize-recover=alignment"];
const LIBRARY_FLAGS: [&str; 7] =
    ["-std=c++17", "-O2", "-fPIC", "-fvisibility=hidden", "-fno-semantic-interposition", "-Wall", "-Wextra"];

impl Compiler {
    pub(crate) fn find() -> Result<Self, BuildError> {
        let program = env::var_os("CXX").filter(|name| !name.is_empty()).unwrap_or_else(|| "c++".into());
        let version = Command::new(&program).arg("--version").output();
        let version = version
            .ok()
            .filter(|output| output.status.success())
            .ok_or_else(|| BuildError::NoCompiler { compiler: program.to_string_lossy().into_owned() })?;
        Ok(Self { program, version: version.stdout, cache: cache_folder() })
    }

    /// The folder of the fake libraries.
    pub(crate) fn libraries(&self) -> Result<PathBuf, BuildError> {
        let sources = || LIBRARIES.iter().flat_map(|library| library.sources);
        let files = || RUNTIME_HEADERS.iter().chain(sources());
        let shared = || CUDA.iter().chain([&MODULE]);
        let key = self.key(files().chain(shared()).map(|file| file.1).chain(LIBRARY_FLAGS));
        self.once(&format!("driver-{key}"), |folder| {
            write_all(&folder.join("runtime"), files())?;
            write_all(&folder.join("cuda"), shared())?;
            let object = |name: &str| folder.join(name).with_extension("o");
            let compile = |name: &&str| {
                let source = folder.join("runtime").join(name);
                run(name, self.command(&LIBRARY_FLAGS).arg("-c").arg(source).arg("-o").arg(object(name)))
                    .map(drop)
            };
            let names: Vec<&str> = sources().map(|file| file.0).collect();
            let compiled: Vec<Result<_, BuildError>> = names.par_iter().map(compile).collect();
            compiled.into_iter().collect::<Result<(), _>>()?;
            for Library { name, sources, needs } in LIBRARIES {
                let mut command = self.command(&["-shared", "-pthread", "-Wl,-rpath,$ORIGIN"]);
                command.arg(format!("-Wl,-soname,{name}")).args(sources.iter().map(|file| object(file.0)));
                command.args(needs.map(|name| folder.join(name)));
                run(name, command.arg("-o").arg(folder.join(name)).arg("-ldl").arg("-lrt"))?;
                // Whoever looks for a library tries the name without a version first.
                let plain = name.split_inclusive(".so").next().expect("there is a first part");
                link(name, &folder.join(plain))?;
            }
            Ok(())
        })
    }

    /// The library of one kernel source, compiled with more flags than the usual ones.
    pub(crate) fn module(
        &self,
        source: &str,
        variant: &str,
        flags: &[&str],
        libraries: &Path,
    ) -> Result<PathBuf, BuildError> {
        let wrapper = wrapper(source);
        let driver = libraries.to_string_lossy();
        let key = self.key(
            [source, &wrapper, variant, &driver].into_iter().chain(KERNEL_FLAGS).chain(flags.iter().copied()),
        );
        let folder = self.once(&format!("module-{variant}-{key}"), |folder| {
            write_all(folder, CUDA.iter().chain([&MODULE]))?;
            write(&folder.join("kernel.cu"), source)?;
            write(&folder.join("module.cpp"), &wrapper)?;
            let mut command = self.command(&KERNEL_FLAGS);
            command.args(flags);
            if cfg!(target_arch = "x86_64") {
                // Otherwise counting bits is a call.
                command.arg("-mpopcnt");
            }
            command.arg("-shared").arg("-include").arg(folder.join("cuda.h")).arg(folder.join("module.cpp"));
            command.arg("-o").arg(folder.join("module.so")).arg(libraries.join("libcuda.so.1"));
            let warnings = run("kernel.cu", &mut command)?;
            write(&folder.join(WARNINGS), &warnings)
        })?;
        Ok(folder.join("module.so"))
    }

    /// Fills the folder of this name unless an earlier process has. What is there is complete: it appears by a rename.
    fn once(
        &self,
        name: &str,
        fill: impl FnOnce(&Path) -> Result<(), BuildError>,
    ) -> Result<PathBuf, BuildError> {
        let folder = self.cache.join(name);
        if folder.exists() {
            return Ok(folder);
        }
        static BUILDS: AtomicUsize = AtomicUsize::new(0);
        let number = BUILDS.fetch_add(1, Ordering::Relaxed);
        let unfinished = self.cache.join(format!("unfinished-{name}-{}-{number}", std::process::id()));
        fs::create_dir_all(&unfinished).map_err(failed(&unfinished))?;
        let filled = fill(&unfinished);
        let moved = filled.and_then(|()| match fs::rename(&unfinished, &folder) {
            // Another process was faster, with the same content.
            Err(_) if folder.exists() => Ok(()),
            moved => moved.map_err(failed(&folder)),
        });
        // Left over only if something failed, which is reported, or if another process was faster.
        let _ = fs::remove_dir_all(&unfinished);
        moved.map(|()| folder)
    }

    fn command(&self, flags: &[&str]) -> Command {
        let mut command = Command::new(&self.program);
        command.args(flags);
        command
    }

    fn key<'a>(&self, inputs: impl Iterator<Item = &'a str>) -> String {
        let mut all = self.version.clone();
        for input in inputs {
            all.extend((input.len() as u64).to_le_bytes());
            all.extend(input.as_bytes());
        }
        format!("{:032x}", xxh3_128(&all))
    }
}

/// Below the folder of the build that made this program, so that `cargo clean` removes it.
fn cache_folder() -> PathBuf {
    let target = env::current_exe().ok().and_then(|program| {
        let is_of_programs = |name: &std::ffi::OsStr| name == "deps" || name == "examples";
        let deps = program.ancestors().find(|folder| folder.file_name().is_some_and(is_of_programs))?;
        Some(deps.parent()?.parent()?.join("tmp"))
    });
    target.unwrap_or_else(env::temp_dir).join(CACHE)
}

/// C++ that is compiled for a source: the source, and behind it the table of its kernels.
fn wrapper(source: &str) -> String {
    let mut text = String::from("#include \"kernel.cu\"\n#include \"module.h\"\n");
    let arrays = scan::dynamic_arrays(source);
    if !arrays.is_empty() {
        let labels: Vec<String> = arrays.iter().map(|name| format!("CUEMU_DYNAMIC_LABEL({name})")).collect();
        writeln!(text, "CUEMU_DYNAMIC_SHARED({})", labels.join(" ")).expect("strings take all text");
    }
    text.push_str("static const cuemu::Kernel cuemu_kernels[] = {\n");
    let kernels = scan::kernels(source);
    for kernel in &kernels {
        let threads = kernel.max_threads.as_deref().unwrap_or("0");
        writeln!(text, "    CUEMU_KERNEL({}, ({threads})),", kernel.name).expect("strings take all text");
    }
    let dynamic = if arrays.is_empty() {
        "0, nullptr"
    } else {
        "CUEMU_DYNAMIC_BYTES, []() -> char* { return cuemu_dynamic; }"
    };
    writeln!(
        text,
        "}};\n// Without any shared variable there would be no thread-local segment.\n\
         static __thread char cuemu_some_shared;\n\
         extern \"C\" __attribute__((visibility(\"default\"))) const cuemu::Module cuemu_module = {{\n    \
         cuemu_kernels, {}, {dynamic}, []() -> char* {{ return &cuemu_some_shared; }}}};",
        kernels.len()
    )
    .expect("strings take all text");
    text
}

/// Runs a compiler. Returns what it says where it succeeds.
fn run(file: &str, command: &mut Command) -> Result<String, BuildError> {
    let output = command.output().map_err(failed(Path::new(command.get_program())))?;
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    if output.status.success() {
        Ok(said)
    } else {
        Err(BuildError::Compile { file: file.to_owned(), output: said })
    }
}

pub(crate) fn read(path: &Path) -> Result<String, BuildError> {
    fs::read_to_string(path).map_err(failed(path))
}

fn write(path: &Path, text: &str) -> Result<(), BuildError> {
    fs::write(path, text).map_err(failed(path))
}

fn write_all<'a>(
    folder: &Path,
    files: impl Iterator<Item = &'a (&'a str, &'a str)>,
) -> Result<(), BuildError> {
    fs::create_dir_all(folder).map_err(failed(folder))?;
    files.into_iter().try_for_each(|(name, text)| write(&folder.join(name), text))
}

fn link(target: &str, path: &Path) -> Result<(), BuildError> {
    #[cfg(unix)]
    return std::os::unix::fs::symlink(target, path).map_err(failed(path));
    #[cfg(not(unix))]
    return Err(BuildError::Files { path: path.join(target), source: io::ErrorKind::Unsupported.into() });
}

fn failed(path: &Path) -> impl FnOnce(io::Error) -> BuildError {
    let path = path.to_owned();
    move |source| BuildError::Files { path, source }
}

/// Headers that every kernel source is compiled with; the first is force-included.
pub(crate) const CUDA: [(&str, &str); 8] = [
    ("cuda.h", include_str!("../cuda/cuda.h")),
    ("vectors.h", include_str!("../cuda/vectors.h")),
    ("here.h", include_str!("../cuda/here.h")),
    ("calls.h", include_str!("../cuda/calls.h")),
    ("collectives.h", include_str!("../cuda/collectives.h")),
    ("bits.h", include_str!("../cuda/bits.h")),
    ("packed.h", include_str!("../cuda/packed.h")),
    ("memory.h", include_str!("../cuda/memory.h")),
];

/// Header that follows every kernel source.
pub(crate) const MODULE: (&str, &str) = ("module.h", include_str!("../cuda/module.h"));

/// Headers of the fake libraries.
pub(crate) const RUNTIME_HEADERS: [(&str, &str); 19] = [
    ("api.h", include_str!("../runtime/api.h")),
    ("block.h", include_str!("../runtime/block.h")),
    ("fiber.h", include_str!("../runtime/fiber.h")),
    ("grid.h", include_str!("../runtime/grid.h")),
    ("hook.h", include_str!("../runtime/hook.h")),
    ("kernel_side.h", include_str!("../runtime/kernel_side.h")),
    ("memory.h", include_str!("../runtime/memory.h")),
    ("nccl_comm.h", include_str!("../runtime/nccl_comm.h")),
    ("nccl_cuda.h", include_str!("../runtime/nccl_cuda.h")),
    ("nccl_group.h", include_str!("../runtime/nccl_group.h")),
    ("nccl_reduce.h", include_str!("../runtime/nccl_reduce.h")),
    ("nccl_segment.h", include_str!("../runtime/nccl_segment.h")),
    ("nccl_state.h", include_str!("../runtime/nccl_state.h")),
    ("nccl_transfer.h", include_str!("../runtime/nccl_transfer.h")),
    ("nccl_types.h", include_str!("../runtime/nccl_types.h")),
    ("nccl_work.h", include_str!("../runtime/nccl_work.h")),
    ("shared_memory.h", include_str!("../runtime/shared_memory.h")),
    ("state.h", include_str!("../runtime/state.h")),
    ("stream.h", include_str!("../runtime/stream.h")),
];

/// A fake library: its file, and what it is made of.
struct Library {
    name: &'static str,
    sources: &'static [(&'static str, &'static str)],
    /// Another one that it calls.
    needs: Option<&'static str>,
}

/// All fake libraries, each after what it needs.
const LIBRARIES: [Library; 3] = [
    Library {
        name: "libcuda.so.1",
        sources: &[
            ("api_device.cpp", include_str!("../runtime/api_device.cpp")),
            ("api_memory.cpp", include_str!("../runtime/api_memory.cpp")),
            ("api_module.cpp", include_str!("../runtime/api_module.cpp")),
            ("block.cpp", include_str!("../runtime/block.cpp")),
            ("fiber.cpp", include_str!("../runtime/fiber.cpp")),
            ("grid.cpp", include_str!("../runtime/grid.cpp")),
            ("memory.cpp", include_str!("../runtime/memory.cpp")),
            ("shared_memory.cpp", include_str!("../runtime/shared_memory.cpp")),
            ("state.cpp", include_str!("../runtime/state.cpp")),
            ("stream.cpp", include_str!("../runtime/stream.cpp")),
        ],
        needs: None,
    },
    Library {
        name: "libnvrtc.so.13",
        sources: &[("nvrtc.cpp", include_str!("../runtime/nvrtc.cpp"))],
        needs: None,
    },
    Library {
        name: "libnccl.so.2",
        sources: &[
            ("nccl.cpp", include_str!("../runtime/nccl.cpp")),
            ("nccl_comm.cpp", include_str!("../runtime/nccl_comm.cpp")),
            ("nccl_group.cpp", include_str!("../runtime/nccl_group.cpp")),
            ("nccl_missing.cpp", include_str!("../runtime/nccl_missing.cpp")),
            ("nccl_reduce.cpp", include_str!("../runtime/nccl_reduce.cpp")),
            ("nccl_segment.cpp", include_str!("../runtime/nccl_segment.cpp")),
            ("nccl_state.cpp", include_str!("../runtime/nccl_state.cpp")),
            ("nccl_transfer.cpp", include_str!("../runtime/nccl_transfer.cpp")),
            ("nccl_work.cpp", include_str!("../runtime/nccl_work.cpp")),
        ],
        needs: Some("libcuda.so.1"),
    },
];
