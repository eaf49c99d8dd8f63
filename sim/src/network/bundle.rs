//! Flows in bundles: all that are bottlenecked at one link and also cross a certain other.
//!
//! Filling asks two things about a link: how many of the flows bottlenecked here cross each other link, and
//! which flows bottlenecked elsewhere cross this one. Both are answered bundle by bundle, so a level is
//! pushed once per pair of links, however many flows the pair has. Links that are far from full can be put to
//! sleep: bundles that cross them stand apart, and nothing is pushed to them.

use std::collections::HashMap;

use zipwire_cluster::{LinkId, Route};

use crate::hash::Mixed;

/// The most links that a flow can cross: as many as a route has, and a coder at each end.
pub(super) const MAX_HOPS: usize = Route::MAX_LINKS + 2;
const NONE: u32 = u32::MAX;

/// A bundle of several flows in the list of its bottleneck.
#[derive(Clone, Copy)]
struct Several {
    /// The other link that the flows cross.
    link: u32,
    /// How many: a number to multiply with, exact up to 2^24.
    flows: f32,
}

/// A bundle in the list of the other link.
#[derive(Clone, Copy)]
pub(super) struct Incoming {
    /// The bottleneck of the flows.
    pub(super) link: u32,
    bundle: u32,
}

/// A list of flows. It exists while it has some.
struct Bundle {
    bottleneck: u32,
    other: u32,
    /// First node of the list.
    head: u32,
    flows: u32,
    /// Position in the awake or asleep list of the bottleneck: among those of one flow or of several.
    outgoing: u32,
    /// Position in the list of the other link.
    incoming: u32,
}

/// One hop of a flow, which is in a bundle unless it is the flow's bottleneck. Nodes of a flow are consecutive.
#[derive(Clone, Copy)]
struct Node {
    /// [`NONE`] behind the last hop.
    link: u32,
    bundle: u32,
    next: u32,
    previous: u32,
}

impl Node {
    const EMPTY: Node = Node { link: NONE, bundle: NONE, next: NONE, previous: NONE };
}

/// Bundles of a bottleneck. What fillings read lies close together: they go through all of it. Most bundles have one flow, and
/// then the other link is all there is to know.
#[derive(Clone, Default)]
pub(super) struct List {
    /// The other links of bundles of one flow.
    single: Vec<u32>,
    several: Vec<Several>,
    /// Which bundle each is.
    single_bundles: Vec<u32>,
    several_bundles: Vec<u32>,
}

impl List {
    /// How many bundles there are.
    pub(super) fn len(&self) -> usize {
        self.single.len() + self.several.len()
    }

    /// Visits the other link and the number of flows of each bundle.
    #[inline]
    pub(super) fn for_each(&self, mut visit: impl FnMut(u32, f64)) {
        for &link in &self.single {
            visit(link, 1.0);
        }
        for several in &self.several {
            visit(several.link, f64::from(several.flows));
        }
    }

    /// Adds a bundle; returns its position.
    fn add(&mut self, index: u32, bundle: &Bundle) -> u32 {
        if bundle.flows == 1 {
            self.single.push(bundle.other);
            self.single_bundles.push(index);
            self.single.len() as u32 - 1
        } else {
            self.several.push(Several { link: bundle.other, flows: bundle.flows as f32 });
            self.several_bundles.push(index);
            self.several.len() as u32 - 1
        }
    }

    /// Removes the bundle at a position; returns the one that has this position now.
    fn remove(&mut self, position: u32, is_single: bool) -> Option<u32> {
        let position = position as usize;
        let bundles = if is_single {
            self.single.swap_remove(position);
            &mut self.single_bundles
        } else {
            self.several.swap_remove(position);
            &mut self.several_bundles
        };
        bundles.swap_remove(position);
        bundles.get(position).copied()
    }
}

/// The bundles of a bottleneck, by whether the other link is awake.
#[derive(Clone, Default)]
struct Lists {
    awake: List,
    asleep: List,
}

impl Lists {
    fn of(&mut self, is_asleep: bool) -> &mut List {
        if is_asleep { &mut self.asleep } else { &mut self.awake }
    }
}

/// The paths of all flows, and the bundles that they are in.
pub(super) struct Bundles {
    outgoing: Vec<Lists>,
    incoming: Vec<Vec<Incoming>>,
    is_asleep: Vec<bool>,
    bundles: Vec<Bundle>,
    /// Positions in `bundles` that are free.
    free: Vec<u32>,
    /// The bundle of each bottleneck and other link.
    index_of: Pairs,
    nodes: Vec<Node>,
    /// Flows that each flow stands for.
    times: Vec<u32>,
    /// Nodes per flow: the most hops that a flow has had.
    stride: usize,
}

impl Bundles {
    pub(super) fn new(links: usize) -> Self {
        Self {
            outgoing: vec![Lists::default(); links],
            incoming: vec![Vec::new(); links],
            is_asleep: vec![false; links],
            bundles: Vec::new(),
            free: Vec::new(),
            index_of: Pairs::new(links),
            nodes: Vec::new(),
            times: Vec::new(),
            stride: 1,
        }
    }

    /// Records the path of a new flow, which has no bottleneck yet and stands for so many.
    pub(super) fn enter(&mut self, flow: u32, links: &[LinkId], times: u32) {
        if self.times.len() <= flow as usize {
            self.times.resize(flow as usize + 1, 1);
        }
        self.times[flow as usize] = times;
        assert!(links.len() <= MAX_HOPS, "a flow crosses {} links, at most {MAX_HOPS}", links.len());
        for (hop, link) in links.iter().enumerate() {
            assert!(!links[..hop].contains(link), "a flow crosses link {} twice", link.0);
        }
        if links.len() > self.stride {
            self.widen(links.len());
        }
        let first = flow as usize * self.stride;
        let end = first + self.stride;
        if self.nodes.len() < end {
            self.nodes.resize(end, Node::EMPTY);
        }
        self.nodes[first..end].fill(Node::EMPTY);
        for (node, link) in self.nodes[first..end].iter_mut().zip(links) {
            node.link = link.0;
        }
    }

    /// Makes room for flows of more hops.
    fn widen(&mut self, stride: usize) {
        let old = self.stride as u32;
        let moved = |node: u32| if node == NONE { NONE } else { node / old * stride as u32 + node % old };
        let mut nodes = vec![Node::EMPTY; self.nodes.len() / self.stride * stride];
        for (index, node) in (0..).zip(&self.nodes) {
            nodes[moved(index) as usize] =
                Node { next: moved(node.next), previous: moved(node.previous), ..*node };
        }
        self.bundles.iter_mut().for_each(|bundle| bundle.head = moved(bundle.head));
        (self.nodes, self.stride) = (nodes, stride);
    }

    fn hops(&self, flow: u32) -> &[Node] {
        let first = flow as usize * self.stride;
        let nodes = &self.nodes[first..first + self.stride];
        let count = nodes.iter().position(|node| node.link == NONE).unwrap_or(nodes.len());
        &nodes[..count]
    }

    /// Flows that a flow stands for.
    pub(super) fn times(&self, flow: u32) -> u32 {
        self.times[flow as usize]
    }

    /// The links that a flow crosses.
    pub(super) fn links(&self, flow: u32) -> impl Iterator<Item = u32> + Clone + '_ {
        self.hops(flow).iter().map(|node| node.link)
    }

    /// The bundles of the flows that are bottlenecked at `link`, of other links that are awake.
    pub(super) fn outgoing(&self, link: u32) -> &List {
        &self.outgoing[link as usize].awake
    }

    /// The same bundles, of other links that sleep.
    pub(super) fn outgoing_asleep(&self, link: u32) -> &List {
        &self.outgoing[link as usize].asleep
    }

    /// The bundles of the flows that cross `link` and are bottlenecked elsewhere.
    pub(super) fn incoming(&self, link: u32) -> &[Incoming] {
        &self.incoming[link as usize]
    }

    /// The bottleneck and the number of flows of each bundle that crosses `link`.
    pub(super) fn crossing(&self, link: u32) -> impl Iterator<Item = (u32, f64)> + '_ {
        let flows = |incoming: &Incoming| f64::from(self.bundles[incoming.bundle as usize].flows);
        self.incoming[link as usize].iter().map(move |incoming| (incoming.link, flows(incoming)))
    }

    /// How many flows that are bottlenecked at one link cross another.
    pub(super) fn flows(&self, bottleneck: u32, other: u32) -> f64 {
        let bundle = self.index_of.get(bottleneck, other);
        bundle.map_or(0.0, |bundle| f64::from(self.bundles[bundle as usize].flows))
    }

    /// Whether any flow bottlenecked at one link crosses another.
    pub(super) fn is_shared(&self, bottleneck: u32, other: u32) -> bool {
        self.index_of.get(bottleneck, other).is_some()
    }

    /// Appends the flows that are bottlenecked at one link and cross another.
    pub(super) fn collect_shared(&self, bottleneck: u32, other: u32, flows: &mut Vec<u32>) {
        if let Some(bundle) = self.index_of.get(bottleneck, other) {
            self.collect_bundle(bundle, flows);
        }
    }

    pub(super) fn is_asleep(&self, link: u32) -> bool {
        self.is_asleep[link as usize]
    }

    /// Puts a link to sleep or wakes it.
    pub(super) fn set_asleep(&mut self, link: u32, is_asleep: bool) {
        if self.is_asleep[link as usize] == is_asleep {
            return;
        }
        for position in 0..self.incoming[link as usize].len() {
            let bundle = self.incoming[link as usize][position].bundle;
            self.unlist_outgoing(bundle, !is_asleep);
            self.list_outgoing(bundle, is_asleep);
        }
        self.is_asleep[link as usize] = is_asleep;
    }

    /// Appends the flows of a bundle.
    pub(super) fn collect(&self, incoming: Incoming, flows: &mut Vec<u32>) {
        self.collect_bundle(incoming.bundle, flows);
    }

    fn collect_bundle(&self, bundle: u32, flows: &mut Vec<u32>) {
        let mut node = self.bundles[bundle as usize].head;
        while node != NONE {
            flows.push(node / self.stride as u32);
            node = self.nodes[node as usize].next;
        }
    }

    /// Makes `link` the bottleneck of a flow that has none.
    pub(super) fn put(&mut self, flow: u32, link: u32) {
        let first = flow as usize * self.stride;
        for index in first..first + self.stride {
            let other = self.nodes[index].link;
            if other == NONE {
                break;
            }
            if other == link {
                continue;
            }
            let bundle = self.bundle(link, other);
            let old = std::mem::replace(&mut self.bundles[bundle as usize].head, index as u32);
            let node = &mut self.nodes[index];
            (node.bundle, node.next, node.previous) = (bundle, old, NONE);
            if old != NONE {
                self.nodes[old as usize].previous = index as u32;
            }
            self.count(bundle, i64::from(self.times[flow as usize]));
        }
    }

    /// Undoes [`Bundles::put`].
    pub(super) fn take(&mut self, flow: u32, link: u32) {
        let first = flow as usize * self.stride;
        for index in first..first + self.stride {
            let Node { link: other, bundle, next, previous } = self.nodes[index];
            if other == NONE {
                break;
            }
            if other == link {
                continue;
            }
            if next != NONE {
                self.nodes[next as usize].previous = previous;
            }
            if previous != NONE {
                self.nodes[previous as usize].next = next;
            } else {
                self.bundles[bundle as usize].head = next;
            }
            self.count(bundle, -i64::from(self.times[flow as usize]));
            if next == NONE && previous == NONE {
                self.end(bundle);
            }
        }
    }

    /// Changes the number of flows of a bundle.
    fn count(&mut self, index: u32, change: i64) {
        let Bundle { bottleneck, other, flows: before, outgoing, .. } = self.bundles[index as usize];
        let is_asleep = self.is_asleep[other as usize];
        let after =
            u32::try_from(i64::from(before) + change).expect("a flow leaves the bundle that it is in");
        if before > 1 && after > 1 {
            self.bundles[index as usize].flows = after;
            let list = self.outgoing[bottleneck as usize].of(is_asleep);
            list.several[outgoing as usize].flows = after as f32;
            return;
        }
        if before > 0 {
            self.unlist_outgoing(index, is_asleep);
        }
        self.bundles[index as usize].flows = after;
        if after > 0 {
            self.list_outgoing(index, is_asleep);
        }
    }

    /// The bundle of a bottleneck and another link; a new one if no flow has both.
    fn bundle(&mut self, bottleneck: u32, other: u32) -> u32 {
        if let Some(bundle) = self.index_of.get(bottleneck, other) {
            return bundle;
        }
        let bundle = self.free.last().copied().unwrap_or(self.bundles.len() as u32);
        self.index_of.set(bottleneck, other, bundle);
        let incoming = &mut self.incoming[other as usize];
        let into = incoming.len() as u32;
        let new = Bundle { bottleneck, other, head: NONE, flows: 0, outgoing: NONE, incoming: into };
        incoming.push(Incoming { link: bottleneck, bundle });
        match self.free.pop() {
            Some(index) => self.bundles[index as usize] = new,
            None => self.bundles.push(new),
        }
        bundle
    }

    /// Ends a bundle without flows.
    fn end(&mut self, index: u32) {
        let Bundle { bottleneck, other, incoming: into, .. } = self.bundles[index as usize];
        let incoming = &mut self.incoming[other as usize];
        incoming.swap_remove(into as usize);
        if let Some(moved) = incoming.get(into as usize) {
            self.bundles[moved.bundle as usize].incoming = into;
        }
        self.index_of.remove(bottleneck, other);
        self.free.push(index);
    }

    /// Puts a bundle into a list of its bottleneck.
    fn list_outgoing(&mut self, index: u32, is_asleep: bool) {
        let bundle = &mut self.bundles[index as usize];
        bundle.outgoing = self.outgoing[bundle.bottleneck as usize].of(is_asleep).add(index, bundle);
    }

    /// Takes a bundle out of a list of its bottleneck.
    fn unlist_outgoing(&mut self, index: u32, is_asleep: bool) {
        let Bundle { bottleneck, flows, outgoing, .. } = self.bundles[index as usize];
        let list = self.outgoing[bottleneck as usize].of(is_asleep);
        if let Some(moved) = list.remove(outgoing, flows == 1) {
            self.bundles[moved as usize].outgoing = outgoing;
        }
    }
}

/// Most links for a table, which then has 64 MiB; memory that is never written costs nothing.
const MOST_LINKS: usize = 4096;

/// Numbers by pair: a table where it stays small, a hash map where it would not. Looked up, never iterated: no order shows.
pub(super) enum Pairs {
    /// By row; numbers from 1, so that fresh memory holds none.
    Table {
        links: usize,
        numbers: Vec<u32>,
    },
    Map(HashMap<u64, u32, Mixed>),
}

impl Pairs {
    pub(super) fn new(links: usize) -> Self {
        if links <= MOST_LINKS {
            Self::Table { links, numbers: vec![0; links * links] }
        } else {
            Self::Map(HashMap::default())
        }
    }

    /// The number of a pair.
    #[inline]
    pub(super) fn get(&self, a: u32, b: u32) -> Option<u32> {
        match self {
            Self::Table { links, numbers } => numbers[a as usize * links + b as usize].checked_sub(1),
            Self::Map(map) => map.get(&key(a, b)).copied(),
        }
    }

    /// Gives a pair a number, below 2^32 - 1.
    pub(super) fn set(&mut self, a: u32, b: u32, number: u32) {
        debug_assert!(number < NONE);
        match self {
            Self::Table { links, numbers } => numbers[a as usize * *links + b as usize] = number + 1,
            Self::Map(map) => {
                map.insert(key(a, b), number);
            }
        }
    }

    /// Takes the number of a pair away.
    pub(super) fn remove(&mut self, a: u32, b: u32) {
        match self {
            Self::Table { links, numbers } => numbers[a as usize * *links + b as usize] = 0,
            Self::Map(map) => {
                map.remove(&key(a, b));
            }
        }
    }
}

fn key(a: u32, b: u32) -> u64 {
    u64::from(a) << 32 | u64::from(b)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn links(list: &List) -> Vec<(u32, u32)> {
        let mut links = Vec::new();
        list.for_each(|link, flows| links.push((link, flows as u32)));
        assert_eq!(links.len(), list.len());
        links
    }

    /// (other link, flows) of every bundle of a bottleneck.
    fn outgoing(bundles: &Bundles, link: u32) -> Vec<(u32, u32)> {
        let mut list = links(bundles.outgoing(link));
        list.extend(links(bundles.outgoing_asleep(link)));
        list.sort_unstable();
        list
    }

    /// (bottleneck, flows in list order) of every bundle that crosses a link.
    fn incoming(bundles: &Bundles, link: u32) -> Vec<(u32, Vec<u32>)> {
        let flows = |&incoming: &Incoming| {
            let mut flows = Vec::new();
            bundles.collect(incoming, &mut flows);
            flows
        };
        let mut list: Vec<_> = bundles.incoming(link).iter().map(|i| (i.link, flows(i))).collect();
        list.sort_unstable();
        list
    }

    fn three_flows() -> Bundles {
        let links = [LinkId(0), LinkId(1), LinkId(2)];
        let mut bundles = Bundles::new(3);
        bundles.enter(0, &links, 1);
        bundles.enter(1, &links[..2], 1);
        bundles.enter(2, &[links[1], links[0]], 1);
        for (flow, link) in [(0, 0), (1, 0), (2, 1)] {
            bundles.put(flow, link);
        }
        bundles
    }

    #[test]
    fn bundles_follow_the_bottleneck() {
        let mut bundles = three_flows();
        assert_eq!(outgoing(&bundles, 0), [(1, 2), (2, 1)]);
        assert_eq!(outgoing(&bundles, 1), [(0, 1)]);
        assert_eq!(incoming(&bundles, 0), [(1, vec![2])]);
        assert_eq!(incoming(&bundles, 1), [(0, vec![1, 0])]);
        assert_eq!(incoming(&bundles, 2), [(0, vec![0])]);
        assert_eq!((bundles.flows(0, 1), bundles.flows(0, 2), bundles.flows(2, 0)), (2.0, 1.0, 0.0));

        bundles.take(0, 0);
        bundles.put(0, 2);
        assert_eq!(outgoing(&bundles, 0), [(1, 1)]);
        assert_eq!(outgoing(&bundles, 2), [(0, 1), (1, 1)]);
        assert_eq!(incoming(&bundles, 0), [(1, vec![2]), (2, vec![0])]);
        assert_eq!(incoming(&bundles, 1), [(0, vec![1]), (2, vec![0])]);
        assert!(!bundles.is_shared(0, 2) && bundles.is_shared(2, 0));

        for (flow, link) in [(0, 2), (1, 0), (2, 1)] {
            bundles.take(flow, link);
        }
        assert!((0..3).all(|link| outgoing(&bundles, link).is_empty() && bundles.incoming(link).is_empty()));
    }

    #[test]
    fn a_flow_leaves_the_middle_of_its_bundle() {
        let links = [LinkId(4), LinkId(3)];
        let mut bundles = Bundles::new(5);
        for flow in 0..4 {
            bundles.enter(flow, &links, 1);
            bundles.put(flow, 4);
        }
        bundles.take(1, 4);
        assert_eq!(incoming(&bundles, 3), [(4, vec![3, 2, 0])]);
        bundles.take(3, 4);
        bundles.take(0, 4);
        assert_eq!((incoming(&bundles, 3), outgoing(&bundles, 4)), (vec![(4, vec![2])], vec![(3, 1)]));
    }

    #[test]
    fn sleepers_stand_apart_and_keep_their_flows() {
        let mut bundles = three_flows();
        bundles.set_asleep(1, true);
        assert_eq!(links(bundles.outgoing(0)), [(2, 1)]);
        assert_eq!(links(bundles.outgoing_asleep(0)), [(1, 2)]);
        assert_eq!(bundles.crossing(1).collect::<Vec<_>>(), [(0, 2.0)]);
        bundles.take(1, 0);
        assert_eq!(bundles.crossing(1).collect::<Vec<_>>(), [(0, 1.0)]);
        bundles.set_asleep(1, false);
        assert_eq!(outgoing(&bundles, 0), [(1, 1), (2, 1)]);
        assert_eq!(links(bundles.outgoing_asleep(0)), []);
    }

    #[test]
    fn longer_paths_leave_the_others_as_they_were() {
        let mut bundles = Bundles::new(6);
        bundles.enter(0, &[LinkId(0), LinkId(1)], 1);
        bundles.put(0, 0);
        bundles.enter(1, &[LinkId(0), LinkId(1)], 1);
        bundles.put(1, 0);
        let path = [5, 4, 3, 1, 0].map(LinkId);
        bundles.enter(2, &path, 1);
        bundles.put(2, 0);
        assert_eq!(incoming(&bundles, 1), [(0, vec![2, 1, 0])]);
        assert_eq!(bundles.links(2).collect::<Vec<_>>(), [5, 4, 3, 1, 0]);
        bundles.take(1, 0);
        assert_eq!(incoming(&bundles, 1), [(0, vec![2, 0])]);
        assert_eq!(incoming(&bundles, 5), [(0, vec![2])]);
    }

    #[test]
    fn table_and_map_agree() {
        let mut both = [Pairs::new(60), Pairs::Map(HashMap::default())];
        for step in 0..20_000_u32 {
            let (a, b) = (step.wrapping_mul(2_654_435_761) >> 7, step.wrapping_mul(40_503) >> 3);
            let (a, b) = (a % 60, b % 60);
            for pairs in &mut both {
                match step % 3 {
                    0 => pairs.remove(a, b),
                    _ => pairs.set(a, b, step),
                }
            }
            let [table, map] = &both;
            assert_eq!(table.get(b, a), map.get(b, a));
            assert_eq!(table.get(a, b), map.get(a, b));
        }
        let [table, map] = &both;
        let numbers = |pairs: &Pairs| (0..3600).filter_map(|i| pairs.get(i / 60, i % 60)).collect::<Vec<_>>();
        assert_eq!(numbers(table), numbers(map));
        assert!(numbers(table).len() > 100);
    }
}
