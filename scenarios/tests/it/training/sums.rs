//! All-Reduces of an iteration: of gradients, and of layers that are split among ranks.

use zipwire_scenarios::Experiment;
use zipwire_schedule::{CallKind, Channel, Slot, Work};

use crate::common::Folder;
use crate::training::{MODEL, TIMES, assert_near, names, position, seconds, training, writes};

/// Name, bytes and slot of what is summed, in order; all of it beside the rest.
fn sums(experiment: &Experiment) -> Vec<(&str, u64, Slot)> {
    let sum = |segment: &'_ zipwire_schedule::Segment| match segment.work {
        Work::Call { input, kind: CallKind::AllReduce { bytes }, .. } => Some((bytes, input)),
        _ => None,
    };
    let segments = experiment.job().segments.iter();
    let sums = segments.filter_map(|segment| {
        let (bytes, input) = sum(segment)?;
        assert_eq!(segment.channel, Channel::Background, "{}", segment.name);
        Some((&*segment.name, bytes, input))
    });
    sums.collect()
}

#[test]
fn gradients_of_what_all_ranks_have_are_summed() {
    let model = MODEL.replace("top_k", "vocabulary = 100, top_k");
    let workload = format!("{model}\nrouting = \"uniform\"\nmicro_batches = 2\ngradient_dtype = \"F32\"");
    let load = |workload: &str| Folder::new().load(&training("moe-training", workload, TIMES));
    let overlapped = load(&workload);
    // Four projections of 64 x 64, two norms and the gate.
    let layer = 4 * (4 * 64 * 64 + 2 * 64 + 64 * 8);
    let vocabulary = 4 * 100 * 64;
    let found: Vec<(&str, u64)> = sums(&overlapped).iter().map(|&(name, bytes, _)| (name, bytes)).collect();
    let expected = [
        ("M1 head gradients", vocabulary),
        ("M1 L1 gradients", layer),
        ("M1 L0 gradients", layer),
        ("M1 embedding gradients", vocabulary),
    ];
    assert_eq!(found, expected);
    for (name, phase) in [("M1 head gradients", "M1 head"), ("M1 L1 gradients", "M1 L1 attention backward")] {
        let (_, _, slot) = sums(&overlapped).into_iter().find(|sum| sum.0 == name).unwrap();
        assert_eq!(position(&overlapped, name), position(&overlapped, phase) + 1);
        assert!(writes(&overlapped, phase).contains(&slot));
        assert!(!writes(&overlapped, "M1 L0 attention backward").contains(&slot), "nothing waits for {name}");
    }

    let exposed = load(&format!("{workload}\ngradients = \"exposed\""));
    let last = writes(&exposed, "M1 L0 attention backward");
    assert_eq!(sums(&exposed).len(), 4);
    assert!(sums(&exposed).iter().all(|(_, _, slot)| last.contains(slot)), "all wait for the last phase");
    assert_eq!(position(&exposed, "M1 head gradients"), names(&exposed).len() - 4);
}

#[test]
fn buckets_are_summed_when_they_are_full() {
    // Layers of 4 x 64 x 64 + 3 x 64 x 32 + 128 values, and 10 x 64 of embedding and head each.
    let model = "model = { layers = 3, hidden = 64, heads = 4, intermediate = 32, vocabulary = 10 }\nbucket = \"40 KB\"";
    let experiment = Folder::new().load(&training("dp", model, "layer = \"10 us\""));
    let (layer, vocabulary) = (2 * 22_656, 2 * 640);
    let total = 3 * layer + 2 * vocabulary;
    let found = sums(&experiment);
    assert_eq!(found.iter().map(|sum| sum.1).sum::<u64>(), total);
    assert_eq!(found.len() as u64, total.div_ceil(40_000));
    for (index, (name, bytes, slot)) in (0..).zip(found) {
        assert_eq!(name, format!("bucket {index} all-reduce"));
        let end = (index * 40_000 + 40_000).min(total);
        assert_eq!(bytes, end - index * 40_000);
        // The phase behind which the last gradient of the bucket is there.
        let full = (0..3).find(|back| vocabulary + (back + 1) * layer >= end).unwrap_or(2);
        let phase = format!("L{} backward", 2 - full);
        assert!(writes(&experiment, &phase).contains(&slot), "{name} {phase}");
        let before = position(&experiment, name);
        assert!(position(&experiment, &phase) < before);
        let names = names(&experiment);
        let behind = names[before..].iter().find(|name| name.ends_with("backward"));
        let expected = (full < 2).then(|| format!("L{} backward", 1 - full));
        assert_eq!(behind.map(|name| (*name).to_owned()), expected, "{name}");
    }
}

#[test]
fn split_layers_sum_twice_in_each_pass() {
    let model = "model = { layers = 2, hidden = 64, heads = 4, intermediate = 160 }\nmicro_batch = 2";
    let experiment = Folder::new().load(&training("tp", model, "dense = \"1 TFLOP/s\""));
    let expected = [
        "L0 attention",
        "L0 attention all-reduce",
        "L0 mlp",
        "L0 mlp all-reduce",
        "L1 attention",
        "L1 attention all-reduce",
        "L1 mlp",
        "L1 mlp all-reduce",
        "L1 mlp backward",
        "L1 mlp backward all-reduce",
        "L1 attention backward",
        "L1 attention backward all-reduce",
        "L0 mlp backward",
        "L0 mlp backward all-reduce",
        "L0 attention backward",
        "L0 attention backward all-reduce",
    ];
    assert_eq!(names(&experiment), expected);
    for segment in &experiment.job().segments {
        if let Work::Call { kind: CallKind::AllReduce { bytes }, .. } = segment.work {
            assert_eq!((bytes, segment.channel), (2 * 32 * 64 * 2, Channel::Main));
        }
    }
    // A quarter of 2 x 64 tokens x three matrices, twice as much backward.
    let mlp = 2.0 * 64.0 * 3.0 * 64.0 * 160.0 / 4.0 / 1e12;
    assert_near(seconds(&experiment, "L1 mlp", 2), mlp);
    assert_near(seconds(&experiment, "L1 mlp backward", 2), 2.0 * mlp);
}
