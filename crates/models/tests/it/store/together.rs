//! Who reads while others write.

use super::common;

use std::num::NonZero;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use common::{World, files_of, model, read_files, train};
use zipwire_models::file::Watch;
use zipwire_models::store::{Keep, StoreError, Writer, prune, restore};

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
                        std::fs::remove_dir_all(&out).unwrap();
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
