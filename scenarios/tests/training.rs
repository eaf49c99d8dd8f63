//! Whole training iterations: which segments there are, what they move, and how long they compute.

#![allow(clippy::unwrap_used, reason = "in tests a panic is the report")]

mod common;

use std::path::Path;

use common::{Folder, error, routing_record};
use ndarray::Array2;
use zipwire_scenarios::{Experiment, Source, load};
use zipwire_schedule::{Channel, Rank, Slot, Work};

/// Four ranks that train a small model; `workload` and `compute` are the rest of their tables.
fn training(kind: &str, workload: &str, compute: &str) -> String {
    format!(
        r#"name = "test"
[cluster]
nodes = 2
gpus_per_node = 2
gpu_bandwidth = "25 GB/s"
nic_bandwidth = "25 GB/s"
latency_intra = "5 us"
latency_inter = "10 us"
[workload]
kind = "{kind}"
sequence = 32
{workload}
[compute]
{compute}
"#
    )
}

/// Two layers with experts, 64 values per token.
const MODEL: &str =
    "model = { layers = 2, hidden = 64, heads = 4, experts = 8, top_k = 2, expert_intermediate = 96 }";
const TIMES: &str = "attention = \"50 us\"\nexpert = \"80 us\"";

/// Without sums of gradients.
fn moe(workload: &str) -> String {
    training("moe-training", &format!("{MODEL}\ngradients = \"none\"\n{workload}"), TIMES)
}

fn shipped(name: &str) -> Experiment {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("training").join(name);
    load(&Source::read(&path).unwrap(), &[], None).unwrap_or_else(|error| panic!("{}", error.render(false)))
}

fn names(experiment: &Experiment) -> Vec<&str> {
    experiment.job.segments.iter().map(|segment| &*segment.name).collect()
}

fn tokens<'a>(experiment: &'a Experiment, segment: &str) -> &'a Array2<u64> {
    match &experiment.job.segments[position(experiment, segment)].work {
        Work::AllToAll { bytes, .. } => bytes,
        other => panic!("{other:?} is no All-to-All"),
    }
}

fn position(experiment: &Experiment, segment: &str) -> usize {
    names(experiment).iter().position(|name| *name == segment).unwrap_or_else(|| panic!("no `{segment}`"))
}

/// Seconds of a phase on a rank in the first iteration.
fn seconds(experiment: &Experiment, segment: &str, rank: u32) -> f64 {
    experiment.durations.get(0, position(experiment, segment), Rank(rank))
}

#[track_caller]
fn assert_near(found: f64, expected: f64) {
    assert!((found / expected - 1.0).abs() < 1e-12, "{found} instead of {expected}");
}

#[test]
fn an_iteration_goes_through_the_layers_and_back() {
    let experiment = Folder::new().load(&moe("routing = \"uniform\""));
    let layer = |layer| {
        ["attention", "gate", "dispatch", "experts", "combine"].map(|what| format!("L{layer} {what}"))
    };
    let back = |layer| {
        ["combine", "experts", "dispatch", "gate", "attention"]
            .map(|what| format!("L{layer} {what} backward"))
    };
    let head = ["head".to_owned()];
    let expected: Vec<String> =
        [&layer(0)[..], &layer(1), &head, &back(1), &back(0)].concat().into_iter().collect();
    assert_eq!(names(&experiment), expected);
}

#[test]
fn what_goes_to_the_experts_comes_back() {
    let experiment = Folder::new().load(&moe("routing = { zipf = 1.0 }"));
    for layer in ["L0", "L1"] {
        let dispatch = tokens(&experiment, &format!("{layer} dispatch"));
        assert!(dispatch.rows().into_iter().all(|row| row.sum() == 32 * 2 * 64 * 2), "{dispatch}");
        assert_eq!(tokens(&experiment, &format!("{layer} combine")), dispatch.t());
        // Gradients of what came back go where the tokens went, and the other way round.
        assert_eq!(tokens(&experiment, &format!("{layer} combine backward")), dispatch);
        assert_eq!(tokens(&experiment, &format!("{layer} dispatch backward")), dispatch.t());
    }
    assert_ne!(tokens(&experiment, "L0 dispatch"), tokens(&experiment, "L1 dispatch"));
}

#[test]
fn what_goes_to_the_experts_is_made_of_tokens_if_copies_are_equal() {
    let gate = "routing = { zipf = 1.0, groups = 4, top_groups = 1 }\ntokens = \"shared\"";
    let experiment = Folder::new().load(&moe(gate));
    let work = |segment: &str| &experiment.job.segments[position(&experiment, segment)].work;
    for layer in ["L0", "L1"] {
        let dispatch = format!("{layer} dispatch");
        let map = work(&dispatch).tokens().unwrap();
        assert_eq!(map.bytes(), *tokens(&experiment, &dispatch));
        assert_eq!(work(&format!("{layer} combine backward")).tokens(), Some(map));
        for back in ["combine", "dispatch backward"] {
            assert_eq!(work(&format!("{layer} {back}")).tokens(), None, "rows of experts all differ");
        }
        // A group is the two experts of a rank: both copies of a token go to the same one.
        for src in (0..4).map(Rank) {
            let reached =
                (0..4).map(|rank| (map.distinct(src, &(rank..rank + 1)), map.copies(src, &(rank..rank + 1))));
            assert!(reached.clone().all(|(tokens, copies)| copies == 2 * tokens), "{layer} {src:?}");
            assert_eq!(reached.map(|(tokens, _)| tokens).sum::<u64>(), 32);
        }
    }
    assert_ne!(work("L0 dispatch").tokens(), work("L1 dispatch").tokens());
    let drawn = Folder::new().load(&moe("routing = { zipf = 1.0 }"));
    assert!(drawn.job.segments.iter().all(|segment| segment.work.tokens().is_none()));
}

#[test]
fn micro_batches_have_tokens_of_their_own() {
    let experiment = Folder::new().load(&moe("routing = { zipf = 1.0 }\nmicro_batches = 2"));
    let names = names(&experiment);
    assert_eq!(names.len(), 2 * 21);
    assert_eq!((names[0], names[10], names[21]), ("M0 L0 attention", "M0 head", "M1 L0 attention"));
    assert_ne!(tokens(&experiment, "M0 L0 dispatch"), tokens(&experiment, "M1 L0 dispatch"));
    let single = Folder::new().load(&moe("routing = { zipf = 1.0 }"));
    assert_eq!(tokens(&experiment, "M0 L1 dispatch"), tokens(&single, "L1 dispatch"));
}

/// A recording of layers 2 and 5, of which each prefers other experts.
fn recorded() -> Folder {
    let records = [(2, [8, 0, 0, 0, 0, 0, 0, 0]), (5, [0, 0, 0, 0, 4, 4, 0, 0])]
        .map(|(layer, shares)| [1, 2].map(|step| routing_record(step, layer, 4, "domain", &shares)).concat());
    let trace = "step,layer,e0,e1,e2,e3,e4,e5,e6,e7\n1,2,8,0,0,0,0,0,0,0\n1,5,0,0,0,0,4,4,0,0\n";
    Folder::new().with("matrix.jsonl", records.concat()).with("trace.csv", trace)
}

#[test]
fn recorded_layers_follow_one_another_and_begin_again() {
    let model = MODEL.replace("layers = 2", "layers = 3");
    for routing in ["{ matrix = \"matrix.jsonl\", step = 2 }", "{ trace = \"trace.csv\" }"] {
        let text =
            training("moe-training", &format!("{model}\ngradients = \"none\"\nrouting = {routing}"), TIMES);
        let experiment = recorded().load(&text);
        // Expert 0 is on rank 0, experts 4 and 5 are on rank 2.
        for (layer, host) in [("L0", 0), ("L1", 2), ("L2", 0)] {
            let dispatch = tokens(&experiment, &format!("{layer} dispatch"));
            assert!(
                dispatch.column(host).iter().all(|&bytes| bytes == 32 * 2 * 64 * 2),
                "{layer} {dispatch}"
            );
        }
        let fixed = text.replace(" }\n[compute]", ", layer = 5 }\n[compute]");
        let experiment = recorded().load(&fixed);
        for layer in ["L0", "L1", "L2"] {
            assert_eq!(tokens(&experiment, &format!("{layer} dispatch")).column(0).sum(), 0, "{layer}");
        }
    }
}

#[test]
fn experts_of_each_layer_can_be_balanced() {
    let text =
        moe("routing = { trace = \"trace.csv\" }\nexperts = { placement = \"balanced\", replicas = 8 }");
    let experiment = recorded().load(&text);
    // The only expert of the first layer has copies everywhere; the two of the second one share the ranks.
    for layer in ["L0", "L1"] {
        let dispatch = tokens(&experiment, &format!("{layer} dispatch"));
        assert!(
            dispatch.columns().into_iter().all(|column| column.sum() == 4 * 16 * 128),
            "{layer} {dispatch}"
        );
    }
}

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

/// What ZipCCL reports for its testbed: bytes per GPU and All-to-All, and All-to-Alls of an iteration.
#[test]
fn shipped_iterations_move_what_zipccl_reports() {
    for (name, megabytes, count) in [("deepseek-v3-64.toml", 117.4, 16), ("qwen3-64.toml", 67.1, 64)] {
        let experiment = shipped(name);
        let mut calls = 0;
        for segment in &experiment.job.segments {
            let Work::AllToAll { bytes, .. } = &segment.work else { continue };
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
        Work::AllGather { bytes, .. } => Some(bytes),
        _ => None,
    });
    let gathered: Vec<&Vec<u64>> = gathered.collect();
    assert_eq!(gathered.len(), 2 * 32, "every layer, forward and backward");
    for shards in gathered {
        assert!((shards.iter().sum::<u64>() as f64 / 1e6 - 436.2).abs() < 0.05, "{shards:?}");
        assert!(shards.iter().all(|&shard| shard == shards[0]));
    }
}

fn fsdp(workload: &str) -> Experiment {
    let model = "model = { layers = 3, hidden = 66, heads = 3, intermediate = 170 }";
    Folder::new().load(&training("fsdp", &format!("{model}\n{workload}"), "layer = \"10 us\""))
}

/// The slot that a gather fills, or the slots that a pass reads.
fn slots(experiment: &Experiment, segment: &str) -> Vec<Slot> {
    match &experiment.job.segments[position(experiment, segment)].work {
        Work::AllGather { output, .. } => vec![*output],
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
    let Work::AllGather { bytes, .. } = &experiment.job.segments[0].work else { panic!() };
    // Embedding, head and the norm between, in BF16.
    assert_eq!(bytes.iter().sum::<u64>(), 2 * (2 * 300 * 64 + 64));
    assert_near(seconds(&experiment, "M1 head", 0), 3.0 * 2.0 * 32.0 * 64.0 * 300.0 / 1e12);
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

#[test]
fn wrong_iterations_are_refused() {
    let message = |text: &str| error(text, &[]).lines().next().unwrap().to_owned();
    for (text, expected) in [
        (
            training("moe-training", "model = \"llama3-8b\"\nrouting = \"uniform\"", TIMES),
            "error: unknown model `llama3-8b`",
        ),
        (
            moe("routing = \"uniform\"\nmicro_batch = 1000000"),
            "error: `tokens of a rank in a micro-batch` is out of range: `32000000`",
        ),
        (
            training("moe-training", &format!("{MODEL}\nrouting = \"uniform\""), "dense = \"1 TFLOP/s\""),
            "error: `compute` needs exactly one of `expert_gemm` and `expert`, found none",
        ),
        (
            training(
                "moe-training",
                &format!("{MODEL}\nrouting = \"uniform\""),
                &format!("{TIMES}\nfloor_forward = \"1 us\""),
            ),
            "error: `compute.floor_forward` has no effect: the time of a layer is given",
        ),
        (
            training("fsdp", "model = \"llama3-8b\"", "dense = \"60 GB/s\""),
            "error: `compute.dense` is a number of operations per second, and `GB/s` is no unit of that",
        ),
        (
            training("fsdp", "model = { preset = \"deepseek-v3\", layers = 2 }", "layer = \"1 ms\""),
            "error: `workload.model.dense_layers` is out of range: `3`",
        ),
        (
            training("fsdp", "model = { preset = \"deepseek-v3\", head_size = 2 }", "layer = \"1 ms\""),
            "error: `workload.model.head_size` has no effect: the latent attention of this preset has sizes of its own",
        ),
        (
            training("fsdp", "model = { layers = 1, hidden = 64, heads = 4 }", "layer = \"1 ms\""),
            "error: missing key `intermediate` in `workload.model`",
        ),
        (
            moe("routing = \"uniform\"").replace("top_k = 2", "top_k = 9"),
            "error: a token cannot go to `9` of `8` experts",
        ),
        (
            moe("routing = { zipf = 1.0, groups = 3, top_groups = 1 }"),
            "error: `workload.routing.groups` is out of range: `3`",
        ),
        (
            moe("routing = { zipf = 1.0, groups = 8, top_groups = 1 }"),
            "error: `workload.routing.top_groups` is out of range: `1`",
        ),
        (
            moe("routing = { zipf = 1.0, groups = 4 }"),
            "error: missing key `top_groups` in `workload.routing`",
        ),
        (
            moe("routing = { trace = \"t.csv\", groups = 4, top_groups = 1 }"),
            "error: `workload.routing.groups` has no effect: a recording says what its gate chose",
        ),
        (
            moe("routing = { dirichlet = 1.0 }\nsequence = 16777216\nmicro_batches = 2\ntokens = \"shared\"")
                .replace("sequence = 32\n", ""),
            "error: `token copies of all ranks and calls` is out of range: `536870912`",
        ),
        (
            moe("routing = \"uniform\"")
                .replace("layers = 2", "layers = 2, dense_layers = 2, intermediate = 9"),
            "error: `workload.model.dense_layers` is out of range: `2`",
        ),
    ] {
        assert_eq!(message(&text), expected);
    }
}

/// Name, bytes and slot of what is summed, in order; all of it beside the rest.
fn sums(experiment: &Experiment) -> Vec<(&str, u64, Slot)> {
    let sum = |segment: &'_ zipwire_schedule::Segment| match segment.work {
        Work::AllReduce { bytes, input, .. } => Some((bytes, input)),
        _ => None,
    };
    let segments = experiment.job.segments.iter();
    let sums = segments.filter_map(|segment| {
        let (bytes, input) = sum(segment)?;
        assert_eq!(segment.channel, Channel::Background, "{}", segment.name);
        Some((&*segment.name, bytes, input))
    });
    sums.collect()
}

fn writes<'a>(experiment: &'a Experiment, phase: &str) -> &'a [Slot] {
    match &experiment.job.segments[position(experiment, phase)].work {
        Work::Compute { writes, .. } => writes,
        other => panic!("{other:?} is no phase"),
    }
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
    for segment in &experiment.job.segments {
        if let Work::AllReduce { bytes, .. } = segment.work {
            assert_eq!((bytes, segment.channel), (2 * 32 * 64 * 2, Channel::Main));
        }
    }
    // A quarter of 2 x 64 tokens x three matrices, twice as much backward.
    let mlp = 2.0 * 64.0 * 3.0 * 64.0 * 160.0 / 4.0 / 1e12;
    assert_near(seconds(&experiment, "L1 mlp", 2), mlp);
    assert_near(seconds(&experiment, "L1 mlp backward", 2), 2.0 * mlp);
}

#[test]
fn shards_of_gradients_are_scattered_in_turn() {
    let experiment = fsdp("gradient_dtype = \"F32\"");
    let scattered = |layer: &str| match &experiment.job.segments
        [position(&experiment, &format!("{layer} reduce-scatter"))]
    .work
    {
        Work::ReduceScatter { bytes, input, .. } => (bytes.iter().sum::<u64>(), *input),
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
