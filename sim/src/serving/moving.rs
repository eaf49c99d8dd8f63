//! Caches that move: a shard is encoded, waits its latency, moves and is decoded.

use zipwire_cluster::{LinkId, NetworkModel, Rank, Route, Topology};
use zipwire_schedule::{Lane, Stage as Carried};
use zipwire_serving::{Flow, FlowId, Input, RequestId};

use super::driver::{Driver, Event};
use super::{Note, SimServingSetup, Work, segment};
use crate::network::FlowId as NetworkFlow;

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Stage {
    /// Both ends agree, or a launch is under way.
    Waiting,
    /// It, or its first piece, is encoded.
    Encoding,
    /// It waits for its turn at a coder.
    Queued,
    /// Its first byte is on its way.
    Latency,
    Moving(NetworkFlow),
    /// It, or its last piece, is decoded.
    Decoding,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Transit {
    pub(super) flow: FlowId,
    pub(super) request: RequestId,
    pub(super) src: Rank,
    pub(super) dst: Rank,
    /// Number of its prefill instance.
    pub(super) prefill: u32,
    /// Number of its decode instance.
    pub(super) decode: u32,
    pub(super) bytes_raw: u64,
    pub(super) bytes_wire: u64,
    /// Bytes of the first piece and of the last, before coding.
    pub(super) piece_bytes: [u64; 2],
    pub(super) stage: Stage,
    /// When each of encoding, latency, moving and decoding began.
    pub(super) encode_s: f64,
    pub(super) send_s: f64,
    pub(super) decode_s: f64,
    /// The number of the transfer between its ends, and that of the flow in the run.
    pub(super) tag: u32,
    pub(super) op: u32,
    /// Nobody waits for it any more.
    pub(super) is_stopped: bool,
}

/// All shards that are under way, and which flows they are of.
#[derive(Default)]
pub(super) struct Transits {
    list: Vec<Option<Transit>>,
    free: Vec<u32>,
    /// By network flow.
    moving: Vec<u32>,
    /// By flow: its shards that have not arrived.
    of_flow: Vec<Vec<u32>>,
}

impl Transits {
    pub(super) fn add(&mut self, transit: Transit) -> u32 {
        let index = self.free.pop().unwrap_or_else(|| {
            self.list.push(None);
            self.list.len() as u32 - 1
        });
        let flow = transit.flow.index();
        self.list[index as usize] = Some(transit);
        if self.of_flow.len() <= flow {
            self.of_flow.resize_with(flow + 1, Vec::new);
        }
        self.of_flow[flow].push(index);
        index
    }

    pub(super) fn get(&mut self, index: u32) -> &mut Transit {
        self.list[index as usize].as_mut().expect("who knows the number of a shard has not let go of it")
    }

    pub(super) fn move_as(&mut self, index: u32, flow: NetworkFlow) {
        if self.moving.len() <= flow.index() {
            self.moving.resize(flow.index() + 1, 0);
        }
        self.moving[flow.index()] = index;
        self.get(index).stage = Stage::Moving(flow);
    }

    pub(super) fn of_network(&self, flow: NetworkFlow) -> u32 {
        self.moving[flow.index()]
    }

    /// A shard has arrived; whether it was the last of its flow.
    pub(super) fn arrived(&mut self, index: u32) -> (Transit, bool) {
        let transit = self.remove(index);
        let shards = &mut self.of_flow[transit.flow.index()];
        shards.retain(|other| *other != index);
        (transit, shards.is_empty())
    }

    pub(super) fn remove(&mut self, index: u32) -> Transit {
        self.free.push(index);
        self.list[index as usize].take().expect("a shard ends once")
    }

    /// Shards that are under way, those that nobody waits for among them.
    #[cfg(test)]
    pub(super) fn open(&self) -> usize {
        self.list.iter().flatten().count()
    }

    /// The shards of a flow that nobody waits for any more.
    pub(super) fn stop(&mut self, flow: FlowId) -> Vec<u32> {
        let shards = std::mem::take(&mut self.of_flow[flow.index()]);
        for &index in &shards {
            self.get(index).is_stopped = true;
        }
        shards
    }
}

/// Bytes of the first piece and of the last of a shard: a piece is some tokens of one layer.
fn piece_bytes(flow: &Flow, token_bytes: u64, piece_tokens: u32) -> [u64; 2] {
    let tokens = flow.tokens.end - flow.tokens.start;
    let last = tokens - (tokens - 1) / piece_tokens * piece_tokens;
    [u64::from(tokens.min(piece_tokens)) * token_bytes, u64::from(last) * token_bytes]
}

impl Driver<'_> {
    pub(super) fn begin_flow(&mut self, id: FlowId, flow: &Flow) {
        let SimServingSetup { config, shards, host, handshake_s, coding, .. } = self.setup;
        let layers = shards.layers_of(flow.group, config.layer_groups).len() as u64;
        let tokens = u64::from(flow.tokens.end - flow.tokens.start);
        let bytes_raw = shards.token_bytes() * tokens * layers;
        let bytes_wire = coding.map_or(bytes_raw, |c| ((bytes_raw as f64 * c.size).ceil() as u64).max(1));
        let piece_bytes = piece_bytes(flow, shards.token_bytes(), coding.map_or(1, |c| c.piece_tokens));
        let op = self.flows;
        self.flows = self.flows.wrapping_add(1);
        let agreed_s = &mut self.agreed_s[flow.request.index()];
        if flow.is_first {
            *agreed_s = self.now_s + handshake_s;
        }
        // A coded flow is launched with its first kernel.
        let begin_s = self.now_s.max(*agreed_s) + if coding.is_some() { 0.0 } else { host.launch_s };
        for &shard in shards.list() {
            let [src, dst] = shards.ends(shard, flow.prefill, flow.decode);
            let tag = self.tags.entry((src, dst)).or_default();
            *tag += 1;
            let transit = Transit {
                flow: id,
                request: flow.request,
                src,
                dst,
                prefill: flow.prefill,
                decode: flow.decode,
                bytes_raw,
                bytes_wire,
                piece_bytes,
                stage: Stage::Waiting,
                encode_s: 0.0,
                send_s: 0.0,
                decode_s: 0.0,
                tag: *tag,
                op,
                is_stopped: false,
            };
            let index = self.transits.add(transit);
            self.push(begin_s, Event::Transit(index));
        }
    }

    /// Lets a shard go on whose wait is over.
    pub(super) fn go_on(&mut self, index: u32) {
        let transit = *self.transits.get(index);
        let coding = self.setup.coding;
        match transit.stage {
            Stage::Waiting if transit.is_stopped => {
                self.transits.remove(index);
            }
            Stage::Waiting => match coding {
                None => self.send(index),
                Some(coding) if coding.is_pipelined => {
                    self.transits.get(index).stage = Stage::Encoding;
                    self.transits.get(index).encode_s = self.now_s;
                    self.disturb(&transit, true, [1, 0]);
                    let cost = coding.cost;
                    let seconds = cost.launch_s + transit.piece_bytes[0] as f64 / cost.encode_bytes_per_s;
                    self.push(self.now_s + seconds, Event::Transit(index));
                }
                Some(_) => self.queue_coder(transit.src, index),
            },
            Stage::Encoding => {
                if !coding.is_some_and(|coding| coding.is_pipelined) {
                    self.disturb(&transit, true, [-1, 0]);
                    self.note_codec(&transit, true);
                    self.next_coded(transit.src);
                }
                if !self.ends_if_stopped(index, true) {
                    self.send(index);
                }
            }
            Stage::Latency => self.enter_network(index),
            Stage::Moving(_) | Stage::Queued => {
                unreachable!("the network, or the one before, says when it goes on")
            }
            Stage::Decoding => {
                self.disturb(&transit, false, [-1, 0]);
                self.note_codec(&transit, false);
                if !coding.is_some_and(|coding| coding.is_pipelined) {
                    self.next_coded(transit.dst);
                }
                if !self.ends_if_stopped(index, false) {
                    self.arrive(index);
                }
            }
        }
    }

    /// Lets go of a shard that nobody waits for; `is_coding` says that its sender still codes it.
    fn ends_if_stopped(&mut self, index: u32, is_coding: bool) -> bool {
        let transit = *self.transits.get(index);
        if !transit.is_stopped {
            return false;
        }
        if is_coding && self.setup.coding.is_some_and(|coding| coding.is_pipelined) {
            self.disturb(&transit, true, [-1, 0]);
        }
        self.transits.remove(index);
        true
    }

    fn send(&mut self, index: u32) {
        let transit = *self.transits.get(index);
        let now_s = self.now_s;
        self.disturb(&transit, true, [0, 1]);
        self.disturb(&transit, false, [0, 1]);
        let state = self.transits.get(index);
        (state.stage, state.send_s) = (Stage::Latency, now_s);
        let latency_s = self.setup.topology.route(transit.src, transit.dst).latency_s;
        self.push(now_s + latency_s, Event::Transit(index));
    }

    fn enter_network(&mut self, index: u32) {
        let transit = *self.transits.get(index);
        if transit.is_stopped {
            return self.leave_network(index);
        }
        let SimServingSetup { topology, model, coding, .. } = self.setup;
        let route = topology.route(transit.src, transit.dst);
        let mut links: Vec<LinkId> = match model {
            NetworkModel::MaxMin | NetworkModel::AlphaBeta => route.links().to_vec(),
            NetworkModel::Ports => ports(&route, topology),
        };
        if coding.is_some_and(|coding| coding.is_pipelined) {
            let first = self.link_bytes.len() as u32;
            links.extend([transit.src, transit.dst].map(|rank| LinkId(first + rank.0)));
            self.disturb(&transit, false, [1, 0]);
            self.transits.get(index).decode_s = self.now_s;
        }
        if links.is_empty() {
            return self.moved(index);
        }
        let flow = self.network.add(&links, transit.bytes_wire);
        self.transits.move_as(index, flow);
    }

    pub(super) fn moved(&mut self, index: u32) {
        let transit = *self.transits.get(index);
        self.bytes_raw += transit.bytes_raw;
        self.bytes_wire += transit.bytes_wire;
        let route = self.setup.topology.route(transit.src, transit.dst);
        for link in route.links() {
            self.link_bytes[link.index()] += transit.bytes_wire;
        }
        self.note_transfer(&transit);
        self.disturb(&transit, true, [0, -1]);
        self.disturb(&transit, false, [0, -1]);
        match self.setup.coding {
            None => self.arrive(index),
            Some(coding) if coding.is_pipelined => {
                self.disturb(&transit, true, [-1, 0]);
                self.note_codec(&transit, true);
                self.transits.get(index).stage = Stage::Decoding;
                let cost = coding.cost;
                let seconds = cost.launch_s + transit.piece_bytes[1] as f64 / cost.decode_bytes_per_s;
                self.push(self.now_s + seconds, Event::Transit(index));
            }
            Some(_) => self.queue_coder(transit.dst, index),
        }
    }

    fn arrive(&mut self, index: u32) {
        let (transit, is_last) = self.transits.arrived(index);
        if is_last {
            self.machine.handle(Input::Moved(transit.flow));
        }
    }

    pub(super) fn stop(&mut self, id: FlowId) {
        for index in self.transits.stop(id) {
            if let Stage::Moving(flow) = self.transits.get(index).stage {
                self.network.remove(flow);
                self.leave_network(index);
            }
        }
    }

    /// A shard that nobody waits for stops on its way.
    fn leave_network(&mut self, index: u32) {
        let transit = self.transits.remove(index);
        let is_moving = matches!(transit.stage, Stage::Moving(_));
        let codes = i32::from(self.setup.coding.is_some_and(|coding| coding.is_pipelined));
        self.disturb(&transit, true, [-codes, -1]);
        self.disturb(&transit, false, [if is_moving { -codes } else { 0 }, -1]);
    }

    fn queue_coder(&mut self, rank: Rank, index: u32) {
        self.transits.get(index).stage = Stage::Queued;
        let queue = &mut self.coders[rank.index()];
        queue.push_back(index);
        if queue.len() == 1 {
            self.code(rank);
        }
    }

    /// A rank has coded a shard: the next one is its turn.
    fn next_coded(&mut self, rank: Rank) {
        self.coders[rank.index()].pop_front();
        self.code(rank);
    }

    /// Codes the first shard of a rank's queue that somebody waits for.
    fn code(&mut self, rank: Rank) {
        while let Some(&index) = self.coders[rank.index()].front() {
            let transit = *self.transits.get(index);
            if transit.is_stopped {
                self.transits.remove(index);
                self.coders[rank.index()].pop_front();
                continue;
            }
            let cost = self.setup.coding.expect("only coded shards wait for a coder").cost;
            let encodes = transit.src == rank;
            self.disturb(&transit, encodes, [1, 0]);
            let (now_s, state) = (self.now_s, self.transits.get(index));
            let bytes_per_s = if encodes {
                (state.stage, state.encode_s) = (Stage::Encoding, now_s);
                cost.encode_bytes_per_s
            } else {
                (state.stage, state.decode_s) = (Stage::Decoding, now_s);
                cost.decode_bytes_per_s
            };
            self.push(now_s + cost.launch_s + transit.bytes_raw as f64 / bytes_per_s, Event::Transit(index));
            return;
        }
    }

    /// Coding and transfers have begun or ended at one end of a shard: `[coding, moving]`.
    fn disturb(&mut self, transit: &Transit, is_sender: bool, [coding, moving]: [i32; 2]) {
        let (now_s, slowdown) = (self.now_s, self.setup.host.compute_slowdown);
        let rank = if is_sender { transit.src } else { transit.dst }.index();
        for (change, work) in [(coding, Work::Codec), (moving, Work::Comm)] {
            match change {
                1 => self.busy.begin(now_s, rank, work),
                -1 => self.busy.end(now_s, rank, work),
                _ => {}
            }
        }
        let (computing, event): (_, fn(u32, u32) -> Event) = if is_sender {
            let event = |instance, version| Event::Computed { instance, version };
            (&mut self.prefill[transit.prefill as usize].0, event)
        } else {
            let event = |instance, version| Event::Stepped { instance, version };
            (&mut self.decode[transit.decode as usize].0, event)
        };
        let instance = if is_sender { transit.prefill } else { transit.decode };
        if let Some((end_s, version)) = computing.disturb(now_s, coding, moving, &slowdown) {
            self.push(end_s, event(instance, version));
        }
    }

    fn note_codec(&mut self, transit: &Transit, is_sender: bool) {
        let (rank, name, begin_s) = if is_sender {
            (transit.src, "encode", transit.encode_s)
        } else {
            (transit.dst, "decode", transit.decode_s)
        };
        self.spans.push(&Note {
            rank,
            lane: Lane::Codec,
            segment: segment(transit.request),
            op: transit.op,
            name,
            begin_s,
            end_s: self.now_s,
            bytes: transit.bytes_raw,
            bytes_coded: Some(transit.bytes_wire),
            transfer: None,
        });
    }

    fn note_transfer(&mut self, transit: &Transit) {
        let carried = if self.setup.coding.is_some() { Carried::Dynamic } else { Carried::Raw };
        let &Transit { src, dst, tag, .. } = transit;
        for (rank, peer, lane, name) in [(src, dst, Lane::Tx, "send"), (dst, src, Lane::Rx, "receive")] {
            self.spans.push(&Note {
                rank,
                lane,
                segment: segment(transit.request),
                op: transit.op,
                name,
                begin_s: transit.send_s,
                end_s: self.now_s,
                bytes: transit.bytes_wire,
                bytes_coded: None,
                transfer: Some((peer, tag, carried)),
            });
        }
    }
}

/// The links of a route whose capacity that model looks at.
fn ports(route: &Route, topology: &Topology) -> Vec<LinkId> {
    route.links().iter().copied().filter(|&link| topology.is_port(link)).collect()
}
