//! Models of simulated links: how fast a flow moves, given its route and all the others, and when a transfer may start.

/// How the rates of flows follow from the links that they cross. Latencies are the same in all models.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum NetworkModel {
    /// Max-min fair shares over all links of the route: no flow can get more without taking from one that has no more than it.
    /// Bandwidth of one link that a flow cannot use, because another link holds it back, goes to the other flows there.
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

/// When the transfers of an exchange start, once it has been opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum TransferStart {
    /// Each when both of its ranks are there: what point-to-point transfers of a library do.
    #[default]
    Rendezvous,
    /// All together, when the last rank that takes part in this stage of the call is there. What a model assumes in which a
    /// collective takes some time from the last arrival on.
    Barrier,
}

impl TransferStart {
    /// All of them, what links do first.
    pub const ALL: [Self; 2] = [Self::Rendezvous, Self::Barrier];

    /// Name in scenarios.
    pub fn name(self) -> &'static str {
        match self {
            Self::Rendezvous => "rendezvous",
            Self::Barrier => "barrier",
        }
    }
}
