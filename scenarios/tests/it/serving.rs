//! Serving: valid requests, rates of arrivals, and traces.

use crate::common::Folder;
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
fn caches_can_be_coded_in_band() {
    let coded = "[[variant]]\nname = \"coded\"\nprotocol = \"in-band\"\ncodec = { id = \"tiered\", speed = { encode = \"1 GB/s\", decode = \"1 GB/s\" } }\n";
    let text = serving(LISTED, "payload = { gaussian = 0.02 }") + coded;
    assert!(load(&Source::from_text("test.toml", text, "."), &[], None).is_ok());
}

#[test]
fn traces_are_read_in_both_formats() {
    let line = r#"{"timestamp": 0, "input_length": 10, "output_length": 2, "hash_ids": [1]}"#;
    let mooncake = format!("{line}\n\n{line}\n");
    let azure = "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:15:46.6805900,374,44\n";
    for (content, format, requests) in [(mooncake.as_str(), "mooncake", 2), (azure, "azure", 1)] {
        let folder = Folder::new().with("trace", content);
        let text = serving(&format!("trace = {{ file = \"trace\", format = \"{format}\" }}"), "");
        assert_eq!(folder.load(&text).serving.unwrap().requests.len(), requests);
    }
    let text = serving("trace = { file = \"h.gz\", format = \"mooncake\" }", "");
    let cut = Folder::new().with("h.gz", [0x1f, 0x8b]).error(&text, &[]);
    assert!(cut.contains("h.gz"), "{cut}");
}
