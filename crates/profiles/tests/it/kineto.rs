//! Single traces: forms that are read, and forms that are refused by name.

use serde_json::{Value, json};
use zipwire_profiles::{CollectiveOp, Profile, merge};

use crate::{ALL_REDUCE, all_reduce, call, compute, gzip, message, read, trace, with};

fn profile(text: impl AsRef<[u8]>) -> Profile {
    merge(vec![read("rank-0.json", text).expect("it is read")]).expect("it is whole")
}

fn not_used(profile: &Profile) -> Vec<(&str, u64)> {
    profile.not_used.iter().map(|item| (item.what.as_str(), item.count)).collect()
}

#[test]
fn a_call_is_read_with_all_that_is_known_of_it() {
    let event = with(all_reduce(10.5, 2.25), "/Seq", json!(7));
    let profile = profile(trace(1, &[event]));
    let op = &profile.ops[0];
    assert_eq!((op.rank, op.seq, op.op, op.stream), (1, 7, CollectiveOp::AllReduce, 40));
    assert_eq!((op.bytes_in, op.bytes_out, op.dtype.as_str()), (Some(1000), Some(1000), "Float"));
    assert_eq!((op.start_ns, op.duration_ns, op.transfer_ns, op.ranks_seen), (0, 2250, 2250, 1));
    let group = &profile.groups[op.group];
    assert_eq!((group.name.as_str(), group.description.as_str()), ("0", "default_pg"));
    assert_eq!((group.size, group.ranks.as_deref()), (Some(2), Some(&[0, 1][..])));
}

#[test]
fn generic_kernels_are_known_by_their_arguments() {
    let split =
        with(call("ncclDevKernel_SendRecv(x)", "all_to_allv", 0.0, 1.0, 6), "/dtype", json!("BFloat16"));
    let split = with(with(split, "/In split size", json!("[1, 2]")), "/Out split size", json!("[3, 0]"));
    let generic = call("ncclDevKernel_Generic_4(x) [clone .kd]", "_reduce_scatter_base", 2.0, 1.0, 4);
    let nameless = json!({"ph": "X", "cat": "kernel", "name": "ncclDevKernel_Generic(x)", "pid": 0, "tid": 40,
        "ts": 9.0, "dur": 1.0, "args": {}});
    let profile = profile(trace(0, &[split, generic, nameless]));
    let ops: Vec<_> = profile.ops.iter().map(|op| op.op).collect();
    assert_eq!(ops, [CollectiveOp::AllToAll, CollectiveOp::ReduceScatter]);
    assert_eq!((&profile.ops[0].splits_in[..], &profile.ops[0].splits_out[..]), (&[1, 2][..], &[3, 0][..]));
    assert_eq!(profile.ops[0].bytes_in, Some(12));
    assert_eq!(not_used(&profile), [("communication kernels whose operation is not said", 1)]);
}

#[test]
fn arguments_that_only_the_cpu_recorded_are_found_by_their_id() {
    let mut recorded = call("record_param_comms", "_allgather_base", 1.0, 1.0, 8);
    recorded["cat"] = json!("cpu_op");
    let recorded = with(recorded, "/External id", json!(5));
    let kernel = json!({"ph": "X", "cat": "Kernel", "name": "ncclKernel_AllGather_RING_LL_Sum_int8_t(x)", "pid": 0,
        "tid": 40, "ts": 9.0, "dur": 1.0, "args": {"External id": 5}});
    let other = with(with(kernel.clone(), "/External id", json!(6)), "ts", json!(20.0));
    // Kernels may stand before the calls that they are of.
    let profile = profile(trace(0, &[kernel, recorded, other]));
    assert_eq!(profile.ops.iter().map(|op| op.bytes_in).collect::<Vec<_>>(), [Some(32), None]);
    assert!(profile.notes.iter().any(|note| note.contains("1 calls without sizes")), "{:?}", profile.notes);
}

#[test]
fn times_that_are_text_large_ids_and_control_characters_are_read() {
    let flow = r#"{"ph":"s","id":99999999999999999999,"cat":"ac2g","name":"ac2g","ts":1,"pid":0,"tid":0}"#;
    let event = with(with(all_reduce(0.0, 0.0), "ts", json!("1711964646123456.789")), "dur", json!("2.5"));
    let kernel = format!("{}", compute(5.0, 1.0)).replace("sm90_gemm", "sm90\u{1}\n_gemm");
    let events = [flow.to_owned(), event.to_string(), kernel].join(",\n");
    let text = format!("\u{feff}{{\"traceEvents\": [{events}], \"junk\": [\"}}\", {{}}]}}");
    let profile = profile(text);
    assert_eq!(profile.ops[0].duration_ns, 2500);
    assert_eq!(profile.ranks[0].compute_ns, 1000);
    for said in ["1 times that are text", "1 names with control characters"] {
        assert!(profile.notes.iter().any(|note| note.contains(said)), "{said}: {:?}", profile.notes);
    }
}

#[test]
fn a_bare_list_of_events_is_a_trace() {
    let text = Value::Array(vec![all_reduce(1.0, 2.0)]).to_string();
    assert_eq!(profile(text).ops.len(), 1);
}

#[test]
fn gzip_of_several_members_is_read_whole() {
    let text = trace(0, &[all_reduce(1.0, 2.0), all_reduce(5.0, 2.0), compute(8.0, 1.0)]);
    let plain = profile(&text);
    assert_eq!(profile(gzip(text.as_bytes())), plain);
    let (first, rest) = text.as_bytes().split_at(text.len() / 2);
    let (second, third) = rest.split_at(10);
    assert_eq!(profile([gzip(first), gzip(second), gzip(third)].concat()), plain);
}

#[test]
fn events_without_a_duration_are_counted_and_never_summed() {
    let zero = |event| with(with(event, "ts", json!(0)), "dur", json!(0));
    let events = [
        zero(all_reduce(0.0, 0.0)),
        zero(compute(0.0, 0.0)),
        all_reduce(10.0, 2.0),
        with(compute(20.0, 1.0), "dur", json!(-1)),
        with(compute(20.0, 1.0), "ts", json!("soon")),
        with(compute(20.0, 1.0), "dur", Value::Null),
        json!({"ph": "X", "cat": "gpu_memcpy", "name": "Memcpy DtoD", "ts": 1, "dur": 1, "args": {}}),
        json!({"ph": "X", "cat": "kernel", "name": "void deep_ep::dispatch(x)", "ts": 1, "dur": 1, "args": {}}),
    ];
    let profile = profile(trace(0, &events));
    assert_eq!((profile.ops.len(), profile.ranks[0].span_ns, profile.ranks[0].compute_ns), (1, 2000, 0));
    assert_eq!(
        not_used(&profile),
        [
            ("communication kernels of zero duration", 1),
            ("compute kernels of negative duration", 1),
            ("compute kernels of no duration", 1),
            ("compute kernels of no time of their begin", 1),
            ("compute kernels of zero duration", 1),
            ("copies and fills of memory", 1),
            ("kernels that communicate without NCCL: DeepEP", 1),
        ]
    );
}

#[test]
fn calls_that_overlap_on_a_stream_are_cut_and_not_summed() {
    // The first goes on into the second; the third begins with the fourth.
    let events =
        [all_reduce(0.0, 100.0), all_reduce(10.0, 5.0), all_reduce(50.0, 5.0), all_reduce(50.0, 7.0)];
    let profile = profile(trace(0, &events));
    let times: Vec<_> = profile.ops.iter().map(|op| (op.start_ns, op.duration_ns)).collect();
    assert_eq!(times, [(0, 10_000), (10_000, 5000), (50_000, 7000)]);
    assert_eq!(profile.ranks[0].communication_ns, 22_000);
    assert_eq!(
        not_used(&profile),
        [("communication kernels that begin when another one of their stream does", 1)]
    );
    assert!(profile.notes.iter().any(|note| note.contains("2 calls that were cut")), "{:?}", profile.notes);
}

#[test]
fn unknown_types_leave_bytes_open_and_are_named() {
    let profile = profile(trace(0, &[with(all_reduce(1.0, 1.0), "/dtype", json!("Int3"))]));
    assert_eq!((profile.ops[0].bytes_in, profile.ops[0].dtype.as_str()), (None, "Int3"));
    assert!(
        profile.notes.iter().any(|note| note.contains("type `Int3` is not known")),
        "{:?}",
        profile.notes
    );
}

#[test]
fn a_trace_that_is_cut_off_is_said_to_be() {
    let text = trace(0, &[compute(1.0, 1.0), all_reduce(1.0, 2.0), all_reduce(5.0, 2.0)]);
    let events = text.find("\"traceEvents\"").unwrap();
    for end in [events + 20, text.len() / 2, text.len() - 1] {
        let message = message(read("r.json", &text[..end]));
        assert!(message.starts_with("r.json:1: the trace ends in the middle"), "{message}");
    }
    let packed = gzip(text.as_bytes());
    let message = message(read("r.json.gz", &packed[..packed.len() / 2]));
    assert!(message.contains("ends in the middle"), "{message}");
}

#[test]
fn broken_json_is_refused_with_its_line() {
    for (text, said) in [
        ("{\"traceEvents\": [\n{\"cat\": \"kernel\" 1}]}", "r.json:2: an event is no valid JSON"),
        ("{\"traceEvents\": [\n\n{} {}]}", "r.json:3: `{` where `,` or the end of the list should be"),
        ("{\"traceEvents\": [{},\n]}", "r.json:2: `]` where a value should be"),
        ("{\"traceEvents\": {}}", "r.json:1: `{` where the list of events should be"),
        ("{\"traceEvents\": []}\nmore", "r.json:2: there is something behind the end"),
        ("{\"baseTimeNanoseconds\": 1.5}", "r.json:1: `baseTimeNanoseconds` is no whole number"),
        ("{\"distributedInfo\": 3}", "r.json:1: `distributedInfo` is not as PyTorch writes it"),
    ] {
        let message = message(read("r.json", text));
        assert!(message.starts_with(said), "{message}");
    }
}

#[test]
fn files_of_other_programs_are_refused_by_name() {
    for (bytes, said) in [
        (&b""[..], "is empty"),
        (b"SQLite format 3\0", "Nsight Systems"),
        (b"PK\x03\x04", "zip archive"),
        (b"\x80\x04\x95", "a pickle"),
        (b"# nccl-tests version 2.19", "does not begin as JSON does"),
        (b"{\"version\":\"2.10\",\"entries\":[]}", "JSON without `traceEvents`"),
        (b"{\"zipwire_profile\":1}", "a profile that zipwire wrote"),
    ] {
        let message = message(read("x", bytes));
        assert!(
            message.contains("`x` is no trace of PyTorch's profiler") && message.contains(said),
            "{message}"
        );
    }
    let message = message(read("x.gz", b"\x1f\x8bnonsense-that-is-no-gzip"));
    assert!(message.starts_with("cannot read `x.gz`: invalid gzip header"), "{message}");
}

#[test]
fn traces_of_several_ranks_in_one_file_are_refused() {
    let other = with(all_reduce(9.0, 1.0), "/device", json!(1));
    let message_of = |text: String| message(read("all.json", text));
    let said = message_of(trace(0, &[all_reduce(1.0, 1.0), other]));
    assert!(said.contains("communication of GPU 1 in a trace that has some of GPU 0"), "{said}");
    let one = trace(0, &[all_reduce(1.0, 1.0)]);
    let said = message_of(format!("{one}\n{one}"));
    assert!(said.starts_with("all.json:2: a second trace begins here"), "{said}");
}

#[test]
fn traces_without_anything_to_import_say_why() {
    let cpu = json!({"ph": "X", "cat": "cpu_op", "name": "aten::mm", "ts": 1, "dur": 1, "args": {}});
    let said = message(read("r.json", trace(0, &[cpu])));
    assert!(said.contains("no kernels of a GPU among its 1 events"), "{said}");
    let said = message(merge(vec![read("r.json", trace(0, &[compute(1.0, 1.0)])).unwrap()]));
    assert!(said.contains("none of the 1 kernels communicates"), "{said}");
    let zero = all_reduce(0.0, 0.0);
    let said = message(merge(vec![read("r.json", trace(0, &[zero])).unwrap()]));
    assert!(said.contains("not used: 1 communication kernels of zero duration"), "{said}");
}

#[test]
fn an_event_of_any_length_that_is_not_wanted_does_no_harm() {
    let long = "x".repeat(1 << 20);
    let note = json!({"ph": "i", "cat": "note", "name": long, "ts": 1});
    let text = trace(0, &[note, call(ALL_REDUCE, "allreduce", 1.0, 1.0, 1)]);
    assert_eq!(profile(text).ops.len(), 1);
}
