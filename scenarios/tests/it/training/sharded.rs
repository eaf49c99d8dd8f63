//! Sharded layers: when they are gathered, and where their gradients go.

use zipwire_scenarios::Experiment;
use zipwire_schedule::{CallKind, Slot, Work};

use crate::common::Folder;
use crate::training::{assert_near, names, position, seconds, training, writes};

fn fsdp(workload: &str) -> Experiment {
    let model = "model = { layers = 3, hidden = 66, heads = 3, intermediate = 170 }";
    Folder::new().load(&training("fsdp", &format!("{model}\n{workload}"), "layer = \"10 us\""))
}

/// The slot that a gather fills, or the slots that a pass reads.
fn slots(experiment: &Experiment, segment: &str) -> Vec<Slot> {
    match &experiment.job().segments[position(experiment, segment)].work {
        Work::Call { output, kind: CallKind::AllGather { .. }, .. } => vec![*output],
        Work::Compute { reads, .. } => reads.clone(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn layers_are_gathered_ahead_into_buffers_that_take_turns() {
    let experiment = fsdp("prefetch = 1");
    let expected = [
        "L0 all-gather",
        "L1 all-gather",
        "L0 forward",
        "L2 all-gather",
        "L1 forward",
        "L2 all-gather backward",
        "L2 forward",
        "L1 all-gather backward",
        "L2 backward",
        "L2 reduce-scatter",
        "L0 all-gather backward",
        "L1 backward",
        "L1 reduce-scatter",
        "L0 backward",
        "L0 reduce-scatter",
    ];
    assert_eq!(names(&experiment), expected);
    assert_eq!(slots(&experiment, "L0 all-gather"), slots(&experiment, "L2 all-gather"));
    assert_ne!(slots(&experiment, "L0 all-gather"), slots(&experiment, "L1 all-gather"));
    for (gather, pass) in [("L1 all-gather", "L1 forward"), ("L0 all-gather backward", "L0 backward")] {
        assert!(slots(&experiment, pass).contains(&slots(&experiment, gather)[0]), "{pass}");
    }
    assert_near(seconds(&experiment, "L2 forward", 0), 10e-6);
    assert_near(seconds(&experiment, "L2 backward", 0), 20e-6);

    let none_ahead = fsdp("prefetch = 0\ngradients = \"none\"");
    assert_eq!(names(&none_ahead)[..3], ["L0 all-gather", "L0 forward", "L1 all-gather"]);
    assert_eq!(slots(&none_ahead, "L0 all-gather"), slots(&none_ahead, "L1 all-gather"));
    let all_ahead = fsdp("prefetch = 100");
    assert_eq!(names(&all_ahead)[6..8], ["L0 forward", "L1 forward"]);
}

#[test]
fn what_is_not_in_a_layer_is_gathered_once() {
    let model = "model = { layers = 1, hidden = 64, heads = 4, intermediate = 128, vocabulary = 300 }";
    let text = training("fsdp", &format!("{model}\nmicro_batches = 2"), "dense = \"1 TFLOP/s\"");
    let experiment = Folder::new().load(&text);
    let expected = [
        "root all-gather",
        "M0 L0 all-gather",
        "M0 L0 all-gather backward",
        "M0 L0 forward",
        "M1 L0 all-gather",
        "M0 head",
        "M0 L0 backward",
        "M0 L0 reduce-scatter",
        "M0 root reduce-scatter",
        "M1 L0 all-gather backward",
        "M1 L0 forward",
        "M1 head",
        "M1 L0 backward",
        "M1 L0 reduce-scatter",
        "M1 root reduce-scatter",
    ];
    assert_eq!(names(&experiment), expected);
    let Work::Call { kind: CallKind::AllGather { bytes }, .. } = &experiment.job().segments[0].work else {
        panic!()
    };
    // Embedding, head and the norm between, in BF16.
    assert_eq!(bytes.iter().sum::<u64>(), 2 * (2 * 300 * 64 + 64));
    assert_near(seconds(&experiment, "M1 head", 0), 3.0 * 2.0 * 32.0 * 64.0 * 300.0 / 1e12);
}

#[test]
fn shards_of_gradients_are_scattered_in_turn() {
    let experiment = fsdp("gradient_dtype = \"F32\"");
    let scattered = |layer: &str| match &experiment.job().segments
        [position(&experiment, &format!("{layer} reduce-scatter"))]
    .work
    {
        Work::Call { input, kind: CallKind::ReduceScatter { bytes }, .. } => {
            (bytes.iter().sum::<u64>(), *input)
        }
        other => panic!("{other:?}"),
    };
    let values = 4 * 66 * 66 + 3 * 66 * 170 + 2 * 66;
    for layer in ["L0", "L1", "L2"] {
        let (bytes, slot) = scattered(layer);
        assert_eq!(bytes, 4 * values);
        assert!(writes(&experiment, &format!("{layer} backward")).contains(&slot));
    }
    assert_eq!(scattered("L0").1, scattered("L2").1);
    assert_ne!(scattered("L0").1, scattered("L1").1);
}
