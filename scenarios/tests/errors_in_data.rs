//! What a user sees when a file that the scenario names is missing or wrong: whole messages.

mod common;

use common::{Folder, flat, routing_record, safetensors, valid_with};
use insta::assert_snapshot;

const SHARES: [u64; 8] = [5, 1, 1, 1, 2, 2, 2, 2];

fn routing(table: &str) -> String {
    valid_with("\"uniform\"", table)
}

#[test]
fn routing_file_is_missing() {
    assert_snapshot!(Folder::new().error(&routing("{ matrix = \"r.jsonl\", layer = 2 }"), &[]), @"");
}

#[test]
fn no_record_has_the_ranks() {
    let records =
        routing_record(10, 2, 8, "domain", &SHARES) + &routing_record(10, 3, 16, "shuffled", &SHARES);
    let folder = Folder::new().with("r.jsonl", records);
    assert_snapshot!(folder.error(&routing("{ matrix = \"r.jsonl\", layer = 2 }"), &[]), @"");
}

#[test]
fn several_records_fit() {
    let records = routing_record(10, 2, 4, "domain", &SHARES) + &routing_record(20, 2, 4, "domain", &SHARES);
    let folder = Folder::new().with("r.jsonl", records);
    assert_snapshot!(folder.error(&routing("{ matrix = \"r.jsonl\", layer = 2 }"), &[]), @"");
}

#[test]
fn record_of_another_model() {
    let folder = Folder::new().with("r.jsonl", routing_record(10, 2, 4, "domain", &SHARES[..4]));
    assert_snapshot!(folder.error(&routing("{ matrix = \"r.jsonl\" }"), &[]), @"");
    let folder = Folder::new().with("t.csv", "step,layer,e0,e1\n0,0,3,4\n");
    assert_snapshot!(folder.error(&routing("{ trace = \"t.csv\", step = 0 }"), &[]), @"");
}

#[test]
fn record_without_tokens() {
    let folder = Folder::new().with("t.csv", "step,layer,e0,e1,e2,e3,e4,e5,e6,e7\n0,0,0,0,0,0,0,0,0,0\n");
    assert_snapshot!(folder.error(&routing("{ trace = \"t.csv\", step = 0 }"), &[]), @"");
}

#[test]
fn payload_files() {
    let payload = "payload = { file = \"a.safetensors\", dispatch = \"x\", combine = \"x\" }";
    let text = valid_with("payload = { gaussian = 0.02 }", payload);
    assert_snapshot!(Folder::new().error(&text, &[]), @"");
    let good = safetensors("x", "BF16", 2);
    Folder::new().with("a.safetensors", &good).load(&text);
    let folder = Folder::new().with("a.safetensors", safetensors("x", "F32", 4));
    assert_snapshot!(folder.error(&text, &[]), @"");
    let folder = Folder::new().with("a.safetensors", &good[..good.len() - 3]);
    assert_snapshot!(folder.error(&text, &[]), @"");
    let folder = Folder::new().with("a.safetensors", safetensors("xs", "BF16", 2));
    assert_snapshot!(folder.error(&text, &[]), @"");
    let folder = Folder::new().with("a.safetensors", "no tensors");
    assert_snapshot!(folder.error(&text, &[]), @"");
    assert_snapshot!(folder.error(&text, &["workload.payload={ file = \"a.safetensors\", dispatch = \"x\" }"]), @"");
}

#[test]
fn flow_files() {
    let text = flat("kind = \"transfers\"\nfile = \"f.csv\"\nstart = \"rank-ready\"");
    let error = |csv: &str| Folder::new().with("f.csv", csv).error(&text, &[]);
    assert_snapshot!(Folder::new().error(&text, &[]), @"");
    assert_snapshot!(error(""), @"");
    assert_snapshot!(error("src,dst,size,start_us\n0,1,5,0\n"), @"");
    assert_snapshot!(error("src,dst,bytes,start_us\n0,1,5,0\n\n0, 1.5 ,5,0\n"), @"");
    assert_snapshot!(error("src,dst,bytes,start_us\r\n0,1,5,0\r\n0,4,5,0\r\n"), @"");
    assert_snapshot!(error("src,dst,bytes,start_us\n1,1,5,0\n"), @"");
    assert_snapshot!(error("src,dst,bytes,start_us\n0,1,-5,0\n"), @"");
    assert_snapshot!(error("src,dst,bytes,start_us\n0,1,5,nan\n"), @"");
    assert_snapshot!(error("src,dst,bytes,start_us\n0,1,5\n"), @"");
    assert_snapshot!(error("src,dst,bytes,start_us\n0,1,5,1\n0,2,5,2\n"), @"");
}

#[test]
fn matrix_files() {
    let text = flat("kind = \"collective\"\ncollective = \"all-to-all\"\nmatrix = \"m.csv\"");
    let error = |csv: &str| Folder::new().with("m.csv", csv).error(&text, &[]);
    assert_snapshot!(error("0,2\n2,0\n"), @"");
    assert_snapshot!(error("0,2,2,2\n2,0,2,2\n2,2,0\n2,2,2,0\n"), @"");
    assert_snapshot!(error("0,2,2,2\n2,0,2,2\n2,2,0,x\n2,2,2,0\n"), @"");
    assert_snapshot!(error("0,2,2,2\n2,0,2,5\n2,2,0,2\n2,2,2,0\n"), @"");
}
