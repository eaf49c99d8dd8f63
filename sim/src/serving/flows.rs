//! Parts of caches on their way, shard by shard.

use zipwire_cluster::Rank;
use zipwire_serving::{Flow, FlowId, RequestId};

use crate::network::FlowId as NetworkFlow;

/// How far a shard has come.
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

/// One shard of a flow.
#[derive(Clone, Copy, Debug)]
pub(super) struct Transit {
    pub(super) flow: FlowId,
    pub(super) request: RequestId,
    pub(super) src: Rank,
    pub(super) dst: Rank,
    /// Its instances.
    pub(super) prefill: u32,
    pub(super) decode: u32,
    pub(super) bytes_raw: u64,
    pub(super) bytes_wire: u64,
    /// Of the first piece and of the last, before coding.
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

    /// Takes a shard out of the list.
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
pub(super) fn piece_bytes(flow: &Flow, token_bytes: u64, piece_tokens: u32) -> [u64; 2] {
    let tokens = flow.tokens.end - flow.tokens.start;
    let last = tokens - (tokens - 1) / piece_tokens * piece_tokens;
    [u64::from(tokens.min(piece_tokens)) * token_bytes, u64::from(last) * token_bytes]
}
