//! The sources of the kernels, as NVRTC gets them.

use zipwire_codec::DType;

use crate::module::{Module, suffix};

const SUM: &str = include_str!("../cuda/sum.cu");
const COMMON: &str = include_str!("../cuda/common.cuh");

/// The kernels of one codec, or of sums: a complete translation unit.
#[derive(Clone, Debug)]
pub struct Source {
    /// Name of the codec, or `sum`.
    pub name: &'static str,
    /// CUDA C++ without includes. It begins with a definition for each type that it has kernels for, such as `#define DTYPE_F32`.
    pub text: String,
}

/// Sources of all codecs that have kernels, for all their types, and of `sum`.
///
/// [`crate::Coder::new`] compiles those for its type only.
pub fn sources() -> Vec<Source> {
    let mut names: Vec<&str> = Module::ALL.iter().map(|module| module.name).collect();
    names.dedup();
    let source = |name: &str| {
        let entries: Vec<&Module> = Module::ALL.iter().filter(|module| module.name == name).collect();
        let dtypes = entries.iter().flat_map(|module| module.dtypes).copied();
        entries[0].source(dtypes)
    };
    names.into_iter().map(source).chain([Source::sum()]).collect()
}

impl Source {
    /// Source of the kernel that sums decoded values.
    pub(crate) fn sum() -> Self {
        Self { name: "sum", text: format!("{COMMON}\n{SUM}") }
    }
}

impl Module {
    /// Translation unit with the kernels for these types.
    pub(crate) fn source(self, dtypes: impl IntoIterator<Item = DType>) -> Source {
        let Self { name, text, .. } = self;
        let define = |dtype| format!("#define DTYPE_{}\n", suffix(dtype).to_uppercase());
        let defines: String = dtypes.into_iter().map(define).collect();
        Source { name, text: format!("{defines}{COMMON}\n{text}") }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Names of the kernels that a compiler sees. Conditions of other things than types are passed over: kernels are in none.
    fn kernels(text: &str) -> Vec<String> {
        let mut defined = Vec::new();
        let mut conditions = Vec::new();
        let mut lines = Vec::new();
        for line in text.lines() {
            if let Some(name) = line.strip_prefix("#define DTYPE_") {
                defined.push(name);
            } else if let Some(name) = line.strip_prefix("#ifdef DTYPE_") {
                conditions.push(defined.contains(&name));
            } else if line.starts_with("#if") {
                conditions.push(true);
            } else if line == "#endif" {
                conditions.pop().expect("a condition ends");
            } else if conditions.iter().all(|holds| *holds) {
                lines.push(line);
            }
        }
        let text = lines.join("\n");
        let of = |kernel: &str| {
            let end = kernel.find("(const Frame*").expect("kernels take frames");
            let start = kernel[..end].rfind([' ', '\n']).expect("a name has something in front");
            kernel[start + 1..end].to_owned()
        };
        text.split("extern \"C\" __global__").skip(1).map(of).collect()
    }

    #[test]
    fn a_type_gets_its_own_kernels_only() {
        // Sums have one kernel for all types.
        for source in sources().into_iter().filter(|source| source.name != Source::sum().name) {
            let mut by_type = Vec::new();
            for module in Module::ALL.iter().filter(|module| module.name == source.name) {
                for dtype in module.dtypes {
                    let found = kernels(&module.source([*dtype]).text);
                    let own = format!("_{}", suffix(*dtype));
                    assert!(found.iter().all(|name| name.ends_with(&own)), "{dtype}: {found:?}");
                    let works = [Some("open"), Some("decode"), module.before, module.again];
                    for work in works.into_iter().flatten() {
                        assert!(found.contains(&module.kernel(work, *dtype)), "{dtype}: {found:?}");
                    }
                    by_type.extend(found);
                }
            }
            let mut all = kernels(&source.text);
            all.sort();
            by_type.sort();
            assert_eq!(all, by_type, "{}", source.name);
        }
    }
}
