//! Damage, wherever it is: what is hit is named, what is not hit comes back, and nothing comes back wrong.

use std::collections::BTreeSet;
use std::fs;
use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use super::common::{Tensors, World, files_of, model, read_files, safetensors, train, weights};
use rand::RngExt;
use safetensors::Dtype;
use zipwire_models::file::Watch;
use zipwire_models::store::{
    Addition, Keep, Parent, Selection, Store, StoreError, Verified, Writer, add, list, prune, salvage, stats,
    verify,
};

/// A store with three checkpoints, each differences from the one before.
fn three(seed: u64) -> (World, Tensors) {
    let mut world = World::new(seed);
    let mut tensors = model(&mut world.rng);
    for id in ["a", "b", "c"] {
        train(&mut world.rng, &mut tensors);
        world.add(id, files_of(&tensors, id));
    }
    (world, tensors)
}

fn look(world: &World, deep: bool) -> Verified {
    verify(&world.store, deep, &Watch::default()).unwrap()
}

/// Restores each checkpoint and asserts that it succeeds exactly where `verify` says so.
fn agrees(world: &World, verified: &Verified) -> BTreeSet<String> {
    let mut lost = BTreeSet::new();
    assert_eq!(verified.checkpoints.len(), world.added.len());
    for verdict in &verified.checkpoints {
        if verdict.restores() {
            world.check(&verdict.id);
        } else {
            let error = world.restored(&verdict.id).unwrap_err();
            assert!(
                matches!(
                    error,
                    StoreError::Damaged { .. } | StoreError::Manifest { .. } | StoreError::Version { .. }
                ),
                "{error}"
            );
            lost.insert(verdict.id.clone());
        }
    }
    lost
}

#[test]
fn every_damaged_object_is_named_with_what_it_hits() {
    let (mut world, tensors) = three(1);
    let objects = world.objects();
    assert!(objects.len() > 8);
    for path in &objects {
        let whole = fs::read(path).unwrap();
        let middle = world.rng.random_range(0..whole.len());
        let flipped = |at: usize| {
            let mut bytes = whole.clone();
            bytes[at] ^= 1 << (at % 8);
            Some(bytes)
        };
        let cases = [
            flipped(0),
            flipped(4),
            flipped(60),
            flipped(whole.len() - 1),
            flipped(middle),
            Some(whole[..middle].to_vec()),
            Some([&whole[..], &[0]].concat()),
            Some(Vec::new()),
            None,
        ];
        for bytes in cases {
            match bytes {
                Some(bytes) => fs::write(path, bytes).unwrap(),
                None => fs::remove_file(path).unwrap(),
            }
            let verified = look(&world, false);
            assert_eq!(verified.objects.len(), 1, "{verified:?}");
            let address = verified.objects.keys().next().unwrap().to_string();
            assert!(path.to_str().unwrap().replace('/', "").ends_with(&address), "it names another one");
            let lost = agrees(&world, &verified);
            assert!(!lost.is_empty(), "somebody needs it");
            assert_eq!(agrees(&world, &look(&world, true)), lost);
        }
        fs::write(path, &whole).unwrap();
    }
    assert!(agrees(&world, &look(&world, true)).is_empty());

    // What is damaged is no base, and is put back by whoever has it.
    for path in &objects {
        let whole = fs::read(path).unwrap();
        fs::write(path, &whole[..whole.len() - 1]).unwrap();
    }
    assert_eq!(agrees(&world, &look(&world, false)).len(), 3);
    let again = world.add("d", files_of(&tensors, "c"));
    assert_eq!(again.parts.delta, 0);
    world.check("d");
    world.check("c");
    assert_eq!(agrees(&world, &look(&world, true)), BTreeSet::from(["a".to_owned(), "b".to_owned()]));
    let writer = Writer::begin(&world.store).unwrap();
    prune(&writer, Keep { newest: NonZero::new(2).unwrap(), every: None }, &Watch::default()).unwrap();
    let stats = stats(&world.store).unwrap();
    assert_eq!((stats.damaged, stats.bytes_unneeded), (0, Some(0)));
}

#[test]
fn a_damaged_manifest_keeps_everything_there() {
    let (world, _) = three(2);
    let path = world.store.path().join("checkpoints/b.json");
    let whole = fs::read(&path).unwrap();
    let newer = String::from_utf8(whole.clone()).unwrap().replace("\"version\":1", "\"version\":9");
    for bytes in [&whole[..whole.len() / 2], b"", b"{}", newer.as_bytes()] {
        fs::write(&path, bytes).unwrap();
        assert_eq!(agrees(&world, &look(&world, false)), BTreeSet::from(["b".to_owned()]));
        let writer = Writer::begin(&world.store).unwrap();
        let before = world.objects();
        let error = prune(&writer, Keep { newest: NonZero::<usize>::MIN, every: None }, &Watch::default())
            .unwrap_err();
        assert!(
            matches!(error, StoreError::Blocked { .. }) && error.to_string().contains("b.json"),
            "{error}"
        );
        assert_eq!(world.objects(), before);
    }
    // Also one that was interrupted removes nothing then.
    fs::write(world.store.path().join("unswept"), "").unwrap();
    let before = world.objects();
    drop(Writer::begin(&world.store).unwrap());
    assert_eq!(world.objects(), before);
    fs::write(&path, &whole).unwrap();
    drop(Writer::begin(&world.store).unwrap());
    assert_eq!(world.objects(), before);
    assert!(agrees(&world, &look(&world, true)).is_empty());
}

/// File of the object of a tensor of a checkpoint.
fn object(world: &World, id: &str, tensor: &str) -> PathBuf {
    let manifest = world.store.manifest(id).unwrap();
    let mut parts = manifest.files.iter().flat_map(|file| &file.parts);
    let part = parts.find(|part| part.tensor.as_deref() == Some(tensor)).unwrap();
    let address = part.object.to_string();
    world.store.path().join("objects").join(&address[..2]).join(&address[2..])
}

#[test]
fn a_base_that_is_damaged_is_no_reason_to_take_what_differs_from_it_as_there() {
    for is_cut in [false, true] {
        let (mut world, _) = three(4);
        let base = object(&world, "a", "a");
        if is_cut {
            let whole = fs::read(&base).unwrap();
            fs::write(&base, &whole[..whole.len() / 2]).unwrap();
        } else {
            fs::remove_file(&base).unwrap();
        }
        let added = world.add("again", world.added["c"].clone());
        assert_eq!((added.parts.full, added.parts.delta), (1, 0), "the tensor that needs it, by itself");
        world.check("again");
        world.check("c");
        assert!(agrees(&world, &look(&world, true)).contains("a"));
    }
}

#[test]
fn damaged_checkpoints_are_named_beside_the_others() {
    let (mut world, _) = three(5);
    let path = world.store.path().join("checkpoints/b.json");
    fs::write(&path, "{}").unwrap();
    let listing = list(&world.store).unwrap();
    assert_eq!(listing.checkpoints.iter().map(|listed| &listed.id).collect::<Vec<_>>(), ["a", "c"]);
    assert_eq!(listing.unread.iter().map(|unread| &unread.id).collect::<Vec<_>>(), ["b"]);
    assert!(listing.unread[0].error.contains("b.json") && !listing.is_sound());
    let found = stats(&world.store).unwrap();
    assert_eq!((found.checkpoints, found.unread.len(), found.bytes_unneeded), (2, 1, None));
    assert!(!found.is_sound());

    // It goes by its name, and then what only it needed.
    let writer = Writer::begin(&world.store).unwrap();
    let remove = |id: &str| prune(&writer, Selection::Ids(vec![id.to_owned()]), &Watch::default());
    assert!(matches!(remove("a"), Err(StoreError::Blocked { .. })));
    let pruned = remove("b").unwrap();
    assert_eq!((pruned.removed, pruned.kept), (vec!["b".to_owned()], vec!["a".to_owned(), "c".to_owned()]));
    world.added.remove("b");
    assert!(list(&world.store).unwrap().is_sound());
    assert_eq!(stats(&world.store).unwrap().bytes_unneeded, Some(0));
    assert!(agrees(&world, &look(&world, true)).is_empty());
    // A header that is cut is seen without reading more.
    fs::write(object(&world, "a", "b"), "short").unwrap();
    assert!(!list(&world.store).unwrap().is_sound() && !stats(&world.store).unwrap().is_sound());
}

#[test]
fn what_is_sound_of_a_damaged_checkpoint_comes_back() {
    let (world, _) = three(6);
    let path = object(&world, "c", "a");
    let whole = fs::read(&path).unwrap();
    let mut flipped = whole.clone();
    // In the second of two chunks: the first one has been written when that is found.
    flipped[whole.len() - 60] ^= 1;
    for bytes in [Some(flipped), Some(whole[..99].to_vec()), None] {
        match bytes {
            Some(bytes) => fs::write(&path, bytes).unwrap(),
            None => fs::remove_file(&path).unwrap(),
        }
        world.restored("c").unwrap_err();
        let out = world.folder.path().join("salvaged");
        let salvaged = salvage(&world.store, "c", &out, false, &Watch::default()).unwrap();
        let [missing] = &salvaged.missing[..] else { panic!("{salvaged:?}") };
        assert_eq!((missing.file.as_str(), missing.tensor.as_str()), ("model.safetensors", "a"));
        assert!(matches!(missing.error, StoreError::Damaged { .. }));
        let (mut wanted, found) = (world.added["c"].clone(), read_files(&out));
        let (at, len) = (missing.at as usize, missing.bytes as usize);
        wanted.get_mut("model.safetensors").unwrap()[at..at + len].fill(0);
        assert!(found == wanted, "the same but for zeros");
        fs::remove_dir_all(&out).unwrap();
    }
    fs::write(&path, &whole).unwrap();
    let out = world.folder.path().join("salvaged");
    assert!(salvage(&world.store, "c", &out, false, &Watch::default()).unwrap().missing.is_empty());
}

/// A prune in the midst of it: what is opened afterwards is not what its header was read of.
#[test]
fn what_is_pruned_while_it_is_verified_is_not_damaged() {
    let mut world = World::new(7);
    let mut tensors: Tensors = (0..60)
        .map(|number| (format!("t{number:02}"), (Dtype::BF16, weights(&mut world.rng, 2100))))
        .collect();
    for id in ["a", "b", "c", "d"] {
        train(&mut world.rng, &mut tensors);
        world.add(id, files_of(&tensors, id));
    }
    for deep in [false, true] {
        let is_pruned = AtomicBool::new(false);
        let cancelled = || {
            if !is_pruned.swap(true, Ordering::Relaxed) {
                let keep = Keep { newest: NonZero::new(if deep { 1 } else { 2 }).unwrap(), every: None };
                let pruned = prune(&Writer::begin(&world.store).unwrap(), keep, &Watch::default()).unwrap();
                assert!(pruned.rebased >= 60, "{pruned:?}");
            }
            false
        };
        let watch = Watch { cancelled: &cancelled, threads: NonZero::<usize>::MIN, ..Watch::default() };
        let verified = verify(&world.store, deep, &watch).unwrap();
        assert!(verified.is_sound() && verified.objects.is_empty(), "{:?}", verified.objects);
    }
}

#[cfg(unix)]
#[test]
fn links_are_not_entered() {
    use std::os::unix::fs::symlink;
    let victim = |world: &World| {
        let folder = world.folder.path().join("victim");
        fs::create_dir_all(folder.join("within")).unwrap();
        fs::write(folder.join("within/file"), "precious").unwrap();
        fs::write(folder.join("c".repeat(62)), "precious").unwrap();
        folder
    };
    let (world, _) = three(8);
    let (root, victim) = (world.store.path(), victim(&world));
    let before = read_files(&victim);
    let folders = ["staged", "objects", "checkpoints", "objects/ab", "objects/zz"];
    let files = ["lock", "unswept"];
    for name in folders.into_iter().chain(files) {
        let (path, aside) = (root.join(name), root.join("aside"));
        let was_there = fs::rename(&path, &aside).is_ok();
        let target = if files.contains(&name) { victim.join("within/file") } else { victim.clone() };
        symlink(target, &path).unwrap();
        let error = Writer::begin(&world.store).unwrap_err();
        assert!(matches!(&error, StoreError::Link { path: found } if *found == path), "{name}: {error}");
        assert!(read_files(&victim) == before, "{name}");
        fs::remove_file(&path).unwrap();
        if was_there {
            fs::rename(&aside, &path).unwrap();
        }
    }
    // What is in a folder of the store's own is removed, and not what it leads to.
    symlink(&victim, root.join("staged/x")).unwrap();
    assert_eq!(Writer::begin(&world.store).unwrap().swept().staged, 1);
    assert!(read_files(&victim) == before);
    let fresh = world.folder.path().join("fresh");
    fs::create_dir(&fresh).unwrap();
    symlink(&victim, fresh.join("objects")).unwrap();
    assert!(matches!(Store::init(&fresh), Err(StoreError::Link { .. })));
}

#[test]
fn shards_that_an_index_names_are_there() {
    let mut world = World::new(9);
    let tensors = model(&mut world.rng);
    let index = |shards: &[&str]| {
        let map: Vec<String> = shards.iter().map(|shard| format!("\"t.{shard}\":\"{shard}\"")).collect();
        format!("{{\"metadata\":{{}},\"weight_map\":{{{}}}}}", map.join(",")).into_bytes()
    };
    let name = "sub/model.safetensors.index.json";
    let mut files = std::collections::BTreeMap::from([
        ("sub/1.safetensors".to_owned(), safetensors(&tensors)),
        (name.to_owned(), index(&["1.safetensors", "2.safetensors", "3.safetensors"])),
    ]);
    let error = world.try_add("a", files.clone(), Parent::Auto, 8, "rans").unwrap_err();
    let is_named =
        matches!(&error, StoreError::MissingShard { shard, more: 1, .. } if shard == "2.safetensors");
    assert!(is_named && error.to_string().contains("and 1 more"), "{error}");
    assert!(list(&world.store).unwrap().checkpoints.is_empty());
    let source = world.folder.path().join("source");
    let addition = Addition {
        id: "a".to_owned(),
        parent: Parent::Auto,
        spec: "rans".parse().unwrap(),
        chain: 8,
        allow_missing: true,
        keep_trailing: false,
    };
    add(&Writer::begin(&world.store).unwrap(), &[source], &addition, &Watch::default()).unwrap();
    // What is no index, or names what is there, is stored as it is.
    for (number, text) in
        [index(&["1.safetensors"]), b"{\"weight_map\":7}".to_vec(), b"x".to_vec()].into_iter().enumerate()
    {
        files.insert(name.to_owned(), text);
        world.add(&format!("b{number}"), files.clone());
    }
}

#[test]
fn odd_types_are_stored_and_bytes_behind_the_values_if_that_is_asked_for() {
    let mut world = World::new(31);
    let header = r#"{"a":{"dtype":"I4","shape":[9],"data_offsets":[0,5]},"b":{"dtype":"A_TYPE_OF_MORE_THAN_SIXTEEN_LETTERS","shape":[1],"data_offsets":[5,9005]},"c":{"dtype":"µ","shape":[],"data_offsets":[9005,9006]}}"#;
    let mut file = [&(header.len() as u64).to_le_bytes(), header.as_bytes(), &[7; 9006]].concat();
    let name = "m.safetensors".to_owned();
    world.add("odd", std::collections::BTreeMap::from([(name.clone(), file.clone())]));
    world.check("odd");
    file.extend([5; 5000]);
    let files = std::collections::BTreeMap::from([(name, file)]);
    let error = world.try_add("longer", files.clone(), Parent::Auto, 8, "rans").unwrap_err();
    assert!(error.to_string().contains("`--keep-trailing`"), "{error}");
    let addition = Addition {
        id: "longer".to_owned(),
        parent: Parent::Auto,
        spec: "rans".parse().unwrap(),
        chain: 8,
        allow_missing: false,
        keep_trailing: true,
    };
    let source = world.folder.path().join("source");
    add(&Writer::begin(&world.store).unwrap(), &[source], &addition, &Watch::default()).unwrap();
    world.added.insert("longer".to_owned(), files);
    world.check("longer");
}

#[test]
fn what_an_interrupted_writer_left_is_removed() {
    let (mut world, mut tensors) = three(3);
    let objects = world.objects();
    let root = world.store.path().to_owned();
    fs::create_dir(root.join("staged/writer-x")).unwrap();
    fs::write(root.join("staged/writer-x/0"), [1; 99]).unwrap();
    // An object that no manifest names, as if the process had ended before it was written.
    let stray = root.join("objects/ab").join("c".repeat(62));
    fs::create_dir_all(stray.parent().unwrap()).unwrap();
    fs::write(&stray, [2; 77]).unwrap();
    fs::write(root.join("unswept"), "").unwrap();
    assert_eq!(look(&world, false).unneeded, 1);
    let writer = Writer::begin(&world.store).unwrap();
    let swept = writer.swept();
    assert_eq!((swept.objects, swept.bytes, swept.staged), (1, 77, 1));
    assert_eq!(world.objects(), objects);
    assert!(!root.join("unswept").exists());
    // Another process is told who has the lock.
    let error = Writer::begin(&world.store).unwrap_err();
    assert!(
        matches!(error, StoreError::Locked { pid: Some(pid), .. } if pid == std::process::id()),
        "{error}"
    );
    drop(writer);
    train(&mut world.rng, &mut tensors);
    world.add("d", files_of(&tensors, "d"));
    assert!(agrees(&world, &look(&world, true)).is_empty());
}

#[test]
fn names_and_folders_that_do_not_do() {
    let (mut world, tensors) = three(4);
    let files = || files_of(&tensors, "x");
    let error = world.try_add("b", files(), Default::default(), 8, "rans").unwrap_err();
    assert!(matches!(error, StoreError::IdTaken { .. }));
    let error = world.try_add("../b", files(), Default::default(), 8, "rans").unwrap_err();
    assert!(matches!(error, StoreError::BadId { .. }));
    let parent = zipwire_models::store::Parent::Id("bb".to_owned());
    let error = world.try_add("e", files(), parent, 8, "rans").unwrap_err();
    assert!(error.to_string().contains("it has `b`"), "{error}");
    for chain in [0, 33] {
        let error = world.try_add("e", files(), Default::default(), chain, "rans").unwrap_err();
        assert!(matches!(error, StoreError::Chain { .. }));
    }
    let error = world.try_add("e", Default::default(), Default::default(), 8, "rans").unwrap_err();
    assert!(matches!(error, StoreError::File(_)), "{error}");
    let open = |path: &Path| zipwire_models::store::Store::open(path).unwrap_err();
    assert!(matches!(open(world.folder.path()), StoreError::NotStore { .. }));
    let init = |path: &Path| zipwire_models::store::Store::init(path).unwrap_err();
    assert!(matches!(init(world.store.path()), StoreError::IsStore { .. }));
    assert!(matches!(init(world.folder.path()), StoreError::NotEmpty { .. }));
    let about = world.store.path().join("zipwire-store.json");
    fs::write(&about, r#"{"format":"zipwire-store","version":3}"#).unwrap();
    assert!(matches!(open(world.store.path()), StoreError::Version { found: 3, .. }));
    fs::write(&about, "{").unwrap();
    assert!(matches!(open(world.store.path()), StoreError::Manifest { .. }));
}
