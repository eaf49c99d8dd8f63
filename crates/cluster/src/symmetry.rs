//! Translations of ranks that leave a cluster as it is: what is alike at all of them is planned and simulated once.
//!
//! A rank's number has digits, of which some are translated: each by itself, modulo its size. None of these translations but the identity leaves a
//! rank where it is, so each rank stands for equally many: the ranks that stand for others are those whose translated digits are zero.

use crate::{CrossRail, Fabric, Group, Layout, LinkId, Rank, Topology};

/// Most digits of a rank's number: five dimensions of a layout, each cut at nodes and at leaves.
const DIGITS: usize = 15;

/// A digit of a rank's number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Digit {
    size: u32,
    is_translated: bool,
    /// Whether ranks that differ in it alone do the same, even if no translation moves them.
    is_alike: bool,
}

/// Translations of the ranks of a cluster: a group, of which each rank that stands for others has one image for each element.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Symmetry {
    ranks: u32,
    /// Ranks that stand for all.
    members: u32,
    /// Digits of a rank's number, the least first.
    digits: [Digit; DIGITS],
    count: u8,
}

impl Symmetry {
    /// No translation: each rank stands for itself.
    pub fn none(ranks: u32) -> Self {
        Self::of(ranks, &[Digit { size: ranks, is_translated: false, is_alike: true }])
    }

    fn of(ranks: u32, listed: &[Digit]) -> Self {
        let mut all: Vec<Digit> = Vec::new();
        for digit in listed.iter().filter(|digit| digit.size > 1) {
            let is_like = |last: &&mut Digit| {
                !last.is_translated && !digit.is_translated && last.is_alike == digit.is_alike
            };
            match all.last_mut().filter(is_like) {
                Some(last) => last.size *= digit.size,
                None => all.push(*digit),
            }
        }
        let mut digits = [Digit::default(); DIGITS];
        digits[..all.len()].copy_from_slice(&all);
        let members = all.iter().filter(|digit| !digit.is_translated).map(|digit| digit.size).product();
        Self { ranks, members, digits, count: all.len() as u8 }
    }

    fn digits(&self) -> &[Digit] {
        &self.digits[..usize::from(self.count)]
    }

    /// All ranks.
    pub fn ranks(&self) -> u32 {
        self.ranks
    }

    /// How many ranks stand for others.
    pub fn members(&self) -> u32 {
        self.members
    }

    /// Ranks that each of them stands for, itself among them.
    pub fn alike(&self) -> u32 {
        self.ranks / self.members
    }

    /// The ranks that stand for others, in order.
    pub fn each_member(&self) -> impl Iterator<Item = Rank> + '_ {
        (0..self.members).map(|place| self.member_at(place))
    }

    /// The rank that stands for another one.
    pub fn member(&self, rank: Rank) -> Rank {
        self.pair(rank, rank).0
    }

    /// The lowest rank that stands for one of a group: of groups that are images of one another, the same one.
    pub fn lowest(&self, group: &Group) -> Rank {
        if self.members == self.ranks {
            return group.first;
        }
        group.ranks().map(|rank| self.member(rank)).min().unwrap_or(group.first)
    }

    /// Place of a rank, or of the one that stands for it, among those that stand for others.
    pub fn place(&self, rank: Rank) -> usize {
        if self.members == self.ranks {
            return rank.index();
        }
        let (mut left, mut place, mut unit) = (rank.0, 0, 1);
        for digit in self.digits() {
            if !digit.is_translated {
                place += left % digit.size * unit;
                unit *= digit.size;
            }
            left /= digit.size;
        }
        place as usize
    }

    /// The rank that stands for others at a place among these.
    pub fn member_at(&self, place: u32) -> Rank {
        let (mut left, mut rank, mut unit) = (place, 0, 1);
        for digit in self.digits() {
            if !digit.is_translated {
                rank += left % digit.size * unit;
                left /= digit.size;
            }
            unit *= digit.size;
        }
        Rank(rank)
    }

    /// Ranks that show whether ranks are alike: of each combination of digits in which they are not, or of as many as 64 of these, one that differs from its
    /// member in all other digits by one, and of the first of them the last one.
    pub fn samples(&self) -> Vec<Rank> {
        let digits = self.digits();
        let unlike: u32 = digits.iter().filter(|digit| !digit.is_alike).map(|digit| digit.size).product();
        let mut all = Vec::new();
        for combination in (0..unlike).step_by(unlike.div_ceil(64) as usize) {
            for is_last in [false, true].into_iter().take(if combination == 0 { 2 } else { 1 }) {
                let (mut left, mut rank, mut unit) = (combination, 0, 1);
                for digit in digits {
                    let at = match digit {
                        Digit { is_alike: false, .. } => left % digit.size,
                        _ if is_last => digit.size - 1,
                        Digit { is_translated: true, .. } => 1,
                        _ => 0,
                    };
                    left /= if digit.is_alike { 1 } else { digit.size };
                    rank += at * unit;
                    unit *= digit.size;
                }
                if self.member(Rank(rank)) != Rank(rank) && !all.contains(&Rank(rank)) {
                    all.push(Rank(rank));
                }
            }
        }
        all
    }

    /// A rank's images one further along each translated digit: repeated, these translations make all others.
    pub fn steps(&self, rank: Rank) -> impl Iterator<Item = Rank> + '_ {
        let mut unit = 1;
        let is_translated = |digit: &&Digit| digit.is_translated && self.members != self.ranks;
        let units = self.digits().iter().map(move |digit| {
            unit *= digit.size;
            (digit, unit / digit.size)
        });
        units.filter(move |(digit, _)| is_translated(digit)).map(move |(digit, unit)| {
            let at = rank.0 / unit % digit.size;
            let to = (at + 1) % digit.size;
            Rank(rank.0 - at * unit + to * unit)
        })
    }

    /// A pair of ranks as its first one's member sees it: both translated so that the first one is that member.
    pub fn pair(&self, first: Rank, second: Rank) -> (Rank, Rank) {
        if self.members == self.ranks {
            return (first, second);
        }
        let (mut lefts, mut moved, mut unit) = ([first.0, second.0], [0; 2], 1);
        for digit in self.digits() {
            let [a, b] = lefts.map(|left| left % digit.size);
            let at = if digit.is_translated { [0, (b + digit.size - a) % digit.size] } else { [a, b] };
            moved = [moved[0] + at[0] * unit, moved[1] + at[1] * unit];
            lefts = lefts.map(|left| left / digit.size);
            unit *= digit.size;
        }
        (Rank(moved[0]), Rank(moved[1]))
    }
}

impl Topology {
    /// Translations along dimensions of a layout whose ranks are alike that leave all links as they are, those with the fewest ranks that stand for others
    /// first; none of a graph, where ways cross nodes of others ([`CrossRail::Pxn`]), where some links differ, or where a dimension cuts a node, a leaf or
    /// a domain. Links of nodes, rails, leaves and pods are moved to others of their kind, or stay.
    ///
    /// # Panics
    /// If the layout has not as many ranks as the cluster.
    pub fn symmetries(&self, layout: &Layout) -> Vec<Symmetry> {
        assert_eq!(layout.ranks(), self.ranks(), "the layout is one of the cluster's ranks");
        if !self.link_bandwidths.is_empty() || self.nodes < 2 {
            return Vec::new();
        }
        let leaves = match &self.fabric {
            Fabric::Graph(_) => return Vec::new(),
            // A way has links of several GPUs, which would be one link.
            Fabric::Rail(rail) if rail.cross_rail == CrossRail::Pxn => return Vec::new(),
            Fabric::FatTree(tree) if tree.nodes_per_leaf < self.nodes => {
                tree.nodes_per_leaf * tree.pods.map_or(1, |pods| pods.leaves_per_pod)
            }
            Fabric::FatTree(_) | Fabric::Flat | Fabric::Nodes | Fabric::Host { .. } | Fabric::Rail(_) => 1,
        };
        let domains = if self.nodes_per_domain < self.nodes { self.nodes_per_domain } else { 1 };
        // A block has whole leaves or pods, and whole domains.
        let block = (1..=leaves).map(|times| times * domains).find(|block| block.is_multiple_of(leaves));
        let block = block.expect("a multiple of both is among these") * self.gpus_per_node;
        let Some(digits) = cut(layout, &[self.gpus_per_node, block]) else { return Vec::new() };
        // NICs that some GPUs of a node share do not move on by one GPU.
        let turns = block == self.gpus_per_node && [1, self.gpus_per_node].contains(&self.nics_per_node);
        let least = if turns { &[1, self.gpus_per_node, block][..] } else { &[block] };
        let mut all: Vec<Symmetry> = Vec::new();
        for &least in least {
            let translated = digits
                .iter()
                .map(|&(unit, digit)| Digit { is_translated: digit.is_translated && unit >= least, ..digit });
            let symmetry = Symmetry::of(self.ranks(), &translated.collect::<Vec<_>>());
            if symmetry.alike() > 1 && !all.contains(&symmetry) {
                all.push(symmetry);
            }
        }
        all
    }

    /// The links that stand for all under a symmetry.
    ///
    /// # Panics
    /// If it is one of other ranks.
    pub fn folded(&self, symmetry: &Symmetry) -> FoldedLinks {
        let capacities = self.capacities();
        if symmetry.members() == self.ranks() {
            let links = (0..).map(LinkId).zip(&capacities).map(|(link, &bytes_per_s)| FoldedLink {
                link,
                bytes_per_s,
                crossed: 1,
            });
            let places = (0..capacities.len() as u32).collect();
            return FoldedLinks { places, links: links.collect(), alike: 1 };
        }
        let mut places = vec![u32::MAX; capacities.len()];
        let mut links: Vec<FoldedLink> = Vec::new();
        for link in self.links() {
            let member = self.member_link(symmetry, link);
            if member == link {
                places[link.index()] = links.len() as u32;
                links.push(FoldedLink { link, bytes_per_s: capacities[link.index()], crossed: 0 });
            } else {
                places[link.index()] = places[member.index()];
            }
            links[places[link.index()] as usize].crossed += 1;
        }
        // So far the links of each kind; the translations that leave one where it is are as many as there are per link.
        links.iter_mut().for_each(|folded| folded.crossed = symmetry.alike() / folded.crossed);
        FoldedLinks { places, links, alike: symmetry.alike() }
    }

    /// The link of its kind to which translations move one, at ranks that stand for others.
    fn member_link(&self, symmetry: &Symmetry, link: LinkId) -> LinkId {
        let (family, index) = self.family(link);
        let (first, thing) = (link.0 - index, index / 2);
        let gpus = self.gpus_per_node;
        let member_node = |node: u32| self.node(symmetry.member(Rank(node * gpus)));
        // The first GPU of a node that uses a NIC.
        let user = |nic: u32| (nic * gpus).div_ceil(self.nics_per_node);
        let member = match family.name {
            "gpu" => symmetry.member(Rank(thing)).0,
            "nic" => {
                let (node, nic) = (thing / self.nics_per_node, thing % self.nics_per_node);
                let member = symmetry.member(Rank(node * gpus + user(nic)));
                self.node(member) * self.nics_per_node + self.rail(member)
            }
            "host" => member_node(thing),
            "rail" => self.rail(symmetry.member(Rank(user(thing)))),
            // Leaves and pods of a block follow one another.
            _ => {
                let nodes = self.nodes / family.count;
                member_node(thing * nodes) / nodes
            }
        };
        LinkId(first + 2 * member + index % 2)
    }
}

/// Digits of a layout's ranks, each with its unit: a dimension that crosses a boundary, in ranks and in ascending order, has one on each side of it. `None` if it
/// does not cross that evenly.
fn cut(layout: &Layout, boundaries: &[u32]) -> Option<Vec<(u32, Digit)>> {
    let (mut digits, mut unit) = (Vec::new(), 1);
    for dimension in layout.dimensions() {
        let mut left = dimension.size;
        let is_alike = dimension.is_alike;
        let mut push = |unit, size| digits.push((unit, Digit { size, is_translated: is_alike, is_alike }));
        for &boundary in boundaries {
            if unit < boundary && boundary < unit * left {
                let below = boundary / unit;
                if !boundary.is_multiple_of(unit) || !left.is_multiple_of(below) {
                    return None;
                }
                push(unit, below);
                (unit, left) = (boundary, left / below);
            } else if unit < boundary && !boundary.is_multiple_of(unit * left) {
                return None;
            }
        }
        push(unit, left);
        unit *= left;
    }
    Some(digits)
}

/// Links that stand for all.
#[derive(Clone, Debug, PartialEq)]
pub struct FoldedLinks {
    /// Place of each link's member in the list, by [`LinkId`].
    places: Vec<u32>,
    links: Vec<FoldedLink>,
    /// Ranks that each member stands for.
    alike: u32,
}

/// A link that stands for others.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FoldedLink {
    /// The link.
    pub link: LinkId,
    /// Its bytes per second.
    pub bytes_per_s: f64,
    /// How many images of a transfer cross it, of each that crosses one of those that it stands for.
    pub crossed: u32,
}

impl FoldedLinks {
    /// All of them.
    pub fn links(&self) -> &[FoldedLink] {
        &self.links
    }

    /// The member of a link, by its place in the list.
    pub fn place(&self, link: LinkId) -> LinkId {
        LinkId(self.places[link.index()])
    }

    /// Bytes of a call and its images, so many, over each link of the network of members, and whether links that are one there have as many each. If not,
    /// these are the most of one image, which hold a call back that has no other images, as long as nothing else moves.
    pub fn demand(&self, demand: &[(LinkId, f64)], images: u32) -> (Vec<(LinkId, f64)>, bool) {
        let mut of_place = vec![Demand::default(); self.links.len()];
        for &(link, bytes) in demand {
            of_place[self.place(link).index()].add(bytes);
        }
        let mut is_like = true;
        let mut folded = Vec::new();
        for (place, Demand { count, sum, most, least }) in (0..).map(LinkId).zip(of_place) {
            let FoldedLink { crossed, .. } = self.links[place.index()];
            if count == 0 {
                continue;
            }
            // Links that are one to the network; those that are not crossed at all are unlike those that are.
            let (links, crossings) = (self.alike / crossed, images * count);
            let bytes = if images == self.alike {
                sum * f64::from(crossed)
            } else {
                let is_even = most == least && crossings.is_multiple_of(links);
                is_like &= is_even;
                if is_even { most * f64::from(crossings / links) } else { most }
            };
            folded.push((place, bytes));
        }
        (folded, is_like)
    }
}

/// Bytes of a call over links that are one to the network.
#[derive(Clone, Copy)]
struct Demand {
    count: u32,
    sum: f64,
    most: f64,
    least: f64,
}

impl Default for Demand {
    fn default() -> Self {
        Self { count: 0, sum: 0.0, most: 0.0, least: f64::INFINITY }
    }
}

impl Demand {
    fn add(&mut self, bytes: f64) {
        self.count += 1;
        self.sum += bytes;
        (self.most, self.least) = (self.most.max(bytes), self.least.min(bytes));
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::{CrossRail, Dimension, FatTree, Pods, Rail, Uplink};

    fn topology(
        nodes: u32,
        gpus_per_node: u32,
        nics_per_node: u32,
        nodes_per_domain: u32,
        fabric: Fabric,
    ) -> Topology {
        Topology {
            nodes,
            gpus_per_node,
            nodes_per_domain,
            nics_per_node,
            gpu_bandwidth: 100.0,
            nic_bandwidth: 10.0,
            latency_intra_s: 1.0,
            latency_inter_s: 2.0,
            fabric,
            link_bandwidths: BTreeMap::new(),
        }
    }

    fn all() -> Vec<Topology> {
        let rail = |cross_rail| Fabric::Rail(Rail { uplink: Uplink::Oversubscribed(2.0), cross_rail });
        let tree = |leaves_per_pod: Option<u32>| {
            let pods =
                leaves_per_pod.map(|leaves_per_pod| Pods { leaves_per_pod, uplink: Uplink::default() });
            Fabric::FatTree(FatTree { nodes_per_leaf: 2, uplink: Uplink::Oversubscribed(4.0), pods })
        };
        vec![
            topology(6, 4, 4, 1, Fabric::Flat),
            topology(6, 4, 1, 1, Fabric::Nodes),
            topology(6, 4, 2, 1, Fabric::Nodes),
            topology(6, 4, 4, 1, Fabric::Nodes),
            topology(6, 4, 2, 3, Fabric::Nodes),
            topology(6, 4, 1, 1, Fabric::Host { bandwidth: 50.0 }),
            topology(6, 4, 4, 1, rail(CrossRail::Spine)),
            topology(6, 4, 2, 1, rail(CrossRail::Spine)),
            topology(8, 2, 2, 1, tree(None)),
            topology(8, 2, 1, 1, tree(Some(2))),
        ]
    }

    /// From the definition: of the routes of all images of a pair, as many cross each link as one image crosses places, times what it is crossed by.
    #[test]
    fn images_of_a_route_cross_links_as_their_member_says() {
        for topology in all() {
            let mut symmetries = topology.symmetries(&Layout::flat(topology.ranks()));
            assert!(!symmetries.is_empty(), "{topology:?}");
            // Stages of nodes, and ranks of a node that are not alike.
            let of = |name, size| Dimension { name, size, is_alike: name != "pp" };
            let [gpus, nodes] = [topology.gpus_per_node, topology.nodes];
            let staged = [
                vec![of("tp", gpus), of("pp", 2), of("dp", nodes / 2)],
                vec![of("tp", gpus), of("dp", nodes / 2), of("pp", 2)],
                vec![of("pp", 2), of("tp", gpus / 2), of("dp", nodes)],
            ];
            symmetries.extend(staged.into_iter().flat_map(|all| topology.symmetries(&Layout::new(all))));
            for symmetry in symmetries {
                let folded = topology.folded(&symmetry);
                for src in symmetry.each_member() {
                    check_steps(&symmetry, src);
                    for dst in (0..topology.ranks()).map(Rank).filter(|dst| *dst != src) {
                        check(&topology, &symmetry, &folded, src, dst);
                    }
                }
            }
        }
    }

    fn check_steps(symmetry: &Symmetry, member: Rank) {
        let mut reached = vec![member];
        let mut next = 0;
        while let Some(&rank) = reached.get(next) {
            assert_eq!(symmetry.member(rank), member);
            let new: Vec<Rank> = symmetry.steps(rank).filter(|step| !reached.contains(step)).collect();
            reached.extend(new);
            next += 1;
        }
        assert_eq!(reached.len() as u32, symmetry.alike());
    }

    fn check(topology: &Topology, symmetry: &Symmetry, folded: &FoldedLinks, src: Rank, dst: Rank) {
        let ranks = || (0..topology.ranks()).map(Rank);
        let images = ranks().flat_map(|a| ranks().map(move |b| (a, b))).filter(|(a, b)| a != b);
        let images: Vec<_> = images.filter(|&(a, b)| symmetry.pair(a, b) == (src, dst)).collect();
        assert_eq!(images.len() as u32, symmetry.alike());
        let route = topology.route(src, dst);
        let mut crossed = vec![0; topology.capacities().len()];
        for (a, b) in images {
            let image = topology.route(a, b);
            assert_eq!(image.latency_s, route.latency_s);
            let places = |route: &crate::Route| {
                route.links().iter().map(|&link| folded.place(link)).collect::<Vec<_>>()
            };
            assert_eq!(places(&image), places(&route));
            image.links().iter().for_each(|link| crossed[link.index()] += 1);
        }
        for (&crossed, link) in crossed.iter().zip(topology.links()) {
            let place = folded.place(link);
            let member = &folded.links()[place.index()];
            let own = route.links().iter().filter(|&&other| folded.place(other) == place).count() as u32;
            assert_eq!(
                crossed,
                own * member.crossed,
                "{symmetry:?} {src} {dst} {}",
                topology.link_name(link)
            );
            assert_eq!(member.bytes_per_s, topology.capacities()[link.index()]);
        }
    }

    #[test]
    fn what_differs_has_no_symmetry() {
        let mut one = topology(4, 2, 2, 1, Fabric::Nodes);
        one.link_bandwidths.insert(LinkId(3), 1.0);
        assert!(one.symmetries(&Layout::flat(8)).is_empty());
        assert!(topology(1, 8, 8, 1, Fabric::Nodes).symmetries(&Layout::flat(8)).is_empty());
        let pxn = Rail { uplink: Uplink::default(), cross_rail: CrossRail::Pxn };
        assert!(topology(6, 4, 4, 1, Fabric::Rail(pxn)).symmetries(&Layout::flat(24)).is_empty());
        let tree = FatTree { nodes_per_leaf: 3, uplink: Uplink::default(), pods: None };
        assert!(
            topology(8, 2, 1, 1, Fabric::FatTree(tree)).symmetries(&Layout::flat(16)).is_empty(),
            "the last leaf has fewer nodes"
        );
    }

    #[test]
    fn unlike_demands_are_noticed() {
        let topology = topology(4, 2, 2, 1, Fabric::Nodes);
        let symmetries = topology.symmetries(&Layout::flat(8));
        let folded = topology.folded(&symmetries[1]);
        let demand = |bytes: &dyn Fn(LinkId) -> f64| -> Vec<_> {
            topology.links().map(|link| (link, bytes(link))).collect()
        };
        let alike = (0..8).map(|place| (LinkId(place), 5.0)).collect::<Vec<_>>();
        assert_eq!(folded.demand(&demand(&|_| 5.0), 1), (alike.clone(), true));
        assert_eq!(folded.demand(&demand(&|_| 5.0)[1..], 1), (alike, false), "a link is not crossed");
        // Links of GPUs are the first 16, four of them of a node; those of NICs follow.
        let (most, is_like) = folded.demand(&demand(&|link| f64::from(link.0)), 1);
        assert!(!is_like);
        assert_eq!(
            most.iter().map(|(_, bytes)| *bytes).collect::<Vec<_>>(),
            [12., 13., 14., 15., 28., 29., 30., 31.]
        );
    }
}
