//! Results of each kind, small.

use serde_json::{Value, json};
use zipwire_report::{Outcome, TimelineSketch};
use zipwire_schedule::{Lane, OpId, Rank};
use zipwire_traces::{Trace, TraceMeta, TracedLink, TracedSpan};

/// A name that would be a tag and more if anything obeyed it.
pub(crate) const HOSTILE: &str = "</script><img src=x onerror=alert(1)>\"'&\u{1b}[31m";

fn variant(mean_s: f64, speedup: f64, is_coded: bool) -> Value {
    let mut result = json!({
        "iteration_s": { "mean": mean_s, "sd": 0.0, "min": mean_s, "max": mean_s },
        "comm_s": 0.5 * mean_s, "wait_s": 0.1 * mean_s, "codec_s": if is_coded { 0.1 * mean_s } else { 0.0 }, "reduce_s": 0.0,
        "compute_s": 0.2 * mean_s, "bytes_raw": 1_000_000, "bytes_wire": 700_000, "ratio": 1.43, "speedup": speedup,
        "plan_digest": "0", "critical_path_s": { "compute": 0.2 * mean_s, "links": 0.8 * mean_s },
        "busiest_link": { "name": "nic 0 up", "seconds": mean_s }, "verified": null
    });
    if is_coded {
        result["split"] = json!({ "compression": 1.25, "algorithm": speedup / 1.25 });
    }
    result
}

/// `summary.json` of two variants, one of them with this name.
pub(crate) fn run(name: &str) -> String {
    let verdict = json!({
        "break_even": { name: { "ratio": 1.13, "encode_gbps": 40.0, "decode_gbps": 60.0 } },
        "warnings": ["a ratio is stated"], "text": [format!("verdict: `{name}` is 1.20 times as fast as `native`")]
    });
    let variants = json!({ "native": variant(6e-3, 1.0, false), name: variant(5e-3, 1.2, true) });
    json!({ "scenario": name, "seed": 7, "version": "0.1.0", "executors": { "sim": variants }, "verdict": verdict }).to_string()
}

/// `summary.json` of a sweep over two values.
pub(crate) fn sweep(name: &str) -> String {
    let row = |value: &str, speedup: f64| {
        let variants =
            json!({ "native": variant(6e-3, 1.0, false), name: variant(6e-3 / speedup, speedup, true) });
        json!({ "set": { "cluster.nic_bandwidth": value, "codec.ratio": 1.4 }, "executors": { "sim": variants } })
    };
    let failed = json!({
        "set": { "cluster.nic_bandwidth": name, "codec.ratio": 1.4 }, "executors": {},
        "failed": [{ "executor": "sim", "variant": name, "error": name }]
    });
    let rows = [row("25 GB/s", 1.2), row("50 GB/s", 0.9), failed];
    json!({ "scenario": name, "seed": 7, "version": "0.1.0", "rows": rows }).to_string()
}

pub(crate) fn validation(name: &str) -> String {
    let times = |predicted_s: f64, error: f64| {
        json!({ "predicted_s": predicted_s, "measured_s": predicted_s * (1.0 + error), "error": error, "on_links": 0.8,
                "declared": ["codec"], "codec_share": 0.01, "core_wait_s": 1e-7 })
    };
    json!({ "scenario": name, "executor": "threads", "real_set": [name], "dilation": 1000.0,
            "variants": { "native": times(6e-3, 0.01), name: times(5e-3, -0.08) },
            "ranking_agrees": true, "compared": name, "not_tested": "the rest" })
    .to_string()
}

pub(crate) fn advice(name: &str) -> String {
    json!({
        "zipwire_advice": 1,
        "source": { "kind": "profile", "path": name, "format": "kineto", "world_size": 2, "ranks_here": 1 },
        "cluster": { "name": name, "from": "profile", "nodes": 1, "gpus_per_node": 2, "file": format!("preset = \"h100-8x\" # {name}") },
        "calibration": { "steps_fitted": [0], "judged": [{ "step": 1, "measured_s": 0.4, "predicted_s": 0.41,
            "collectives_measured_s": 0.1, "collectives_predicted_s": 0.12 }], "step_error_pct": 2.5, "collectives_error_pct": 20.0,
            "is_believed": true, "why": name },
        "step": { "measured_s": 0.4, "predicted_s": 0.41, "communication_s": 0.1, "exposed_s": 0.05 },
        "classes": [{ "name": name, "op": "all_reduce", "group": "dp", "ranks": 2, "calls": 5, "bytes": 102_000_000, "total_s": 0.1,
            "exposed_s": 0.05, "best": name, "gain_s": 0.01, "gain_pct": 2.5, "low_pct": 1.0, "high_pct": 4.0,
            "break_even": { "ratio": 1.2, "codec_bytes_per_s": null },
            "options": [{ "variant": name, "step_s": 0.4, "gain_pct": 2.5, "low_pct": 1.0, "high_pct": 4.0 }] }],
        "verdict": { "compress": true, "text": name, "variant": name, "gain_pct": 2.5, "low_pct": 1.0, "high_pct": 4.0 },
        "first": [name], "would_change": [name], "notes": [name]
    })
    .to_string()
}

/// `run.json`.
pub(crate) fn record(name: &str) -> String {
    json!({
        "scenario": { "file": "quick.toml", "text": format!("name = \"{name}\""), "set": [name], "real_set": [], "seed": 7 },
        "cluster": { "preset": "h100-8x", "nodes": 2, "gpus_per_node": 8 }, "environment": { "os": "linux", "cores": 2 }
    })
    .to_string()
}

/// A timeline of two ranks that compute, encode, send and wait, and of a link that is called like the scenario.
pub(crate) fn timeline(executor: &str, variant: &str, link: &str) -> TimelineSketch {
    TimelineSketch::of(&trace(executor, variant, link))
}

/// The same as it was read.
pub(crate) fn trace(executor: &str, variant: &str, link: &str) -> Trace {
    let span = |rank, lane, name: &str, begin_ns, end_ns| TracedSpan {
        iteration: 0,
        segment: "dispatch".into(),
        rank: Rank(rank),
        lane,
        op: OpId(0),
        stage: None,
        peer: None,
        tag: 0,
        name: name.into(),
        begin_ns,
        end_ns,
        bytes: 1000,
        bytes_coded: (lane == Lane::Codec).then_some(700),
    };
    let spans = [0, 1].into_iter().flat_map(|rank| {
        [
            span(rank, Lane::Compute, "expert", 0, 1000),
            span(rank, Lane::Codec, "encode", 1000, 1500),
            span(rank, Lane::Exchange, "exchange", 1500, 3000),
            span(rank, Lane::Tx, "send", 1700, 2700),
        ]
    });
    let meta = TraceMeta {
        scenario: link.to_owned(),
        variant: variant.to_owned(),
        executor: executor.to_owned(),
        seed: 7,
        plan_digest: "0".to_owned(),
        clock: "virtual",
        codec: Some("window7".to_owned()),
    };
    let link = TracedLink {
        name: link.into(),
        unit: "% of 25 GB/s".into(),
        changes: vec![(0, 0.0), (1700, 100.0), (2700, 0.0)],
    };
    Trace {
        meta,
        rank_count: 2,
        sampling: None,
        begins_ns: vec![0],
        iterations_ns: vec![3100],
        spans: spans.collect(),
        links: vec![link],
    }
}

/// An outcome of each kind whose names are all `name`, with a record and timelines.
pub(crate) fn outcomes(name: &str) -> Vec<Outcome> {
    let texts = [run(name), sweep(name), validation(name), advice(name)];
    let outcome = |text: &String| {
        let mut outcome = Outcome::read(name, text).unwrap();
        if outcome.has_record() {
            outcome.add_record("run.json", &record(name)).unwrap();
        }
        for (executor, variant) in outcome.timelines() {
            outcome.add_timeline(timeline(&executor, &variant, name));
        }
        outcome
    };
    texts.iter().map(outcome).collect()
}
