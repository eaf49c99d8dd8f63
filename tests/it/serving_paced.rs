//! Serving, paced and simulated: the same requests, decisions and caches, once with real bytes on threads and once in virtual time. They
//! share the machine that decides and nothing of what takes time.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use zipwire::cluster::{CodecCost, Fabric, HostCost, NetworkModel, Topology};
use zipwire::engine::serving::{Coding, Pace, ServingSetup, run};
use zipwire::kv::{DType, Geometry};
use zipwire::payload::Rows;
use zipwire::serving::{
    ComputeTime, Config, DecodeTime, FirstToken, Metrics, Move, Placement, Pool, PrefillTime, Request,
    Requests, Shards, Slo, WeightTime,
};
use zipwire::sim::serving as simulated;

/// Seconds of this machine for a second of the cluster.
const DILATION: f64 = 300.0;

const COMPUTE: ComputeTime = ComputeTime {
    prefill: PrefillTime { step_s: 20e-6, token_s: 0.2e-6, pair_s: 1e-11, weights: WeightTime::NONE },
    decode: DecodeTime { step_s: 100e-6, sequence_s: 1e-6, context_token_s: 1e-9, weights: WeightTime::NONE },
};

fn topology() -> Topology {
    Topology {
        nodes: 6,
        gpus_per_node: 1,
        nics_per_node: 1,
        gpu_bandwidth: 1e12,
        nic_bandwidth: 5e9,
        latency_intra_s: 5e-6,
        latency_inter_s: 5e-6,
        fabric: Fabric::Nodes,
        nodes_per_domain: 1,
        link_bandwidths: [].into(),
    }
}

/// Sixteen requests of unequal lengths, a millisecond apart in the mean.
fn requests() -> Requests {
    let list = (0..16_u32).map(|index| Request {
        arrival_s: f64::from(index) * 1e-3 * (0.7 + f64::from(index * 7919 % 1000) / 1700.0),
        input_tokens: 1000 + index * 104_729 % 3000,
        output_tokens: 1 + index % 9,
        prefix: Vec::new(),
    });
    Requests::new(list.collect(), 16)
}

/// Two prefill instances of two ranks, two decode instances of one, and requests that now and then wait for one another.
fn compare(moves: Move, cost: Option<CodecCost>) -> Result<(), String> {
    let pool = Pool { instances: 2, kv_tokens: 40_000, sequences: 16 };
    let config = Config {
        prefill: pool,
        decode: pool,
        placement: Placement::LeastLoaded,
        moves,
        first_token: FirstToken::Decode,
        layer_groups: 2,
        chunk_tokens: 2048,
        cached_blocks: 0,
    };
    let requests = requests();
    let shards = Shards::grouped(6, 4, 64, 2, [2, 1]).expect("heads and ranks divide");
    let geometry = Geometry::grouped(6, 2, 32, DType::Bf16).expect("there is such a cache");
    let rows: Vec<Arc<Rows>> = (0..2).map(|plane| Arc::new(Rows::gaussian(0.5, plane))).collect();
    let (topology, host) = (topology(), HostCost { launch_s: 5e-6, ..HostCost::default() });
    let mut setup = ServingSetup::new(&requests, config, &shards, geometry, &rows);
    setup.pace = Some(Pace { topology: &topology, dilation: DILATION });
    (setup.compute, setup.host, setup.handshake_s) = (COMPUTE, host, 10e-6);
    let spec = "tiered".parse().expect("it is a codec");
    setup.coding = cost.map(|cost| Coding { spec, cost, is_pipelined: true });
    let paced = run(&setup, &AtomicBool::new(false)).expect("all goes well");
    assert_eq!(paced.totals.bytes_verified, paced.bytes_raw);

    let size = paced.bytes_wire as f64 / paced.bytes_raw as f64;
    let piece_tokens = geometry.group_tokens();
    let setup = simulated::SimServingSetup {
        requests: &requests,
        config,
        compute: COMPUTE,
        shards: &shards,
        topology: &topology,
        model: NetworkModel::MaxMin,
        host,
        handshake_s: 10e-6,
        coding: cost.map(|cost| simulated::Coding { cost, size, piece_tokens, is_pipelined: true }),
        troubles: &[],
        until_s: None,
        span_limit: 0,
    };
    let simulated = simulated::run(&setup, &|| true).expect("nobody stops it");
    let [of_paced, of_simulated] = [&paced.recorder, &simulated.recorder].map(|recorder| {
        let ttft_s: Vec<f64> =
            recorder.records().iter().filter_map(zipwire::serving::Record::ttft_s).collect();
        (ttft_s, Metrics::of(&requests, recorder, &Slo::default(), 0))
    });
    let pairs = of_paced.0.iter().zip(&of_simulated.0);
    let errors: Vec<f64> = pairs.map(|(paced, simulated)| (paced / simulated - 1.0).abs()).collect();
    let mean = errors.iter().sum::<f64>() / errors.len() as f64;
    assert_eq!(errors.len(), requests.len());
    let case = format!("{} {cost:?}", moves.name());
    let check = |holds: bool, what: String| if holds { Ok(()) } else { Err(format!("{case}: {what}")) };
    check(mean < 0.05, format!("{mean} of {errors:?}"))?;
    for (paced, simulated) in [
        (of_paced.1.ttft_s, of_simulated.1.ttft_s),
        (of_paced.1.e2e_s, of_simulated.1.e2e_s),
        (of_paced.1.kv_wait_s, of_simulated.1.kv_wait_s),
    ] {
        let (paced, simulated) = (paced.expect("some are served"), simulated.expect("some are served"));
        let near = |a: f64, b: f64, limit: f64| (a / b - 1.0).abs() < limit;
        let is_near = near(paced.mean, simulated.mean, 0.05) && near(paced.p99, simulated.p99, 0.1);
        check(is_near, format!("{paced:?}, and simulated {simulated:?}"))?;
    }
    Ok(())
}

#[test]
#[ignore = "takes a quiet machine: `tools/accept serving` runs it"]
fn what_users_wait_is_what_a_simulation_says() {
    let fast = CodecCost { encode_bytes_per_s: 40e9, decode_bytes_per_s: 60e9, launch_s: 3e-6 };
    let slow = CodecCost { encode_bytes_per_s: 4e9, decode_bytes_per_s: 3e9, launch_s: 3e-6 };
    for (moves, cost) in
        [(Move::Push, None), (Move::Push, Some(slow)), (Move::Push, Some(fast)), (Move::Pull, Some(fast))]
    {
        // Other work on the machine makes a run slower now and then.
        let mut compared = compare(moves, cost);
        for _ in 0..3 {
            compared = compared.or_else(|_| compare(moves, cost));
        }
        compared.unwrap_or_else(|error| panic!("{error}"));
    }
}
