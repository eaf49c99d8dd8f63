//! A run as large as those of a sweep: `cargo test --release -p zipwire-sim --test it serving::scale -- --ignored --nocapture`.

use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use rand_distr::{Distribution, Exp1};
use zipwire_cluster::CodecCost;
use zipwire_serving::{DecodeTime, Metrics, Placement, PrefillTime, Requests, Shards, Slo};
use zipwire_sim::serving::Coding;

use super::{Case, arriving};

/// 12 000 prompts of 12 000 tokens on four instances of each kind with eight ranks each.
fn case(coding: Option<Coding>) -> Case {
    let random = &mut ChaCha8Rng::seed_from_u64(0);
    let mut now_s = 0.0;
    let list = (0..12_000).map(|_| {
        let gap: f64 = Exp1.sample(random);
        now_s += gap * 0.35;
        arriving(now_s, 12_000, 150)
    });
    let mut case = Case::new(4, 4, Vec::new());
    case.requests = Requests::new(list.collect(), 512);
    case.shards = Shards::grouped(80, 8, 256, 4, [8, 8]).unwrap();
    (case.topology.nodes, case.topology.gpus_per_node, case.topology.nics_per_node) = (8, 8, 8);
    case.topology.nic_bandwidth = 2.5e9;
    case.topology.latency_inter_s = 1e-5;
    (case.config.layer_groups, case.config.chunk_tokens) = (4, 8192);
    case.config.placement = Placement::LeastLoaded;
    case.config.decode.kv_tokens = 1_000_000;
    case.config.prefill.kv_tokens = 200_000;
    case.config.decode.sequences = 256;
    case.compute.prefill =
        PrefillTime { step_s: 0.01, token_s: 7e-5, pair_s: 1e-9, ..PrefillTime::default() };
    case.compute.decode =
        DecodeTime { step_s: 0.02, sequence_s: 5e-5, context_token_s: 2e-8, ..DecodeTime::default() };
    case.handshake_s = 1e-4;
    case.coding = coding;
    case
}

#[test]
#[ignore = "a measurement"]
#[allow(clippy::disallowed_types, reason = "it measures the simulator, which measures nothing")]
fn a_run_of_a_sweep() {
    let cost = CodecCost { encode_bytes_per_s: 30e9, decode_bytes_per_s: 40e9, launch_s: 2e-5 };
    let coding = Coding { cost, size: 0.7, piece_tokens: 256, is_pipelined: true };
    for coding in [None, Some(coding), Some(Coding { is_pipelined: false, ..coding })] {
        let case = case(coding);
        let begun = std::time::Instant::now();
        let served = case.run();
        let seconds = begun.elapsed().as_secs_f64();
        let counted = Metrics::of(&case.requests, &served.recorder, &Slo::default(), 0);
        let memory = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
        let peak = memory.lines().find(|line| line.starts_with("VmHWM")).unwrap_or("no peak known");
        let name =
            coding.map_or("native", |coding| if coding.is_pipelined { "pipelined" } else { "in turn" });
        println!("{name}: {seconds:.2} s, {peak}; {:.0} s served", served.end_s);
        assert_eq!(counted.finished, 12_000);
    }
}
