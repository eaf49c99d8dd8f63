//! Caches that share a NIC.

use zipwire_serving::{Move, PrefillTime};

use super::case::{BANDWIDTH, Case, LATENCY_S, LAYERS, TOKEN_BYTES, close, request};

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
