//! What is wrong with requests, pools and caches, with the place and the remedy.

#![allow(clippy::unwrap_used, reason = "in tests a panic is the report")]

use crate::common;

use std::fs;

use common::error;
use zipwire_scenarios::{Source, load};

/// A valid scenario of serving; `more` are lines of `[workload]`.
fn serving(requests: &str, more: &str) -> String {
    format!(
        r#"name = "test"
cluster = {{ nodes = 2, gpus_per_node = 2, gpu_bandwidth = "25 GB/s", nic_bandwidth = "25 GB/s", latency_intra = "5 us", latency_inter = "10 us" }}
compute = {{ prefill_token = "10 us", decode_step = "5 ms" }}

[workload]
kind = "serving"
model = "llama3-8b"
prefill = {{ instances = 1, tensor_parallel = 2, kv_memory = "1 GB" }}
decode = {{ instances = 1, tensor_parallel = 2, kv_memory = "1 GB" }}
{requests}
{more}
"#
    )
}

const LISTED: &str = r#"requests = [{ at = "0 s", input = 100, output = 2 }]"#;

/// The error has all of these parts.
#[track_caller]
fn says(text: &str, parts: &[&str]) {
    let error = error(text, &[]);
    for part in parts {
        assert!(error.contains(part), "`{part}` is not in\n{error}");
    }
}

#[test]
fn it_is_valid_as_it_stands() {
    for requests in [
        LISTED,
        r#"arrivals = { poisson = "2 /s", requests = 10, input = { exponential = 100 }, output = { uniform = [1, 9] } }"#,
        r#"arrivals = { every = "10 ms", burst = 4, requests = 10, input = 64, output = 1 }"#,
    ] {
        let source = Source::from_text("test.toml", serving(requests, ""), ".");
        let experiment = load(&source, &[], None).unwrap_or_else(|error| panic!("{}", error.render(false)));
        let serving = experiment.serving.unwrap();
        assert!(!serving.requests.is_empty() && experiment.job.segments.is_empty());
        // 1 GB a rank, 32 layers of 4 heads of 128 values of keys and of values.
        assert_eq!(serving.config.prefill.kv_tokens, 1_000_000_000 / (32 * 2 * 4 * 128 * 2));
    }
}

/// The rate of bursts is that of their requests.
#[test]
fn requests_come_as_often_as_is_said() {
    for burst in ["", "burst = 5, "] {
        let requests = format!(
            r#"arrivals = {{ poisson = "50 /s", {burst}requests = 20000, input = {{ exponential = 300 }}, output = 2 }}"#
        );
        let source = Source::from_text("test.toml", serving(&requests, ""), ".");
        let requests = load(&source, &[], Some(3)).unwrap().serving.unwrap().requests;
        let per_s = requests.len() as f64 / requests.last_arrival_s();
        assert!((per_s / 50.0 - 1.0).abs() < 0.05, "{per_s}");
        let tokens: u64 = requests.list().iter().map(|request| u64::from(request.input_tokens)).sum();
        // Rounded up: half a token more.
        let mean = tokens as f64 / requests.len() as f64;
        assert!((mean - 300.5).abs() < 8.0, "{mean}");
    }
}

#[test]
fn what_does_not_divide_or_fit_is_told() {
    says(
        &serving(LISTED, "").replace(
            "tensor_parallel = 2, kv_memory = \"1 GB\" }\ndecode",
            "tensor_parallel = 3, kv_memory = \"1 GB\" }\ndecode",
        ),
        &["a prefill instance of 3 ranks and a decode instance of 2", "set `tensor_parallel`"],
    );
    says(
        &serving(LISTED, "").replace("tensor_parallel = 2", "tensor_parallel = 16"),
        &["8 heads of keys and values cannot be dealt to 16 ranks", "divisors of 8"],
    );
    says(
        &serving(LISTED, "").replacen("instances = 1", "instances = 2", 1),
        &["the pools have 6 ranks, and the cluster has 4", "a cluster of 6 GPUs"],
    );
    says(
        &serving(LISTED, "").replacen("1 GB", "1 KB", 1),
        &["`kv_memory` of `prefill` is less than the cache of one token", "40 GB"],
    );
    says(
        &serving(LISTED, "layer_groups = 33"),
        &["`workload.layer_groups` is out of range: `33`", "at most 32"],
    );
}

#[test]
fn promises_of_nothing_and_numbers_of_nobody_are_told() {
    says(
        &serving(LISTED, "slo = { ttft = \"0 s\" }"),
        &["`workload.slo.ttft` is out of range", "more than 0 s"],
    );
    says(
        &serving(LISTED, "lost = [{ prefill = 1, at = \"1 s\" }]"),
        &["`workload.lost.0.prefill` is out of range", "less than 1, the number of prefill instances"],
    );
    says(
        &serving(LISTED, "cancelled = [{ request = 1, at = \"1 s\" }]"),
        &["less than 1, the number of requests"],
    );
    says(&serving(LISTED, "lost = [{ at = \"1 s\" }]"), &["exactly one of `prefill` and `decode`"]);
    says(&serving(LISTED, "prefix_cache = 1000"), &["`workload.prefix_cache` has no effect"]);
    says(&serving("requests = []", ""), &["at least one request"]);
    says(
        &serving(r#"arrivals = { poisson = "2", requests = 10, input = 1, output = 1 }"#, ""),
        &["needs a unit", "`\"2 /s\"`"],
    );
    says(
        &serving(
            r#"arrivals = { poisson = "2 /s", requests = 10, input = { uniform = [9, 3] }, output = 1 }"#,
            "",
        ),
        &["at least 9, the first number"],
    );
    says(&serving("", ""), &["exactly one of `trace`, `arrivals` and `requests`"]);
    says(&format!("iterations = 3\n{}", serving(LISTED, "")), &["serving has no iterations"]);
}

#[test]
fn variants_say_whether_caches_are_coded_and_no_more() {
    let with = |variant: &str| serving(LISTED, "payload = { gaussian = 0.02 }") + variant;
    let coded = "[[variant]]\nname = \"coded\"\nprotocol = \"static-first\"\ncodec = { id = \"tiered\", speed = { encode = \"1 GB/s\", decode = \"1 GB/s\" } }\n";
    says(&with(coded), &["protocol `static-first` is one of collective calls", "`in-band`"]);
    says(
        &with("[[variant]]\nname = \"a\"\nwindow = 1\n"),
        &["`variant.0.window` has no effect", "piece by piece"],
    );
    let in_band = coded.replace("static-first", "in-band");
    assert!(load(&Source::from_text("test.toml", with(&in_band), "."), &[], None).is_ok());
    says(&with(&in_band.replace("tiered", "delta+tiered")), &["codec `delta+tiered`"]);
    says(
        &with("[[fault]]\nkind = \"dead-rank\"\nrank = 0\nat = \"1 s\"\n"),
        &["`fault` has no effect", "`workload.lost`"],
    );
}

#[test]
fn traces_that_are_none_are_told_by_line() {
    let folder = tempfile::tempdir().unwrap();
    let trace = |name: &str, content: &str, format: &str| {
        fs::write(folder.path().join(name), content).unwrap();
        let text = serving(&format!("trace = {{ file = \"{name}\", format = \"{format}\" }}"), "");
        match load(&Source::from_text("test.toml", text, folder.path()), &[], None) {
            Ok(experiment) => format!("{} requests", experiment.serving.unwrap().requests.len()),
            Err(error) => error.render(false),
        }
    };
    let line = r#"{"timestamp": 0, "input_length": 10, "output_length": 2, "hash_ids": [1]}"#;
    assert_eq!(trace("a.jsonl", &format!("{line}\n\n{line}\n"), "mooncake"), "2 requests");
    let broken = trace("b.jsonl", &format!("{line}\n{{\"timestamp\": 5}}\n"), "mooncake");
    assert!(broken.contains("b.jsonl:2:1") && broken.contains("missing field `input_length`"), "{broken}");
    let empty = trace("c.jsonl", "\n", "mooncake");
    assert!(empty.contains("c.jsonl` has no request"), "{empty}");
    let zero = trace("d.jsonl", &line.replace("10", "0"), "mooncake");
    assert!(zero.contains("a prompt has from 1 to 16777216 tokens, and this one 0"), "{zero}");
    let csv = "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:15:46.6805900,374,44\n";
    assert_eq!(trace("e.csv", csv, "azure"), "1 requests");
    let header = trace("f.csv", "2023-11-16 18:15:46.6805900,374,44\n", "azure");
    assert!(header.contains("the columns must be `TIMESTAMP,ContextTokens,GeneratedTokens`"), "{header}");
    let date = trace("g.csv", &csv.replace("11-16", "13-16"), "azure");
    assert!(date.contains("g.csv:2:1") && date.contains("no date and time"), "{date}");
    let gzip = trace("h.gz", "\u{1f}\u{8b}", "mooncake");
    assert!(gzip.contains("h.gz"), "{gzip}");
}
