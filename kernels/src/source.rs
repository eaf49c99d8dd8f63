//! The sources of the kernels, as NVRTC gets them.

use crate::module::Module;

const SUM: &str = include_str!("../cuda/sum.cu");
const COMMON: &str = include_str!("../cuda/common.cuh");

/// The kernels of one codec, of `delta`, or of sums: a complete translation unit.
#[derive(Clone, Debug)]
pub struct Source {
    /// Name of the codec; `delta` and `sum` are none.
    pub name: &'static str,
    /// CUDA C++ without includes.
    pub text: String,
}

/// All codecs that have kernels, `delta` and `sum`.
pub fn sources() -> Vec<Source> {
    let modules = Module::ALL.iter().chain([&Module::DELTA]);
    let mut sources: Vec<Source> = modules.map(|module| module.source()).collect();
    sources.dedup_by_key(|source| source.name);
    sources.push(Source::sum());
    sources
}

impl Source {
    /// What adds up values as they are.
    pub(crate) fn sum() -> Self {
        Self { name: "sum", text: format!("{COMMON}\n{SUM}") }
    }
}

impl Module {
    /// What is compiled for this codec.
    pub(crate) fn source(self) -> Source {
        let Self { name, text, .. } = self;
        Source { name, text: format!("{COMMON}\n{text}") }
    }
}
