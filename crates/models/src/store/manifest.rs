//! Manifests: what a checkpoint consists of.

use std::collections::BTreeSet;
use std::path::{Component, Path};

use serde::{Deserialize, Serialize};

use crate::store::address::{DTYPE_BYTES, hash_of_piece};
use crate::store::{Address, FORMAT_VERSION, StoreError, rounded};

/// Text before the hash of a manifest, which is the last of its fields.
const HASH_KEY: &str = ",\"blake3\":\"";
/// Text after it.
const END: &str = "\"}\n";
const DIGITS: usize = 64;

/// A checkpoint: files, each of successive parts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Manifest {
    /// Version of the format.
    pub version: u64,
    /// Name of the checkpoint.
    pub id: String,
    /// Checkpoints are ordered by it: each is above those that were there when it was added.
    pub sequence: u64,
    /// When it was added, in seconds since 1970.
    pub created_unix_s: u64,
    /// The checkpoint that differences were taken from, if there was one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<String>,
    /// Its files, in the order of their paths.
    pub files: Vec<StoredFile>,
}

/// A file of a checkpoint.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredFile {
    /// Its path in the checkpoint, with `/` between folders.
    pub path: String,
    /// Its length.
    pub bytes: u64,
    /// Parts that make up the file, in its order.
    pub parts: Vec<Part>,
}

/// Successive bytes of a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Part {
    /// Name of the tensor; none for headers and files without tensors.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tensor: Option<String>,
    /// Type of its values, as safetensors name it, or `bytes`.
    pub dtype: String,
    /// How many bytes it has.
    pub bytes: u64,
    /// Address of the object with its values, or with those that it is rounded from.
    pub object: Address,
    /// Type of the object's values, where those of the part are their rounding; none where they are its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rounded_from: Option<String>,
}

impl Part {
    /// Type and bytes of the values of its object.
    pub(crate) fn of_object(&self) -> (&str, u64) {
        match &self.rounded_from {
            None => (&self.dtype, self.bytes),
            Some(from) => (from, self.bytes.saturating_mul(rounded::SHRINKS)),
        }
    }

    /// Bytes of the object for each of the part's.
    pub(crate) fn shrinks(&self) -> u64 {
        if self.rounded_from.is_some() { rounded::SHRINKS } else { 1 }
    }
}

/// The version of manifests that have rounded parts; others have that of the store.
pub(crate) const WITH_ROUNDED: u64 = 2;

impl Manifest {
    /// Bytes of all files.
    pub fn bytes_raw(&self) -> u64 {
        self.files.iter().fold(0, |sum, file| sum.saturating_add(file.bytes))
    }

    /// Objects of all parts; one that has several is named as often.
    pub fn objects(&self) -> impl Iterator<Item = Address> {
        self.files.iter().flat_map(|file| file.parts.iter().map(|part| part.object))
    }

    /// Its text, with a hash of it.
    pub fn to_text(&self) -> String {
        let mut text = serde_json::to_string(self).expect("it has text and numbers");
        text.truncate(text.len() - 1);
        let hash = Address::from_bytes(hash_of_piece(text.as_bytes()));
        format!("{text}{HASH_KEY}{hash}{END}")
    }

    /// Reads the text of the file `path`, which is that of the checkpoint `id`.
    ///
    /// # Errors
    /// [`StoreError::Version`], [`StoreError::Manifest`]: also for paths that lead out of a folder.
    pub fn parse(text: &[u8], path: &Path, id: &str) -> Result<Self, StoreError> {
        let wrong = |what: String| StoreError::Manifest { path: path.to_owned(), what };
        if !has_its_hash(text) {
            #[derive(Deserialize)]
            struct Versioned {
                version: u64,
            }
            // Another version may have its hash elsewhere.
            return Err(match serde_json::from_slice(text) {
                Ok(Versioned { version: found }) if found > WITH_ROUNDED => {
                    StoreError::Version { path: path.to_owned(), found, known: WITH_ROUNDED }
                }
                _ => wrong("it is not what was written".to_owned()),
            });
        }
        let manifest: Self = serde_json::from_slice(text).map_err(|error| wrong(error.to_string()))?;
        if !(FORMAT_VERSION..=WITH_ROUNDED).contains(&manifest.version) {
            let (path, found) = (path.to_owned(), manifest.version);
            return Err(StoreError::Version { path, found, known: WITH_ROUNDED });
        }
        manifest.check(id).map_err(wrong)?;
        Ok(manifest)
    }

    /// Checks all rules; the error says which is broken.
    fn check(&self, id: &str) -> Result<(), String> {
        if self.id != id {
            return Err(format!("it is the manifest of `{}`", self.id));
        }
        if self.parent.as_deref().is_some_and(|parent| check_id(parent).is_err()) {
            return Err("its parent has no name that checkpoints can have".to_owned());
        }
        let mut paths = BTreeSet::new();
        for file in &self.files {
            let path = &file.path;
            if !is_within(path) {
                return Err(format!("the path `{path}` leads out of its folder"));
            }
            if !paths.insert(path.as_str()) {
                return Err(format!("the path `{path}` is there twice"));
            }
            let sum = file.parts.iter().try_fold(0_u64, |sum, part| sum.checked_add(part.bytes));
            if sum != Some(file.bytes) {
                return Err(format!("the parts of `{path}` have not its {} bytes", file.bytes));
            }
            let is_type =
                |part: &Part| (1..=DTYPE_BYTES).contains(&part.dtype.len()) && part.dtype.is_ascii();
            if !file.parts.iter().all(is_type) {
                return Err(format!("a part of `{path}` has no type"));
            }
            let is_known = |part: &Part| match part.rounded_from.as_deref() {
                None => true,
                Some(from) => {
                    self.version == WITH_ROUNDED && (from, &*part.dtype) == (rounded::FROM, rounded::TO)
                }
            };
            if !file.parts.iter().all(is_known) {
                return Err(format!("a part of `{path}` is rounded from what it cannot be"));
            }
        }
        match folder_that_is_a_file(&paths) {
            Some(path) => Err(format!("the path `{path}` is a file and a folder")),
            None => Ok(()),
        }
    }
}

/// Bytes of a name at the most.
const LONGEST_ID: usize = 128;

/// Whether a checkpoint can be called so: on every file system, and never another file than its own.
///
/// # Errors
/// [`StoreError::BadId`].
pub fn check_id(id: &str) -> Result<(), StoreError> {
    let is_fit = |byte: u8| byte.is_ascii_alphanumeric() || b".-_".contains(&byte);
    let fits = (1..=LONGEST_ID).contains(&id.len()) && !id.starts_with('.') && id.bytes().all(is_fit);
    if fits { Ok(()) } else { Err(StoreError::BadId { id: id.to_owned() }) }
}

/// The path of a file that others are below.
pub(crate) fn folder_that_is_a_file<'a>(paths: &BTreeSet<&'a str>) -> Option<&'a str> {
    paths.iter().copied().find(|path| {
        let below = format!("{path}/");
        paths.range(below.as_str()..).next().is_some_and(|next| next.starts_with(&below))
    })
}

/// Whether a path is that of a file in a folder, whichever folder that is: names with `/` between them, of which none leads elsewhere.
pub(crate) fn is_within(path: &str) -> bool {
    let is_name = |name: &str| {
        let mut components = Path::new(name).components();
        let is_one = matches!(components.next(), Some(Component::Normal(found)) if found == name);
        is_one && components.next().is_none() && !name.contains('\0')
    };
    path.split('/').all(is_name)
}

/// Whether a manifest ends with the hash of what is before.
fn has_its_hash(text: &[u8]) -> bool {
    let Some(body) = text.len().checked_sub(HASH_KEY.len() + DIGITS + END.len()) else { return false };
    let (body, end) = text.split_at(body);
    let hash = Address::from_bytes(hash_of_piece(body));
    end == format!("{HASH_KEY}{hash}{END}").as_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn manifest(paths: &[&str]) -> Manifest {
        let object = Address::from_bytes([7; 32]);
        let (tensor, dtype) = (Some("w".to_owned()), "BF16".to_owned());
        let part = Part { tensor, dtype, bytes: 4, object, rounded_from: None };
        let file = |path: &&str| StoredFile { path: (*path).to_owned(), bytes: 4, parts: vec![part.clone()] };
        Manifest {
            version: FORMAT_VERSION,
            id: "a".to_owned(),
            sequence: 1,
            created_unix_s: 0,
            parent: None,
            files: paths.iter().map(file).collect(),
        }
    }

    fn parse(manifest: &Manifest) -> Result<Manifest, StoreError> {
        Manifest::parse(manifest.to_text().as_bytes(), Path::new("a.json"), "a")
    }

    #[test]
    fn what_is_written_is_read() {
        let sound = manifest(&["x", "y/z", "y/a"]);
        assert_eq!(parse(&sound).unwrap(), sound);
        let value: serde_json::Value = serde_json::from_str(&sound.to_text()).unwrap();
        assert_eq!(value["files"][1]["path"], "y/z", "it is JSON for others");
    }

    #[test]
    fn no_path_leads_out() {
        for path in ["../x", "x/../../y", "/x", "x//y", "./x", "x/.", "x/", "", "..", "x\0"] {
            let error = parse(&manifest(&[path])).unwrap_err();
            assert!(error.to_string().contains("leads out"), "{path}: {error}");
        }
        for (paths, what) in [(["x", "x"], "twice"), (["x", "x/y"], "a file and a folder")] {
            assert!(parse(&manifest(&paths)).unwrap_err().to_string().contains(what));
        }
    }

    #[test]
    fn every_flip_is_found() {
        let text = manifest(&["x"]).to_text().into_bytes();
        for at in 0..text.len() {
            for bit in 0..8 {
                let mut damaged = text.clone();
                damaged[at] ^= 1 << bit;
                assert!(Manifest::parse(&damaged, Path::new("a.json"), "a").is_err(), "{at}.{bit}");
            }
            assert!(Manifest::parse(&text[..at], Path::new("a.json"), "a").is_err(), "{at}");
        }
        assert!(Manifest::parse(&text, Path::new("b.json"), "b").is_err(), "of another checkpoint");
    }

    #[test]
    fn parts_are_all_of_a_file_and_versions_are_known() {
        let mut short = manifest(&["x"]);
        short.files[0].bytes = 5;
        assert!(parse(&short).unwrap_err().to_string().contains("5 bytes"));
        let mut rounded = manifest(&["x"]);
        rounded.files[0].parts[0].rounded_from = Some("F32".to_owned());
        assert!(parse(&rounded).unwrap_err().to_string().contains("rounded from"), "not in version 1");
        rounded.version = WITH_ROUNDED;
        assert_eq!(parse(&rounded).unwrap(), rounded);
        rounded.files[0].parts[0].rounded_from = Some("F64".to_owned());
        assert!(parse(&rounded).unwrap_err().to_string().contains("rounded from"));
        let mut newer = manifest(&["x"]);
        newer.version = 7;
        assert!(matches!(parse(&newer), Err(StoreError::Version { found: 7, .. })));
        let other = newer.to_text().replace("\"blake3\"", "\"sha3\"");
        let other = Manifest::parse(other.as_bytes(), Path::new("a.json"), "a");
        assert!(matches!(other, Err(StoreError::Version { found: 7, .. })));
    }

    #[test]
    fn names_are_names_of_files() {
        for id in ["1", "step-000100", "run_a.7", &"x".repeat(LONGEST_ID)] {
            check_id(id).unwrap();
        }
        for id in ["", ".", "..", ".x", "a/b", "a\\b", "a b", "ä", "a\0", &"x".repeat(LONGEST_ID + 1)] {
            assert!(matches!(check_id(id), Err(StoreError::BadId { .. })), "{id}");
        }
    }
}
