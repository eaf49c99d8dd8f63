//! Execution traces of Chakra: kinds of nodes and attributes, traces without times, JSON, and traces that are refused.

use zipwire_profiles::{CollectiveOp, Profile, Timing, merge, read_chakra};

use crate::message;
use crate::written::{AttributeOf, attribute, chakra, delimited, message as field, number, run, text};

/// A node of a kind, with its times in microseconds and its attributes.
fn node(kind: u64, name: &str, times: (u64, u64), attributes: &[(&str, AttributeOf)]) -> Vec<u8> {
    let mut node = Vec::new();
    number(&mut node, 1, 1);
    text(&mut node, 2, name);
    number(&mut node, 3, kind);
    // Dependencies, and a field that is not known.
    field(&mut node, 5, &[1, 2, 3]);
    number(&mut node, 99, 7);
    number(&mut node, 6, times.0);
    number(&mut node, 7, times.1);
    for (name, value) in attributes {
        field(&mut node, 10, &attribute(name, value));
    }
    delimited(&node)
}

fn trace(nodes: &[Vec<u8>]) -> Vec<u8> {
    [delimited(&[]), nodes.concat()].concat()
}

fn profile(nodes: &[Vec<u8>]) -> Profile {
    let read = read_chakra("t.1.et", trace(nodes).as_slice()).expect("it is read");
    merge(vec![read]).expect("it is whole")
}

fn comm(kind: u64, bytes: u64) -> [(&'static str, AttributeOf); 3] {
    [
        ("comm_type", AttributeOf::Int64(kind)),
        ("comm_size", AttributeOf::Int64(bytes)),
        ("pg_name", AttributeOf::Text("7".to_owned())),
    ]
}

#[test]
fn nodes_are_calls_compute_or_not_used() {
    let cpu = || [("is_cpu_op", AttributeOf::Bool(true))];
    let profile = profile(&[
        node(4, "aten::mm", (5, 9), &cpu()),
        node(4, "gemm", (10, 20), &[("is_cpu_op", AttributeOf::Bool(false))]),
        node(7, "x", (30, 5), &comm(7, 4096)),
        node(7, "x", (40, 5), &comm(8, 4096)),
        node(7, "ncclDevKernel_AllGather_RING_LL", (50, 5), &[]),
        node(7, "mystery", (60, 5), &[]),
        node(5, "x", (70, 5), &[("comm_size", AttributeOf::Int64(100)), ("comm_dst", AttributeOf::Int64(3))]),
        node(2, "load", (80, 5), &[]),
        node(12, "new", (80, 5), &[]),
        node(4, "none", (80, 0), &[]),
    ]);
    let rows: Vec<_> =
        profile.ops.iter().map(|op| (op.op, op.bytes_in, op.peer, op.start_ns / 1000)).collect();
    assert_eq!(
        rows,
        [
            (CollectiveOp::ReduceScatter, Some(4096), None, 20),
            (CollectiveOp::ReduceScatter, Some(4096), None, 30),
            (CollectiveOp::AllGather, None, None, 40),
            (CollectiveOp::Send, Some(100), Some(3), 60),
        ]
    );
    assert_eq!(
        (profile.ranks[0].rank, profile.ranks[0].compute_ns, profile.timing),
        (1, 20_000, Timing::Kernels)
    );
    let names: Vec<_> = profile.groups.iter().map(|group| group.name.as_str()).collect();
    assert_eq!(names, ["7", "all ranks"]);
    let not_used: Vec<_> = profile.not_used.iter().map(|item| (item.what.as_str(), item.count)).collect();
    assert_eq!(
        not_used,
        [
            ("nodes of a type that is not known", 1),
            ("nodes of communication whose operation is not said", 1),
            ("nodes of compute without a duration", 1),
            ("nodes of memory and storage", 1),
            ("nodes of the CPU", 1),
        ]
    );
}

#[test]
fn times_mean_what_all_calls_have() {
    let made_up = profile(&[node(7, "a", (0, 0), &comm(0, 8)), node(7, "b", (0, 0), &comm(2, 8))]);
    assert_eq!(made_up.timing, Timing::Order);
    assert_eq!(
        made_up.ops.iter().map(|op| op.op).collect::<Vec<_>>(),
        [CollectiveOp::AllReduce, CollectiveOp::AllGather]
    );
    let issued = profile(&[node(7, "a", (9, 0), &comm(0, 8)), node(7, "b", (5, 0), &comm(2, 8))]);
    assert_eq!((issued.timing, issued.ops[0].op), (Timing::Issued, CollectiveOp::AllGather));
    // Compute between two calls is between them also when nothing says when they begin.
    let durations =
        [node(7, "a", (0, 3), &comm(0, 8)), node(4, "gemm", (0, 10), &[]), node(7, "b", (0, 4), &comm(2, 8))];
    let durations = profile(&durations);
    let rows: Vec<_> =
        durations.ops.iter().map(|op| (op.start_ns, op.duration_ns, op.compute_before_ns)).collect();
    assert_eq!((durations.timing, durations.is_compute_known), (Timing::Durations, true));
    assert_eq!(rows, [(0, 3000, 0), (13_000, 4000, 10_000)]);
}

#[test]
fn json_that_chakra_prints_of_nodes_is_read() {
    let text = r###"{
  "version": "0.0.4"
}{
  "id": "1", "name": "## process_group:init ##", "type": "METADATA_NODE",
  "inputs": {"values": "['[{\"pg_name\": \"7\", \"pg_desc\": \"tp\", \"pg_size\": 2, \"ranks\": [0, 1]}]']"}
}{
  "id": "2", "name": "gemm", "type": "COMP_NODE", "startTimeMicros": "10", "durationMicros": "20",
  "attr": [{"name": "is_cpu_op", "boolVal": false}]
}{
  "id": "3", "name": "x", "type": "COMM_COLL_NODE", "startTimeMicros": "30", "durationMicros": "5",
  "attr": [{"name": "comm_type", "int64Val": "2"}, {"name": "comm_size", "int64Val": "4096"}, {"name": "pg_name", "stringVal": "7"},
    {"name": "other", "doubleVal": 1.5}]
}"###;
    let profile = merge(vec![read_chakra("t.0.json", text.as_bytes()).unwrap()]).unwrap();
    let op = &profile.ops[0];
    assert_eq!(
        (op.op, op.bytes_in, op.bytes_out, op.duration_ns),
        (CollectiveOp::AllGather, Some(4096), Some(8192), 5000)
    );
    let group = &profile.groups[0];
    assert_eq!((group.description.as_str(), group.ranks.as_deref()), ("tp", Some(&[0, 1][..])));
    assert_eq!(profile.ranks[0].compute_ns, 20_000);
    let said = message(read_chakra("t.0.json", &text.as_bytes()[..text.len() - 9]));
    assert!(said.contains("ends in the middle, after 2 records"), "{said}");
    let said = message(read_chakra("t.0.json", text.replace("\"30\",", "\"30\"").as_bytes()));
    assert!(said.starts_with("t.0.json:") && said.contains("a node is no valid JSON"), "{said}");
}

#[test]
fn traces_that_are_damaged_are_refused_with_their_place() {
    let good = node(7, "x", (1, 1), &comm(0, 8));
    let said = |bytes: &[u8]| message(read_chakra("t.0.et", bytes));
    let text = said(&trace(&[good.clone(), delimited(&[0xff, 0xff])]));
    assert!(
        text.contains(&format!("`t.0.et`, byte {}: a node is no valid message of protobuf", 1 + good.len())),
        "{text}"
    );
    let text = said(&trace(&[good.clone(), vec![0xff; 11]]));
    assert!(text.contains("the length of a node is none"), "{text}");
    let text = said(&trace(&[good.clone(), good[..5].to_vec()]));
    assert!(text.contains("ends in the middle, after 1 records"), "{text}");
    let text = said(&trace(&[]));
    assert!(text.contains("has no nodes"), "{text}");
    let whole = chakra(&run(1), 0);
    let text = said(&whole[..whole.len() - 1]);
    assert!(text.contains("ends in the middle, after "), "{text}");
    let text = message(merge(vec![
        read_chakra("t.0.et", trace(&[node(4, "gemm", (1, 1), &[])]).as_slice()).unwrap(),
    ]));
    assert!(text.contains("no call can be used"), "{text}");
}
