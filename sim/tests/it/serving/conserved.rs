//! Invariants of every event of any run, and the equality of a run that is repeated.

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use zipwire_cluster::{CodecCost, HostCost, Slowdown};
use zipwire_serving::{
    DecodeTime, FailReason, FirstToken, Machine, Move, Outcome, Placement, PrefillTime, Requests, Shards,
};
use zipwire_sim::serving::{Coding, Served, run_observed};

use super::{Case, LAYERS, TOKEN_BYTES, arriving};

fn pick<T: Copy>(random: &mut ChaCha8Rng, of: &[T]) -> T {
    of[random.random_range(0..of.len())]
}

/// Anything goes: memories from too small to large, and coders from slow to fast.
fn random_case(seed: u64) -> Case {
    let random = &mut ChaCha8Rng::seed_from_u64(seed);
    let [prefill, decode] = [random.random_range(1..4), random.random_range(1..4)];
    let [prefill_ranks, decode_ranks] = pick(random, &[[1, 1], [2, 2], [4, 2], [1, 2]]);
    let gap_s = pick(random, &[0.0, 0.01, 1.0]);
    let mut now_s = 0.0;
    let list = (0..60).map(|index| {
        now_s += gap_s * random.random::<f64>();
        let mut request = arriving(now_s, random.random_range(1..2000), random.random_range(1..20));
        request.prefix =
            (0..request.input_tokens / 256).map(|block| u64::from(index % 5 * 100 + block)).collect();
        request
    });
    let mut case = Case::new(prefill, decode, Vec::new());
    case.requests = Requests::new(list.collect(), 256);
    case.shards =
        Shards::grouped(LAYERS, 4, TOKEN_BYTES / 2, prefill, [prefill_ranks, decode_ranks]).unwrap();
    case.topology.nodes = prefill * prefill_ranks + decode * decode_ranks;
    case.config.prefill.kv_tokens = pick(random, &[1500, 4000, 1_000_000]);
    case.config.decode.kv_tokens = pick(random, &[1500, 4000, 1_000_000]);
    case.config.decode.sequences = pick(random, &[1, 4, 100]);
    case.config.placement = pick(random, &Placement::ALL);
    case.config.moves = pick(random, &Move::ALL);
    case.config.first_token = pick(random, &FirstToken::ALL);
    case.config.layer_groups = pick(random, &[1, 4, 8]);
    case.config.chunk_tokens = pick(random, &[300, 1000, u32::MAX]);
    case.config.cached_blocks = pick(random, &[0, 10]);
    case.compute.prefill =
        PrefillTime { step_s: 1e-3, token_s: 1e-4, pair_s: 1e-8, ..PrefillTime::default() };
    case.compute.decode =
        DecodeTime { step_s: 1e-2, sequence_s: 1e-4, context_token_s: 1e-6, ..DecodeTime::default() };
    case.host = HostCost {
        launch_s: 1e-4,
        compute_slowdown: pick(random, &[Slowdown::default(), Slowdown { codec: 1.2, exchange: 1.1 }]),
        ..HostCost::default()
    };
    case.handshake_s = pick(random, &[0.0, 0.05]);
    let cost = CodecCost {
        encode_bytes_per_s: pick(random, &[1e5, 1e7, f64::INFINITY]),
        decode_bytes_per_s: pick(random, &[1e5, 1e7, f64::INFINITY]),
        launch_s: 1e-4,
    };
    let coding = Coding { cost, size: 0.7, piece_tokens: 256, is_pipelined: random.random() };
    case.coding = pick(random, &[None, Some(coding), Some(coding)]);
    case.until_s = pick(random, &[None, None, Some(3.0)]);
    case
}

fn observed(case: &Case) -> Served {
    let mut last_s = 0.0;
    let mut observe = |now_s: f64, machine: &Machine<'_>| {
        assert!(now_s >= last_s, "time goes on");
        last_s = now_s;
        let census = machine.census();
        let arrived = case.requests.list().iter().filter(|request| request.arrival_s <= now_s).count();
        assert_eq!(census.arrived as usize, arrived);
        assert_eq!(census.arrived, census.finished + census.failed + census.in_flight, "{census:?}");
        assert!(machine.prefill_kv_tokens().all(|tokens| tokens <= case.config.prefill.kv_tokens));
        assert!(machine.decode_kv_tokens().all(|tokens| tokens <= case.config.decode.kv_tokens));
    };
    run_observed(&case.setup(), &|| true, &mut observe).unwrap()
}

/// Checks that the records, bytes and stopwatches of a run agree.
fn check(case: &Case, served: &Served) {
    let records = served.recorder.records();
    let mut moved = 0;
    for (record, request) in records.iter().zip(case.requests.list()) {
        let times = [
            Some(request.arrival_s),
            record.prefill_begin_s,
            record.prefilled_s,
            record.moved_s,
            record.end_s.filter(|_| record.outcome == Outcome::Finished),
        ];
        let times: Vec<f64> = times.into_iter().flatten().collect();
        assert!(
            times.is_sorted() && times.iter().all(|&at_s| at_s <= served.end_s || at_s == request.arrival_s)
        );
        let needed = u64::from(request.input_tokens) + u64::from(request.output_tokens);
        let decodes = case.config.first_token == FirstToken::Decode || request.output_tokens > 1;
        let fits = u64::from(request.input_tokens) <= case.config.prefill.kv_tokens
            && (!decodes || needed <= case.config.decode.kv_tokens);
        match record.outcome {
            Outcome::Failed(reason) => assert!(reason == FailReason::TooLarge && !fits),
            Outcome::Finished => assert!(fits && record.moved_s.is_some() == decodes),
            Outcome::InFlight => assert!(fits && case.until_s == Some(served.end_s)),
            Outcome::Expected => assert!(case.until_s.unwrap() < request.arrival_s),
        }
        moved += if record.moved_s.is_some() { case.shards.bytes(request.input_tokens, LAYERS) } else { 0 };
    }
    // What has moved of requests that are still on their way counts, too.
    assert!(served.bytes_raw >= moved && (case.until_s.is_some() || served.bytes_raw == moved));
    assert_eq!(served.link_bytes.iter().sum::<u64>(), 4 * served.bytes_wire, "a route has four links");
    assert!(case.coding.is_some() || served.bytes_wire == served.bytes_raw);
    let times = &served.times;
    for (rank, &busy_s) in times.busy_s.iter().enumerate() {
        let parts = [times.compute_s[rank], times.codec_s[rank], times.comm_s[rank]];
        assert!(parts.iter().all(|part_s| *part_s <= busy_s * (1.0 + 1e-9)));
        assert!(busy_s <= parts.iter().sum::<f64>() * (1.0 + 1e-9) && busy_s <= served.end_s * (1.0 + 1e-9));
        assert!(case.coding.is_some() || times.codec_s[rank] == 0.0);
    }
}

#[test]
fn nothing_is_lost_and_a_run_is_the_same_again() {
    for seed in 0..150 {
        let case = random_case(seed);
        let checked = std::panic::catch_unwind(|| {
            let served = observed(&case);
            check(&case, &served);
            let again = case.run();
            assert_eq!(served.recorder.records(), again.recorder.records());
            assert_eq!(served.recorder.inter_token_s(), again.recorder.inter_token_s());
            assert_eq!(served.times, again.times);
            assert_eq!(served.timeline.spans, again.timeline.spans);
            assert_eq!(
                (served.bytes_raw, served.bytes_wire, &served.link_bytes, served.end_s),
                (again.bytes_raw, again.bytes_wire, &again.link_bytes, again.end_s)
            );
        });
        if let Err(report) = checked {
            eprintln!("seed {seed}: {:?}, {:?}", case.config, case.coding);
            std::panic::resume_unwind(report);
        }
    }
}
