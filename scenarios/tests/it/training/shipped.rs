//! Shipped iterations against what papers report.

use std::path::Path;

use zipwire_scenarios::{Experiment, Source, load};
use zipwire_schedule::{CallKind, Work};

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
        for segment in &experiment.job.segments {
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
    let gathered = experiment.job.segments.iter().filter_map(|segment| match &segment.work {
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
