//! Kernels and the fake libraries that run them, ready for a process to load.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::{env, io};

use rayon::prelude::*;

use crate::compiler::{ALIGNED_FLAGS, CACHE, Compiler, WARNINGS, read};
use crate::scan;

/// Why there is no emulation.
#[allow(missing_docs, reason = "fields are named by the messages")]
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BuildError {
    /// The system has no C++ compiler. Callers report their tests as ignored.
    #[error(
        "there is no C++ compiler `{compiler}`\nhelp: install one, or name it in the environment variable `CXX`"
    )]
    NoCompiler { compiler: String },
    /// The fake libraries are for Linux. Callers report their tests as ignored.
    #[error("kernels can be emulated on Linux only")]
    OtherSystem,
    /// The compiler refuses a source.
    #[error("cannot compile `{file}`\n{output}")]
    Compile { file: String, output: String },
    /// A source has no `extern "C" __global__` function.
    #[error(
        "source {index} has no kernel\nhelp: kernels are written `extern \"C\" __global__ void name(...)`"
    )]
    NoKernel { index: usize },
    /// Two kernels have one name, and modules find kernels by name.
    #[error("there are two kernels `{name}`")]
    Twice { name: String },
    /// A file cannot be read or written.
    #[error("cannot use `{path}`: {source}")]
    Files { path: PathBuf, source: io::Error },
}

impl BuildError {
    /// Whether this machine lacks what an emulation needs, so that tests are to be ignored.
    #[must_use]
    pub fn is_absence(&self) -> bool {
        matches!(self, Self::NoCompiler { .. } | Self::OtherSystem)
    }
}

/// Compiled kernels and the fake libraries that run them.
#[derive(Clone, Debug)]
pub struct Emulation {
    libraries: PathBuf,
    modules: Vec<PathBuf>,
    warnings: String,
}

impl Emulation {
    /// Compiles each source as a module of its own, or takes what an earlier call has compiled.
    ///
    /// `variant` names the files, so that one sees in messages which sources they are of; any text of letters, digits, `-`
    /// and `_`.
    ///
    /// # Errors
    ///
    /// See [`BuildError`].
    ///
    /// # Panics
    ///
    /// If `variant` has other characters.
    pub fn build(sources: &[&str], variant: &str) -> Result<Self, BuildError> {
        Self::build_with(sources, variant, &[])
    }

    /// The same with kernels that end the process where a GPU would refuse an access: at an address that is no multiple of what the type needs,
    /// which the CPU forgives.
    ///
    /// # Errors
    ///
    /// See [`BuildError`].
    ///
    /// # Panics
    ///
    /// If `variant` has other characters.
    pub fn build_aligned(sources: &[&str], variant: &str) -> Result<Self, BuildError> {
        Self::build_with(sources, variant, &ALIGNED_FLAGS)
    }

    fn build_with(sources: &[&str], variant: &str, flags: &[&str]) -> Result<Self, BuildError> {
        let plain = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
        assert!(variant.chars().all(plain), "`{variant}` cannot be the name of a file");
        if !cfg!(target_os = "linux") {
            return Err(BuildError::OtherSystem);
        }
        check_names(sources)?;
        let compiler = Compiler::find()?;
        let libraries = compiler.libraries()?;
        let modules: Vec<Result<PathBuf, BuildError>> =
            sources.par_iter().map(|source| compiler.module(source, variant, flags, &libraries)).collect();
        let modules: Vec<PathBuf> = modules.into_iter().collect::<Result<_, _>>()?;
        let warnings =
            modules.iter().map(|module| read(&module.with_file_name(WARNINGS))).collect::<Result<_, _>>()?;
        Ok(Self { libraries, modules, warnings })
    }

    /// Environment with which a process loads the fake libraries and these kernels.
    #[must_use]
    pub fn environment(&self) -> Vec<(OsString, OsString)> {
        let join =
            |paths: Vec<PathBuf>| env::join_paths(paths).expect("build folders have no colon in their names");
        let others = env::var_os("LD_LIBRARY_PATH").map(|paths| env::split_paths(&paths).collect());
        let others: Vec<PathBuf> = others.unwrap_or_default();
        let libraries =
            [self.libraries.clone()].into_iter().chain(others.into_iter().filter(|path| !is_fake(path)));
        vec![
            ("LD_LIBRARY_PATH".into(), join(libraries.collect())),
            ("FAKECUDA_MODULES".into(), join(self.modules.clone())),
            // What the fake compiler makes is not to be found by others.
            ("ZIPWIRE_KERNEL_CACHE".into(), OsString::new()),
            // The linker finds the fake NCCL.
            ("ZIPWIRE_NCCL_LIB".into(), OsString::new()),
        ]
    }

    /// Warnings of the compiler: normally none.
    #[must_use]
    pub fn warnings(&self) -> &str {
        &self.warnings
    }
}

/// A folder of fake libraries: a child that starts a child must not find its own before those of the other one.
fn is_fake(path: &Path) -> bool {
    path.parent().and_then(Path::file_name) == Some(OsStr::new(CACHE))
}

fn check_names(sources: &[&str]) -> Result<(), BuildError> {
    let mut seen = BTreeMap::new();
    for (index, source) in sources.iter().enumerate() {
        let kernels = scan::kernels(source);
        if kernels.is_empty() {
            return Err(BuildError::NoKernel { index });
        }
        for kernel in kernels {
            if seen.insert(kernel.name.clone(), index).is_some() {
                return Err(BuildError::Twice { name: kernel.name });
            }
        }
    }
    Ok(())
}
