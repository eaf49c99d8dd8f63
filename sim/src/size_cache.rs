//! Frame lengths that several runs share: what was encoded once is not encoded again, as long as nothing that lengths depend
//! on has changed.
//!
//! It keeps lengths, not frames, and it measures no time.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use xxhash_rust::xxh3::Xxh3;

use crate::sizes::Lens;

/// Most chunks of which lengths are kept, at about 40 bytes each; the oldest make room.
const CHUNKS_KEPT: usize = 1 << 22;
/// Least count of an entry, so that there are never so many that looking through them takes time.
const LEAST_COUNT: usize = 1 << 10;

/// Measured lengths by digest; shared between threads. Measured by one thread, they are waited for by the others that want
/// the same.
#[derive(Debug, Default)]
pub struct SizeCache {
    /// Oldest first.
    entries: Mutex<Vec<(u128, Entry)>>,
}

type Entry = Arc<Mutex<Option<Arc<Lens>>>>;

/// A hash of everything that some lengths depend on.
pub(crate) struct Digest(Xxh3);

impl Digest {
    pub(crate) fn new(codec: &str, payload: u128) -> Self {
        let mut hash = Xxh3::new();
        hash.update(codec.as_bytes());
        hash.update(&payload.to_le_bytes());
        Self(hash)
    }

    pub(crate) fn finish(&self) -> u128 {
        self.0.digest128()
    }

    /// Adds one chunk of values of a type.
    pub(crate) fn add(&mut self, dtype: &str, numbers: [u64; 6]) {
        self.0.update(dtype.as_bytes());
        numbers.iter().for_each(|number| self.0.update(&number.to_le_bytes()));
    }
}

impl SizeCache {
    /// Lengths that are known, or else what `measure` finds; what it does not find is not kept.
    pub(crate) fn get<E>(
        &self,
        digest: u128,
        measure: impl FnOnce() -> Result<Option<Lens>, E>,
    ) -> Result<Option<Arc<Lens>>, E> {
        let entry = self.entry(digest);
        let mut known = lock(&entry);
        if let Some(lens) = &*known {
            return Ok(Some(Arc::clone(lens)));
        }
        let measured = measure().map(|lens| lens.map(Arc::new));
        known.clone_from(measured.as_ref().unwrap_or(&None));
        drop(known);
        match measured {
            Ok(Some(_)) => self.make_room(digest),
            Ok(None) | Err(_) => lock(&self.entries).retain(|(other, _)| *other != digest),
        }
        measured
    }

    fn entry(&self, digest: u128) -> Entry {
        let mut entries = lock(&self.entries);
        if let Some((_, entry)) = entries.iter().find(|(other, _)| *other == digest) {
            return Arc::clone(entry);
        }
        let entry = Entry::default();
        entries.push((digest, Arc::clone(&entry)));
        entry
    }

    /// Leaves out the oldest lengths, but never the newest, of `digest`.
    fn make_room(&self, digest: u128) {
        let mut entries = lock(&self.entries);
        // What is being measured at the moment has no length yet, and whoever measures it holds its lock.
        let chunks = |entry: &Entry| {
            entry.try_lock().map_or(0, |lens| lens.as_ref().map_or(0, |lens| lens.len().max(LEAST_COUNT)))
        };
        let mut total: usize = entries.iter().map(|(_, entry)| chunks(entry)).sum();
        entries.retain(|(other, entry)| {
            let own = chunks(entry);
            let is_kept = total <= CHUNKS_KEPT || own == 0 || *other == digest;
            total -= if is_kept { 0 } else { own };
            is_kept
        });
    }
}

/// Nothing is left half-changed when a thread panics: an entry has its lengths or has none.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use zipwire_schedule::Rank;
    use zipwire_schedule::plan::Chunk;

    use super::*;

    fn digest(len: u64) -> u128 {
        let mut digest = Digest::new("window7 split", 1);
        digest.add("BF16", [0, 1, 0, 0, 0, len]);
        digest.finish()
    }

    fn lens(count: u32, len: u64) -> Result<Option<Lens>, Infallible> {
        Ok(Some((0..count).map(|dst| ((Chunk::between(Rank(0), Rank(dst)), len), len)).collect()))
    }

    fn known(cache: &SizeCache, len: u64) -> bool {
        let mut is_known = true;
        let found = cache.get(digest(len), || {
            is_known = false;
            Ok::<_, Infallible>(None)
        });
        assert_eq!(found.unwrap().is_some(), is_known);
        is_known
    }

    #[test]
    fn what_is_known_is_not_measured_again() {
        let cache = SizeCache::default();
        assert_eq!(cache.get(digest(8), || lens(1, 5)).unwrap().unwrap().len(), 1);
        assert!(known(&cache, 8) && !known(&cache, 9));
    }

    #[test]
    fn what_was_stopped_or_failed_is_measured_again() {
        let cache = SizeCache::default();
        assert!(cache.get(digest(8), || Ok::<_, Infallible>(None)).unwrap().is_none());
        assert_eq!(cache.get(digest(8), || Err("broken")).unwrap_err(), "broken");
        assert!(cache.get(digest(8), || lens(1, 5)).unwrap().is_some());
        assert!(known(&cache, 8));
    }

    #[test]
    fn the_oldest_make_room() {
        let cache = SizeCache::default();
        let third = u32::try_from(CHUNKS_KEPT / 3).unwrap();
        for len in 1..=4 {
            cache.get(digest(len), || lens(third, len)).unwrap();
        }
        assert_eq!([1, 2, 3, 4].map(|len| known(&cache, len)), [false, true, true, true]);
    }

    #[test]
    fn threads_that_want_the_same_measure_it_once() {
        let cache = SizeCache::default();
        let measured = std::sync::atomic::AtomicUsize::new(0);
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    let found = cache.get(digest(8), || {
                        measured.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                        std::thread::sleep(std::time::Duration::from_millis(20));
                        lens(1, 5)
                    });
                    assert!(found.unwrap().is_some());
                });
            }
        });
        assert_eq!(measured.into_inner(), 1);
    }
}
