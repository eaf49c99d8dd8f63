//! Places where a library of NCCL may be. Nothing is loaded or started here.

use std::env;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use crate::NcclError;

/// Names the library, or the folder that it is in, before all others that could be found.
pub const LIBRARY_VARIABLE: &str = "ZIPWIRE_NCCL_LIB";

/// Names of the library, as the linker and installations know them; the second is for builds only, and may be all there is.
pub(crate) const NAMES: [&str; 2] = ["libnccl.so.2", "libnccl.so"];

/// The library in the site packages of Python, where the packages `nvidia-nccl-cu*` put it.
const IN_PACKAGES: &str = "nvidia/nccl/lib/libnccl.so.2";

/// Variables that name the prefix of a Python that is active.
const PREFIXES: [&str; 2] = ["VIRTUAL_ENV", "CONDA_PREFIX"];

/// Folders of a prefix that have one for each version of Python.
const LIBRARIES: [&str; 3] = ["lib", "lib64", "local/lib"];

/// Places that the environment names.
#[derive(Debug)]
pub(crate) struct Search {
    /// File or folder that [`LIBRARY_VARIABLE`] names.
    pub(crate) named: Option<PathBuf>,
    /// Prefixes of Pythons, the active one first.
    prefixes: Vec<PathBuf>,
}

impl Search {
    pub(crate) fn of_environment() -> Self {
        Self::of(|name| env::var_os(name))
    }

    fn of(variable: impl Fn(&str) -> Option<OsString>) -> Self {
        let variable = |name: &str| variable(name).filter(|value| !value.is_empty());
        let mut prefixes: Vec<PathBuf> =
            PREFIXES.iter().filter_map(|name| variable(name)).map(PathBuf::from).collect();
        let path = variable("PATH").unwrap_or_default();
        let python = env::split_paths(&path).map(|folder| folder.join("python3")).find(|path| path.is_file());
        // The Python of a virtual environment is a link to that of the system.
        let pythons = python.into_iter().flat_map(|path| [Some(path.clone()), path.canonicalize().ok()]);
        prefixes.extend(pythons.flatten().filter_map(|path| Some(path.parent()?.parent()?.to_owned())));
        let mut seen = Vec::new();
        prefixes.retain(|prefix| !seen.contains(prefix) && (seen.push(prefix.clone()), true).1);
        Self { named: variable(LIBRARY_VARIABLE).map(PathBuf::from), prefixes }
    }

    #[cfg(test)]
    pub(crate) fn of_named(named: &Path) -> Self {
        Self { named: Some(named.to_owned()), prefixes: Vec::new() }
    }

    /// The file that the variable names; `None` where it names nothing.
    pub(crate) fn named_file(&self) -> Option<Result<PathBuf, NcclError>> {
        let named = self.named.as_deref()?;
        if !named.is_dir() {
            return Some(Ok(named.to_owned()));
        }
        let inside = NAMES.iter().map(|name| named.join(name)).find(|path| path.is_file());
        Some(inside.ok_or_else(|| NcclError::NotLibrary {
            path: named.to_owned(),
            why: format!("has neither `{}` nor `{}` in it", NAMES[0], NAMES[1]),
        }))
    }

    /// Names and files to try one after the other: the linker's, then those of Python's packages.
    pub(crate) fn candidates(&self) -> Vec<PathBuf> {
        let packages = self.prefixes.iter().flat_map(|prefix| in_packages(prefix));
        NAMES.iter().map(PathBuf::from).chain(packages).collect()
    }

    /// Report of where nothing was found.
    pub(crate) fn in_vain(&self) -> String {
        let python = if self.prefixes.is_empty() {
            format!("PATH has no `python3`, and neither {} nor {} is set", PREFIXES[0], PREFIXES[1])
        } else {
            let prefixes: Vec<String> =
                self.prefixes.iter().map(|prefix| format!("`{}`", prefix.display())).collect();
            format!("no Python beneath {} has `{IN_PACKAGES}` in its packages", prefixes.join(" or "))
        };
        format!("the linker finds neither `{}` nor `{}`, and {python}", NAMES[0], NAMES[1])
    }
}

/// Libraries in the packages of the Pythons beneath a prefix, those of the newest Python first.
fn in_packages(prefix: &Path) -> Vec<PathBuf> {
    let pythons =
        LIBRARIES.iter().flat_map(|library| fs::read_dir(prefix.join(library)).into_iter().flatten());
    let folder = |entry: fs::DirEntry| {
        let version = entry.file_name().to_str()?.strip_prefix("python3")?.to_owned();
        // `python3`, `python3.12` and, built for free threads, `python3.13t`.
        let minor =
            version.strip_prefix('.').map_or(Some(0), |minor| minor.trim_end_matches('t').parse().ok());
        Some((minor?, entry.path()))
    };
    let mut pythons: Vec<(u32, PathBuf)> = pythons.flatten().filter_map(folder).collect();
    pythons.sort_by(|a, b| b.cmp(a));
    let sites = pythons.iter().flat_map(|(_, python)| {
        ["site-packages", "dist-packages"].map(|site| python.join(site).join(IN_PACKAGES))
    });
    sites.filter(|path| path.is_file()).collect()
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;
    use std::fs;
    use std::path::{Path, PathBuf};

    use super::{IN_PACKAGES, LIBRARY_VARIABLE, NAMES, Search};

    fn search(variables: &[(&str, &Path)]) -> Search {
        Search::of(|name| {
            let found = variables.iter().find(|(known, _)| *known == name);
            found.map(|(_, value)| OsString::from(value))
        })
    }

    fn touch(path: PathBuf) -> PathBuf {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, "").unwrap();
        path
    }

    #[test]
    fn variable_names_a_file_or_its_folder() {
        let folder = tempfile::tempdir().unwrap();
        let named = |path: &Path| search(&[(LIBRARY_VARIABLE, path)]).named_file().unwrap();
        let error = named(folder.path()).unwrap_err().to_string();
        let expected = format!("{LIBRARY_VARIABLE} names `{}`, which has neither", folder.path().display());
        assert!(error.starts_with(&expected), "{error}");
        let plain = touch(folder.path().join("libnccl.so"));
        assert_eq!(named(folder.path()).unwrap(), plain);
        let versioned = touch(folder.path().join("libnccl.so.2"));
        assert_eq!(named(folder.path()).unwrap(), versioned);
        // A file may have any name, and is not looked at before it is loaded.
        let other = folder.path().join("other.so");
        assert_eq!(named(&other).unwrap(), other);
        assert!(search(&[(LIBRARY_VARIABLE, Path::new(""))]).named_file().is_none());
    }

    #[test]
    fn linker_is_asked_before_packages_and_the_active_python_before_that_of_path() {
        let folder = tempfile::tempdir().unwrap();
        let in_site = |prefix: &Path, library: &str, site: &str| {
            touch(prefix.join(library).join(site).join(IN_PACKAGES))
        };
        let (active, conda, system) =
            (folder.path().join("active"), folder.path().join("conda"), folder.path().join("system"));
        let older = in_site(&active, "lib/python3.9", "site-packages");
        let newer = in_site(&active, "lib64/python3.12", "site-packages");
        touch(active.join("lib/pythonic/site-packages").join(IN_PACKAGES));
        let of_conda = in_site(&conda, "lib/python3.13t", "site-packages");
        let of_system = in_site(&system, "local/lib/python3.11", "dist-packages");
        touch(system.join("bin/python3"));
        let (path, empty) = (system.join("bin"), folder.path().join("empty"));
        let path = std::env::join_paths([&empty, &path]).unwrap();
        let found = search(&[("PATH", Path::new(&path)), ("VIRTUAL_ENV", &active), ("CONDA_PREFIX", &conda)]);
        let expected = [NAMES[0].into(), NAMES[1].into(), newer, older, of_conda, of_system];
        assert_eq!(found.candidates(), expected);
    }

    #[cfg(unix)]
    #[test]
    fn python_that_is_a_link_has_two_prefixes() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        let python = touch(root.join("system/bin/python3"));
        fs::create_dir_all(root.join("own/bin")).unwrap();
        std::os::unix::fs::symlink(python, root.join("own/bin/python3")).unwrap();
        let library = touch(root.join("system/lib/python3/dist-packages").join(IN_PACKAGES));
        let found = search(&[("PATH", &root.join("own/bin")), ("VIRTUAL_ENV", &root.join("own"))]);
        assert_eq!(found.prefixes, [root.join("own"), root.join("system")]);
        assert_eq!(found.candidates()[2..], [library]);
    }

    #[test]
    fn report_says_where_was_looked() {
        let nothing = search(&[]).in_vain();
        assert!(nothing.contains("PATH has no `python3`, and neither VIRTUAL_ENV nor"), "{nothing}");
        let beneath = search(&[("VIRTUAL_ENV", Path::new("env"))]).in_vain();
        assert!(beneath.contains("no Python beneath `env` has `nvidia/nccl/lib/"), "{beneath}");
    }
}
