//! What a user sees when the scenario file is wrong: whole messages.

mod common;

use common::{Folder, error, flat, valid_with};
use insta::assert_snapshot;

#[test]
fn the_scenario_itself_is_fine() {
    Folder::new().load(common::VALID);
}

#[test]
fn syntax() {
    assert_snapshot!(error("name = \"x\"\n[cluster\n", &[]), @"");
    assert_snapshot!(error(&valid_with("nodes = 2", "nodes = 2\nnodes = 3"), &[]), @"");
}

#[test]
fn unknown_keys() {
    assert_snapshot!(error(&valid_with("nic_bandwidth", "nic_bandwith"), &[]), @"");
    assert_snapshot!(error(&valid_with("[workload]", "[work]"), &[]), @"");
    assert_snapshot!(error(&valid_with("hidden = 256", "hidden = 256, layers = 4"), &[]), @"");
}

#[test]
fn missing_keys() {
    assert_snapshot!(error(&valid_with("latency_inter = \"10 us\"\n", ""), &[]), @"");
    assert_snapshot!(error(&valid_with("name = \"test\"", ""), &[]), @"");
    assert_snapshot!(error(&valid_with("kind = \"moe\"", ""), &[]), @"");
}

#[test]
fn units() {
    assert_snapshot!(error(&valid_with("\"5 us\"", "5"), &[]), @"");
    assert_snapshot!(error(&valid_with("\"5 us\"", "\"5\""), &[]), @"");
    assert_snapshot!(error(&valid_with("\"25 GB/s\"", "\"25 Gbit/s\""), &[]), @"");
    assert_snapshot!(error(&valid_with("\"25 GB/s\"", "\"25 us\""), &[]), @"");
    assert_snapshot!(error(&valid_with("\"25 GB/s\"", "\"fast\""), &[]), @"");
}

#[test]
fn numbers_out_of_range() {
    assert_snapshot!(error(&valid_with("nodes = 2", "nodes = 0"), &[]), @"");
    assert_snapshot!(error(&valid_with("nodes = 2", "nodes = -1"), &[]), @"");
    assert_snapshot!(error(&valid_with("nodes = 2", "nodes = 2.0"), &[]), @"");
    assert_snapshot!(error(&valid_with("nodes = 2", "nodes = 16384"), &[]), @"");
    assert_snapshot!(error(&valid_with("\"25 GB/s\"", "\"0 GB/s\""), &[]), @"");
    assert_snapshot!(error(&valid_with("\"5 us\"", "\"-5 us\""), &[]), @"");
    assert_snapshot!(error(&valid_with("0.02", "nan"), &[]), @"");
    assert_snapshot!(error(&valid_with("name = \"test\"", "name = \"test\"\niterations = 0"), &[]), @"");
}

#[test]
fn one_rank_has_nobody_to_talk_to() {
    let text = flat("kind = \"collective\"\n").replace("gpus_per_node = 4", "gpus_per_node = 1");
    assert_snapshot!(error(&text, &[]), @"");
}

#[test]
fn names() {
    assert_snapshot!(error(&valid_with("kind = \"moe\"", "kind = \"fsdp\""), &[]), @"");
    assert_snapshot!(error(&valid_with("protocol = \"static-first\"", "protocol = \"static-frist\""), &[]), @"");
    assert_snapshot!(error(&valid_with("name = \"native\"", "name = \"native\"\norder = \"largest-first\""), &[]), @"");
    assert_snapshot!(error(&valid_with("name = \"test\"", "name = \"../test\""), &[]), @"");
    assert_snapshot!(error(&valid_with("\"uniform\"", "\"even\""), &[]), @"");
    assert_snapshot!(error(&valid_with("{ experts = 8, top_k = 2, hidden = 256, tokens_per_rank = 64 }", "\"deepseek\""), &[]), @"");
}

#[test]
fn variants() {
    assert_snapshot!(error(&valid_with("name = \"static-first\"", "name = \"native\""), &[]), @"");
    assert_snapshot!(error(&valid_with("protocol = \"static-first\"", "window = 4"), &[]), @"");
    assert_snapshot!(error(&valid_with("protocol = \"static-first\"", "window = 0"), &[]), @"");
}

#[test]
fn top_k() {
    assert_snapshot!(error(&valid_with("top_k = 2", "top_k = 9"), &[]), @"");
}

#[test]
fn codec() {
    let start = common::VALID.find("[codec]").unwrap();
    let end = common::VALID.find("[[variant]]").unwrap();
    assert_snapshot!(error(&common::VALID.replace(&common::VALID[start..end], ""), &[]), @"");
    assert_snapshot!(error(&valid_with("payload = { gaussian = 0.02 }\n", ""), &[]), @"");
    assert_snapshot!(error(&valid_with("id = \"window7\"", "id = \"window\""), &[]), @"");
    assert_snapshot!(error(&valid_with("speed", "ratio = 0\nspeed"), &[]), @"");
}

#[test]
fn choices_that_exclude_each_other() {
    assert_snapshot!(error(&valid_with("\"uniform\"", "{ zipf = 1.0, dirichlet = 2 }"), &[]), @"");
    assert_snapshot!(error(&valid_with("\"uniform\"", "{ layer = 2 }"), &[]), @"");
    assert_snapshot!(error(&valid_with("\"uniform\"", "{ zipf = 1.0, layer = 2 }"), &[]), @"");
    let text = flat("kind = \"transfers\"\nflows = []\n[compute]\nexpert = \"1 ms\"");
    assert_snapshot!(error(&text, &[]), @"");
}

#[test]
fn collectives() {
    let collective =
        |rest: &str| flat(&format!("kind = \"collective\"\ncollective = \"all-to-all\"\n{rest}"));
    assert_snapshot!(error(&collective("bytes_per_rank = \"7 B\""), &[]), @"");
    assert_snapshot!(error(&collective("bytes_per_rank = \"1 KiB\"\nstart = [\"0 us\", \"3 ms\"]"), &[]), @"");
    let rows = "matrix = [\n  [0, 2, 4, 6],\n  [2, 0, 3, 2],\n  [2, 2, 0, 2],\n  [2, 2, 2, 0],\n]";
    assert_snapshot!(error(&collective(rows), &[]), @"");
    let coded = "bytes_per_rank = \"1 KiB\"\ndtype = \"F32\"\npayload = { gaussian = 1.0 }";
    assert_snapshot!(error(&collective(coded), &[]), @"");
}

#[test]
fn flows() {
    let flows =
        |flow: &str| flat(&format!("kind = \"transfers\"\nstart = \"rank-ready\"\nflows = [\n{flow}\n]"));
    let good = "  { src = 0, dst = 1, bytes = \"1 KiB\", start = \"2 us\" },\n";
    assert_snapshot!(error(&flows("  { src = 0, dst = 0, bytes = \"1 KiB\" }"), &[]), @"");
    assert_snapshot!(error(&flows("  { src = 0, dst = 4, bytes = \"1 KiB\" }"), &[]), @"");
    assert_snapshot!(error(&flows(&format!("{good}  {{ src = 0, dst = 2, bytes = \"1 KiB\" }}")), &[]), @"");
    let coded = flows(good) + "[[variant]]\nname = \"a\"\nprotocol = \"size-first\"";
    assert_snapshot!(error(&coded, &[]), @"");
}
