//! The way of a transfer.

use super::LinkId;

/// The links that a transfer crosses, in order, and its latency.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Route {
    links: [LinkId; Self::MAX_LINKS],
    count: u8,
    /// Seconds before the first byte moves.
    pub latency_s: f64,
}

impl Route {
    /// Most links of a route: GPU, NIC, leaf and pod, up and down.
    pub const MAX_LINKS: usize = 8;

    /// A route over `links`, at most [`MAX_LINKS`](Self::MAX_LINKS).
    pub(super) fn over(links: &[LinkId], latency_s: f64) -> Self {
        // What is behind the route's end is the same in equal routes.
        let mut all = [LinkId(0); Self::MAX_LINKS];
        all[..links.len()].copy_from_slice(links);
        Self { links: all, count: links.len() as u8, latency_s }
    }

    /// The same way with `seconds` more before the first byte moves.
    pub(super) fn later(self, seconds: f64) -> Self {
        Self { latency_s: self.latency_s + seconds, ..self }
    }

    /// The links crossed.
    pub fn links(&self) -> &[LinkId] {
        &self.links[..usize::from(self.count)]
    }
}
