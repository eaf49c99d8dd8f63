//! What simulated links know of one another: how fast a flow moves, given its route and all the others.

/// How the rates of flows follow from the links that they cross. Latencies are the same in all models.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum NetworkModel {
    /// Max-min fair shares over all links of the route: no flow can get more without taking from one that has no more than it.
    /// What a flow cannot use of one link, because another holds it back, goes to the others there.
    #[default]
    MaxMin,
    /// Contention at the ports of GPUs and NICs only ([`Topology::is_port`](crate::Topology::is_port)). A port divides its
    /// bandwidth equally among the flows that cross it, and a flow moves at the least of its ports' parts: what it leaves unused
    /// of the others goes to nobody. Links of the fabric are ignored.
    Ports,
    /// No contention: a flow moves at the lowest bandwidth of its route, however many others do.
    AlphaBeta,
}

impl NetworkModel {
    /// All models, the most exact first.
    pub const ALL: [Self; 3] = [Self::MaxMin, Self::Ports, Self::AlphaBeta];

    /// Name in scenarios.
    pub fn name(self) -> &'static str {
        match self {
            Self::MaxMin => "max-min",
            Self::Ports => "ports",
            Self::AlphaBeta => "alpha-beta",
        }
    }
}
