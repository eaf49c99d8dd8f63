//! Flows in bundles: all that are bottlenecked at one link and also cross a certain other.
//!
//! Filling asks two things about a link: how many of the flows bottlenecked here cross each other link, and
//! which flows bottlenecked elsewhere cross this one. Both are answered bundle by bundle, so a level is
//! pushed once per pair of links, however many flows the pair has. Links that are far from full can be put to
//! sleep: bundles that cross them stand apart, and nothing is pushed to them.

use zipwire_schedule::LinkId;

use super::pairs::Pairs;

/// The most links that a flow can cross: as many as a route has.
pub(super) const MAX_HOPS: usize = 8;
const NONE: u32 = u32::MAX;

/// A bundle in the list of its bottleneck.
#[derive(Clone, Copy)]
pub(super) struct Outgoing {
    /// The other link that the flows cross.
    pub(super) link: u32,
    /// How many: a number to multiply with, exact up to 2^24.
    pub(super) flows: f32,
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
    /// Position in the awake or asleep list of the bottleneck.
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

/// Bundles of a bottleneck. What fillings read lies close together: they go through all of it.
#[derive(Clone, Default)]
struct List {
    outgoing: Vec<Outgoing>,
    /// Which bundle each is.
    bundles: Vec<u32>,
}

/// The bundles of a bottleneck, by whether the other link is awake.
#[derive(Clone, Default)]
struct Lists {
    awake: List,
    asleep: List,
}

impl Lists {
    fn of(&self, is_asleep: bool) -> &List {
        if is_asleep { &self.asleep } else { &self.awake }
    }

    fn of_mut(&mut self, is_asleep: bool) -> &mut List {
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
            stride: 1,
        }
    }

    /// Records the path of a new flow, which has no bottleneck yet.
    pub(super) fn enter(&mut self, flow: u32, links: &[LinkId]) {
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

    /// The links that a flow crosses.
    pub(super) fn links(&self, flow: u32) -> impl Iterator<Item = u32> + Clone + '_ {
        self.hops(flow).iter().map(|node| node.link)
    }

    /// The bundles of the flows that are bottlenecked at `link`, of other links that are awake.
    pub(super) fn outgoing(&self, link: u32) -> &[Outgoing] {
        &self.outgoing[link as usize].awake.outgoing
    }

    /// As [`Bundles::outgoing`], of other links that sleep.
    pub(super) fn outgoing_asleep(&self, link: u32) -> &[Outgoing] {
        &self.outgoing[link as usize].asleep.outgoing
    }

    /// The bundles of the flows that cross `link` and are bottlenecked elsewhere.
    pub(super) fn incoming(&self, link: u32) -> &[Incoming] {
        &self.incoming[link as usize]
    }

    /// The bottleneck and the number of flows of each bundle that crosses `link`.
    pub(super) fn crossing(&self, link: u32) -> impl Iterator<Item = (u32, f64)> + '_ {
        let is_asleep = self.is_asleep[link as usize];
        self.incoming[link as usize].iter().map(move |incoming| {
            let list = self.outgoing[incoming.link as usize].of(is_asleep);
            let position = self.bundles[incoming.bundle as usize].outgoing;
            (incoming.link, f64::from(list.outgoing[position as usize].flows))
        })
    }

    /// How many flows that are bottlenecked at one link cross another.
    pub(super) fn flows(&self, bottleneck: u32, other: u32) -> f64 {
        self.index_of.get(bottleneck, other).map_or(0.0, |bundle| {
            let list = self.outgoing[bottleneck as usize].of(self.is_asleep[other as usize]);
            f64::from(list.outgoing[self.bundles[bundle as usize].outgoing as usize].flows)
        })
    }

    /// Whether there are any.
    pub(super) fn is_shared(&self, bottleneck: u32, other: u32) -> bool {
        self.index_of.get(bottleneck, other).is_some()
    }

    /// Appends them.
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
            let Incoming { link: bottleneck, bundle } = self.incoming[link as usize][position];
            let outgoing = self.unlist_outgoing(bundle);
            let list = self.outgoing[bottleneck as usize].of_mut(is_asleep);
            self.bundles[bundle as usize].outgoing = list.bundles.len() as u32;
            list.outgoing.push(outgoing);
            list.bundles.push(bundle);
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
            let Bundle { head, outgoing, .. } = &mut self.bundles[bundle as usize];
            let old = std::mem::replace(head, index as u32);
            let is_asleep = self.is_asleep[other as usize];
            self.outgoing[link as usize].of_mut(is_asleep).outgoing[*outgoing as usize].flows += 1.0;
            let node = &mut self.nodes[index];
            (node.bundle, node.next, node.previous) = (bundle, old, NONE);
            if old != NONE {
                self.nodes[old as usize].previous = index as u32;
            }
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
            let position = self.bundles[bundle as usize].outgoing as usize;
            let is_asleep = self.is_asleep[other as usize];
            self.outgoing[link as usize].of_mut(is_asleep).outgoing[position].flows -= 1.0;
            if self.bundles[bundle as usize].head == NONE {
                self.unlist(bundle);
            }
        }
    }

    /// The bundle of a bottleneck and another link; a new one if no flow has both.
    fn bundle(&mut self, bottleneck: u32, other: u32) -> u32 {
        if let Some(bundle) = self.index_of.get(bottleneck, other) {
            return bundle;
        }
        let bundle = self.free.last().copied().unwrap_or(self.bundles.len() as u32);
        self.index_of.set(bottleneck, other, bundle);
        let list = self.outgoing[bottleneck as usize].of_mut(self.is_asleep[other as usize]);
        let incoming = &mut self.incoming[other as usize];
        let (out, into) = (list.bundles.len() as u32, incoming.len() as u32);
        let new = Bundle { bottleneck, other, head: NONE, outgoing: out, incoming: into };
        list.outgoing.push(Outgoing { link: other, flows: 0.0 });
        list.bundles.push(bundle);
        incoming.push(Incoming { link: bottleneck, bundle });
        match self.free.pop() {
            Some(index) => self.bundles[index as usize] = new,
            None => self.bundles.push(new),
        }
        bundle
    }

    /// Ends a bundle without flows.
    fn unlist(&mut self, index: u32) {
        self.unlist_outgoing(index);
        let Bundle { bottleneck, other, incoming: into, .. } = self.bundles[index as usize];
        let incoming = &mut self.incoming[other as usize];
        incoming.swap_remove(into as usize);
        if let Some(moved) = incoming.get(into as usize) {
            self.bundles[moved.bundle as usize].incoming = into;
        }
        self.index_of.remove(bottleneck, other);
        self.free.push(index);
    }

    /// Takes a bundle out of the list of its bottleneck.
    fn unlist_outgoing(&mut self, index: u32) -> Outgoing {
        let Bundle { bottleneck, other, outgoing: out, .. } = self.bundles[index as usize];
        let list = self.outgoing[bottleneck as usize].of_mut(self.is_asleep[other as usize]);
        list.bundles.swap_remove(out as usize);
        if let Some(&moved) = list.bundles.get(out as usize) {
            self.bundles[moved as usize].outgoing = out;
        }
        list.outgoing.swap_remove(out as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// (other link, flows) of every bundle of a bottleneck.
    fn outgoing(bundles: &Bundles, link: u32) -> Vec<(u32, u32)> {
        let lists = [bundles.outgoing(link), bundles.outgoing_asleep(link)].concat();
        let mut list: Vec<_> = lists.iter().map(|o| (o.link, o.flows as u32)).collect();
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
        bundles.enter(0, &links);
        bundles.enter(1, &links[..2]);
        bundles.enter(2, &[links[1], links[0]]);
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
            bundles.enter(flow, &links);
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
        let links = |list: &[Outgoing]| list.iter().map(|o| (o.link, o.flows as u32)).collect::<Vec<_>>();
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
        bundles.enter(0, &[LinkId(0), LinkId(1)]);
        bundles.put(0, 0);
        bundles.enter(1, &[LinkId(0), LinkId(1)]);
        bundles.put(1, 0);
        let path = [5, 4, 3, 1, 0].map(LinkId);
        bundles.enter(2, &path);
        bundles.put(2, 0);
        assert_eq!(incoming(&bundles, 1), [(0, vec![2, 1, 0])]);
        assert_eq!(bundles.links(2).collect::<Vec<_>>(), [5, 4, 3, 1, 0]);
        bundles.take(1, 0);
        assert_eq!(incoming(&bundles, 1), [(0, vec![2, 0])]);
        assert_eq!(incoming(&bundles, 5), [(0, vec![2])]);
    }
}
