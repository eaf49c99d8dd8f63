//! What a link has left for the flows that are still open, part-way up a filling.

/// Capacity left for the flows that are still open, and how many there are.
#[derive(Clone, Copy)]
pub(super) struct Share {
    pub(super) left: f64,
    pub(super) open: f64,
}

impl Share {
    /// What each open flow would get; no bound where none is open.
    pub(super) fn value(self) -> f64 {
        if self.open > 0.0 { self.left / self.open } else { f64::INFINITY }
    }
}
