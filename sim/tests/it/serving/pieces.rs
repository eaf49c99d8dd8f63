//! The fluid pipeline of coded flows against pieces that are encoded, sent and decoded one by one.
//!
//! A flow that is pipelined moves at the rate of its slowest stage, with the encoding of its first piece before it and the decoding of its last
//! one behind it. Of `n` equal pieces that take `e`, `w` and `d` seconds in the three stages that is `e + n max(e, w, d) + d`, where pieces
//! one by one take `e + w + d + (n - 1) max(e, w, d)`: the fluid is later by the slowest stage of a piece less its transfer, so never
//! by more than what one piece takes. Where flows share a coder or a link, pieces of the others are in between, and the
//! last of all is what is compared. A launch of the decoder is in the shadow of what moves, of pieces one by one, and behind it in the
//! fluid: it is part of the bound.

use std::collections::VecDeque;

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use zipwire_cluster::{CodecCost, LinkId};
use zipwire_serving::{Move, PrefillTime};
use zipwire_sim::serving::Coding;

use super::{BANDWIDTH, Case, LATENCY_S, LAYERS, TOKEN_BYTES, request};

const PIECE_TOKENS: u32 = 256;

#[derive(Clone, Debug)]
struct Pieces {
    ready_s: f64,
    encoder: usize,
    link: usize,
    decoder: usize,
    /// Bytes of each, before coding.
    bytes: Vec<f64>,
}

/// Stages that all pieces pass.
struct Stages {
    cost: CodecCost,
    size: f64,
    bandwidth: f64,
    /// Whether flows have equal parts of a link; otherwise it carries one piece at a time.
    is_fair: bool,
}

/// Pieces `(flow, number)` that a coder works on one by one.
#[derive(Clone, Default)]
struct Coder {
    queue: VecDeque<(usize, usize)>,
    end_s: Option<f64>,
}

impl Coder {
    fn begin(&mut self, now_s: f64, seconds: impl Fn(usize, usize) -> f64) {
        if let (None, Some(&(flow, piece))) = (self.end_s, self.queue.front()) {
            self.end_s = Some(now_s + seconds(flow, piece));
        }
    }

    fn take(&mut self, now_s: f64) -> Option<(usize, usize)> {
        self.end_s.filter(|&end_s| end_s <= now_s)?;
        self.end_s = None;
        self.queue.pop_front()
    }
}

/// Pieces `(flow, number, bytes left)` on a link, in the order in which they came.
#[derive(Clone, Default)]
struct Link(Vec<(usize, usize, f64)>);

impl Link {
    /// The pieces that move, and at which rate: of each flow the first one, or with one piece at a time the first of all.
    fn moving(&self, stages: &Stages) -> (Vec<usize>, f64) {
        let flow = |at: usize| self.0[at].0;
        let is_first = |&at: &usize| (0..at).all(|before| stages.is_fair && flow(before) != flow(at));
        let moving: Vec<usize> = (0..self.0.len()).filter(is_first).collect();
        let rate = stages.bandwidth / moving.len() as f64;
        (moving, rate)
    }

    /// Ends of the pieces that move.
    fn ends_s(&self, now_s: f64, stages: &Stages) -> Vec<f64> {
        let (moving, rate) = self.moving(stages);
        moving.into_iter().map(|at| now_s + self.0[at].2 / rate).collect()
    }

    fn advance(&mut self, seconds: f64, stages: &Stages) {
        let (moving, rate) = self.moving(stages);
        moving.into_iter().for_each(|at| self.0[at].2 -= rate * seconds);
    }
}

/// When the last piece of each flow is decoded.
fn one_by_one(flows: &[Pieces], stages: &Stages) -> Vec<f64> {
    let Stages { cost, size, .. } = *stages;
    let count = 1 + flows.iter().flat_map(|flow| [flow.encoder, flow.link, flow.decoder]).max().unwrap();
    let mut encoders = vec![Coder::default(); count];
    let mut decoders = vec![Coder::default(); count];
    let mut links = vec![Link::default(); count];
    // Pieces in latency, with its end.
    let mut latency: Vec<(f64, usize, usize)> = Vec::new();
    let mut ready: Vec<(f64, usize)> = flows.iter().enumerate().map(|(i, flow)| (flow.ready_s, i)).collect();
    ready.sort_by(|a, b| a.0.total_cmp(&b.0));
    let mut ready: VecDeque<_> = ready.into();
    let mut ended_s = vec![f64::NAN; flows.len()];
    let mut now_s = 0.0_f64;
    let launch_s = |piece: usize| if piece == 0 { cost.launch_s } else { 0.0 };
    loop {
        while let Some(&(_, flow)) = ready.front().filter(|(at_s, _)| *at_s <= now_s) {
            ready.pop_front();
            let pieces = (0..flows[flow].bytes.len()).map(|piece| (flow, piece));
            encoders[flows[flow].encoder].queue.extend(pieces);
        }
        for encoder in &mut encoders {
            if let Some((flow, piece)) = encoder.take(now_s) {
                links[flows[flow].link].0.push((flow, piece, flows[flow].bytes[piece] * size));
            }
            encoder.begin(now_s, |flow, piece| {
                launch_s(piece) + flows[flow].bytes[piece] / cost.encode_bytes_per_s
            });
        }
        for link in &mut links {
            link.0.retain(|&(flow, piece, left)| {
                if left <= 1e-6 {
                    latency.push((now_s + LATENCY_S, flow, piece));
                }
                left > 1e-6
            });
        }
        latency.retain(|&(at_s, flow, piece)| {
            if at_s <= now_s {
                decoders[flows[flow].decoder].queue.push_back((flow, piece));
            }
            at_s > now_s
        });
        for decoder in &mut decoders {
            if let Some((flow, _)) = decoder.take(now_s) {
                // The last piece writes last.
                ended_s[flow] = now_s;
            }
            decoder.begin(now_s, |flow, piece| {
                launch_s(piece) + flows[flow].bytes[piece] / cost.decode_bytes_per_s
            });
        }
        let coders = encoders.iter().chain(&decoders).filter_map(|coder| coder.end_s);
        let mut next_s = coders.fold(f64::INFINITY, f64::min);
        next_s = next_s.min(ready.front().map_or(f64::INFINITY, |(at_s, _)| *at_s));
        next_s = latency.iter().map(|(at_s, ..)| *at_s).fold(next_s, f64::min);
        next_s = links.iter().flat_map(|link| link.ends_s(now_s, stages)).fold(next_s, f64::min);
        if next_s.is_infinite() {
            return ended_s;
        }
        links.iter_mut().for_each(|link| link.advance(next_s - now_s, stages));
        now_s = next_s;
    }
}

/// Pieces of some tokens of some layers, layer by layer.
fn pieces(tokens: u32, layers: u32) -> Vec<f64> {
    let of_layer = (0..tokens).step_by(PIECE_TOKENS as usize);
    let bytes = |begin: u32| f64::from(PIECE_TOKENS.min(tokens - begin)) * TOKEN_BYTES as f64;
    (0..layers).flat_map(|_| of_layer.clone().map(bytes)).collect()
}

fn draw(random: &mut ChaCha8Rng, from: f64, to: f64) -> f64 {
    from * libm::pow(to / from, random.random::<f64>())
}

fn coding(random: &mut ChaCha8Rng) -> Coding {
    let cost = CodecCost {
        encode_bytes_per_s: draw(random, 0.2, 5.0) * BANDWIDTH,
        decode_bytes_per_s: draw(random, 0.2, 5.0) * BANDWIDTH,
        launch_s: draw(random, 1e-4, 1e-1),
    };
    Coding { cost, size: draw(random, 0.4, 1.1), piece_tokens: PIECE_TOKENS, is_pipelined: true }
}

/// Seconds of the slowest stage of a whole piece, and of launches: pieces one by one may pass those of all flows, and one at each end.
fn bound_s(coding: &Coding, flows: usize) -> f64 {
    let bytes = f64::from(PIECE_TOKENS) * TOKEN_BYTES as f64;
    let CodecCost { encode_bytes_per_s, decode_bytes_per_s, launch_s } = coding.cost;
    let rates = [encode_bytes_per_s, BANDWIDTH / coding.size, decode_bytes_per_s];
    let slowest = rates.into_iter().fold(f64::INFINITY, f64::min);
    1e-6 + bytes / slowest + launch_s * (flows + 1) as f64
}

/// When the caches of all requests have come, with prefill that ends `begin_s` after the beginning.
fn fluid(case: &Case) -> Vec<f64> {
    case.records().iter().map(|record| record.moved_s.unwrap()).collect()
}

#[test]
fn a_flow_alone_is_late_by_less_than_a_piece() {
    for seed in 0..200 {
        let random = &mut ChaCha8Rng::seed_from_u64(seed);
        let tokens = random.random_range(1..1500);
        let mut case = Case::new(1, 1, vec![request(tokens, 1)]);
        let coding = coding(random);
        case.coding = Some(coding);
        let flow = Pieces { ready_s: 0.0, encoder: 0, link: 0, decoder: 0, bytes: pieces(tokens, LAYERS) };
        for is_fair in [true, false] {
            let stages = Stages { cost: coding.cost, size: coding.size, bandwidth: BANDWIDTH, is_fair };
            let exact = one_by_one(std::slice::from_ref(&flow), &stages)[0];
            let found = fluid(&case)[0];
            let late_s = found - exact;
            let bound_s = bound_s(&coding, 1);
            assert!(late_s.abs() <= bound_s, "seed {seed}: {found} s, pieces {exact} s, bound {bound_s} s");
        }
    }
}

/// Groups of layers follow one another through the same encoder, link and decoder.
#[test]
fn groups_of_a_request_are_late_by_less_than_a_piece() {
    let mut worst = 0.0_f64;
    for seed in 0..200 {
        let random = &mut ChaCha8Rng::seed_from_u64(seed);
        let tokens = random.random_range(1..1500);
        let groups = [1, 2, 4, 8][random.random_range(0..4)];
        let mut case = Case::new(1, 1, vec![request(tokens, 1)]);
        let coding = coding(random);
        let step_s = draw(random, 1e-2, 10.0);
        case.compute.prefill = PrefillTime { step_s, ..PrefillTime::default() };
        (case.coding, case.config.layer_groups) = (Some(coding), groups);
        case.config.moves = Move::ALL[random.random_range(0..2)];
        let ready_s = |group: u32| {
            let part = f64::from(group + 1) / f64::from(groups);
            if case.config.moves == Move::Push { step_s * part } else { step_s }
        };
        let bytes = pieces(tokens, LAYERS / groups);
        let flows: Vec<_> = (0..groups)
            .map(|group| Pieces {
                ready_s: ready_s(group),
                encoder: 0,
                link: 0,
                decoder: 0,
                bytes: bytes.clone(),
            })
            .collect();
        let found = fluid(&case)[0];
        // Flows that share the link piece by piece end together: a piece of each may then wait for the decoder.
        for (is_fair, at_the_end) in [(false, 1.0), (true, f64::from(groups))] {
            let stages = Stages { cost: coding.cost, size: coding.size, bandwidth: BANDWIDTH, is_fair };
            let exact = one_by_one(&flows, &stages).into_iter().fold(0.0, f64::max);
            let bound_s = at_the_end * bound_s(&coding, groups as usize);
            let apart_s = (found - exact).abs();
            assert!(apart_s <= bound_s, "seed {seed}: {found} s, pieces {exact} s, bound {bound_s} s");
            worst = worst.max(apart_s / bound_s);
        }
    }
    println!("worst: {worst:.2} of the bound");
}

/// Two senders and two receivers with one NIC each way: coders of their own, and a link that they share.
fn two_flows(seed: u64, coding: impl Fn(&mut ChaCha8Rng) -> Coding) -> (Vec<f64>, Vec<f64>, f64) {
    let random = &mut ChaCha8Rng::seed_from_u64(seed);
    let tokens = [random.random_range(1..1500), random.random_range(1..1500)];
    let mut case = Case::new(2, 2, tokens.map(|tokens| request(tokens, 1)).to_vec());
    (case.topology.nodes, case.topology.gpus_per_node) = (2, 2);
    let coding = coding(random);
    case.coding = Some(coding);
    let flow = |(at, tokens): (usize, &u32)| Pieces {
        ready_s: 0.0,
        encoder: at,
        link: 0,
        decoder: at,
        bytes: pieces(*tokens, LAYERS),
    };
    let flows: Vec<_> = tokens.iter().enumerate().map(flow).collect();
    let stages = Stages { cost: coding.cost, size: coding.size, bandwidth: BANDWIDTH, is_fair: true };
    // While both move, a piece takes twice as long on the link.
    (fluid(&case), one_by_one(&flows, &stages), 2.0 * bound_s(&coding, 1))
}

/// Either the link is the slowest stage for one flow and for two, or a coder is.
#[test]
fn two_flows_of_one_link_are_late_by_less_than_a_piece_each() {
    for seed in 0..200 {
        let (found, exact, bound_s) = two_flows(seed, |random| {
            let drawn = coding(random);
            let part = if random.random() { draw(random, 1.0, 5.0) } else { draw(random, 0.1, 0.5) };
            let slower = part * BANDWIDTH / drawn.size;
            let faster = 5.0 * BANDWIDTH / drawn.size;
            let [encode_bytes_per_s, decode_bytes_per_s] =
                if random.random() { [slower, faster] } else { [faster, slower] };
            Coding { cost: CodecCost { encode_bytes_per_s, decode_bytes_per_s, ..drawn.cost }, ..drawn }
        });
        for (found, exact) in found.iter().zip(&exact) {
            assert!(
                (found - exact).abs() <= bound_s,
                "seed {seed}: {found} s, pieces {exact} s, bound {bound_s}"
            );
        }
    }
}

/// A coder that one flow waits for and two do not works ahead while there are two. The fluid has no room for what is coded ahead, pieces here
/// have all that they want: so the fluid is late by up to what was coded ahead, and never early.
#[test]
fn what_is_coded_ahead_of_a_shared_link_makes_the_fluid_late() {
    let mut worst = 0.0_f64;
    for seed in 0..200 {
        let (found, exact, bound_s) = two_flows(seed, |random| {
            let drawn = coding(random);
            let encode_bytes_per_s = draw(random, 0.5, 1.0) * BANDWIDTH / drawn.size;
            let decode_bytes_per_s = 5.0 * BANDWIDTH / drawn.size;
            Coding { cost: CodecCost { encode_bytes_per_s, decode_bytes_per_s, ..drawn.cost }, ..drawn }
        });
        for (found, exact) in found.iter().zip(&exact) {
            assert!(found - exact >= -bound_s, "seed {seed}: {found} s, pieces {exact} s, bound {bound_s} s");
            // With all of the shorter flow's time coded ahead, the rest could take no longer than half as long again.
            assert!(*found <= 1.5 * exact + bound_s, "seed {seed}: {found} s, pieces {exact} s");
            worst = worst.max((found - exact) / exact);
        }
    }
    println!("worst: {:.1} % late", 100.0 * worst);
}

/// Two senders with links of their own, and one receiver: its decoder takes pieces of both as they come.
#[test]
fn two_flows_of_one_decoder_end_when_the_pieces_do() {
    for seed in 0..200 {
        let random = &mut ChaCha8Rng::seed_from_u64(seed);
        let tokens = [random.random_range(1..1500), random.random_range(1..1500)];
        let mut case = Case::new(2, 1, tokens.map(|tokens| request(tokens, 1)).to_vec());
        // A NIC for each sender; that of the receiver has room for both.
        case.topology.link_bandwidths = [(LinkId(2 * 3 + 2 * 2 + 1), 2.0 * BANDWIDTH)].into();
        let mut coding = coding(random);
        // The decoder is the slowest stage for one flow and for two, or for none.
        let alone = (BANDWIDTH / coding.size).min(coding.cost.encode_bytes_per_s);
        let part = if random.random() { draw(random, 2.0, 5.0) } else { draw(random, 0.1, 1.0) };
        coding.cost.decode_bytes_per_s = part * alone;
        case.coding = Some(coding);
        let flow = |(at, tokens): (usize, &u32)| Pieces {
            ready_s: 0.0,
            encoder: at,
            link: at,
            decoder: 0,
            bytes: pieces(*tokens, LAYERS),
        };
        let flows: Vec<_> = tokens.iter().enumerate().map(flow).collect();
        let stages = Stages { cost: coding.cost, size: coding.size, bandwidth: BANDWIDTH, is_fair: true };
        let exact = one_by_one(&flows, &stages).into_iter().fold(0.0, f64::max);
        let found = fluid(&case).into_iter().fold(0.0, f64::max);
        // A piece of each may wait at the end.
        let bound_s = 2.0 * bound_s(&coding, 2);
        assert!(
            (found - exact).abs() <= bound_s,
            "seed {seed}: {found} s, pieces {exact} s, bound {bound_s} s"
        );
    }
}
