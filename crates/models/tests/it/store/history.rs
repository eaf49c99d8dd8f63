//! Whatever is added and removed, in whichever order: each checkpoint that is there comes back byte for byte, and nothing else is kept, also while others write.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::num::NonZero;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use super::super::file::common::archive;
use super::common::{Tensors, World, files_of, model, read_files, safetensors, step, train, weights};
use rand::{Rng, RngExt};
use rand_chacha::ChaCha8Rng;
use safetensors::Dtype;
use safetensors::tensor::TensorView;
use zipwire_models::file::{Compression, FileError, Watch, compress};
use zipwire_models::store::{
    Addition, DEFAULT_CHAIN, Keep, Parent, Selection, StoreError, Writer, add, list, plan_prune, prune,
    restore, salvage, set_pinned, stats, verify,
};

/// Something that happens to models.
fn change(world: &mut World, tensors: &mut Tensors) {
    let rng = &mut world.rng;
    match rng.random_range(0..12) {
        0 => drop(tensors.insert(format!("new{}", rng.next_u32() % 9), (Dtype::BF16, weights(rng, 700)))),
        1 => {
            let last = tensors.keys().next_back().unwrap().clone();
            let moved = tensors.remove(&last).unwrap();
            tensors.insert(format!("{last}x"), moved);
        }
        2 => {
            let tied = tensors["a"].clone();
            tensors.insert("tied".to_owned(), tied);
        }
        3 => drop(tensors.insert("empty".to_owned(), (Dtype::F16, Vec::new()))),
        4 => {
            let flags = (0..9000).map(|_| (rng.next_u32() % 2) as u8).collect();
            tensors.insert("flags".to_owned(), (Dtype::BOOL, flags));
        }
        5 => drop(tensors.insert("b".to_owned(), (Dtype::F16, weights(rng, 9_000)))),
        6 => drop(
            tensors
                .insert("noise".to_owned(), (Dtype::U8, (0..70_000).map(|_| rng.next_u32() as u8).collect())),
        ),
        _ => {}
    }
    if rng.random_range(0..5) > 0 {
        train(rng, tensors);
    }
}

/// The same tensors in one file or in several.
fn layout(world: &mut World, tensors: &Tensors, number: u32) -> BTreeMap<String, Vec<u8>> {
    if world.rng.random_range(0..3) > 0 {
        return files_of(tensors, &format!("{{\"step\": {number}}}"));
    }
    let shards = world.rng.random_range(2..4);
    let shard = |index: usize| {
        safetensors(tensors.iter().enumerate().filter(|(at, _)| at % shards == index).map(|(_, t)| t))
    };
    (0..shards).map(|index| (format!("model-{index}-of-{shards}.safetensors"), shard(index))).collect()
}

#[test]
fn every_checkpoint_comes_back_after_any_history() {
    for seed in 0..6 {
        let mut world = World::new(seed);
        let mut tensors = model(&mut world.rng);
        let longest = [1, 2, 3, 8][seed as usize % 4];
        let mut earlier = Vec::new();
        for number in 0..14 {
            change(&mut world, &mut tensors);
            // Some go back to values that were there.
            if world.rng.random_range(0..5) == 0 && !earlier.is_empty() {
                tensors = Tensors::clone(&earlier[world.rng.random_range(0..earlier.len())]);
            }
            earlier.push(tensors.clone());
            let files = layout(&mut world, &tensors, number);
            let ids: Vec<String> = world.added.keys().cloned().collect();
            let parent = match world.rng.random_range(0..6) {
                0 => Parent::None,
                1 if !ids.is_empty() => Parent::Id(ids[world.rng.random_range(0..ids.len())].clone()),
                _ => Parent::Auto,
            };
            let spec = ["rans", "tiered", "delta+tiered", "window7"][world.rng.random_range(0..4)];
            let added = world.try_add(&format!("c{number:02}"), files, parent, longest, spec).unwrap();
            assert!(added.chain <= longest, "a chain of {} where {longest} is the limit", added.chain);
            if world.rng.random_range(0..4) == 0 {
                let newest = NonZero::new(world.rng.random_range(1..6)).unwrap();
                let every = NonZero::new(world.rng.random_range(0..4));
                let writer = Writer::begin(&world.store).unwrap();
                assert!(writer.swept().is_empty(), "nothing was interrupted");
                let pruned = prune(&writer, Keep { newest, every }, &Watch::default()).unwrap();
                drop(writer);
                for id in &pruned.removed {
                    world.added.remove(id).unwrap();
                }
                let bytes: u64 = world.objects().iter().map(|path| path.metadata().unwrap().len()).sum();
                assert_eq!(pruned.bytes_after, bytes);
                assert_eq!(pruned.kept, world.added.keys().cloned().collect::<Vec<_>>());
            }
            let rows = list(&world.store).unwrap().checkpoints;
            assert_eq!(
                rows.iter().map(|row| row.id.clone()).collect::<BTreeSet<_>>(),
                world.added.keys().cloned().collect()
            );
            for id in world.added.keys() {
                world.check(id);
            }
            let stats = stats(&world.store).unwrap();
            assert_eq!((stats.bytes_unneeded, stats.damaged), (Some(0), 0));
            assert_eq!(rows.iter().map(|row| row.bytes_stored).sum::<u64>(), stats.bytes_stored);
            for deep in [false, true] {
                let verified = verify(&world.store, deep, &Watch::default()).unwrap();
                assert!(verified.is_sound() && verified.objects.is_empty() && verified.unneeded == 0);
                assert_eq!(verified.looked_at, stats.raw + stats.full + stats.delta);
            }
        }
    }
}

#[test]
fn what_is_there_is_not_stored_again() {
    let mut world = World::new(1);
    let mut tensors = model(&mut world.rng);
    let first = world.add("a", files_of(&tensors, "x"));
    assert_eq!((first.parts.same, first.parts.delta), (0, 0));
    let again = world.add("b", files_of(&tensors, "x"));
    assert_eq!((again.parts.full, again.parts.delta), (0, 0));
    assert_eq!(again.bytes_stored, again.manifest.to_text().len() as u64);

    // A step: differences, also from a model that is in one file, for one in several.
    train(&mut world.rng, &mut tensors);
    let shard = |name: &str| safetensors(tensors.iter().filter(|(found, _)| *found == name));
    let shards = ["a", "b", "norm"].map(|name| (format!("{name}.safetensors"), shard(name)));
    let resharded = world.add("c", BTreeMap::from(shards));
    assert_eq!(resharded.manifest.parent.as_deref(), Some("b"));
    assert_eq!(resharded.parts.delta, 2, "{:?}", resharded.parts);
    assert!(resharded.bytes_stored < first.bytes_stored / 2, "{}", resharded.bytes_stored);

    // Other names, the same values.
    let renamed: Tensors =
        tensors.iter().map(|(name, tensor)| (format!("{name}2"), tensor.clone())).collect();
    let renamed = world.add("d", files_of(&renamed, "x"));
    assert_eq!((renamed.parts.full, renamed.parts.delta), (1, 0), "only the header is new");
    for id in ["a", "b", "c", "d"] {
        world.check(id);
    }
}

#[test]
fn many_small_tensors_are_few_objects() {
    let mut world = World::new(10);
    let mut tensors = model(&mut world.rng);
    tensors.extend(
        (0..5000).map(|number| (format!("s{number:04}"), (Dtype::BF16, weights(&mut world.rng, 16)))),
    );
    let (raw, first) = (files_of(&tensors, "x"), world.add("a", files_of(&tensors, "x")));
    let raw: usize = raw.values().map(Vec::len).sum();
    assert!(first.bytes_stored < raw as u64, "{} of {raw} bytes", first.bytes_stored);
    assert_eq!(
        first.parts.full, 7,
        "header, config, two matrices, a vector, and two runs: {:?}",
        first.parts
    );
    train(&mut world.rng, &mut tensors);
    let second = world.add("b", files_of(&tensors, "x"));
    assert_eq!((second.parts.delta, second.parts.full), (4, 0), "{:?}", second.parts);
    for id in ["a", "b"] {
        world.check(id);
    }
}

#[test]
fn a_chain_that_is_full_goes_on_from_one_of_its_own() {
    let mut world = World::new(2);
    let mut tensors = model(&mut world.rng);
    let mut sizes = Vec::new();
    for number in 0..20 {
        train(&mut world.rng, &mut tensors);
        let added = world.add(&format!("c{number:02}"), files_of(&tensors, "x"));
        assert!(added.chain <= 8);
        sizes.push(added.bytes_stored);
    }
    let full = sizes[0];
    assert!(sizes[1..8].iter().all(|size| 2 * size < full), "{sizes:?}");
    // Values that move by so little never need a second one that is by itself.
    assert!(sizes[8..].iter().all(|size| *size < full), "{sizes:?}");
    assert!(
        list(&world.store).unwrap().checkpoints.iter().all(|row| row.chain.is_some_and(|chain| chain <= 8))
    );
    for id in world.added.keys() {
        world.check(id);
    }
}

#[test]
fn what_is_left_does_not_keep_what_is_gone() {
    let mut world = World::new(3);
    let mut tensors = model(&mut world.rng);
    let mut full = 0;
    for number in 0..8 {
        train(&mut world.rng, &mut tensors);
        let added = world.add(&format!("c{number}"), files_of(&tensors, "x"));
        full = full.max(added.bytes_stored);
    }
    let writer = Writer::begin(&world.store).unwrap();
    let keep = Keep { newest: NonZero::new(3).unwrap(), every: None };
    let pruned = prune(&writer, keep, &Watch::default()).unwrap();
    assert_eq!(pruned.rebased, 2, "both matrices of the oldest one that is left");
    let stats = stats(&world.store).unwrap();
    assert_eq!((stats.bases_only, stats.chain), (0, 3));
    assert!(stats.bytes_stored < 2 * full, "{stats:?}");
    for id in ["c5", "c6", "c7"] {
        world.check(id);
    }
    // In the middle: one is differences from what is left before it, and not by itself.
    let keep = Keep { newest: NonZero::<usize>::MIN, every: NonZero::new(2) };
    assert_eq!(prune(&writer, keep, &Watch::default()).unwrap().rebased, 2);
    let stats = zipwire_models::store::stats(&world.store).unwrap();
    assert_eq!((stats.bases_only, stats.chain, stats.delta), (0, 2, 2));
    for id in ["c5", "c7"] {
        world.check(id);
    }
}

/// Bytes of objects and manifests.
fn stored(world: &World) -> u64 {
    stats(&world.store).unwrap().bytes_stored
}

#[test]
fn a_bulk_prune_leaves_what_a_fresh_store_takes() {
    for (newest, every) in [(1, 10), (4, 7), (3, 0)] {
        let mut world = World::new(6);
        let mut tensors = model(&mut world.rng);
        tensors.insert("other".to_owned(), (Dtype::F32, weights(&mut world.rng, 30_000)));
        for number in 0..23 {
            train(&mut world.rng, &mut tensors);
            crate::store::common::step(&mut world.rng, &mut tensors.get_mut("other").unwrap().1);
            world.add(&format!("c{number:02}"), files_of(&tensors, &number.to_string()));
        }
        let keep = Keep { newest: NonZero::new(newest).unwrap(), every: NonZero::new(every) };
        let planned = plan_prune(&world.store, keep, &Watch::default()).unwrap();
        assert_eq!(list(&world.store).unwrap().checkpoints.len(), 23, "nothing was removed");
        let pruned = prune(&Writer::begin(&world.store).unwrap(), keep, &Watch::default()).unwrap();
        assert_eq!((&planned.removed, planned.swept), (&pruned.removed, pruned.swept));
        assert_eq!((planned.rebased, pruned.left), (pruned.rebased, 0));
        assert!(planned.bytes_after.abs_diff(pruned.bytes_after) < pruned.bytes_after / 50);
        let mut fresh = World::new(7);
        for id in &pruned.kept {
            world.check(id);
            fresh.add(id, world.added[id].clone());
        }
        let (left, fresh) = (stored(&world), stored(&fresh));
        assert!(10 * left <= 11 * fresh, "{newest} {every}: {left} bytes, and {fresh} of a fresh store");
        assert!(stats(&world.store).unwrap().chain <= 8);
        assert_eq!(stats(&world.store).unwrap().bases_only, 0);
    }
}

/// A prune knows how long rows are: those that repeat are left out of what it writes anew, too.
#[test]
fn rows_that_repeat_are_left_out_of_what_a_prune_writes_anew() {
    const ROW: usize = 64;
    let (mut world, mut fresh) = (World::new(15), World::new(15));
    let mut different = weights(&mut world.rng, 60 * ROW);
    let add = |world: &mut World, id: &str, different: &[u8]| {
        let rows: Vec<&[u8]> = different.chunks(2 * ROW).collect();
        let values: Vec<u8> = (0..1200).flat_map(|row| rows[row * 7 % rows.len()]).copied().collect();
        let tensor = TensorView::new(Dtype::BF16, vec![1200, ROW], &values).unwrap();
        let file = safetensors::serialize([("embed", tensor)], None).unwrap();
        let files = BTreeMap::from([("model.safetensors".to_owned(), file)]);
        world.try_add(id, files, Parent::Auto, DEFAULT_CHAIN, "auto").unwrap()
    };
    add(&mut world, "1", &different);
    step(&mut world.rng, &mut different[..ROW]);
    assert_eq!(add(&mut world, "2", &different).parts.delta, 1);
    add(&mut fresh, "2", &different);
    let oldest = Selection::Ids(vec!["1".to_owned()]);
    let pruned = prune(&Writer::begin(&world.store).unwrap(), oldest, &Watch::default()).unwrap();
    assert_eq!((pruned.rebased, pruned.left), (1, 0));
    world.check("2");
    let (left, fresh) = (stored(&world), stored(&fresh));
    assert!(10 * left <= 11 * fresh, "{left} bytes, and {fresh} of a fresh store");
}

/// Objects that can go without a write are gone when a write is refused, what is left is whole, and the next call goes on.
#[test]
fn a_prune_that_cannot_write_has_freed_what_it_can() {
    let mut world = World::new(8);
    let mut tensors = model(&mut world.rng);
    for number in 0..5 {
        train(&mut world.rng, &mut tensors);
        world.add(&format!("c{number}"), files_of(&tensors, &number.to_string()));
    }
    let writer = Writer::begin(&world.store).unwrap();
    let (staged, aside) = (world.store.path().join("staged"), world.folder.path().join("aside"));
    fs::rename(&staged, &aside).unwrap();
    let ids = |range: std::ops::Range<usize>| range.map(|number| format!("c{number}")).collect::<Vec<_>>();
    let error = prune(&writer, Selection::Ids(ids(0..4)), &Watch::default()).unwrap_err();
    let StoreError::Unfinished { done, source } = &error else { panic!("{error}") };
    assert!(source.to_string().contains("staged"), "{source}");
    assert_eq!(done.removed, ids(0..4));
    assert_eq!(
        (done.swept.objects, done.rebased, done.left),
        (4, 0, 2),
        "the files beside the model are gone"
    );
    assert!(error.to_string().contains("goes on"), "{error}");
    fs::rename(&aside, &staged).unwrap();
    world.check("c4");
    let pruned = prune(&writer, Selection::Ids(Vec::new()), &Watch::default()).unwrap();
    assert_eq!((pruned.rebased, pruned.left), (2, 0));
    world.check("c4");
    let stats = stats(&world.store).unwrap();
    assert_eq!((stats.bases_only, stats.bytes_unneeded, stats.chain), (0, Some(0), 1));
}

#[test]
fn pinned_checkpoints_stay() {
    let mut world = World::new(9);
    let mut tensors = model(&mut world.rng);
    for id in ["a", "b", "c", "d"] {
        train(&mut world.rng, &mut tensors);
        world.add(id, files_of(&tensors, id));
    }
    let writer = Writer::begin(&world.store).unwrap();
    set_pinned(&writer, "b", true).unwrap();
    set_pinned(&writer, "b", true).unwrap();
    assert!(matches!(set_pinned(&writer, "x", true), Err(StoreError::NoCheckpoint { .. })));
    let pinned = |world: &World| -> Vec<String> {
        let listed = list(&world.store).unwrap().checkpoints;
        listed.into_iter().filter(|listed| listed.is_pinned).map(|listed| listed.id).collect()
    };
    assert_eq!(pinned(&world), ["b"]);
    let keep = Keep { newest: NonZero::<usize>::MIN, every: None };
    let pruned = prune(&writer, keep, &Watch::default()).unwrap();
    assert_eq!((pruned.kept, pruned.pinned), (vec!["b".to_owned(), "d".to_owned()], vec!["b".to_owned()]));
    world.check("b");
    let rm = |ids: &[&str]| {
        let ids = ids.iter().map(|id| (*id).to_owned()).collect();
        prune(&writer, Selection::Ids(ids), &Watch::default())
    };
    let error = rm(&["d", "b"]).unwrap_err();
    assert!(matches!(&error, StoreError::Pinned { id } if id == "b"), "{error}");
    assert!(matches!(rm(&["d", "x"]), Err(StoreError::NoCheckpoint { .. })));
    assert_eq!(list(&world.store).unwrap().checkpoints.len(), 2, "nothing was removed");
    set_pinned(&writer, "b", false).unwrap();
    assert_eq!(rm(&["b"]).unwrap().kept, ["d"]);
    world.check("d");
    // A pin that its checkpoint has left behind is not of the next one of that name.
    fs::write(world.store.path().join("checkpoints/e.pin"), "").unwrap();
    drop(writer);
    world.add("e", files_of(&tensors, "e"));
    assert_eq!(pinned(&world), [""; 0]);
}

#[test]
fn readers_finish_or_are_told_that_it_is_gone() {
    let mut world = World::new(5);
    let mut tensors = model(&mut world.rng);
    let (done, gone) = (AtomicUsize::new(0), AtomicUsize::new(0));
    for round in 0..6 {
        for number in 0..4 {
            train(&mut world.rng, &mut tensors);
            world.add(&format!("r{round}-{number}"), files_of(&tensors, "x"));
        }
        let started = AtomicBool::new(false);
        let (store, added, folder) = (&world.store, &world.added, world.folder.path());
        let read = || {
            for (turn, (id, files)) in added.iter().cycle().take(3 * added.len()).enumerate() {
                let out = folder.join(format!("read-{turn}"));
                match restore(store, id, &out, false, &Watch::default()) {
                    Ok(_) => {
                        assert!(read_files(&out) == *files, "`{id}` comes back with other bytes");
                        fs::remove_dir_all(&out).unwrap();
                        done.fetch_add(1, Ordering::Relaxed);
                    }
                    Err(StoreError::Removed { .. } | StoreError::NoCheckpoint { .. }) => {
                        gone.fetch_add(1, Ordering::Relaxed);
                    }
                    Err(error) => panic!("`{id}`: {error}"),
                }
                started.store(true, Ordering::Relaxed);
            }
        };
        let pruned = std::thread::scope(|scope| {
            let reader = scope.spawn(read);
            while !started.load(Ordering::Relaxed) && !reader.is_finished() {
                std::thread::yield_now();
            }
            let writer = Writer::begin(store).unwrap();
            let pruned =
                prune(&writer, Keep { newest: NonZero::<usize>::MIN, every: None }, &Watch::default())
                    .unwrap();
            reader.join().unwrap();
            pruned
        });
        for id in pruned.removed {
            world.added.remove(&id);
        }
    }
    assert!(done.into_inner() > 0 && gone.into_inner() > 0, "both happen");
}

/// F32 values as BF16, to the nearest and, between two, to the even one.
fn rounded(masters: &[u8]) -> Vec<u8> {
    let round = |value: &[u8]| {
        let value = f32::from_le_bytes(value.try_into().unwrap());
        // Two candidates, and the one whose distance is smaller.
        let below = f32::from_bits(value.to_bits() & 0xffff_0000);
        let above = f32::from_bits(below.to_bits().wrapping_add(0x1_0000));
        let distances = (f64::from(value) - f64::from(below), f64::from(above) - f64::from(value));
        let is_even = (below.to_bits() >> 16) & 1 == 0;
        let is_below = distances.0.abs() < distances.1.abs() || (distances.0 == distances.1 && is_even);
        let bits = if is_below { below } else { above }.to_bits() >> 16;
        (bits as u16).to_le_bytes()
    };
    masters.chunks(4).flat_map(round).collect()
}

/// Weights that are the rounding of their masters take nothing, in whichever file these are, and one that differs in a value is kept.
#[test]
fn weights_that_are_rounded_masters_take_nothing() {
    let mut world = World::new(11);
    let masters = |rng: &mut ChaCha8Rng, count: usize| -> Vec<u8> {
        let value = |_| (rng.random_range(-1.0..1.0_f32) * 0.02).to_le_bytes();
        (0..count).flat_map(value).collect()
    };
    // Three pieces, and some more; another tensor as long.
    let (mut first, second) = (masters(&mut world.rng, 700_003), masters(&mut world.rng, 700_003));
    let files = |first: &[u8], second: &[u8]| {
        let mut odd = rounded(second);
        odd[1_000_000] ^= 1;
        let weights = Tensors::from([
            ("a.weight".to_owned(), (Dtype::BF16, rounded(first))),
            ("b.weight".to_owned(), (Dtype::BF16, odd)),
        ]);
        let optimizer = Tensors::from([
            ("state.a.weight.master".to_owned(), (Dtype::F32, first.to_vec())),
            ("state.other".to_owned(), (Dtype::F32, second.to_vec())),
        ]);
        BTreeMap::from([
            ("model.safetensors".to_owned(), safetensors(&weights)),
            ("optimizer.safetensors".to_owned(), safetensors(&optimizer)),
        ])
    };
    let added = world.add("1", files(&first, &second));
    assert_eq!((added.parts.rounded, added.manifest.version), (1, 2));
    let part = &added.manifest.files[0].parts[1];
    assert_eq!(part.object, added.manifest.files[1].parts[1].object);
    for value in first.chunks_exact_mut(4) {
        let moved = f32::from_le_bytes((&*value).try_into().unwrap()) + 1e-5;
        value.copy_from_slice(&moved.to_le_bytes());
    }
    assert_eq!(world.add("2", files(&first, &second)).parts.rounded, 1);
    for id in ["1", "2"] {
        world.check(id);
    }
    let writer = Writer::begin(&world.store).unwrap();
    prune(&writer, Selection::Ids(vec!["1".to_owned()]), &Watch::default()).unwrap();
    drop(writer);
    world.check("2");
    assert!(verify(&world.store, true, &Watch::default()).unwrap().is_sound());

    // Masters that are damaged are so for both tensors.
    let manifest = world.store.manifest("2").unwrap();
    let object = manifest.files[0].parts[1].object.to_string();
    let damaged = world.objects().into_iter().find(|path| {
        let name = path.file_name().unwrap().to_str().unwrap();
        object.ends_with(name)
    });
    let damaged = damaged.unwrap();
    let mut bytes = fs::read(&damaged).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(&damaged, bytes).unwrap();
    let out = world.folder.path().join("salvaged");
    let salvaged = salvage(&world.store, "2", &out, false, &Watch::default()).unwrap();
    let names: Vec<&str> = salvaged.missing.iter().map(|missing| missing.tensor.as_str()).collect();
    assert_eq!(names, ["a.weight", "state.a.weight.master"]);
    let back = fs::read(out.join("model.safetensors")).unwrap();
    let missing = &salvaged.missing[0];
    let zeros = missing.at as usize..(missing.at + missing.bytes) as usize;
    assert!(back[zeros.clone()].iter().all(|byte| *byte == 0));
    assert!(back[zeros.end..] == world.added["2"]["model.safetensors"][zeros.end..]);
}

/// Archives of PyTorch are stored by members: what a next one has again takes nothing, what has moved is kept as differences, and every byte comes back.
#[test]
fn archives_are_stored_by_members() {
    let mut world = World::new(12);
    let (frozen, mut moving) = (weights(&mut world.rng, 100_000), weights(&mut world.rng, 200_000));
    let small = weights(&mut world.rng, 100);
    let add = |world: &mut World, id: &str, moving: &[u8]| {
        let one = archive(&[
            ("m/data/0", frozen.clone()),
            ("m/data/1", moving.to_vec()),
            ("m/data/2", small.clone()),
        ]);
        let two = archive(&[("archive/data/0", moving.to_vec())]);
        let files = BTreeMap::from([
            ("model.pt".to_owned(), one.clone()),
            ("shards/__0_0.distcp".to_owned(), [two, one].concat()),
        ]);
        world.add(id, files)
    };
    let first = add(&mut world, "1", &moving);
    let tensors = |file: usize| -> Vec<String> {
        let parts = first.manifest.files[file].parts.iter();
        parts.filter_map(|part| Some(format!("{} {}", part.tensor.as_ref()?, part.dtype))).collect()
    };
    assert_eq!(tensors(0), ["m/data/0 BF16", "m/data/1 BF16"]);
    assert_eq!(tensors(1), ["0/archive/data/0 BF16", "1/m/data/0 BF16", "1/m/data/1 BF16"]);
    assert_eq!(first.parts.full, first.manifest.objects().collect::<BTreeSet<_>>().len());
    step(&mut world.rng, &mut moving);
    let second = add(&mut world, "2", &moving);
    assert_eq!(second.parts.delta, 1, "the tensor that has moved, once");
    assert!(second.bytes_stored < 200_000, "{second:?}");
    for id in ["1", "2"] {
        world.check(id);
    }
}

/// A wish to stop is heard while an archive is cut into its members, before any of them is read as a whole.
#[test]
fn cutting_an_archive_can_be_stopped() {
    let mut world = World::new(14);
    let values = weights(&mut world.rng, 40_000);
    let members: Vec<_> = (0..16).map(|number| (format!("m/data/{number}"), values.clone())).collect();
    let members: Vec<_> = members.iter().map(|(name, values)| (name.as_str(), values.clone())).collect();
    let file = world.folder.path().join("model.pt");
    fs::write(&file, archive(&members)).unwrap();
    let (asked, bytes) = (AtomicUsize::new(0), AtomicU64::new(0));
    let cancelled = || asked.fetch_add(1, Ordering::Relaxed) >= members.len() / 2;
    let done = |more| _ = bytes.fetch_add(more, Ordering::Relaxed);
    let watch = Watch { cancelled: &cancelled, done: &done, ..Watch::default() };
    let addition = Addition {
        id: "1".to_owned(),
        parent: Parent::Auto,
        spec: "rans".parse().unwrap(),
        chain: DEFAULT_CHAIN,
        allow_missing: false,
        keep_trailing: false,
    };
    let stopped = add(&Writer::begin(&world.store).unwrap(), &[file], &addition, &watch);
    assert!(matches!(stopped, Err(StoreError::File(FileError::Cancelled))), "{stopped:?}");
    assert_eq!(bytes.into_inner(), 0);
}

/// A pointer of Git LFS under the name of a model is stored as it is, and said.
#[test]
fn what_is_no_model_is_said() {
    let mut world = World::new(13);
    let pointer = b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 9\n".to_vec();
    let added = world.add("1", BTreeMap::from([("model.safetensors".to_owned(), pointer)]));
    let [trouble] = &added.troubles[..] else { panic!("{:?}", added.troubles) };
    assert!(trouble.to_string().contains("a pointer of Git LFS"), "{trouble}");
    world.check("1");
}

/// It is a safetensors file by its name, and no header of safetensors has its type.
#[test]
fn a_file_that_is_compressed_already_is_kept_as_it_is() {
    let mut world = World::new(7);
    let folder = tempfile::tempdir().unwrap();
    let [plain, packed] = ["m.safetensors", "m.zw.safetensors"].map(|name| folder.path().join(name));
    std::fs::write(&plain, safetensors(&model(&mut world.rng))).unwrap();
    let compression = Compression { spec: "rans".parse().unwrap(), force: false, keep_trailing: false };
    compress(&plain, &packed, &compression, None, &Watch::default()).unwrap();
    let files = BTreeMap::from([("m.zw.safetensors".to_owned(), std::fs::read(&packed).unwrap())]);
    world.add("packed", files);
    world.check("packed");
}
