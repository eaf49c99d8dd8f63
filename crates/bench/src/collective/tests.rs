//! Closed forms beside simulations, and what a coded row may gain by.

use zipwire_runner::executors::{SIM, THREADS};

use super::call::{Outcome, Planned, plan, uncompressed};
use super::*;

fn bench(preset: &str, (nodes, gpus): (u32, u32), protocol: Protocol) -> CollectiveBench {
    CollectiveBench {
        cluster: CollectiveCluster {
            source: ClusterSource::Preset(preset.to_owned()),
            nodes: Some(nodes),
            gpus_per_node: Some(gpus),
        },
        codec: CollectiveCodec { spec: "window7".to_owned(), speed: None, ratio: Some(1.4) },
        operations: OPERATIONS.to_vec(),
        sizes: vec![1 << 20, 32 << 20, 512 << 20],
        protocols: vec![protocol],
        executor: SIM,
        memory: None,
        verifies: true,
        folds: true,
    }
}

/// Closed form and simulation of one row; the closed form of what is not compressed, too.
fn both(call: &Call<'_>) -> (Planned, f64, Outcome) {
    let experiment = call.experiment().unwrap();
    let ratio = if call.protocol.is_coded() { 1.4 } else { 1.0 };
    let planned = plan(&experiment, call.operation, ratio);
    let (_, uncompressed_s) = uncompressed(&experiment, call.operation, planned.way);
    let outcome = call.simulate(experiment, planned.clone(), &Cancel::default()).unwrap();
    (planned, uncompressed_s, outcome)
}

/// Where both are possible they agree, so rows may go from one to the other as clusters grow. A broadcast along rings is a chain: the form
/// lets the last rank of each send, too.
#[test]
fn closed_forms_are_near_simulations() {
    let places = [("h100-8x", (2, 4)), ("h100-8x", (1, 8)), ("a6000-8x8", (2, 4)), ("h800-2x8", (3, 2))];
    for (preset, shape) in places {
        for protocol in [Protocol::Native, Protocol::SizeFirst, Protocol::StaticFirst] {
            let bench = bench(preset, shape, protocol);
            let cluster = cluster(&bench).unwrap();
            for &operation in &bench.operations {
                for &bytes in &bench.sizes {
                    let bytes = super::row::size(operation, cluster.topology.ranks(), bytes).unwrap();
                    let call = Call { bench: &bench, cluster: &cluster, operation, bytes, protocol };
                    let (closed, closed_s, outcome) = both(&call);
                    let Outcome { algorithm, time_s, codec_s, uncompressed_s, .. } = outcome;
                    let gap = closed.seconds / time_s - 1.0;
                    let (name, op) = (protocol.name(), operation.name());
                    let what = format!("{preset} {shape:?} {name} {op} {bytes} {algorithm}: {gap:+.3}");
                    let is_chain = (operation, algorithm.as_str()) == (Operation::Broadcast, "ring");
                    let most = if is_chain { 0.16 } else { 0.03 };
                    assert!(gap.abs() < most, "{what}");
                    assert_eq!(uncompressed_s.is_some(), protocol.is_coded());
                    let gap = closed_s / uncompressed_s.unwrap_or(closed_s) - 1.0;
                    assert!(gap.abs() < most, "{what}, uncompressed {gap:+.3}");
                    assert!((closed.codec_s - codec_s).abs() <= 0.02 * codec_s, "{what} {codec_s}");
                }
            }
        }
    }
}

#[test]
fn largest_sizes_are_refused_before_the_first_one_runs() {
    let bench = CollectiveBench {
        operations: vec![Operation::AllGather],
        sizes: vec![1 << 10, 1 << 30],
        codec: CollectiveCodec { spec: "window7".to_owned(), speed: None, ratio: None },
        executor: THREADS,
        memory: Some(64 << 20),
        ..bench("h100-8x", (1, 4), Protocol::SizeFirst)
    };
    let mut begun = 0;
    let error = bench_collective(&bench, &Cancel::default(), |_| begun += 1).unwrap_err();
    assert_eq!(begun, 0);
    assert!(matches!(error, CollectiveBenchError::Memory { bytes, .. } if bytes == 1 << 30), "{error}");
}
