//! Simulated training iterations against closed forms.

use zipwire::executors::SIM;
use zipwire::scenarios::{Source, load};
use zipwire::schedule::{CallKind, Work};
use zipwire::{Cancel, Prepared};

/// Bytes per second of a GPU's link, and seconds before the first byte moves.
const BANDWIDTH: f64 = 10e9;
const LATENCY_S: f64 = 2e-6;
const LAYERS: u32 = 5;

/// Seconds of one All-Gather and of an iteration of two ranks whose layers take `layer_us` forward.
fn fsdp(prefetch: u32, layer_us: u32) -> (f64, f64) {
    let text = format!(
        r#"name = "test"
cluster = {{ nodes = 1, gpus_per_node = 2, gpu_bandwidth = "10 GB/s", latency_intra = "2 us" }}
[workload]
kind = "fsdp"
model = {{ layers = {LAYERS}, hidden = 128, heads = 4, intermediate = 512 }}
sequence = 16
prefetch = {prefetch}
gradients = "none"
[compute]
layer = "{layer_us} us"
"#
    );
    let experiment = load(&Source::from_text("test.toml", text, "."), &[], None).unwrap();
    let shard = experiment.job().segments.iter().find_map(|segment| match &segment.work {
        Work::Call { kind: CallKind::AllGather { bytes }, .. } => Some(bytes[0]),
        _ => None,
    });
    let mut prepared = Prepared::new(&experiment, &Cancel::new()).unwrap();
    let timeline = prepared.run(0, SIM, &Cancel::new()).unwrap().timeline;
    let end_s = timeline.spans.iter().map(|span| span.end_s).fold(0.0, f64::max);
    (LATENCY_S + shard.unwrap() as f64 / BANDWIDTH, end_s)
}

fn assert_near(found: f64, expected: f64) {
    assert!((found / expected - 1.0).abs() < 1e-9, "{found} instead of {expected}");
}

#[test]
fn a_layer_that_is_not_gathered_ahead_is_waited_for() {
    let (gather_s, end_s) = fsdp(0, 50);
    let compute_s = f64::from(LAYERS) * 3.0 * 50e-6;
    assert_near(end_s, 2.0 * f64::from(LAYERS) * gather_s + compute_s);
}

#[test]
fn layers_that_are_gathered_ahead_hide_behind_long_computation() {
    for prefetch in [1, 2, 9] {
        let (gather_s, end_s) = fsdp(prefetch, 50);
        assert!(gather_s < 50e-6, "a gather fits behind a pass: {gather_s}");
        assert_near(end_s, gather_s + f64::from(LAYERS) * 3.0 * 50e-6);
    }
}

#[test]
fn short_computation_hides_behind_gathers() {
    for prefetch in [1, 2, 9] {
        let (gather_s, end_s) = fsdp(prefetch, 5);
        assert!(gather_s > 10e-6, "a backward pass fits behind a gather: {gather_s}");
        assert_near(end_s, 2.0 * f64::from(LAYERS) * gather_s + 10e-6);
    }
}

/// Calls of a library, of which each gather takes 30 us and each Reduce-Scatter 70 us: side by side, or one after the other.
fn sharded_with_sums(gradients: &str, protocol: &str) -> (f64, Vec<String>) {
    let text = format!(
        r#"name = "test"
[cluster]
nodes = 1
gpus_per_node = 2
gpu_bandwidth = "1000000 TB/s"
latency_intra = "2 us"
[cluster.library]
all-gather = {{ latency = "30 us", bandwidth = {{ 1 = "1 B/s", 2 = "1000000 TB/s" }} }}
reduce-scatter = {{ latency = "70 us", bandwidth = "1000000 TB/s" }}
[workload]
kind = "fsdp"
model = {{ layers = {LAYERS}, hidden = 128, heads = 4, intermediate = 512 }}
sequence = 16
gradient_dtype = "F32"
gradients = "{gradients}"
[compute]
layer = "10 us"
[codec]
id = "window7"
speed = {{ encode = "180 GB/s", decode = "260 GB/s" }}
ratio = 1.3
[[variant]]
name = "only"
algorithm = "library"
{protocol}
"#
    );
    let experiment = load(&Source::from_text("test.toml", text, "."), &[], None).unwrap();
    let mut prepared = Prepared::new(&experiment, &Cancel::new()).unwrap();
    let timeline = prepared.run(0, SIM, &Cancel::new()).unwrap().timeline;
    let coded = timeline.spans.iter().filter(|span| span.name == "encode" || span.name == "decode");
    let coded = coded.map(|span| timeline.segments[span.segment.index()].to_string());
    (timeline.spans.iter().map(|span| span.end_s).fold(0.0, f64::max), coded.collect())
}

#[test]
fn sums_are_beside_gathers_or_in_turn_with_them() {
    let layers = f64::from(LAYERS);
    let assert_close =
        |found: f64, expected: f64| assert!((found - expected).abs() < 1e-9, "{found}, {expected}");
    // In turn, the calls follow one another without a gap, and all passes hide behind them.
    let (in_turn_s, _) = sharded_with_sums("in-order", "");
    assert_close(in_turn_s, 2.0 * layers * 30e-6 + layers * 70e-6);
    // Beside one another, the sums follow one another from the first backward pass on, behind the gather that it needs.
    let (beside_s, _) = sharded_with_sums("overlapped", "");
    assert_close(beside_s, (layers + 1.0) * 30e-6 + 20e-6 + layers * 70e-6);
}

#[test]
fn native_reductions_are_those_of_the_library_and_gathers_are_coded() {
    let native = "protocol = \"size-first\"\nreductions = \"native\"";
    let (_, coded) = sharded_with_sums("in-order", native);
    assert!(!coded.is_empty() && coded.iter().all(|segment| segment.contains("all-gather")), "{coded:?}");
    let (_, coded) = sharded_with_sums("in-order", "protocol = \"size-first\"");
    assert!(coded.iter().any(|segment| segment.contains("reduce-scatter")), "{coded:?}");
}

/// Two ranks, an expert each, and no imbalance: phases and calls of an iteration add up.
#[test]
fn phases_and_calls_of_a_mixture_of_experts_add_up() {
    let text = r#"name = "test"
cluster = { nodes = 1, gpus_per_node = 2, gpu_bandwidth = "10 GB/s", latency_intra = "2 us" }
[workload]
kind = "moe-training"
model = { layers = 3, hidden = 256, heads = 4, experts = 2, top_k = 2, expert_intermediate = 64 }
sequence = 100
micro_batches = 2
gradients = "none"
routing = { trace = "trace.csv" }
[compute]
attention = "30 us"
expert = "20 us"
head = "7 us"
"#;
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("trace.csv"), "step,layer,e0,e1\n0,0,1,1\n").unwrap();
    let experiment = load(&Source::from_text("test.toml", text, folder.path()), &[], None).unwrap();
    let mut prepared = Prepared::new(&experiment, &Cancel::new()).unwrap();
    let timeline = prepared.run(0, SIM, &Cancel::new()).unwrap().timeline;
    let end_s = timeline.spans.iter().map(|span| span.end_s).fold(0.0, f64::max);
    // Half of the 200 copies of 512 bytes go to the other rank, four times per layer.
    let call_s = LATENCY_S + 100.0 * 512.0 / BANDWIDTH;
    let layer_s = 3.0 * 30e-6 + 3.0 * 20e-6 + 4.0 * call_s;
    assert_near(end_s, 2.0 * (3.0 * layer_s + 7e-6));
}
