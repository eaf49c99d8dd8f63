//! Translations of ranks that leave a cluster as it is: what is alike at all of them is planned and simulated once.
//!
//! Ranks are numbered node by node, so a translation moves every rank on by so many nodes, or by so many GPUs within its node as well, around
//! the end. None but the identity leaves a rank where it is, so each rank stands for equally many, and the ranks that stand for others
//! are the first ones.

use crate::{CrossRail, Fabric, LinkId, Rank, Topology};

/// Translations of the ranks of a cluster: a group, of which each rank that stands for others has one image for each element.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Symmetry {
    ranks: u32,
    /// Ranks that stand for all.
    members: u32,
    gpus_per_node: u32,
}

impl Symmetry {
    /// No translation: each rank stands for itself.
    pub fn none(ranks: u32) -> Self {
        Self { ranks, members: ranks, gpus_per_node: 1 }
    }

    /// Translations by whole blocks of `nodes` nodes: the ranks of the first block stand for all.
    ///
    /// # Panics
    /// If the cluster has no whole number of blocks.
    pub fn of_nodes(topology: &Topology, nodes: u32) -> Self {
        assert!(
            nodes > 0 && topology.nodes.is_multiple_of(nodes),
            "blocks of {nodes} of {} nodes",
            topology.nodes
        );
        let gpus_per_node = topology.gpus_per_node;
        Self { ranks: topology.ranks(), members: nodes * gpus_per_node, gpus_per_node }
    }

    /// Translations by nodes and by GPUs within a node: rank 0 stands for all.
    pub fn of_gpus(topology: &Topology) -> Self {
        Self { ranks: topology.ranks(), members: 1, gpus_per_node: topology.gpus_per_node }
    }

    /// All ranks.
    pub fn ranks(&self) -> u32 {
        self.ranks
    }

    /// Ranks that stand for others: those below this number.
    pub fn members(&self) -> u32 {
        self.members
    }

    /// Ranks that each of them stands for, itself among them.
    pub fn alike(&self) -> u32 {
        self.ranks / self.members
    }

    /// The rank that stands for another one.
    pub fn member(&self, rank: Rank) -> Rank {
        Rank(rank.0 % self.members)
    }

    /// A pair of ranks as its first one's member sees it: both translated so that the first one is that member.
    pub fn pair(&self, first: Rank, second: Rank) -> (Rank, Rank) {
        let member = self.member(first);
        if member == first {
            return (first, second);
        }
        if self.members > 1 {
            let moved = second.0 + self.ranks - (first.0 - member.0);
            return (member, Rank(moved % self.ranks));
        }
        let gpus = self.gpus_per_node;
        let nodes = self.ranks / gpus;
        let node = (second.0 / gpus + nodes - first.0 / gpus) % nodes;
        let gpu = (second.0 % gpus + gpus - first.0 % gpus) % gpus;
        (member, Rank(node * gpus + gpu))
    }
}

impl Topology {
    /// Translations that leave all links as they are, those with the fewest ranks that stand for others first; none of a graph, where ways cross nodes of
    /// others ([`CrossRail::Pxn`]), or where some links differ. Links of nodes, rails, leaves and pods are moved to others of their kind, or stay.
    pub fn symmetries(&self) -> Vec<Symmetry> {
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
        let block = block.expect("a multiple of both is among these");
        let mut all = Vec::new();
        if block == 1 && [1, self.gpus_per_node].contains(&self.nics_per_node) {
            all.push(Symmetry::of_gpus(self));
        }
        if block < self.nodes && self.nodes.is_multiple_of(block) {
            all.push(Symmetry::of_nodes(self, block));
        }
        all
    }

    /// The links that stand for all under a symmetry.
    ///
    /// # Panics
    /// If it is none of this cluster's ([`Self::symmetries`]), nor that without translations.
    pub fn folded(&self, symmetry: &Symmetry) -> FoldedLinks {
        let capacities = self.capacities();
        if symmetry.members() == self.ranks() {
            let links = (0..).map(LinkId).zip(&capacities).map(|(link, &bytes_per_s)| FoldedLink {
                link,
                bytes_per_s,
                crossed: 1,
            });
            return FoldedLinks { places: (0..capacities.len() as u32).collect(), links: links.collect() };
        }
        assert!(self.symmetries().contains(symmetry), "no symmetry of this cluster: {symmetry:?}");
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
        FoldedLinks { places, links }
    }

    /// The first link to which translations move one.
    fn member_link(&self, symmetry: &Symmetry, link: LinkId) -> LinkId {
        let (family, index) = self.family(link);
        let turns = symmetry.members() == 1;
        let nodes = if turns { 1 } else { symmetry.members() / self.gpus_per_node };
        let (first, thing) = (link.0 - index, index / 2);
        let member = match family.name {
            "gpu" => symmetry.member(Rank(thing)).0,
            "nic" if turns => 0,
            "nic" => thing % (nodes * self.nics_per_node),
            "host" => thing % nodes,
            "rail" if turns => 0,
            "rail" => thing,
            // Leaves and pods of a block follow one another.
            _ => thing % (family.count * nodes / self.nodes).max(1),
        };
        LinkId(first + 2 * member + index % 2)
    }
}

/// Links that stand for all.
#[derive(Clone, Debug, PartialEq)]
pub struct FoldedLinks {
    /// Place of each link's member in the list, by [`LinkId`].
    places: Vec<u32>,
    links: Vec<FoldedLink>,
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

    /// Bytes of a call over each link of the network of members, and whether links that are one there have as many each. If not, these are
    /// the most, which hold the call back as long as nothing else moves.
    pub fn demand(&self, demand: &[(LinkId, f64)]) -> (Vec<(LinkId, f64)>, bool) {
        let (mut most, mut least) = (vec![0.0_f64; self.links.len()], vec![f64::INFINITY; self.links.len()]);
        let mut counts = vec![0_u32; self.links.len()];
        for &(link, bytes) in demand {
            let place = self.place(link).index();
            counts[place] += 1;
            (most[place], least[place]) = (most[place].max(bytes), least[place].min(bytes));
        }
        // Links that are not crossed at all are unlike those that are.
        let mut all = vec![0_u32; self.links.len()];
        self.places.iter().for_each(|&place| all[place as usize] += 1);
        let crossed = || (0..self.links.len()).filter(|&place| counts[place] > 0);
        let is_like = crossed().all(|place| most[place] == least[place] && counts[place] == all[place]);
        let folded = crossed().map(|place| (LinkId(place as u32), most[place]));
        (folded.collect(), is_like)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::{CrossRail, FatTree, Pods, Rail, Uplink};

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
            let symmetries = topology.symmetries();
            assert!(!symmetries.is_empty(), "{topology:?}");
            for symmetry in symmetries {
                let folded = topology.folded(&symmetry);
                for src in (0..symmetry.members()).map(Rank) {
                    for dst in (0..topology.ranks()).map(Rank).filter(|dst| *dst != src) {
                        check(&topology, &symmetry, &folded, src, dst);
                    }
                }
            }
        }
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
        assert!(one.symmetries().is_empty());
        assert!(topology(1, 8, 8, 1, Fabric::Nodes).symmetries().is_empty());
        let pxn = Rail { uplink: Uplink::default(), cross_rail: CrossRail::Pxn };
        assert!(topology(6, 4, 4, 1, Fabric::Rail(pxn)).symmetries().is_empty());
        let tree = FatTree { nodes_per_leaf: 3, uplink: Uplink::default(), pods: None };
        assert!(
            topology(8, 2, 1, 1, Fabric::FatTree(tree)).symmetries().is_empty(),
            "the last leaf has fewer nodes"
        );
    }

    #[test]
    fn unlike_demands_are_noticed() {
        let topology = topology(4, 2, 2, 1, Fabric::Nodes);
        let folded = topology.folded(&Symmetry::of_nodes(&topology, 1));
        let demand = |bytes: &dyn Fn(LinkId) -> f64| -> Vec<_> {
            topology.links().map(|link| (link, bytes(link))).collect()
        };
        let alike = (0..8).map(|place| (LinkId(place), 5.0)).collect::<Vec<_>>();
        assert_eq!(folded.demand(&demand(&|_| 5.0)), (alike.clone(), true));
        assert_eq!(folded.demand(&demand(&|_| 5.0)[1..]), (alike, false), "a link is not crossed");
        // Links of GPUs are the first 16, four of them of a node; those of NICs follow.
        let (most, is_like) = folded.demand(&demand(&|link| f64::from(link.0)));
        assert!(!is_like);
        assert_eq!(
            most.iter().map(|(_, bytes)| *bytes).collect::<Vec<_>>(),
            [12., 13., 14., 15., 28., 29., 30., 31.]
        );
    }
}
