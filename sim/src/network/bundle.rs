//! Flows in bundles: all that are bottlenecked at one link and also cross a certain other.
//!
//! Filling asks two things about a link: how many of the flows bottlenecked here cross each other link, and
//! which flows bottlenecked elsewhere cross this one. Both are answered bundle by bundle, so a level is
//! pushed once per pair of links, however many flows the pair has.

use std::collections::HashMap;

use zipwire_schedule::{LinkId, Route};

/// The most links that a flow can cross: as many as a route has.
pub(super) const MAX_HOPS: usize = Route::MAX_LINKS;
/// Pairs of hops of one flow.
const PAIRS: usize = MAX_HOPS * (MAX_HOPS - 1) / 2;
const NONE: u32 = u32::MAX;

/// A bundle in the list of its bottleneck.
#[derive(Clone, Copy)]
pub(super) struct Outgoing {
    /// The other link that the flows cross.
    pub(super) link: u32,
    pub(super) flows: u32,
    bundle: u32,
}

/// A bundle in the list of the other link.
#[derive(Clone, Copy)]
pub(super) struct Incoming {
    /// The bottleneck of the flows.
    pub(super) link: u32,
    bundle: u32,
}

/// A list of flows. Bundles `2 p` and `2 p + 1` are those of one pair of links, from its lower and from its
/// higher link; they keep their numbers, but are in the lists of the links only while they have flows.
struct Bundle {
    bottleneck: u32,
    other: u32,
    /// First node of the list.
    head: u32,
    outgoing: u32,
    incoming: u32,
}

/// The hops of a flow, and its nodes in the bundles that hold it: one for each hop but its bottleneck.
#[derive(Clone, Copy)]
struct Path {
    links: [LinkId; MAX_HOPS],
    pairs: [u32; PAIRS],
    next: [u32; MAX_HOPS],
    previous: [u32; MAX_HOPS],
    count: u8,
}

impl Path {
    const EMPTY: Path = Path {
        links: [LinkId(NONE); MAX_HOPS],
        pairs: [NONE; PAIRS],
        next: [NONE; MAX_HOPS],
        previous: [NONE; MAX_HOPS],
        count: 0,
    };
}

/// The paths of all flows, and the bundles that they are in.
pub(super) struct Bundles {
    outgoing: Vec<Vec<Outgoing>>,
    incoming: Vec<Vec<Incoming>>,
    bundles: Vec<Bundle>,
    /// Looked up, never iterated: the order of its entries shows nowhere.
    pair_of: HashMap<[u32; 2], u32>,
    paths: Vec<Path>,
}

impl Bundles {
    pub(super) fn new(links: usize) -> Self {
        Self {
            outgoing: vec![Vec::new(); links],
            incoming: vec![Vec::new(); links],
            bundles: Vec::new(),
            pair_of: HashMap::new(),
            paths: Vec::new(),
        }
    }

    /// Records the path of a new flow, which has no bottleneck yet.
    pub(super) fn enter(&mut self, flow: u32, links: &[LinkId]) {
        assert!(links.len() <= MAX_HOPS, "a flow crosses {} links, at most {MAX_HOPS}", links.len());
        let mut path = Path { count: links.len() as u8, ..Path::EMPTY };
        path.links[..links.len()].copy_from_slice(links);
        for high in 1..links.len() {
            for low in 0..high {
                assert!(links[low] != links[high], "a flow crosses link {} twice", links[low].0);
                path.pairs[pair_index(low, high)] = self.pair(links[low].0, links[high].0);
            }
        }
        if self.paths.len() <= flow as usize {
            self.paths.resize(flow as usize + 1, Path::EMPTY);
        }
        self.paths[flow as usize] = path;
    }

    /// The links that a flow crosses.
    pub(super) fn links(&self, flow: u32) -> &[LinkId] {
        let path = &self.paths[flow as usize];
        &path.links[..usize::from(path.count)]
    }

    /// The bundles of the flows that are bottlenecked at `link`.
    pub(super) fn outgoing(&self, link: u32) -> &[Outgoing] {
        &self.outgoing[link as usize]
    }

    /// The bundles of the flows that cross `link` and are bottlenecked elsewhere.
    pub(super) fn incoming(&self, link: u32) -> &[Incoming] {
        &self.incoming[link as usize]
    }

    /// Appends the flows of a bundle.
    pub(super) fn collect(&self, incoming: &Incoming, flows: &mut Vec<u32>) {
        let mut node = self.bundles[incoming.bundle as usize].head;
        while node != NONE {
            let (flow, hop) = split(node);
            flows.push(flow);
            node = self.paths[flow as usize].next[hop];
        }
    }

    /// Makes `link` the bottleneck of a flow that has none.
    pub(super) fn put(&mut self, flow: u32, link: u32) {
        let path = self.paths[flow as usize];
        path.for_each_bundle(link, |index, hop| {
            if self.bundles[index as usize].head == NONE {
                self.list(index);
            }
            let node = flow * MAX_HOPS as u32 + hop as u32;
            let bundle = &mut self.bundles[index as usize];
            let head = std::mem::replace(&mut bundle.head, node);
            self.outgoing[link as usize][bundle.outgoing as usize].flows += 1;
            self.join(NONE, node);
            self.join(node, head);
        });
    }

    /// Undoes [`Bundles::put`].
    pub(super) fn take(&mut self, flow: u32, link: u32) {
        let path = self.paths[flow as usize];
        path.for_each_bundle(link, |index, hop| {
            let bundle = &mut self.bundles[index as usize];
            self.outgoing[link as usize][bundle.outgoing as usize].flows -= 1;
            if path.previous[hop] == NONE {
                bundle.head = path.next[hop];
            }
            if bundle.head == NONE {
                self.unlist(index);
            }
            self.join(path.previous[hop], path.next[hop]);
        });
    }

    /// Makes two nodes, or a node and an end, consecutive.
    fn join(&mut self, first: u32, second: u32) {
        if first != NONE {
            let (flow, hop) = split(first);
            self.paths[flow as usize].next[hop] = second;
        }
        if second != NONE {
            let (flow, hop) = split(second);
            self.paths[flow as usize].previous[hop] = first;
        }
    }

    /// The number of a pair of links, which it gets when the first flow crosses both.
    fn pair(&mut self, a: u32, b: u32) -> u32 {
        let (low, high) = (a.min(b), a.max(b));
        let bundles = &mut self.bundles;
        *self.pair_of.entry([low, high]).or_insert_with(|| {
            let empty = Bundle { bottleneck: low, other: high, head: NONE, outgoing: NONE, incoming: NONE };
            bundles.push(Bundle { ..empty });
            bundles.push(Bundle { bottleneck: high, other: low, ..empty });
            bundles.len() as u32 / 2 - 1
        })
    }

    /// Puts a bundle into the lists of its links.
    fn list(&mut self, index: u32) {
        let bundle = &mut self.bundles[index as usize];
        let outgoing = &mut self.outgoing[bundle.bottleneck as usize];
        let incoming = &mut self.incoming[bundle.other as usize];
        bundle.outgoing = outgoing.len() as u32;
        bundle.incoming = incoming.len() as u32;
        outgoing.push(Outgoing { link: bundle.other, flows: 0, bundle: index });
        incoming.push(Incoming { link: bundle.bottleneck, bundle: index });
    }

    /// Takes a bundle out of the lists of its links.
    fn unlist(&mut self, index: u32) {
        let Bundle { bottleneck, other, outgoing: out, incoming: into, .. } = self.bundles[index as usize];
        let outgoing = &mut self.outgoing[bottleneck as usize];
        outgoing.swap_remove(out as usize);
        if let Some(moved) = outgoing.get(out as usize) {
            self.bundles[moved.bundle as usize].outgoing = out;
        }
        let incoming = &mut self.incoming[other as usize];
        incoming.swap_remove(into as usize);
        if let Some(moved) = incoming.get(into as usize) {
            self.bundles[moved.bundle as usize].incoming = into;
        }
    }
}

impl Path {
    /// Visits the bundle and the hop of each other link that a flow bottlenecked at `link` crosses.
    fn for_each_bundle(&self, link: u32, mut visit: impl FnMut(u32, usize)) {
        let links = &self.links[..usize::from(self.count)];
        let own = links.iter().position(|l| l.0 == link).expect("a bottleneck is on the path");
        for (hop, other) in links.iter().enumerate().filter(|(hop, _)| *hop != own) {
            visit(2 * self.pairs[pair_index(own, hop)] + u32::from(link > other.0), hop);
        }
    }
}

/// Position of an unordered pair of distinct hops.
fn pair_index(a: usize, b: usize) -> usize {
    let (low, high) = (a.min(b), a.max(b));
    high * (high - 1) / 2 + low
}

/// The flow and the hop of a list node.
fn split(node: u32) -> (u32, usize) {
    (node / MAX_HOPS as u32, node as usize % MAX_HOPS)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// (other link, flows) of every bundle of a bottleneck.
    fn outgoing(bundles: &Bundles, link: u32) -> Vec<(u32, u32)> {
        let mut list: Vec<_> = bundles.outgoing(link).iter().map(|o| (o.link, o.flows)).collect();
        list.sort_unstable();
        list
    }

    /// (bottleneck, flows in list order) of every bundle that crosses a link.
    fn incoming(bundles: &Bundles, link: u32) -> Vec<(u32, Vec<u32>)> {
        let flows = |incoming| {
            let mut flows = Vec::new();
            bundles.collect(incoming, &mut flows);
            flows
        };
        let mut list: Vec<_> = bundles.incoming(link).iter().map(|i| (i.link, flows(i))).collect();
        list.sort_unstable();
        list
    }

    #[test]
    fn bundles_follow_the_bottleneck() {
        let links = [LinkId(0), LinkId(1), LinkId(2)];
        let mut bundles = Bundles::new(3);
        bundles.enter(0, &links);
        bundles.enter(1, &links[..2]);
        bundles.enter(2, &[links[1], links[0]]);
        for (flow, link) in [(0, 0), (1, 0), (2, 1)] {
            bundles.put(flow, link);
        }
        assert_eq!(outgoing(&bundles, 0), [(1, 2), (2, 1)]);
        assert_eq!(outgoing(&bundles, 1), [(0, 1)]);
        assert_eq!(incoming(&bundles, 0), [(1, vec![2])]);
        assert_eq!(incoming(&bundles, 1), [(0, vec![1, 0])]);
        assert_eq!(incoming(&bundles, 2), [(0, vec![0])]);

        bundles.take(0, 0);
        bundles.put(0, 2);
        assert_eq!(outgoing(&bundles, 0), [(1, 1)]);
        assert_eq!(outgoing(&bundles, 2), [(0, 1), (1, 1)]);
        assert_eq!(incoming(&bundles, 0), [(1, vec![2]), (2, vec![0])]);
        assert_eq!(incoming(&bundles, 1), [(0, vec![1]), (2, vec![0])]);

        for (flow, link) in [(0, 2), (1, 0), (2, 1)] {
            bundles.take(flow, link);
        }
        assert!((0..3).all(|link| bundles.outgoing(link).is_empty() && bundles.incoming(link).is_empty()));
    }

    #[test]
    fn a_flow_leaves_the_middle_of_its_bundle() {
        let links = [LinkId(4), LinkId(3)];
        let mut bundles = Bundles::new(5);
        for flow in 0..4 {
            bundles.enter(flow, &links);
            bundles.put(flow, 4);
        }
        bundles.take(1, 4);
        assert_eq!(incoming(&bundles, 3), [(4, vec![3, 2, 0])]);
        bundles.take(3, 4);
        bundles.take(0, 4);
        assert_eq!((incoming(&bundles, 3), outgoing(&bundles, 4)), (vec![(4, vec![2])], vec![(3, 1)]));
    }
}
