//! Dumps of the Flight Recorder: states, coalesced calls, groups, and dumps that are refused.

use serde_json::{Value, json};
use zipwire_profiles::{CollectiveOp, Profile, Timing, merge, read_flight};

use crate::message;
use crate::written::{flight_value, pickle, run};

fn entry(name: &str, seq: u64, created_ns: i64) -> Value {
    json!({"record_id": seq, "pg_id": 0, "process_group": ["0", "default_pg"], "collective_seq_id": seq, "p2p_seq_id": 0,
        "op_id": seq, "profiling_name": name, "time_created_ns": created_ns, "duration_ms": 0.25,
        "input_sizes": [[1000]], "input_dtypes": ["Float"], "output_sizes": [[1000]], "output_dtypes": ["Float"],
        "state": "completed", "time_discovered_started_ns": null, "time_discovered_completed_ns": 9, "retired": true,
        "timeout_ms": 600_000, "is_p2p": false, "frames": [{"name": "f", "filename": "a.py", "line": 3}]})
}

fn with(mut entry: Value, key: &str, value: Value) -> Value {
    entry[key] = value;
    entry
}

fn dump(entries: &[Value]) -> Value {
    json!({"version": "2.10", "pg_config": {"0": {"name": "0", "desc": "default_pg", "ranks": "[4, 5]"}}, "pg_status": {},
        "entries": entries})
}

fn profile(entries: &[Value]) -> Profile {
    let [text, packed] = [dump(entries).to_string().into_bytes(), pickle(&dump(entries))].map(|bytes| {
        let read = read_flight("nccl_trace_rank_1", bytes.as_slice()).expect("it is read");
        merge(vec![read]).expect("it is whole")
    });
    assert_eq!(packed, text, "as a pickle");
    text
}

fn not_used(profile: &Profile) -> Vec<(&str, u64)> {
    profile.not_used.iter().map(|item| (item.what.as_str(), item.count)).collect()
}

#[test]
fn an_entry_is_read_with_all_that_is_known_of_it() {
    let profile = profile(&[entry("nccl:_all_gather_base", 7, 5000)]);
    let op = &profile.ops[0];
    assert_eq!((op.rank, op.seq, op.op), (1, 7, CollectiveOp::AllGather));
    assert_eq!(
        (op.bytes_in, op.bytes_out, op.dtype.as_str(), op.duration_ns),
        (Some(4000), Some(4000), "Float", 250_000)
    );
    let group = &profile.groups[op.group];
    assert_eq!((group.name.as_str(), group.description.as_str()), ("0", "default_pg"));
    assert_eq!((group.size, group.ranks.as_deref()), (Some(2), Some(&[4, 5][..])));
    assert_eq!((profile.timing, profile.is_compute_known, profile.world_size), (Timing::Durations, false, 2));
}

#[test]
fn calls_that_are_not_completed_and_entries_that_send_nothing_are_named() {
    let entries = [
        entry("nccl:all_reduce", 1, 1),
        with(entry("nccl:all_reduce", 2, 2), "state", json!("started")),
        with(entry("nccl:all_reduce", 3, 3), "state", json!("scheduled")),
        with(entry("nccl:all_reduce", 4, 4), "state", json!("scheduled")),
        with(entry("nccl:broadcast", 5, 5), "duration_ms", Value::Null),
        entry("nccl:split", 6, 6),
        entry("gloo:all_reduce", 7, 7),
        entry("nccl:all_reduce_barrier", 8, 8),
        with(entry("nccl:all_reduce", 9, 9), "time_created_ns", json!(-5)),
    ];
    let profile = profile(&entries);
    assert_eq!(
        profile.ops.iter().map(|op| op.op).collect::<Vec<_>>(),
        [CollectiveOp::AllReduce, CollectiveOp::Barrier]
    );
    assert_eq!(
        not_used(&profile),
        [
            ("calls at times that no clock shows", 1),
            ("calls of the backend `gloo`, which leave no GPU", 1),
            ("calls that are not completed, but scheduled", 2),
            ("calls that are not completed, but started", 1),
            ("completed calls without a duration, beside others that have one", 1),
            ("entries of `nccl:split`, which sends nothing that is known", 1),
        ]
    );
}

#[test]
fn without_durations_only_the_order_of_calls_is_known() {
    let entries = [3, 1, 2].map(|seq: i64| {
        let mut entry = entry("nccl:all_reduce", seq as u64, 1000 * seq);
        entry.as_object_mut().unwrap().remove("duration_ms");
        entry
    });
    let profile = profile(&entries);
    assert_eq!(profile.timing, Timing::Issued);
    let rows: Vec<_> = profile.ops.iter().map(|op| (op.seq, op.start_ns, op.duration_ns)).collect();
    assert_eq!(rows, [(1, 0, 0), (2, 1000, 0), (3, 2000, 0)]);
}

#[test]
fn the_cpu_runs_ahead_and_kernels_of_a_group_follow_each_other() {
    let other = with(entry("nccl:all_reduce", 1, 20), "process_group", json!(["1", "data"]));
    let profile = profile(&[entry("nccl:all_reduce", 1, 0), entry("nccl:all_reduce", 2, 10), other]);
    let rows: Vec<_> = profile.ops.iter().map(|op| (op.group, op.start_ns, op.stream)).collect();
    assert_eq!(rows, [(0, 0, 0), (1, 20, 1), (0, 250_000, 0)]);
}

#[test]
fn calls_of_a_coalesced_group_have_its_state_and_time() {
    let part = |name: &str| {
        let part = with(entry(name, 0, 5), "is_p2p", json!(true));
        let part = with(with(part, "p2p_seq_id", json!(3)), "state", json!("scheduled"));
        with(part, "duration_ms", Value::Null)
    };
    let whole = with(with(part("nccl:coalesced"), "state", json!("completed")), "duration_ms", json!(0.5));
    let whole = with(with(whole, "input_sizes", json!([])), "output_sizes", json!([]));
    let pending = with(part("nccl:send 1->0"), "p2p_seq_id", json!(4));
    let profile = profile(&[part("nccl:send 1->0"), part("nccl:recv 1<-0"), whole, pending]);
    let rows: Vec<_> = profile.ops.iter().map(|op| (op.op, op.start_ns, op.duration_ns, op.peer)).collect();
    assert_eq!(rows, [(CollectiveOp::Send, 0, 500_000, Some(4)), (CollectiveOp::Recv, 0, 500_000, Some(4))]);
    assert_eq!(not_used(&profile), [("calls that are not completed, but scheduled", 1)]);
}

#[test]
fn types_that_are_not_known_and_calls_without_tensors_leave_bytes_open() {
    let profile = profile(&[
        with(entry("nccl:all_reduce", 1, 1), "input_dtypes", json!(["Int3"])),
        with(entry("nccl:gather", 2, 2), "output_sizes", json!([])),
        with(
            with(entry("nccl:all_to_all", 3, 3), "input_sizes", json!([[2], [3, 4]])),
            "input_dtypes",
            json!(["Half", "Half"]),
        ),
    ]);
    let bytes: Vec<_> = profile.ops.iter().map(|op| (op.bytes_in, op.bytes_out)).collect();
    assert_eq!(bytes, [(None, Some(4000)), (Some(4000), None), (Some(28), Some(4000))]);
}

/// Written by Python 3.11: `pickle.dumps({"version": "2.4", "entries": [], "pg_config": {"0": {"ranks": "[0, 1]"}}})`.
#[test]
fn pickles_of_python_are_read() {
    let python: &[u8] = b"\x80\x04\x95H\x00\x00\x00\x00\x00\x00\x00}\x94(\x8c\x07version\x94\x8c\x032.4\x94\x8c\x07entries\x94]\x94\x8c\x09pg_config\x94}\x94\x8c\x010\x94}\x94\x8c\x05ranks\x94\x8c\x06[0, 1]\x94ssu.";
    let said = message(merge(vec![read_flight("rank_0", python).unwrap()]));
    assert!(said.contains("no call can be used: there is nothing to import"), "{said}");
}

#[test]
fn pickles_that_run_code_or_grow_without_end_are_refused() {
    let said = message(read_flight("d_0", &b"\x80\x02cos\nsystem\nq\0X\x02\0\0\0ls\x85R."[..]));
    assert!(
        said.starts_with("`d_0`, byte 2: the pickle has Python run code of its own (opcode `c`)"),
        "{said}"
    );
    // Lists that have the list in front of them twice: 2^60 values, if each was held.
    let mut bytes = b"\x80\x02}(X\x07\0\0\0versionX\x03\0\0\x002.4X\x07\0\0\0entries](]q\0".to_vec();
    for _ in 0..60 {
        bytes.extend(b"h\0h\0\x86q\0");
    }
    bytes.extend(b"eu.");
    let said = message(read_flight("d_0", bytes.as_slice()));
    assert!(said.contains("is not as the Flight Recorder writes it"), "{said}");
    // A list of itself.
    let said = message(read_flight(
        "d_0",
        &b"\x80\x02}(X\x07\0\0\0versionX\x03\0\0\x002.4X\x07\0\0\0entries]q\0h\0au."[..],
    ));
    assert!(said.contains("it holds too much"), "{said}");
}

#[test]
fn dumps_that_are_damaged_or_of_another_version_are_refused() {
    let value = dump(&[entry("nccl:all_reduce", 1, 1)]);
    let text = serde_json::to_string_pretty(&value).unwrap();
    let wrong = with(dump(&[]), "version", json!("3.0")).to_string();
    let without = json!({"version": "2.4", "pg_config": {}}).to_string();
    let early = json!({"pg_config": {}, "entries": []}).to_string();
    let number = text.replace("\"Float\"", "7");
    let line = 1 + text[..text.find("\"Float\"").unwrap()].matches('\n').count();
    let at = format!(
        "d_0:{line}: an entry is not as the Flight Recorder writes it: invalid type: integer `7`, expected a string"
    );
    for (bytes, said) in [
        (
            wrong,
            "is a dump of PyTorch's Flight Recorder of version `3.0`, which is not known here: 2.0 to 2.10",
        ),
        (without, "has no `entries`"),
        (early, "has no `version`"),
        (text[..text.len() - 40].to_owned(), "ends in the middle, after "),
        (number, &*at),
        (format!("{text}\n{text}"), "there is something behind the end of the dump"),
        (text.replace("\"pg_status\": {}", "pg: 1"), "a key is no text"),
    ] {
        let message = message(read_flight("d_0", bytes.as_bytes()));
        assert!(message.contains(said), "{said}: {message}");
    }
    let bytes = pickle(&value);
    let said = message(read_flight("d_0", &bytes[..bytes.len() - 9]));
    assert!(said.contains(&format!("byte {}: the pickle ends in the middle", bytes.len() - 9)), "{said}");
}

#[test]
fn ranks_that_do_not_fit_are_refused() {
    let run = run(1);
    let read = |name: &str, rank| read_flight(name, pickle(&flight_value(&run, rank)).as_slice()).unwrap();
    let said = message(merge(vec![read("a_0", 0), read("b_0", 1)]));
    assert!(said.contains("`a_0` and `b_0` are both of rank 0"), "{said}");
    let said = message(merge(vec![read("a_0", 0), read("dump", 1)]));
    assert!(said.contains("`dump` does not say which rank it is of"), "{said}");
    let said = message(merge(vec![read("a_7", 0)]));
    assert!(said.contains("`a_7` is of rank 7, which a job of 4 ranks does not have"), "{said}");
}
