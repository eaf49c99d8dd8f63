//! De-duplication per node: of the tokens that several ranks of another node want, one copy crosses the network, to the rank
//! there that has the sender's place in its node. This *gateway* puts together what each rank of its node would have got,
//! and hands it on as values. What stays within a node goes straight.
//!
//! The first leg is a call like any other, whose protocol codes it. While one part of it travels, the rows of the part
//! before are handed on, on the control channel.

use std::ops::Range;
use std::sync::Arc;

use ndarray::ArcArray2;
use zipwire_cluster::Group;
use zipwire_codec::DType;

use super::Choice;
use super::all_to_all::{self, Peer};
use super::call::{Buffers, Call, place, range};
use crate::builder::ProgramBuilder;
use crate::plan::{Chunk, Content, Exchange, Gather, GatherRows, Leg, Local, OpKind, Region, Transfer};
use crate::tokens::node;
use crate::{BufferId, Channel, Order, Rank, Stage, TokenMap};

/// Buffers of a rank as a gateway in a call.
#[derive(Clone, Copy)]
pub(super) struct GatewayBuffers {
    /// Each token that ranks of other nodes have for this node, once.
    pub(super) incoming: BufferId,
    /// Rows of these that other ranks of the node get.
    pub(super) outgoing: BufferId,
}

/// The second leg of a part: what a gateway puts together and hands on, and what it gets from other gateways.
pub(super) struct Forward {
    rows: GatherRows,
    exchange: Exchange,
}

impl Forward {
    pub(super) fn build(self, builder: &mut ProgramBuilder) {
        builder.push(OpKind::Local(Local::GatherRows(self.rows)));
        let joins_previous = builder.joins_previous(self.exchange.channel);
        builder.push(OpKind::Exchange(Exchange { joins_previous, ..self.exchange }));
    }
}

/// The first leg, and the second one of each part.
pub(super) fn call(
    builder: &mut ProgramBuilder,
    choice: &Choice,
    (dtype, channel): (DType, Channel),
    (tokens, bytes, ranks_per_node): (&TokenMap, &ArcArray2<u64>, u32),
    Buffers { input, output }: Buffers,
    buffers: GatewayBuffers,
) -> (Call, Vec<Forward>) {
    let (rank, rank_count, row_bytes) = (builder.rank(), tokens.rank_count(), tokens.row_bytes());
    assert!(rank_count.is_multiple_of(ranks_per_node), "nodes are equal");
    let layout = Layout { tokens, ranks_per_node };
    let sent = |peer: Rank| match layout.way(rank, peer) {
        Way::Near => bytes[[rank.index(), peer.index()]],
        Way::Gateway => layout.distinct(rank, peer) * row_bytes,
        Way::Forwarded => 0,
    };
    let (outgoing, end) = place(rank, rank_count, input, sent);
    builder.reserve(input, end);
    let (delivered, end) = place(rank, rank_count, output, |peer| bytes[[peer.index(), rank.index()]]);
    builder.reserve(output, end);
    let (gathered, end) = place(rank, rank_count, buffers.incoming, |peer| match layout.way(peer, rank) {
        Way::Gateway => layout.distinct(peer, rank) * row_bytes,
        Way::Near | Way::Forwarded => 0,
    });
    builder.reserve(buffers.incoming, end);

    let leg = |src, dst| match layout.way(src, dst) {
        Way::Gateway => Leg::ToGateway { ranks_per_node },
        Way::Near | Way::Forwarded => Leg::Direct,
    };
    let send = |peer: Rank| {
        let chunk = Chunk { leg: leg(rank, peer), ..Chunk::between(rank, peer) };
        Peer { chunk, values: outgoing[peer.index()] }
    };
    let receive = |peer: Rank| {
        let chunk = Chunk { leg: leg(peer, rank), ..Chunk::between(peer, rank) };
        let values = match layout.way(peer, rank) {
            Way::Near => delivered[peer.index()],
            Way::Gateway | Way::Forwarded => gathered[peer.index()],
        };
        Peer { chunk, values }
    };
    let ranks = || (0..rank_count).map(Rank);
    let sends: Vec<Peer> = ranks().map(send).collect();
    let receives: Vec<Peer> = ranks().map(receive).collect();
    let mut call = all_to_all::connect(rank, choice, dtype, &sends, &receives);
    (call.channel, call.part_align) = (channel, row_bytes);
    // A rank has fewer peers than in other calls: with room for more, parts would travel together, and nothing of the first one
    // could be handed on before almost all of the last one is here.
    let peers = ranks_per_node - 1 + rank_count / ranks_per_node - 1;
    let window = choice.order.window(choice.window, peers + 1);
    call.steps.iter_mut().chain([&mut call.sizes]).for_each(|step| step.window = window);

    let handed_on = layout.handed_on(builder, buffers.outgoing);
    let memory = Memory { ranks_per_node, row_bytes, gathered, handed_on, delivered };
    let forwards = memory.forwards(rank, choice, channel.control(), &layout, peers);
    (call, forwards)
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    /// Straight, within a node or on the rank itself.
    Near,
    /// Straight, with those for the other ranks of that node.
    Gateway,
    /// With those for the gateway, which hands them on.
    Forwarded,
}

struct Layout<'a> {
    tokens: &'a TokenMap,
    ranks_per_node: u32,
}

struct Memory {
    ranks_per_node: u32,
    row_bytes: u64,
    /// Rows that it gets as a gateway, by origin.
    gathered: Vec<Region>,
    /// Rows that it hands on, by origin and place of the destination in the node.
    handed_on: Vec<Vec<Region>>,
    /// Rows that it wants itself, by origin.
    delivered: Vec<Region>,
}

impl Memory {
    /// The second leg of each part. `peers` are those of the first leg.
    fn forwards(
        &self,
        rank: Rank,
        choice: &Choice,
        channel: Channel,
        layout: &Layout<'_>,
        peers: u32,
    ) -> Vec<Forward> {
        let (made, received) = (layout.made_by(rank), layout.handed_to(rank));
        let count = choice.parts.max(1);
        // Exchanges that are open together share a window, so it is the same for all parts, and no less than that of sections.
        let most = u32::try_from(made.len().max(received.len())).expect("transfers are counted in 32 bits");
        let window = choice.order.window(choice.window, most.max(peers) + 1);
        let forward = |part| {
            let (rows, sends) = self.gather(rank, &made, (part, count));
            let receives = self.receives(&received, (part, count));
            let (stage, order) = (Stage::Forward, Order::Rotation);
            let exchange = Exchange {
                channel,
                joins_previous: false,
                fused: false,
                grouped: choice.grouped.then(|| Group::all(layout.tokens.rank_count())),
                stage,
                order,
                window,
                sends,
                receives,
            };
            Forward { rows, exchange }
        };
        (0..count).map(forward).collect()
    }

    /// Gathers of one part, and the sends of those chunks that are for other ranks.
    fn gather(&self, rank: Rank, routes: &[Route], part: (u32, u32)) -> (GatherRows, Vec<Transfer>) {
        let row_bytes = self.row_bytes;
        let (mut gathers, mut sends) = (Vec::new(), Vec::new());
        for route in routes {
            let Some(piece) = route.piece(part, row_bytes) else { continue };
            let (chunk, src) = (piece.chunk, route.src.index());
            let to = piece.region(if route.dst == rank {
                self.delivered[src]
            } else {
                self.handed_on[src][(route.dst.0 % self.ranks_per_node) as usize]
            });
            let (begin, end) =
                (u64::from(piece.from.start) * row_bytes, u64::from(piece.from.end) * row_bytes);
            let all = self.gathered[src];
            let from = Region { offset: all.offset + begin, len: end - begin, ..all };
            if route.dst != rank {
                let content = Content::Values(to);
                sends.push(Transfer::new(route.dst, chunk, content));
            }
            gathers.push(Gather { chunk, from, to, rows: piece.rows, row_bytes });
        }
        (GatherRows { gathers }, sends)
    }

    /// Receives of one part, from other gateways.
    fn receives(&self, routes: &[Route], part: (u32, u32)) -> Vec<Transfer> {
        let receive = |route: &Route| {
            let piece = route.piece(part, self.row_bytes)?;
            let content = Content::Values(piece.region(self.delivered[route.src.index()]));
            Some(Transfer::new(route.gateway, piece.chunk, content))
        };
        routes.iter().filter_map(receive).collect()
    }
}

impl Layout<'_> {
    fn way(&self, src: Rank, dst: Rank) -> Way {
        if node(src, self.ranks_per_node) == node(dst, self.ranks_per_node) {
            Way::Near
        } else if src.0 % self.ranks_per_node == dst.0 % self.ranks_per_node {
            Way::Gateway
        } else {
            Way::Forwarded
        }
    }

    /// Tokens that one rank has for the node of another, each counted once.
    fn distinct(&self, src: Rank, dst: Rank) -> u64 {
        self.tokens.distinct(src, &node(dst, self.ranks_per_node))
    }

    /// The ranks of other nodes that a gateway serves.
    fn served(&self, gateway: Rank) -> impl Iterator<Item = Rank> {
        let ranks = (0..self.tokens.rank_count()).map(Rank);
        ranks.filter(move |&src| self.way(src, gateway) == Way::Gateway)
    }

    /// Places what the rank hands on: by origin, and by place of the destination in the node.
    fn handed_on(&self, builder: &mut ProgramBuilder, buffer: BufferId) -> Vec<Vec<Region>> {
        let (gateway, row_bytes) = (builder.rank(), self.tokens.row_bytes());
        let mut placed = vec![Vec::new(); self.tokens.rank_count() as usize];
        let mut end = 0;
        for src in self.served(gateway) {
            for dst in node(gateway, self.ranks_per_node) {
                let copies = if dst == gateway.0 { 0 } else { self.tokens.copies(src, &(dst..dst + 1)) };
                let region = Region { buffer, offset: super::call::align(end), len: copies * row_bytes };
                end = region.end();
                placed[src.index()].push(region);
            }
        }
        builder.reserve(buffer, end);
        placed
    }

    /// Routes of the chunks that a gateway puts together, in the order in which it hands them on: by the step of the rotation and
    /// by origin. Receivers list them alike, so windows let them through.
    fn made_by(&self, gateway: Rank) -> Vec<Route> {
        let targets = (0..self.ranks_per_node).map(|step| self.neighbour(gateway, step));
        targets.flat_map(|dst| self.served(gateway).map(move |src| self.route(src, dst, gateway))).collect()
    }

    /// Routes of the chunks that other ranks of its node hand on to a rank.
    fn handed_to(&self, dst: Rank) -> Vec<Route> {
        let gateways = (1..self.ranks_per_node).map(|step| self.neighbour(dst, self.ranks_per_node - step));
        let routes = |gateway| self.served(gateway).map(move |src| self.route(src, dst, gateway));
        gateways.flat_map(routes).collect()
    }

    fn route(&self, src: Rank, dst: Rank, gateway: Rank) -> Route {
        let node = node(dst, self.ranks_per_node);
        let tokens = self.tokens.distinct(src, &node);
        Route { src, dst, gateway, tokens, positions: self.tokens.positions(src, &node, dst) }
    }

    /// The rank of the same node that is `step` places further, around the node.
    fn neighbour(&self, rank: Rank, step: u32) -> Rank {
        let first = node(rank, self.ranks_per_node).start;
        Rank(first + (rank.0 - first + step) % self.ranks_per_node)
    }
}

/// Rows of one rank for another, which its gateway puts together.
struct Route {
    src: Rank,
    dst: Rank,
    gateway: Rank,
    /// Tokens that the origin has for the node.
    tokens: u64,
    /// For each row the position of its token among these.
    positions: Vec<u32>,
}

impl Route {
    /// Rows that a part of the first leg brings; `None` if there are none.
    fn piece(&self, (part, count): (u32, u32), row_bytes: u64) -> Option<Piece> {
        let (begin, end) = range(self.tokens * row_bytes, part, count, row_bytes);
        let row = |byte: u64| u32::try_from(byte / row_bytes).expect("tokens are counted in 32 bits");
        let from = row(begin)..row(end);
        let first = self.positions.partition_point(|&row| row < from.start);
        let behind = self.positions.partition_point(|&row| row < from.end);
        let rows: Arc<[u32]> = self.positions[first..behind].iter().map(|row| row - from.start).collect();
        let offset = first as u64 * row_bytes;
        let chunk = Chunk { part, offset, leg: Leg::FromGateway, ..Chunk::between(self.src, self.dst) };
        let len = rows.len() as u64 * row_bytes;
        (len > 0).then_some(Piece { chunk, from, rows, len })
    }
}

/// Rows of one rank for another that come with one part of the first leg.
struct Piece {
    chunk: Chunk,
    /// Rows of the part among all that the origin has for the node.
    from: Range<u32>,
    /// For each row its position in the part.
    rows: Arc<[u32]>,
    len: u64,
}

impl Piece {
    /// Its place in the region of the whole chunk.
    fn region(&self, whole: Region) -> Region {
        Region { offset: whole.offset + self.chunk.offset, len: self.len, ..whole }
    }
}
