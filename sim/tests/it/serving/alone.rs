//! One request alone: each time is a sum of what it consists of.

use zipwire_cluster::{CodecCost, HostCost};
use zipwire_serving::{DecodeTime, FirstToken, Move, PrefillTime, Shards, WeightTime};
use zipwire_sim::serving::Coding;

use super::{BANDWIDTH, Case, LATENCY_S, LAYERS, TOKEN_BYTES, close, request};

const PREFILL: PrefillTime =
    PrefillTime { step_s: 0.5, token_s: 0.002, pair_s: 1e-6, weights: WeightTime::NONE };
const LAUNCH_S: f64 = 0.01;
const HANDSHAKE_S: f64 = 0.3;
const INPUT: u32 = 1000;
const COST: CodecCost = CodecCost { encode_bytes_per_s: 3e6, decode_bytes_per_s: 5e6, launch_s: 0.02 };

fn case() -> Case {
    let mut case = Case::new(1, 1, vec![request(INPUT, 1)]);
    case.compute.prefill = PREFILL;
    case.compute.decode =
        DecodeTime { step_s: 0.25, sequence_s: 0.1, context_token_s: 1e-4, ..DecodeTime::default() };
    case.host = HostCost { launch_s: LAUNCH_S, ..HostCost::default() };
    case.handshake_s = HANDSHAKE_S;
    case
}

fn coding(is_pipelined: bool) -> Option<Coding> {
    Some(Coding { cost: COST, size: 0.7, piece_tokens: 256, is_pipelined })
}

/// Seconds of a chunk: the sum over its tokens, one by one.
fn chunk_s(tokens: std::ops::Range<u32>) -> f64 {
    let token = |token: u32| PREFILL.token_s + f64::from(token + 1) * PREFILL.pair_s;
    LAUNCH_S + PREFILL.step_s + tokens.map(token).sum::<f64>()
}

/// When each group of layers of each chunk is computed, and how many bytes a shard has of it.
fn ready(chunk_tokens: u32, groups: u32) -> Vec<(f64, f64)> {
    let mut begin_s = 0.0;
    let mut list = Vec::new();
    for begin in (0..INPUT).step_by(chunk_tokens as usize) {
        let tokens = begin..INPUT.min(begin + chunk_tokens);
        let bytes = f64::from(tokens.len() as u32 * LAYERS / groups) * TOKEN_BYTES as f64;
        let seconds = chunk_s(tokens);
        let part = |group| f64::from(group + 1) / f64::from(groups) * (seconds - LAUNCH_S);
        list.extend((0..groups).map(|group| (begin_s + LAUNCH_S + part(group), bytes)));
        begin_s += seconds;
    }
    list
}

/// When a server that takes `seconds` of each that is there from a time on has ended with all: however it divides itself, it rests only when
/// none is there.
fn busy_until(jobs: impl Iterator<Item = (f64, f64)>) -> f64 {
    jobs.fold(0.0, |end_s: f64, (there_s, seconds)| end_s.max(there_s) + seconds)
}

const STEP_S: f64 = LAUNCH_S + 0.25 + 0.1 + INPUT as f64 * 1e-4;

#[test]
fn pulled_it_waits_for_all_of_prefill_and_moves_at_once() {
    for groups in [1, 2, 8] {
        let mut case = case();
        case.config.moves = Move::Pull;
        case.config.layer_groups = groups;
        let record = case.records()[0];
        let prefilled_s = chunk_s(0..INPUT);
        let bytes = f64::from(INPUT * LAYERS) * TOKEN_BYTES as f64;
        let moved_s = prefilled_s + HANDSHAKE_S + LAUNCH_S + LATENCY_S + bytes / BANDWIDTH;
        close(record.prefilled_s.unwrap(), prefilled_s);
        close(record.moved_s.unwrap(), moved_s);
        close(record.ttft_s().unwrap(), moved_s + STEP_S);
        close(record.e2e_s().unwrap(), moved_s + STEP_S);
        close(record.kv_wait_s().unwrap(), moved_s - prefilled_s);
    }
}

/// On fast links only the last group's move is left after prefill, on slow ones the link is busy from the first group on.
#[test]
fn pushed_it_moves_while_it_is_computed() {
    for bandwidth in [1e4, 3e5, 1e6, 1e9] {
        for (chunk_tokens, groups) in [(INPUT, 1), (INPUT, 8), (250, 1), (300, 4)] {
            let mut case = case();
            case.topology.nic_bandwidth = bandwidth;
            (case.config.layer_groups, case.config.chunk_tokens) = (groups, chunk_tokens);
            let record = case.records()[0];
            let ready = ready(chunk_tokens, groups);
            let agreed_s = ready[0].0 + HANDSHAKE_S;
            let there = |&(ready_s, bytes): &(f64, f64)| {
                (agreed_s.max(ready_s) + LAUNCH_S + LATENCY_S, bytes / bandwidth)
            };
            close(record.prefilled_s.unwrap(), ready.last().unwrap().0);
            close(record.moved_s.unwrap(), busy_until(ready.iter().map(there)));
            close(record.ttft_s().unwrap(), record.moved_s.unwrap() + STEP_S);
        }
    }
}

/// The slowest of encoder, link and decoder sets the pace; the first piece is encoded before, and the last decoded behind.
#[test]
fn coded_in_pipeline_it_moves_at_the_slowest_stage() {
    for (bandwidth, moves) in [(1e5, Move::Pull), (1e9, Move::Pull), (1e5, Move::Push), (1e9, Move::Push)] {
        for groups in [1, 4] {
            let mut case = case();
            case.topology.nic_bandwidth = bandwidth;
            (case.coding, case.config.moves, case.config.layer_groups) = (coding(true), moves, groups);
            let record = case.records()[0];
            let rate = bandwidth / 0.7;
            let raw_per_s = rate.min(COST.encode_bytes_per_s).min(COST.decode_bytes_per_s);
            let ready = ready(INPUT, groups);
            let prefilled_s = ready.last().unwrap().0;
            let piece = 256.0 * TOKEN_BYTES as f64;
            let last_piece = f64::from(INPUT % 256) * TOKEN_BYTES as f64;
            let agreed_s = HANDSHAKE_S + if moves == Move::Pull { prefilled_s } else { ready[0].0 };
            let there = |&(ready_s, bytes): &(f64, f64)| {
                let first_s = COST.launch_s + piece / COST.encode_bytes_per_s;
                (agreed_s.max(ready_s) + first_s + LATENCY_S, bytes / raw_per_s)
            };
            let behind_s = COST.launch_s + last_piece / COST.decode_bytes_per_s;
            close(record.moved_s.unwrap(), busy_until(ready.iter().map(there)) + behind_s);
        }
    }
}

#[test]
fn coded_one_after_the_other_it_takes_the_sum() {
    let mut case = case();
    (case.coding, case.config.moves) = (coding(false), Move::Pull);
    let bytes = f64::from(INPUT * LAYERS) * TOKEN_BYTES as f64;
    let coded_s = bytes / COST.encode_bytes_per_s + bytes / COST.decode_bytes_per_s + 2.0 * COST.launch_s;
    let moved_s = chunk_s(0..INPUT) + HANDSHAKE_S + coded_s + LATENCY_S + 0.7 * bytes / BANDWIDTH;
    close(case.records()[0].moved_s.unwrap(), moved_s);
}

/// Encoder and decoder take flows one at a time; the link is the fastest stage, so flows never share it.
#[test]
fn flows_coded_one_after_the_other_queue_at_the_coders() {
    for moves in Move::ALL {
        let mut case = case();
        case.topology.nic_bandwidth = 2e7;
        (case.coding, case.config.moves, case.config.layer_groups) = (coding(false), moves, 4);
        let ready = ready(INPUT, 4);
        let prefilled_s = ready.last().unwrap().0;
        let (mut encoded_s, mut decoded_s) = (0.0_f64, 0.0_f64);
        for (ready_s, bytes) in &ready {
            let agreed_s = HANDSHAKE_S + if moves == Move::Pull { prefilled_s } else { ready[0].0 };
            encoded_s =
                encoded_s.max(ready_s.max(agreed_s)) + COST.launch_s + bytes / COST.encode_bytes_per_s;
            let there_s = encoded_s + LATENCY_S + 0.7 * bytes / 2e7;
            decoded_s = decoded_s.max(there_s) + COST.launch_s + bytes / COST.decode_bytes_per_s;
        }
        close(case.records()[0].moved_s.unwrap(), decoded_s);
    }
}

/// A codec that takes no time leaves the size.
#[test]
fn a_free_codec_saves_what_it_saves() {
    for is_pipelined in [true, false] {
        let mut case = case();
        let free = Coding { cost: CodecCost::FREE, ..coding(is_pipelined).unwrap() };
        (case.coding, case.config.moves) = (Some(free), Move::Pull);
        let bytes = f64::from(INPUT * LAYERS) * TOKEN_BYTES as f64;
        let moved_s = chunk_s(0..INPUT) + HANDSHAKE_S + LATENCY_S + 0.7 * bytes / BANDWIDTH;
        close(case.records()[0].moved_s.unwrap(), moved_s);
        let served = case.run();
        assert_eq!((served.bytes_raw, served.bytes_wire), (800_000, 560_000));
    }
}

/// Ranks move their shards side by side.
#[test]
fn tensor_parallel_ranks_share_the_bytes() {
    for [prefill, decode] in [[4, 4], [4, 2], [2, 4]] {
        let mut case = case();
        case.shards = Shards::grouped(LAYERS, 4, TOKEN_BYTES / 2, 1, [prefill, decode]).unwrap();
        case.topology.nodes = prefill + decode;
        case.config.moves = Move::Pull;
        let bytes = f64::from(INPUT * LAYERS * 4) * TOKEN_BYTES as f64 / f64::from(prefill.min(decode));
        let waited_s = HANDSHAKE_S + LAUNCH_S + LATENCY_S + bytes / BANDWIDTH;
        close(case.records()[0].kv_wait_s().unwrap(), waited_s);
    }
}

#[test]
fn the_first_token_of_prefill_waits_for_no_cache() {
    let mut case = case();
    case.requests = zipwire_serving::Requests::new(vec![request(INPUT, 3), request(1, 1)], 512);
    case.config.first_token = FirstToken::Prefill;
    let served = case.run();
    let records = served.recorder.records();
    close(records[0].ttft_s().unwrap(), chunk_s(0..INPUT));
    let moved_s = records[0].moved_s.unwrap();
    // Two tokens are left, the first with what prefill has made in its context.
    let steps_s = 2.0 * STEP_S + 1e-4 + 2e-4;
    close(records[0].e2e_s().unwrap(), moved_s + steps_s);
    close(records[0].tpot_s(3).unwrap(), (moved_s + steps_s - chunk_s(0..INPUT)) / 2.0);
    // The move is between the first two tokens.
    let gaps = served.recorder.inter_token_s();
    assert_eq!(gaps.len(), 2);
    close(gaps[0].0, moved_s + STEP_S + 1e-4 - chunk_s(0..INPUT));
    close(gaps[1].0, STEP_S + 2e-4);
    assert_eq!((records[1].admitted_s, records[1].moved_s), (None, None), "one token never moves");
    close(records[1].e2e_s().unwrap(), chunk_s(0..INPUT) + chunk_s(0..1));
}
