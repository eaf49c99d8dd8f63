//! Stores that releases wrote are read for ever: each release has left one in `tests/it/store/releases`.
//!
//! A release of a new version begins with `cargo test -p zipwire-models --test it store::releases::writes -- --ignored`, which adds a folder and changes none.

use std::collections::BTreeMap;
use std::fs;

use super::common::{Tensors, World, files_of, read_files, step, weights};
use crate::{names_of_releases, releases};
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use safetensors::Dtype;
use tempfile::TempDir;
use zipwire_models::file::Watch;
use zipwire_models::store::{Store, restore, verify};

/// Each release has these: a store, and the files of its checkpoints, each with a hash.
const STORE: &str = "store";
const LIST: &str = "list.txt";
const IDS: [&str; 3] = ["step-1", "step-2", "step-3"];

fn listed(id: &str, files: &BTreeMap<String, Vec<u8>>) -> String {
    files.iter().map(|(name, bytes)| format!("{id} {name} {}\n", blake3::hash(bytes))).collect()
}

#[test]
fn stores_of_all_releases_are_read() {
    for name in names_of_releases("store") {
        let store = Store::open(&releases("store").join(&name).join(STORE)).unwrap();
        let mut found = String::new();
        for id in IDS {
            let out = TempDir::new().unwrap();
            let to = out.path().join("out");
            restore(&store, id, &to, false, &Watch::default()).unwrap();
            found += &listed(id, &read_files(&to));
        }
        assert_eq!(found, fs::read_to_string(releases("store").join(&name).join(LIST)).unwrap(), "{name}");
        assert!(verify(&store, true, &Watch::default()).unwrap().is_sound(), "{name}");
    }
}

/// Writes the folder of this version. What a release wrote is not written again.
#[test]
#[ignore = "writes files of a new release"]
fn writes_the_store_of_this_release() {
    let folder = releases("store").join(env!("CARGO_PKG_VERSION"));
    fs::create_dir(&folder).unwrap();
    let (mut world, mut rng) = (World::new(1), ChaCha8Rng::seed_from_u64(2));
    let mut tensors = Tensors::from([
        ("a".to_owned(), (Dtype::BF16, weights(&mut rng, 9_000))),
        ("frozen".to_owned(), (Dtype::F32, weights(&mut rng, 4_000))),
    ]);
    let mut list = String::new();
    for id in IDS {
        let files = files_of(&tensors, id);
        list += &listed(id, &files);
        world.add(id, files);
        step(&mut rng, &mut tensors.get_mut("a").unwrap().1);
    }
    // The lock is of the process that wrote.
    for (name, bytes) in read_files(world.store.path()).into_iter().filter(|(name, _)| name != "lock") {
        let path = folder.join(STORE).join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, bytes).unwrap();
    }
    fs::write(folder.join(LIST), list).unwrap();
}
