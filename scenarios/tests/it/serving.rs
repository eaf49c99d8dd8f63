//! Serving: valid requests, rates of arrivals, traces, what models take to read, and how ranks share them.

use crate::common::Folder;
use zipwire_scenarios::{Serving, Source, load};

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
        let serving = experiment.as_serving().unwrap();
        assert!(!serving.requests.is_empty() && experiment.as_iterations().is_none());
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
        let requests = load(&source, &[], Some(3)).unwrap().as_serving().unwrap().requests.clone();
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

/// Where only a ratio is stated there is no payload; without coded variants there is noise for each plane of a cache.
#[test]
fn caches_of_uncoded_variants_hold_noise() {
    let variants = "codec = { id = \"tiered\", ratio = 1.4, speed = { encode = \"1 GB/s\", decode = \"1 GB/s\" } }\n\
        variant = [{ name = \"native\" }, { name = \"coded\", protocol = \"in-band\" }]\n";
    let text = serving(LISTED, "").replace("\n[workload]", &format!("{variants}\n[workload]"));
    let mut experiment = load(&Source::from_text("test.toml", text, "."), &[], None)
        .unwrap_or_else(|error| panic!("{}", error.render(false)));
    assert!(experiment.payload.is_none());
    experiment.select(&["native".to_owned()]).unwrap();
    assert_eq!(experiment.payload.unwrap().sources().len(), 2, "keys and values");
}

#[test]
fn traces_are_read_in_both_formats() {
    let line = r#"{"timestamp": 0, "input_length": 10, "output_length": 2, "hash_ids": [1]}"#;
    let mooncake = format!("{line}\n\n{line}\n");
    let azure = "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:15:46.6805900,374,44\n";
    for (content, format, requests) in [(mooncake.as_str(), "mooncake", 2), (azure, "azure", 1)] {
        let folder = Folder::new().with("trace", content);
        let text = serving(&format!("trace = {{ file = \"trace\", format = \"{format}\" }}"), "");
        assert_eq!(folder.load(&text).as_serving().unwrap().requests.len(), requests);
    }
    let text = serving("trace = { file = \"h.gz\", format = \"mooncake\" }", "");
    let cut = Folder::new().with("h.gz", [0x1f, 0x8b]).error(&text, &[]);
    assert!(cut.contains("h.gz"), "{cut}");
}

/// Requests of a trace and the warnings about it; `more` are keys of `trace`.
fn traced(content: &str, format: &str, more: &str) -> (Serving, Vec<String>) {
    let trace = format!("trace = {{ file = \"trace\", format = \"{format}\"{more} }}");
    let experiment = Folder::new().with("trace", content).load(&serving(&trace, ""));
    let warnings = experiment.warnings();
    (experiment.as_serving().unwrap().clone(), warnings)
}

// Made up, in the formats of those who publish traces; the first two have the same requests, and the third ten of them, one without an answer.
const AZURE_2024: &str = include_str!("requests/azure-2024.csv");
const BURST_GPT: &str = include_str!("requests/burstgpt.csv");
const NO_ANSWER: &str = include_str!("requests/mooncake-no-answer.jsonl");
const QWEN_BAILIAN: &str = include_str!("requests/qwen-bailian.jsonl");

#[test]
fn public_traces_are_read_as_they_are_published() {
    for (content, format, requests, last_s, block) in [
        (AZURE_2024, "azure", 19, 6.821_747 - 0.089_75, 512),
        (BURST_GPT, "burstgpt", 19, 6.8 - 0.1, 512),
        (QWEN_BAILIAN, "qwen-bailian", 5, 4.25, 16),
    ] {
        let (serving, warnings) = traced(content, format, "");
        assert_eq!(serving.requests.len(), requests, "{format}");
        assert!((serving.requests.last_arrival_s() - last_s).abs() < 1e-6, "{format}");
        assert_eq!(serving.requests.block_tokens(), block, "{format}");
        assert!(warnings.is_empty(), "{format}: {warnings:?}");
    }
    let (azure, burst) = (traced(AZURE_2024, "azure", "").0, traced(BURST_GPT, "burstgpt", "").0);
    let tokens = |serving: &Serving| -> Vec<[u32; 2]> {
        let list = serving.requests.list();
        list.iter().map(|request| [request.input_tokens, request.output_tokens]).collect()
    };
    assert_eq!(tokens(&azure), tokens(&burst), "the same requests in both formats");
    assert_eq!(tokens(&azure)[3], [27_917, 232]);
}

/// Blocks of 16 tokens: two turns of a conversation share what the first one had, and caches are counted in the trace's own blocks.
#[test]
fn prefixes_are_in_blocks_of_the_trace() {
    let trace = r#"trace = { file = "trace", format = "qwen-bailian" }"#;
    let text = serving(trace, "prefix_cache = 1000");
    let serving = Folder::new().with("trace", QWEN_BAILIAN).load(&text).as_serving().unwrap().clone();
    assert_eq!(serving.config.cached_blocks, 1000 / 16);
    let list = serving.requests.list();
    assert_eq!(list[0].prefix[..3], list[1].prefix[..3]);
    let (coarse, _) =
        traced(&NO_ANSWER.replace("[]", "[1]").replace("27917", "100"), "mooncake", ", block = 9324");
    assert_eq!(coarse.requests.block_tokens(), 9324);
    assert_eq!(coarse.requests.list()[0].prefix, [1]);
}

#[test]
fn a_request_without_an_answer_is_left_out_and_said() {
    let (serving, warnings) = traced(NO_ANSWER, "mooncake", "");
    assert_eq!(serving.requests.len(), 9);
    assert!(serving.requests.list().iter().all(|request| request.input_tokens != 9324));
    let expected =
        "1 of 10 requests of `trace` have no prompt or no answer, the first in line 6: they are left out";
    assert_eq!(warnings, [expected]);
    let (first, _) = traced(NO_ANSWER, "mooncake", ", requests = 6");
    assert_eq!(first.requests.len(), 6, "the first six that are served");
}

/// Contradictions in a few lines of a file are a warning; in most of them they are an error (`errors/serving.txt`).
#[test]
fn contradictions_of_a_trace_are_warnings() {
    let line = |at: f64, input: u32, ids: &str| {
        format!(
            "{{\"timestamp\": {at}, \"input_length\": {input}, \"output_length\": 2, \"hash_ids\": {ids}}}\n"
        )
    };
    let good: String = (0..20).map(|index| line(f64::from(index) * 100.0, 600, "[1, 2]")).collect();

    let (serving, warnings) = traced(&(good.clone() + &line(2000.0, 600, "[1, 2, 3]")), "mooncake", "");
    assert_eq!(
        warnings,
        [
            "1 of 21 prompts of `trace` have other numbers of `hash_ids` than of blocks, the first 3 for 600 tokens in line 21: they share no prefix with others"
        ]
    );
    assert!(serving.requests.list()[20].prefix.is_empty() && serving.requests.list()[19].prefix == [1, 2]);
    let (_, warnings) = traced(&(good.clone() + &line(2000.0, 600, "[1]")), "mooncake", "");
    assert!(warnings.is_empty(), "the last block is not whole, and needs no id");

    let (serving, warnings) = traced(&(good.clone() + &line(500.0, 100, "[]")), "mooncake", "");
    assert_eq!(
        warnings,
        [
            "1 of 21 requests of `trace` are recorded as earlier than those above them, the first in line 21, by 1.4 s at the most: they are sorted, and if the file has several recordings, one after the other, they come at the same time"
        ]
    );
    assert_eq!(serving.requests.list()[6].input_tokens, 100);

    let wrong = BURST_GPT.replace(",ChatGPT,743,49,792,", ",ChatGPT,743,49,49,");
    let (_, warnings) = traced(&wrong, "burstgpt", "");
    assert_eq!(
        warnings,
        [
            "1 of 19 requests of `trace` have another sum of tokens than those of prompt and answer, the first 49 for 743 and 49 in line 10: the sum is taken for wrong"
        ]
    );
}

/// Seconds where milliseconds should be are a thousand times the rate, which nobody serves, and the other way round.
#[test]
fn timestamps_in_another_unit_are_noticed() {
    let lines = |step: f64, more: &str| -> String {
        let line = |index| {
            format!(
                "{{\"timestamp\": {}, \"input_length\": 9, \"output_length\": 2{more}}}\n",
                f64::from(index) * step
            )
        };
        (0..21).map(line).collect()
    };
    let seconds = lines(0.25, "");
    let (_, warnings) = traced(&seconds, "mooncake", "");
    assert_eq!(
        warnings,
        [
            "`trace` has 4200.000 requests per second in the mean: if its timestamps are seconds and not milliseconds, `scale` makes up for it, 0.001 times what it is"
        ]
    );
    assert!(traced(&seconds, "mooncake", ", scale = 0.001").1.is_empty());
    assert!(traced(&lines(250.0, ""), "mooncake", ", scale = 1000").1.is_empty(), "fast on purpose");
    let (_, warnings) = traced(&lines(250.0, ", \"chat_id\": 1"), "qwen-bailian", "");
    assert_eq!(
        warnings,
        [
            "`trace` has 0.004 requests per second in the mean: if its timestamps are milliseconds and not seconds, `scale` makes up for it, 1000 times what it is"
        ]
    );
    assert!(traced(&lines(0.25, ", \"chat_id\": 1"), "qwen-bailian", "").1.is_empty());
    let rows = |step: u32| -> String {
        let row = |index: u32| format!("{},472,18\n", index * step);
        "Timestamp,Request tokens,Response tokens\n".to_owned() + &(0..6).map(row).collect::<String>()
    };
    assert_eq!(traced(&rows(350), "burstgpt", "").1.len(), 1, "as milliseconds would be");
    assert!(traced(&rows(90), "burstgpt", "").1.is_empty(), "as slow as its first rows");
}

/// A model on two instances of eight GPUs that read 2.7 TB/s each; `more` are lines of `[workload]`.
fn eight(model: &str, memory: &str, more: &str) -> String {
    format!(
        r#"name = "test"
cluster = {{ preset = "h100-8x", nodes = 2{memory} }}
compute = {{ dense = "400 TFLOP/s", memory = "2.7 TB/s" }}

[workload]
kind = "serving"
model = "{model}"
prefill = {{ instances = 1, tensor_parallel = 8, kv_memory = "20 GB" }}
decode = {{ instances = 1, tensor_parallel = 8, kv_memory = "20 GB" }}
requests = [{{ at = "0 s", input = 128, output = 16 }}]
{more}
"#
    )
}

/// DeepSeek-V3: 671 billion parameters, of which 58 layers of 256 experts have 654, and every token goes to eight of them. All else is read always.
#[test]
fn a_step_reads_the_experts_that_its_tokens_choose() {
    let compute = |more: &str| {
        let text = eight("deepseek-v3", r#", gpu_memory = "200 GB""#, more);
        Folder::new().load(&text).as_serving().unwrap().compute
    };
    let decode = compute("").decode;
    let step_ms =
        |sequences: u32| 1e3 * (decode.seconds(sequences, 0) - f64::from(sequences) * decode.sequence_s);
    // 17.1 + 653.9 x (1 - (31/32)^n) billion parameters of two bytes over 8 x 2.7 TB/s.
    let experts = 58.0 * 256.0 * 3.0 * 7168.0 * 2048.0 / 1e9;
    // Projections of latent attention and its norms, three MLPs, gates and shared experts, embedding, head and the last norm.
    let attention: u64 = 7168 * 1536 + 1536 * 128 * 192 + 7168 * 576 + 512 * 128 * 256 + 128 * 128 * 7168;
    let layers =
        61 * (attention + 1536 + 512 + 2 * 7168) + 3 * 3 * 7168 * 18432 + 58 * 7168 * (256 + 3 * 2048);
    let rest = (layers + 2 * 129_280 * 7168 + 7168) as f64 / 1e9;
    for (sequences, rounded) in [(1, 3.5), (8, 15.2), (64, 54.2), (100_000, 62.1)] {
        let chosen = 1.0 - libm::pow(31.0 / 32.0, f64::from(sequences));
        let expected = (rest + experts * chosen) * 2.0 / 21.6;
        let found = step_ms(sequences);
        assert!((found / expected - 1.0).abs() < 1e-9, "{sequences}: {found}, {expected}");
        assert!((found - rounded).abs() < 0.05, "{sequences}: {found}");
    }
    // In FP8 half of that, and caches, which are BF16, as before.
    let fp8 = compute("weight_dtype = \"F8_E4M3\"").decode;
    assert_eq!(fp8.weights.seconds(8), decode.weights.seconds(8) / 2.0);
    assert_eq!(fp8.context_token_s, decode.context_token_s);
    // Prefill reads what its tokens choose, too: 98 % of the experts for 128 tokens, and their operations take less.
    let prefill = compute("").prefill;
    let expected = (rest + experts * (1.0 - libm::pow(31.0 / 32.0, 128.0))) * 2.0 / 21.6e3;
    assert!((prefill.seconds(&(0..128)) / expected - 1.0).abs() < 1e-9);
    let operations = |tokens: f64| tokens * prefill.token_s + tokens * (tokens + 1.0) / 2.0 * prefill.pair_s;
    assert!((prefill.seconds(&(0..8192)) / operations(8192.0) - 1.0).abs() < 1e-12, "long prompts compute");
}

/// A dense model reads all of its weights in each step, whatever the batch.
#[test]
fn a_dense_model_is_read_whole() {
    let decode = Folder::new().load(&eight("llama3-70b", "", "")).as_serving().unwrap().compute.decode;
    let expected = 70_553_706_496.0 * 2.0 / 21.6e12;
    for sequences in [1, 8, 256] {
        assert_eq!(decode.weights.seconds(sequences), expected);
    }
}

/// Four heads of keys and values on eight GPUs: each holds one, of which there are two copies, and sends its own.
#[test]
fn kv_heads_are_copied_where_there_are_more_gpus() {
    let experiment = Folder::new().load(&eight("qwen3-235b-a22b", "", ""));
    assert!(experiment.warnings().is_empty(), "{:?}", experiment.warnings());
    let serving = experiment.as_serving().unwrap();
    // 94 layers of one head of 128 values of keys and of values, in BF16.
    let rank_bytes = 94 * 2 * 128 * 2;
    assert_eq!(serving.config.decode.kv_tokens, 20_000_000_000 / rank_bytes);
    assert_eq!(serving.shards.bytes(1, 94), 8 * rank_bytes, "twice what the model makes");
    assert_eq!((serving.shards.list().len(), serving.geometry.row_len()), (8, 256));
    assert_eq!(serving.compute.decode.context_token_s, rank_bytes as f64 / 2.7e12);
}

#[test]
fn caches_that_have_no_room_beside_the_weights_are_said() {
    let text = eight("llama3-70b", "", "")
        .replace("kv_memory = \"20 GB\" }\nrequests", "kv_memory = \"70 GB\" }\nrequests");
    let warnings = Folder::new().load(&text).warnings();
    assert_eq!(
        warnings,
        ["`workload.decode.kv_memory` is 70.00 GB, and beside its weights a GPU has room for 67.86 GB"]
    );
}
