//! Stores with a manifest or an object of the fuzzer's bytes, given the hash that they call for.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use tempfile::TempDir;
use zipwire_models::file::files_below;
use zipwire_models::store::{Addition, Parent, Store, Writer, add, list, restore, stats, verify};

use crate::alone;

/// Bytes of the header of an object that its hash is of.
const SUMMED: usize = 136;
const HEADER: usize = 160;

/// A store with two checkpoints, `a` and `b`, of which the second one is differences, and the file of each.
struct World {
    folder: TempDir,
    store: Store,
    values: [Vec<u8>; 2],
    /// Files of its objects, and what is in them.
    objects: Vec<(PathBuf, Vec<u8>)>,
}

fn world() -> &'static World {
    static WORLD: OnceLock<World> = OnceLock::new();
    WORLD.get_or_init(|| {
        let folder = tempfile::tempdir().expect("there is room for a temporary folder");
        let store = Store::init(&folder.path().join("store")).expect("the folder is new");
        let values = [0_u16, 1].map(safetensors);
        for (id, values) in ["a", "b"].into_iter().zip(&values) {
            let file = folder.path().join("m.safetensors");
            fs::write(&file, values).expect("there is room for a file");
            let writer = Writer::begin(&store).expect("nobody else writes");
            let spec = "rans".parse().expect("it is a codec");
            let addition = Addition {
                id: id.to_owned(),
                parent: Parent::Auto,
                spec,
                chain: 8,
                allow_missing: false,
                keep_trailing: false,
            };
            add(&writer, &[file], &addition, &alone()).expect("it is a sound file");
        }
        let files = files_below(&store.path().join("objects")).expect("it is there");
        let objects =
            files.into_iter().map(|path| (path.clone(), fs::read(path).expect("it is there"))).collect();
        World { folder, store, values, objects }
    })
}

/// A file with one tensor of three chunks, in which a third of the values are one more each step.
fn safetensors(step: u16) -> Vec<u8> {
    let count = 262_200_u32;
    let header =
        format!("{{\"w\":{{\"dtype\":\"BF16\",\"shape\":[{count}],\"data_offsets\":[0,{}]}}}}", 2 * count);
    let values =
        (0..count).flat_map(|i| (0x3c00 + (i % 700) as u16 + step * u16::from(i % 3 == 0)).to_le_bytes());
    (header.len() as u64).to_le_bytes().into_iter().chain(header.bytes()).chain(values).collect()
}

/// Any text as the manifest of a checkpoint, with its hash: an error, or files below the folder that is named.
///
/// # Panics
/// If anything else comes of it.
pub fn check_manifest(body: &[u8]) {
    let World { folder, store, .. } = world();
    let path = store.path().join("checkpoints/x.json");
    let text = [body, b",\"blake3\":\"", blake3::hash(body).to_hex().as_bytes(), b"\"}\n"].concat();
    fs::write(&path, text).expect("there is room for a manifest");
    let within = folder.path().join("within");
    fs::create_dir_all(&within).expect("there is room for a folder");
    let out = within.join("out");
    let read = store.manifest("x");
    match restore(store, "x", &out, false, &alone()) {
        Ok(manifest) => {
            assert_eq!(read.expect("it was restored"), manifest);
            let bytes: u64 = lens(&out).iter().sum();
            assert_eq!(bytes, manifest.bytes_raw());
            fs::remove_dir_all(&out).expect("it was just made");
        }
        Err(error) => assert!(!error.to_string().is_empty() && !out.exists()),
    }
    let verified = verify(store, false, &alone()).expect("damage is no error");
    assert!(verified.checkpoints.iter().any(|verdict| verdict.id == "a" && verdict.restores()));
    for result in [list(store).err(), stats(store).err()] {
        assert!(result.is_none_or(|error| !error.to_string().is_empty()));
    }
    assert_eq!(lens(&within), [0_u64; 0], "nothing is anywhere else");
    fs::remove_file(&path).expect("it was just written");
}

fn lens(folder: &Path) -> Vec<u64> {
    let files = files_below(folder).expect("it is there");
    files.iter().map(|file| file.metadata().expect("it is there").len()).collect()
}

/// An object with other bytes, and the hash of its header that they call for: an error, or the values that were stored.
///
/// # Panics
/// If anything else comes of it.
pub fn check_object(number: u8, edits: &[(u16, u8)], cut: Option<u16>) {
    let World { folder, store, values, objects } = world();
    let (path, whole) = &objects[usize::from(number) % objects.len()];
    let mut bytes = whole.clone();
    for (at, value) in edits {
        // The ends are where header and index are.
        let at = usize::from(*at);
        let len = bytes.len();
        let at = if at < 0x4000 {
            at % HEADER
        } else if at < 0x8000 {
            len - 1 - at % len.min(80)
        } else {
            at % len
        };
        bytes[at] = *value;
    }
    bytes.truncate(cut.map_or(bytes.len(), usize::from));
    if bytes.len() >= HEADER {
        let sum = blake3::hash(&bytes[..SUMMED]);
        bytes[SUMMED..HEADER].copy_from_slice(&sum.as_bytes()[..HEADER - SUMMED]);
    }
    fs::write(path, &bytes).expect("there is room for an object");
    for (id, values) in ["a", "b"].into_iter().zip(values) {
        let out = folder.path().join("out");
        match restore(store, id, &out, false, &alone()) {
            Ok(_) => {
                assert!(fs::read(out.join("m.safetensors")).is_ok_and(|found| found == *values));
                fs::remove_dir_all(&out).expect("it was just made");
            }
            Err(error) => assert!(!error.to_string().is_empty() && !out.exists()),
        }
    }
    let shallow = verify(store, false, &alone()).expect("damage is no error");
    let deep = verify(store, true, &alone()).expect("damage is no error");
    assert!(shallow.is_sound() || !deep.is_sound(), "what is found without decoding is found with it");
    if bytes == *whole {
        assert!(deep.is_sound());
    }
    fs::write(path, whole).expect("there was room for it");
}

/// The manifest of a checkpoint without its hash, to begin with.
///
/// # Panics
/// If there is none.
pub fn manifest_body() -> String {
    let text = world().store.manifest("b").expect("it was added").to_text();
    let end = text.find(",\"blake3\"").expect("each has a hash");
    text[..end].to_owned()
}
