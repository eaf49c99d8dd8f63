//! Compute that shares its GPU with transfers and codecs.

use zipwire_cluster::{CodecCost, Slowdown};
use zipwire_serving::{DecodeTime, FirstToken, Move, PrefillTime};
use zipwire_sim::serving::Coding;

use super::{BANDWIDTH, Case, LATENCY_S, LAYERS, TOKEN_BYTES, arriving, close, request};

const SLOWDOWN: Slowdown = Slowdown { codec: 1.5, exchange: 1.25 };

/// Seconds of `work_s` of compute that is disturbed for its first `disturbed_s` seconds.
fn disturbed(work_s: f64, disturbed_s: f64, factor: f64) -> f64 {
    assert!(disturbed_s < work_s * factor, "the disturbance ends first");
    disturbed_s + (work_s - disturbed_s / factor)
}

/// The cache of the first chunk leaves while the second one is computed.
#[test]
fn a_chunk_is_slower_while_the_one_before_it_moves() {
    let mut case = Case::new(1, 1, vec![request(1000, 1)]);
    case.compute.prefill = PrefillTime { step_s: 2.0, ..PrefillTime::default() };
    case.config.chunk_tokens = 500;
    case.host.compute_slowdown = SLOWDOWN;
    let bytes = f64::from(500 * LAYERS) * TOKEN_BYTES as f64;
    let moves_s = LATENCY_S + bytes / BANDWIDTH;
    let prefilled_s = case.records()[0].prefilled_s.unwrap();
    close(prefilled_s, 2.0 + disturbed(2.0, moves_s, SLOWDOWN.exchange));

    // In a pipeline the sender encodes from the first piece until the last one has left; both factors count while it moves.
    let cost = CodecCost { encode_bytes_per_s: 1e6, decode_bytes_per_s: 1e9, launch_s: 0.0 };
    case.coding = Some(Coding { cost, size: 0.5, piece_tokens: 256, is_pipelined: true });
    let first_s = 256.0 * TOKEN_BYTES as f64 / 1e6;
    let moves_s = LATENCY_S + bytes / 1e6;
    let both = SLOWDOWN.codec * SLOWDOWN.exchange;
    let left_s = 2.0 - first_s / SLOWDOWN.codec;
    close(case.records()[0].prefilled_s.unwrap(), 2.0 + first_s + disturbed(left_s, moves_s, both));

    // One after the other, each has its own factor.
    case.coding = case.coding.map(|coding| Coding { is_pipelined: false, ..coding });
    let encode_s = bytes / 1e6;
    let moves_s = LATENCY_S + 0.5 * bytes / BANDWIDTH;
    let left_s = 2.0 - encode_s / SLOWDOWN.codec;
    let prefilled_s = 2.0 + encode_s + disturbed(left_s, moves_s, SLOWDOWN.exchange);
    close(case.records()[0].prefilled_s.unwrap(), prefilled_s);
}

/// A long step of decoding meets the cache of the next request.
#[test]
fn a_step_is_slower_while_a_cache_comes_in() {
    let mut case = Case::new(1, 1, vec![arriving(0.0, 1, 2), arriving(1.0, 500, 2)]);
    case.compute.decode = DecodeTime { step_s: 3.0, ..DecodeTime::default() };
    case.config.first_token = FirstToken::Prefill;
    case.config.moves = Move::Pull;
    case.host.compute_slowdown = SLOWDOWN;
    let bytes = f64::from(LAYERS) * TOKEN_BYTES as f64;
    let moves_s = |tokens: f64| LATENCY_S + tokens * bytes / BANDWIDTH;
    // The first cache has come when its step begins, and the second one comes during that step.
    let records = case.records();
    close(records[0].moved_s.unwrap(), moves_s(1.0));
    close(records[0].end_s.unwrap(), moves_s(1.0) + 3.0 + moves_s(500.0) * (1.0 - 1.0 / SLOWDOWN.exchange));
}

/// Two instances of each kind on two nodes, which have one NIC each; prefill takes a second, however long a prompt is.
fn case(tokens: [u32; 2]) -> Case {
    let mut case = Case::new(2, 2, tokens.map(|tokens| request(tokens, 1)).to_vec());
    (case.topology.nodes, case.topology.gpus_per_node) = (2, 2);
    case.compute.prefill = PrefillTime { step_s: 1.0, ..PrefillTime::default() };
    case.config.moves = Move::Pull;
    case
}

#[test]
fn equal_ones_take_twice_as_long() {
    let bytes = f64::from(500 * LAYERS) * TOKEN_BYTES as f64;
    for record in case([500, 500]).records() {
        close(record.moved_s.unwrap(), 1.0 + LATENCY_S + 2.0 * bytes / BANDWIDTH);
    }
}

#[test]
fn the_shorter_one_has_half_and_then_the_longer_one_all() {
    let [short, long] = [300, 900].map(|tokens| f64::from(tokens * LAYERS) * TOKEN_BYTES as f64);
    let records = case([300, 900]).records();
    close(records[0].moved_s.unwrap(), 1.0 + LATENCY_S + 2.0 * short / BANDWIDTH);
    close(records[1].moved_s.unwrap(), 1.0 + LATENCY_S + (short + long) / BANDWIDTH);
}

#[test]
fn who_stays_in_a_node_shares_nothing() {
    let mut case = case([500, 500]);
    (case.topology.nodes, case.topology.gpus_per_node) = (1, 4);
    case.topology.gpu_bandwidth = 2.0 * BANDWIDTH;
    let bytes = f64::from(500 * LAYERS) * TOKEN_BYTES as f64;
    for record in case.records() {
        close(record.moved_s.unwrap(), 1.0 + LATENCY_S + bytes / (2.0 * BANDWIDTH));
    }
}
