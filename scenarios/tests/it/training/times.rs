//! How long ranks compute, how late they are, and shipped iterations against what papers report.

use std::path::Path;

use zipwire_scenarios::{Experiment, Source, load};
use zipwire_schedule::{CallKind, Work};

use crate::common::Folder;
use crate::training::{MODEL, TIMES, assert_near, moe, names, recorded, seconds, training};

#[test]
fn given_times_are_of_the_forward_pass() {
    let times = "attention = \"50 us\"\nexpert = \"80 us\"\nhead = \"7 us\"";
    let workload = format!("{MODEL}\nrouting = {{ trace = \"trace.csv\" }}");
    let experiment = recorded().load(&training("moe-training", &workload, times));
    let dense = |pass: &str| {
        seconds(&experiment, &format!("L0 attention{pass}"), 1)
            + seconds(&experiment, &format!("L0 gate{pass}"), 1)
    };
    assert_near(dense(""), 50e-6);
    assert_near(dense(" backward"), 100e-6);
    assert_near(seconds(&experiment, "head", 3), 7e-6);
    // All tokens of the second layer go to one of four ranks: four times the mean.
    assert_near(seconds(&experiment, "L1 experts", 2), 4.0 * 80e-6);
    assert_near(seconds(&experiment, "L1 experts backward", 2), 4.0 * 160e-6);
    assert_eq!(seconds(&experiment, "L1 experts", 0), 0.0);
}

/// All operations of a small layer, counted one by one.
#[test]
fn times_follow_from_operations() {
    let model = "model = { layers = 2, dense_layers = 1, hidden = 64, heads = 4, kv_heads = 2, intermediate = 160, \
                 experts = 8, top_k = 2, expert_intermediate = 96, shared_experts = 1, vocabulary = 500 }";
    let compute = "dense = \"1 TFLOP/s\"\nexpert_gemm = \"500 GFLOP/s\"\nfloor_forward = \"7 us\"";
    let workload = format!("{model}\nmicro_batch = 3\nrouting = {{ trace = \"trace.csv\" }}");
    let experiment = recorded().load(&training("moe-training", &workload, compute));
    let tokens = 3.0 * 32.0;
    // Queries and output 64 x 64, keys and values 64 x 32; each token looks at 16 others on average, in 4 heads of 16.
    let attention =
        2.0 * tokens * (2.0 * 64.0 * 64.0 + 2.0 * 64.0 * 32.0) + 3.0 * 2.0 * 2.0 * 64.0 * 32.0 * 16.0;
    let mlp = 2.0 * tokens * 3.0 * 64.0 * 160.0;
    let (gate, shared) = (2.0 * tokens * 64.0 * 8.0, 2.0 * tokens * 3.0 * 64.0 * 96.0);
    let experts = 2.0 * shared;
    assert!(attention + mlp > 7e6 && attention + gate + shared < 7e6, "the floor is between the layers");

    assert_near(seconds(&experiment, "L0 attention", 0), attention / 1e12);
    assert_near(seconds(&experiment, "L0 mlp", 0), mlp / 1e12);
    assert_near(seconds(&experiment, "L0 mlp backward", 0), 2.0 * mlp / 1e12);
    assert_near(seconds(&experiment, "head", 0), 3.0 * 2.0 * tokens * 64.0 * 500.0 / 1e12);
    // The layer with experts is at the floor, which its phases share; the backward pass has none.
    assert_near(seconds(&experiment, "L1 gate", 0), 7e-6 * gate / (attention + gate + shared));
    assert_near(seconds(&experiment, "L1 shared experts backward", 0), 2.0 * shared / 1e12);
    // The first recorded layer has all tokens on rank 0.
    assert_near(seconds(&experiment, "L1 experts", 0), 4.0 * experts / 5e11);
}

#[test]
fn ranks_are_late_before_each_stretch_of_computing() {
    let workload = "routing = \"uniform\"\nskew = { base = \"20 us\" }";
    let experiment = Folder::new().load(&moe(workload));
    let skews: Vec<&str> = names(&experiment).into_iter().filter(|name| name.ends_with("skew")).collect();
    // The head takes no time.
    let expected = [
        "L0 attention skew",
        "L0 experts skew",
        "L1 attention skew",
        "L1 experts skew",
        "L1 experts backward skew",
        "L1 gate backward skew",
        "L0 experts backward skew",
        "L0 gate backward skew",
    ];
    assert_eq!(skews, expected);
    for skew in skews {
        let late: Vec<f64> = (0..4).map(|rank| seconds(&experiment, skew, rank)).collect();
        assert!(late.iter().all(|&late| late > 0.0) && late[0] != late[1], "{skew}: {late:?}");
    }
}

#[test]
fn computation_varies_where_it_has_noise() {
    let quiet = Folder::new().load(&moe("routing = \"uniform\""));
    let text = training(
        "moe-training",
        &format!("{MODEL}\nrouting = \"uniform\""),
        &format!("{TIMES}\nnoise = 0.1"),
    );
    let noisy = Folder::new().load(&text);
    let ratios: Vec<f64> = ["L0 attention", "L1 attention", "L1 experts backward"]
        .map(|phase| seconds(&noisy, phase, 1) / seconds(&quiet, phase, 1))
        .to_vec();
    assert!(ratios.iter().all(|&ratio| ratio != 1.0 && (0.5..1.6).contains(&ratio)), "{ratios:?}");
}

fn shipped(name: &str) -> Experiment {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("training").join(name);
    load(&Source::read(&path).unwrap(), &[], None).unwrap_or_else(|error| panic!("{}", error.render(false)))
}

/// ZipCCL's own figures for its testbed: bytes per GPU and All-to-All, and All-to-Alls of an iteration.
#[test]
fn shipped_iterations_move_what_zipccl_reports() {
    for (name, megabytes, count) in [("deepseek-v3-64.toml", 117.4, 16), ("qwen3-64.toml", 67.1, 64)] {
        let experiment = shipped(name);
        let mut calls = 0;
        for segment in &experiment.job().segments {
            let Work::Call { kind: CallKind::AllToAll { bytes, .. }, .. } = &segment.work else { continue };
            calls += 1;
            // Tokens are the same number on every rank; where they come from, and so go back to, is not.
            let sums = if segment.name.ends_with("dispatch") || segment.name.ends_with("combine backward") {
                bytes.rows().into_iter().map(|row| row.sum()).collect::<Vec<u64>>()
            } else {
                bytes.columns().into_iter().map(|column| column.sum()).collect()
            };
            assert!(sums.iter().all(|&sum| (sum as f64 / 1e6 - megabytes).abs() < 0.05), "{name}: {sums:?}");
        }
        assert_eq!(calls, count, "{name}");
    }
    let experiment = shipped("llama3-fsdp-64.toml");
    let gathered = experiment.job().segments.iter().filter_map(|segment| match &segment.work {
        Work::Call { kind: CallKind::AllGather { bytes }, .. } => Some(bytes),
        _ => None,
    });
    let gathered: Vec<&Vec<u64>> = gathered.collect();
    assert_eq!(gathered.len(), 2 * 32, "every layer, forward and backward");
    for shards in gathered {
        assert!((shards.iter().sum::<u64>() as f64 / 1e6 - 436.2).abs() < 0.05, "{shards:?}");
        assert!(shards.iter().all(|&shard| shard == shards[0]));
    }
}
