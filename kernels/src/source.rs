//! The sources of the kernels, as NVRTC gets them.

use crate::module::Module;

const COMMON: &str = include_str!("../cuda/common.cuh");

/// The kernels of one codec, or of `delta`: a complete translation unit.
#[derive(Clone, Debug)]
pub struct Source {
    /// Name of the codec; `delta` is none.
    pub name: &'static str,
    /// CUDA C++ without includes.
    pub text: String,
}

/// All codecs that have kernels, and `delta`.
pub fn sources() -> Vec<Source> {
    let modules = Module::ALL.iter().chain([&Module::DELTA]);
    let mut sources: Vec<Source> = modules.map(|module| module.source()).collect();
    sources.dedup_by_key(|source| source.name);
    sources
}

impl Module {
    /// What is compiled for this codec.
    pub(crate) fn source(self) -> Source {
        let Self { name, text, .. } = self;
        Source { name, text: format!("{COMMON}\n{text}") }
    }
}
