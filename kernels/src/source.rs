//! The sources of the kernels, as NVRTC gets them.

const COMMON: &str = include_str!("../cuda/common.cuh");

/// The kernels of one codec: a complete translation unit.
#[derive(Clone, Debug)]
pub struct Source {
    /// Name of the codec.
    pub name: &'static str,
    /// CUDA C++ without includes.
    pub text: String,
}

/// All codecs that have kernels.
pub fn sources() -> Vec<Source> {
    let mut sources: Vec<Source> = crate::module::Module::ALL.iter().map(|module| module.source()).collect();
    sources.dedup_by_key(|source| source.name);
    sources
}

impl crate::module::Module {
    /// What is compiled for this codec.
    pub(crate) fn source(self) -> Source {
        let Self { name, text, .. } = self;
        Source { name, text: format!("{COMMON}\n{text}") }
    }
}
