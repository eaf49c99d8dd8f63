//! Several chunks at once, where there are threads for them.

/// Chunks that are worked on at once unless the caller says otherwise: one for each thread of the current rayon pool.
#[cfg(feature = "parallel")]
pub(super) fn default_chunks() -> usize {
    rayon::current_num_threads()
}

/// Chunks that are worked on at once unless the caller says otherwise.
#[cfg(not(feature = "parallel"))]
pub(super) fn default_chunks() -> usize {
    1
}

/// Does `work` on each item, on the threads of the current rayon pool.
#[cfg(feature = "parallel")]
pub(super) fn for_each<T: Send>(items: &mut [T], work: impl Fn(&mut T) + Send + Sync) {
    use rayon::prelude::*;

    match items {
        [only] => work(only),
        items => items.par_iter_mut().for_each(work),
    }
}

/// Does `work` on each item.
#[cfg(not(feature = "parallel"))]
pub(super) fn for_each<T: Send>(items: &mut [T], work: impl Fn(&mut T) + Send + Sync) {
    items.iter_mut().for_each(work);
}
