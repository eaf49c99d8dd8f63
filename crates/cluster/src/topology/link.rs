//! Directed links by number, and the families that number them: GPUs, NICs, and the uplinks of switches.

/// A directed link, by position in [`Topology::capacities`](super::Topology::capacities).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LinkId(pub u32);

impl LinkId {
    /// Position in a table of links.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// Things of one kind that have a link up and a link down each.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Family {
    /// What they are called: `gpu`, `nic`, `host`, `rail`, `leaf`, `pod`.
    pub(super) name: &'static str,
    /// How many there are.
    pub(super) count: u32,
    /// Whether they are ports of ranks and nodes, and not switches between them.
    pub(super) is_port: bool,
}

impl Family {
    /// Links of the family: each member's up link, then its down link.
    pub(super) fn links(self) -> u32 {
        2 * self.count
    }
}

/// `up` leads away from the GPUs, `down` towards them.
pub(super) fn direction(index: u32) -> &'static str {
    if index.is_multiple_of(2) { "up" } else { "down" }
}
