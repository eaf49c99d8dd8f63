//! Resolved scenarios: jobs, durations, payloads and variants.

use crate::common::{Folder, VALID, flat, routing_record, safetensors, valid_with};
use ndarray::{ArcArray2, Array2, array};
use zipwire_codec::DType;
use zipwire_payload::ChunkId;
use zipwire_scenarios::{Algorithms, Experiment, Source, Variant, load};
use zipwire_schedule::{CallKind, Flow, Job, Order, Pace, Protocol, Rank, SegmentId, Selection, Slot, Work};

fn bytes<'a>(job: &'a Job, segment: &str) -> &'a ArcArray2<u64> {
    let segment = job.segments.iter().find(|candidate| *candidate.name == *segment).unwrap();
    match &segment.work {
        Work::Call { kind: CallKind::AllToAll { bytes, .. }, .. } => bytes,
        other => panic!("{other:?} is no All-to-All"),
    }
}

fn flows(job: &Job) -> &[Flow] {
    match &job.segments[0].work {
        Work::Transfers { flows, .. } => flows,
        other => panic!("{other:?} has no flows"),
    }
}

fn set(sets: &[&str]) -> Experiment {
    Folder::new().try_load(VALID, sets).unwrap_or_else(|error| panic!("{}", error.render(false)))
}

/// 4 ranks, 8 experts (2 each), 64 tokens x 2 copies, 512 bytes per token.
fn recorded(routing: &str, folder: &Folder) -> Job {
    folder.load(&valid_with("\"uniform\"", routing)).job().clone()
}

#[test]
fn recorded_matrix_gives_exact_counts() {
    // 16 shares for 128 copies: every share is 8 copies, whatever multiple of it a rank has recorded.
    let records = routing_record(10, 2, 4, "domain", &[5, 1, 1, 1, 2, 2, 2, 2])
        + &routing_record(10, 2, 4, "shuffled", &[2; 8])
        + &routing_record(10, 2, 8, "domain", &[1; 8]);
    let folder = Folder::new().with("r.jsonl", records);
    let job = recorded("{ matrix = \"r.jsonl\", layer = 2, sharding = \"domain\" }", &folder);
    let row = [6, 2, 4, 4].map(|shares: u64| shares * 8 * 512);
    let expected = Array2::from_shape_fn((4, 4), |(_, dst)| row[dst]);
    assert_eq!(bytes(&job, "dispatch"), expected);
    assert_eq!(bytes(&job, "combine"), expected.t());
}

#[test]
fn recorded_trace_holds_for_every_rank() {
    let folder = Folder::new()
        .with("t.csv", "step,layer,e0,e1,e2,e3,e4,e5,e6,e7\n0,0,9,9,9,9,9,9,9,9\n5,0,1,0,0,0,0,0,0,2\n");
    let job = recorded("{ trace = \"t.csv\", step = 5, layer = 0 }", &folder);
    // 128 copies in shares of 1 to 2: 42.67 and 85.33, so the larger remainder is the first expert's.
    let expected = Array2::from_shape_fn((4, 4), |(_, dst)| [43, 0, 0, 85][dst] * 512);
    assert_eq!(bytes(&job, "dispatch"), expected);
}

#[test]
fn moe_is_dispatch_expert_combine() {
    let job = set(&[]).job().clone();
    assert_eq!(job.slots, ["tokens", "expert", "combined"]);
    let names: Vec<&str> = job.segments.iter().map(|segment| &*segment.name).collect();
    assert_eq!(names, ["dispatch", "expert", "combine"]);
    let [dispatch, expert, combine] = &job.segments[..] else { unreachable!() };
    let io = |work: &Work| match work {
        Work::Call { dtype, input, output, kind: CallKind::AllToAll { .. } } => (*dtype, *input, *output),
        other => panic!("{other:?} is no All-to-All"),
    };
    assert_eq!(io(&dispatch.work), (DType::Bf16, Slot(0), Slot(1)));
    assert_eq!(
        expert.work,
        Work::Compute { phase: "expert", reads: vec![Slot(1)], writes: vec![Slot(0), Slot(1), Slot(2)] }
    );
    assert_eq!(io(&combine.work), (DType::Bf16, Slot(1), Slot(2)));
    for row in bytes(&job, "dispatch").rows() {
        assert_eq!(row.sum(), 64 * 2 * 512);
    }
}

#[test]
fn expert_time_follows_the_tokens() {
    let folder = Folder::new().with("t.csv", "step,layer,e0,e1,e2,e3,e4,e5,e6,e7\n0,0,4,0,2,0,1,0,1,0\n");
    let text = valid_with("\"uniform\"", "{ trace = \"t.csv\" }");
    let experiment = folder.try_load(&text, &["compute.expert=1 ms", "iterations=2"]).unwrap();
    for iteration in 0..2 {
        let seconds =
            [0, 1, 2, 3].map(|rank| experiment.expect_iterations().durations.get(iteration, 1, Rank(rank)));
        assert_eq!(seconds, [2e-3, 1e-3, 0.5e-3, 0.5e-3]);
    }
}

#[test]
fn skew_comes_before_each_phase_and_is_drawn_anew() {
    let skewed = "workload.skew={ base = \"1 ms\", per_compute = 0.5 }";
    let experiment = set(&[skewed, "compute.expert=4 ms", "iterations=500"]);
    let names: Vec<&str> = experiment.job().segments.iter().map(|segment| &*segment.name).collect();
    assert_eq!(names, ["skew", "dispatch", "expert-skew", "expert", "combine"]);
    let mean = |experiment: &Experiment, segment| {
        let draws =
            (0..2000).map(|i| experiment.expect_iterations().durations.get(i / 4, segment, Rank(i % 4)));
        draws.sum::<f64>() / 2000.0
    };
    // The standard error is 2.2 %.
    assert!((mean(&experiment, 0) / 1e-3 - 1.0).abs() < 0.1, "{}", mean(&experiment, 0));
    assert!((mean(&experiment, 2) / 3e-3 - 1.0).abs() < 0.1, "{}", mean(&experiment, 2));
    assert_ne!(
        experiment.expect_iterations().durations.get(0, 0, Rank(0)),
        experiment.expect_iterations().durations.get(1, 0, Rank(0))
    );

    let without_expert = set(&[skewed]);
    let names: Vec<&str> = without_expert.job().segments.iter().map(|segment| &*segment.name).collect();
    assert_eq!(names, ["skew", "dispatch", "expert", "combine"]);
}

/// Who holds which expert shows in what a rank sends where: 128 copies, 8 to each share.
#[test]
fn experts_are_where_they_are_placed() {
    let folder = Folder::new().with("r.jsonl", routing_record(10, 2, 4, "domain", &[5, 4, 1, 2, 1, 1, 1, 1]));
    let text = valid_with("\"uniform\"", "{ matrix = \"r.jsonl\" }\nexperts = {}");
    let sent = |sets: &[&str]| {
        let job = folder
            .try_load(&text, sets)
            .unwrap_or_else(|error| panic!("{}", error.render(false)))
            .job()
            .clone();
        assert_eq!(bytes(&job, "combine"), bytes(&job, "dispatch").t());
        bytes(&job, "dispatch").mapv(|bytes| bytes / (8 * 512))
    };
    let rows = |row: [u64; 4]| Array2::from_shape_fn((4, 4), |(_, dst)| row[dst]);
    assert_eq!(sent(&[]), rows([9, 3, 2, 2]));
    assert_eq!(sent(&["workload.experts.placement=contiguous"]), rows([9, 3, 2, 2]));
    assert_eq!(sent(&["workload.experts.placement=round-robin"]), rows([6, 5, 2, 3]));
    // 5, 4, 2, 1 go to ranks 0 to 3; the four that are left, 1 each, to ranks 3, 2, 1 and 0, which they fill.
    assert_eq!(sent(&["workload.experts.placement=balanced"]), rows([6, 5, 3, 2]));
    // The copy of expert 0 goes to rank 2, the first of those with the least load, and takes 20 of 40 tokens.
    let copied = folder.try_load(&text, &["workload.experts.replicas=1"]).unwrap().job().clone();
    let row = [9 * 8 - 20, 3 * 8, 2 * 8 + 20, 2 * 8].map(|tokens| tokens * 512);
    assert_eq!(bytes(&copied, "dispatch"), rows(row));
}

#[test]
fn expert_time_follows_the_replicas() {
    let folder = Folder::new().with("t.csv", "step,layer,e0,e1,e2,e3,e4,e5,e6,e7\n0,0,4,0,0,0,0,0,0,0\n");
    let text = valid_with("\"uniform\"", "{ trace = \"t.csv\" }\nexperts = { replicas = 3 }");
    let experiment = folder.try_load(&text, &["compute.expert=1 ms"]).unwrap();
    let seconds = [0, 1, 2, 3].map(|rank| experiment.expect_iterations().durations.get(0, 1, Rank(rank)));
    assert_eq!(seconds, [1e-3; 4], "a copy on every rank");
}

#[test]
fn noise_is_on_computation_alone() {
    let skewed = "workload.skew={ base = \"1 ms\" }";
    let (quiet, noisy) = ["compute={ expert = \"4 ms\" }", "compute={ expert = \"4 ms\", noise = 0.05 }"]
        .map(|compute| set(&[skewed, compute, "iterations=500"]))
        .into();
    assert_eq!(quiet.job(), noisy.job(), "plans do not know it");
    let mut sum = 0.0;
    for iteration in 0..500 {
        for rank in (0..4).map(Rank) {
            let at = |experiment: &Experiment, segment| {
                experiment.expect_iterations().durations.get(iteration, segment, rank)
            };
            assert_eq!([0, 2].map(|skew| at(&quiet, skew)), [0, 2].map(|skew| at(&noisy, skew)));
            assert_ne!(at(&quiet, 3), at(&noisy, 3));
            sum += at(&noisy, 3) / at(&quiet, 3);
        }
    }
    // The standard error is 0.11 %.
    assert!((sum / 2000.0 - 1.0).abs() < 0.005, "{}", sum / 2000.0);
}

#[test]
fn the_seed_decides_everything_drawn() {
    let sets = ["workload.skew.base=1 ms", "workload.routing={ zipf = 1.0 }"];
    let text = valid_with("kind = \"moe\"", "kind = \"moe\"\nskew = {}");
    let with_seed = |seed| {
        let sets = sets.map(str::to_owned);
        load(&Source::from_text("test.toml", text.as_str(), "."), &sets, seed).unwrap()
    };
    let (first, again, other) = (with_seed(Some(3)), with_seed(Some(3)), with_seed(Some(4)));
    assert_eq!((first.seed, with_seed(None).seed), (3, 0));
    assert_eq!(
        (&first.job(), &first.expect_iterations().durations),
        (&again.job(), &again.expect_iterations().durations)
    );
    assert_ne!(first.job(), other.job());
    assert_ne!(first.expect_iterations().durations, other.expect_iterations().durations);
    let chunk = |experiment: &Experiment| {
        let mut out = [0; 64];
        experiment.payload.as_ref().unwrap().fill(ChunkId::new(SegmentId(1), Rank(0), Rank(1)), &mut out);
        out
    };
    assert_eq!(chunk(&first), chunk(&again));
    assert_ne!(chunk(&first), chunk(&other));
}

#[test]
fn presets_take_overrides() {
    let sent = |model: &str| set(&[&format!("workload.model={model}")]).traffic();
    let full = sent("qwen3-235b-a22b");
    let small = sent("{ preset = \"qwen3-235b-a22b\", tokens_per_rank = 16 }");
    assert_eq!(&*full[0].segment, "dispatch");
    let raw = |tokens: u64| 4 * tokens * 8 * 4096 * 2;
    // A quarter of the tokens stays at home, up to the noise of the draws.
    let share = |total: u64, tokens| total as f64 / raw(tokens) as f64;
    assert!((share(full[0].total(), 1024) - 0.75).abs() < 0.02);
    assert!((share(small[0].total(), 16) - 0.75).abs() < 0.1);
    assert_eq!(small[0].total(), small[1].total());
    assert_eq!(small[0].sent, small[1].received);
}

#[test]
fn recorded_payload_is_by_segment() {
    let mut other = safetensors("y", "BF16", 2);
    let len = other.len();
    other[len - 16..].fill(0xee);
    let folder =
        Folder::new().with("x.safetensors", safetensors("x", "BF16", 2)).with("y.safetensors", &other);
    let payload = |file: &str, tensor: &str| {
        let new =
            format!("payload = {{ file = \"{file}\", dispatch = \"{tensor}\", combine = \"{tensor}\" }}");
        let experiment = folder.load(&valid_with("payload = { gaussian = 0.02 }", &new));
        [0, 2].map(|segment| {
            let mut out = [0; 4];
            experiment
                .payload
                .as_ref()
                .unwrap()
                .fill(ChunkId::new(SegmentId(segment), Rank(0), Rank(1)), &mut out);
            out
        })
    };
    assert_eq!(payload("y.safetensors", "y"), [[0xee; 4]; 2]);
    for row in payload("x.safetensors", "x") {
        assert!(
            row[0] % 4 == 0 && row.iter().zip(row[0]..).all(|(&a, b)| a == b),
            "{row:?} is a row of 4 bytes"
        );
    }
}

#[test]
fn noise_is_every_bit_pattern_alike() {
    let experiment = Folder::new().load(&valid_with("{ gaussian = 0.02 }", "\"noise\""));
    let mut chunk = vec![0; 1 << 16];
    experiment.payload.unwrap().fill(ChunkId::new(SegmentId(0), Rank(0), Rank(1)), &mut chunk);
    let mut exponents = [0_u32; 256];
    for value in chunk.as_chunks().0 {
        exponents[usize::from(u16::from_le_bytes(*value) >> 7 & 0xff)] += 1;
    }
    // 128 expected, standard deviation 11.
    assert!(exponents.iter().all(|count| (70..200).contains(count)), "{exponents:?}");
}

#[test]
fn a_stated_ratio_replaces_the_payload() {
    let text = valid_with("payload = { gaussian = 0.02 }\n", "");
    let mut experiment = Folder::new().try_load(&text, &["codec.ratio=1.33"]).unwrap();
    assert_eq!(experiment.codec.as_ref().unwrap().ratio, Some(1.33));
    assert!(experiment.payload.is_none());
    experiment.select(&["native".to_owned()]).unwrap();
    assert!(experiment.payload.is_some(), "what is sent natively does not matter");
}

#[test]
fn codec_costs() {
    let codec = set(&["codec.speed.launch=20 us"]).codec.unwrap();
    assert_eq!(codec.spec.to_string(), "window7");
    assert_eq!(codec.cost.encode_bytes_per_s, 180e9);
    assert_eq!(codec.cost.decode_bytes_per_s, 260e9);
    assert_eq!(codec.cost.launch_s, 20e-6);
}

#[test]
fn set_takes_toml_or_text() {
    let experiment = set(&[
        "cluster.nic_bandwidth=50 GB/s",
        "cluster.\"latency_inter\" = '20 us'",
        "cluster.host_sync=60 us",
        "variant.native.window=2",
        "variant.1.window=1",
        "iterations = 0x10",
    ]);
    assert_eq!(experiment.topology.nic_bandwidth, 50e9);
    assert_eq!(experiment.topology.latency_inter_s, 20e-6);
    assert_eq!(experiment.host.sync_s, 60e-6);
    assert_eq!(
        experiment.variants.iter().map(|variant| variant.window).collect::<Vec<_>>(),
        [Some(2), Some(1)]
    );
    assert_eq!(experiment.iterations, 16);
    assert_eq!(set(&["seed=1", "seed=2"]).seed, 2, "the last one wins");
}

#[test]
fn one_node_needs_no_network_between_nodes() {
    let experiment = Folder::new()
        .load(&flat("kind = \"collective\"\ncollective = \"all-to-all\"\nbytes_per_rank = \"1 KiB\""));
    assert_eq!(experiment.topology.nodes, 1);
    let native = Variant {
        name: "native".to_owned(),
        protocol: Protocol::Native,
        algorithms: Algorithms::default(),
        channels: None,
        slices: None,
        may_call: true,
        ways: vec![None],
        dimensions: None,
        native_reductions: false,
        layout: None,
        order: Order::Rotation,
        window: None,
        selection: Selection::default(),
        parts: 1,
        dedup: None,
        arenas: 2,
        speculative_capacity: None,
        arms: Vec::new(),
        codec: None,
    };
    assert_eq!(experiment.variants, [native]);
    assert!(experiment.payload.is_some() && experiment.codec.is_none());
    assert_eq!(set(&["cluster.nodes=1"]).topology.ranks(), 2, "its keys may stay");
}

#[test]
fn equal_chunks_are_whole_values() {
    let chunk = |bytes: &str, dtype: &str| {
        let text = format!(
            "kind = \"collective\"\ncollective = \"all-to-all\"\nbytes_per_rank = \"{bytes}\"\ndtype = \"{dtype}\""
        );
        let matrix = bytes_of(Folder::new().load(&flat(&text)).job());
        assert!(matrix.iter().all(|&chunk| chunk == matrix[(0, 0)]));
        matrix[(0, 0)]
    };
    assert_eq!(chunk("64 KiB", "BF16"), 16 << 10);
    assert_eq!(chunk("31 B", "BF16"), 6);
    assert_eq!(chunk("31 B", "F32"), 4);
    assert_eq!(chunk("31 B", "F8_E4M3"), 7);
}

/// Format of `alltoallv_perf` of nccl-tests.
#[test]
fn matrices_may_have_blanks_and_comments() {
    let of = |file: &str| {
        let text = "kind = \"collective\"\ncollective = \"all-to-all\"\nmatrix = \"m.txt\"";
        bytes_of(Folder::new().with("m.txt", file).load(&flat(text)).job())
    };
    let blanks = of("# bytes, by source\r\n\r\n   0 2 4 6\r\n8\t 0  10 12 \r\n\t14 16 0 18\n20 22 24 0");
    assert_eq!(blanks, of("0,2,4,6\n8,0,10,12\n14,16,0,18\n20,22,24,0\n"));
    assert_eq!((blanks[(1, 3)], blanks[(3, 0)]), (12, 20));
}

fn bytes_of(job: &Job) -> Array2<u64> {
    bytes(job, "all-to-all").to_owned()
}

#[test]
fn matrices_inline_and_in_files() {
    let expected = array![[0, 1024, 4, 6], [2, 0, 2, 2], [2, 2, 0, 2], [0, 0, 0, 0]];
    let text = |matrix: &str| {
        flat(&format!(
            "kind = \"collective\"\ncollective = \"all-to-all\"\nstart = [\"0 s\", \"3 ms\", \"0 s\", \"0 s\"]\nmatrix = {matrix}"
        ))
    };
    let inline = "[[0, \"1 KiB\", 4, \"6 B\"], [2, 0, 2, 2], [2, 2, 0, 2], [0, 0, 0, 0]]";
    let inline = Folder::new().load(&text(inline));
    assert_eq!(bytes_of(inline.job()), expected);
    assert_eq!(
        [0, 1, 2, 3].map(|rank| inline.expect_iterations().durations.get(0, 0, Rank(rank))),
        [0.0, 3e-3, 0.0, 0.0]
    );
    let folder = Folder::new().with("m.csv", "0,1024,4,6\n2, 0, 2, 2\n\n2,2,0,2\n0,0,0,0");
    assert_eq!(folder.load(&text("\"m.csv\"")).job(), inline.job());
}

#[test]
fn flows_inline_and_in_files() {
    let folder = Folder::new().with("f.csv", "src,dst,bytes,start_us\n0,1,1024,2.5\n2,0,7,0\n3,1,9,1\n");
    let text = |start: &str, flows: &str| {
        flat(&format!("kind = \"transfers\"\norder = \"chain\"\nstart = \"{start}\"\n{flows}"))
    };
    let inline = "flows = [{ src = 0, dst = 1, bytes = \"1 KiB\", start = \"2.5 us\" },
        { src = 2, dst = 0, bytes = \"7 B\" }, { src = 3, dst = 1, bytes = \"9 B\", start = \"1 us\" }]";
    let given = folder.load(&text("given", "file = \"f.csv\"")).job().clone();
    assert_eq!(given, *folder.load(&text("given", inline)).job());
    assert!(matches!(given.segments[0].work, Work::Transfers { pace: Pace::Chain, .. }));
    let starts = |job: &Job| flows(job).iter().map(|flow| flow.not_before_s).collect::<Vec<_>>();
    assert_eq!(starts(&given), [2.5e-6, 0.0, 1e-6]);
    let first = Flow { src: Rank(0), dst: Rank(1), bytes: 1024, not_before_s: 2.5e-6 };
    assert_eq!(flows(&given)[0], first);
    // Rank 0 is ready at 2.5, rank 3 at 1, ranks 1 and 2 at 0.
    let ready = folder.load(&text("rank-ready", "file = \"f.csv\"")).job().clone();
    assert_eq!(starts(&ready), [2.5e-6, 2.5e-6, 1e-6]);
    // Flows of any length are whole values where these have one byte.
    let coded = "dtype = \"F8_E4M3\"\npayload = \"noise\"\nfile = \"f.csv\"\n[codec]\nid = \"tiered\"\n\
                 speed = { encode = \"1 GB/s\", decode = \"1 GB/s\" }\n[[variant]]\nname = \"a\"\nprotocol = \"size-first\"";
    let coded = folder.load(&text("given", coded)).job().clone();
    assert_eq!((flows(&coded), coded.segments[0].work.dtype()), (flows(&given), Some(DType::F8E4M3)));
}

#[test]
fn traffic_leaves_out_what_stays_at_home() {
    let text = "kind = \"collective\"\ncollective = \"all-to-all\"\nmatrix = [[9998, 6, 0, 0], [0, 2, 0, 2], [0, 0, 0, 0], [0, 0, 0, 0]]";
    let traffic = &Folder::new().load(&flat(text)).traffic()[0];
    assert_eq!((&*traffic.segment, traffic.total(), traffic.transfers), ("all-to-all", 8, 2));
    assert_eq!((&traffic.sent[..], &traffic.received[..]), (&[6, 2, 0, 0][..], &[0, 6, 0, 2][..]));
    // Gini of received bytes: pairs differ by 6, 0, 2, 6, 4, 2, in sum 20; 20 / (4 x 8).
    let received = traffic.received_imbalance().unwrap();
    assert_eq!((received.max_over_mean, received.gini), (3.0, 0.625));
    // 4, 6, 6, 2, 2, 0: 20 as well.
    assert_eq!(traffic.sent_imbalance(), Some(received));
}

#[test]
fn selection_keeps_the_order_of_the_scenario() {
    let mut experiment = set(&[]);
    experiment.select(&[]).unwrap();
    assert_eq!(experiment.variants.len(), 2);
    experiment.select(&["static-first".to_owned(), "native".to_owned()]).unwrap();
    assert_eq!(experiment.variants[0].name, "native");
    experiment.select(&["static-first".to_owned()]).unwrap();
    assert_eq!(experiment.variants.len(), 1);
}

#[test]
fn description_is_the_first_line_of_the_opening_comment() {
    let description = |text: &str| Source::from_text("test.toml", text, ".").description();
    let for_editors = "#:schema ../scenario.schema.json\n# What it shows.\nname = \"a\"";
    assert_eq!(description(for_editors).as_deref(), Some("What it shows."));
    assert_eq!(description("# One layer.\n# More.\nname = \"x\"").as_deref(), Some("One layer."));
    assert_eq!(description("name = \"x\" # not this\n# nor this"), None);
}

#[test]
fn an_all_gather_is_what_each_rank_contributes() {
    let workload = |text: &str| Folder::new().load(&flat(&format!("kind = \"collective\"\n{text}")));
    let equal = workload("collective = \"all-gather\"\nbytes_per_rank = \"1 KiB\"");
    let Work::Call { kind: CallKind::AllGather { bytes }, .. } = &equal.job().segments[0].work else {
        panic!("an All-Gather")
    };
    assert_eq!(bytes, &[1024; 4], "not divided among the ranks");
    let traffic = &equal.traffic()[0];
    assert_eq!((&*traffic.segment, traffic.transfers, traffic.total()), ("all-gather", 12, 12 * 1024));
    let uneven = workload("collective = \"all-gather\"\nbytes = [2, \"1 KiB\", 0, 6]");
    let traffic = &uneven.traffic()[0];
    assert_eq!((&traffic.sent[..], traffic.transfers), (&[6, 3072, 0, 18][..], 9));
    assert_eq!(traffic.received, [1030, 8, 1032, 1026]);
}

#[test]
fn a_broadcast_is_from_its_root() {
    let workload = |text: &str| Folder::new().load(&flat(&format!("kind = \"collective\"\n{text}")));
    for (text, root) in [("", 0), ("\nroot = 3", 3)] {
        let experiment = workload(&format!("collective = \"broadcast\"\nbytes = \"1 KiB\"{text}"));
        let traffic = &experiment.traffic()[0];
        assert_eq!((&*traffic.segment, traffic.sent[root], traffic.total()), ("broadcast", 3072, 3072));
        assert_eq!((traffic.received[root], traffic.transfers), (0, 3));
    }
}

/// Contributions of other ranks need memory, coded or not.
#[test]
fn uncompressed_sums_have_arenas() {
    let sums = flat("kind = \"collective\"\ncollective = \"all-reduce\"\nbytes_per_rank = \"1 KiB\"");
    let experiment = Folder::new().load(&format!("{sums}[[variant]]\nname = \"a\"\narenas = 3\n"));
    assert_eq!(experiment.variants[0].arenas, 3);
}
