//! Damage, wherever it is: what is hit is named, what is not hit comes back, and nothing comes back wrong.

use std::collections::BTreeSet;
use std::fs;
use std::num::NonZero;
use std::path::Path;

use super::common::{Tensors, World, files_of, model, train};
use rand::RngExt;
use zipwire_models::file::Watch;
use zipwire_models::store::{Keep, StoreError, Verified, Writer, prune, stats, verify};

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
    assert_eq!((stats.damaged, stats.bytes_unneeded), (0, 0));
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
