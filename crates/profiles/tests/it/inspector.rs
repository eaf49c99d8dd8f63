//! Logs of NCCL's Inspector: versions, batches, gaps, processes of several GPUs, and logs that are refused.

use serde_json::{Value, json};
use zipwire_profiles::{CollectiveOp, Profile, ProfileError, Timing, merge, place, read_inspector};

use crate::message;
use crate::written::{self, InspectorForm};

fn head(version: &str, id: &str, rank: u32, ranks: u32, pid: u32) -> Value {
    json!({"header": {"id": id, "rank": rank, "n_ranks": ranks, "nnodes": 1},
        "metadata": {"inspector_output_format_version": version, "git_rev": "", "rec_mechanism": "profiler_plugin",
            "dump_timestamp_us": 1, "hostname": "h", "pid": pid}})
}

fn collective(mut head: Value, name: &str, number: u64, us: f64) -> Value {
    head["coll_perf"] = json!({"coll": name, "coll_sn": number, "coll_msg_size_bytes": 65536, "coll_exec_time_us": us,
        "coll_timing_source": "kernel_gpu", "coll_algobw_gbs": 1.0, "coll_busbw_gbs": 1.0});
    head
}

fn text(lines: &[Value]) -> String {
    lines.iter().map(|line| format!("{line}\n")).collect()
}

fn profile(logs: &[String]) -> Result<Profile, ProfileError> {
    let mut all = Vec::new();
    for (index, log) in logs.iter().enumerate() {
        all.extend(read_inspector(&format!("h-pid{index}.log"), log.as_bytes())?);
    }
    merge(place(all)?)
}

fn not_used(profile: &Profile) -> Vec<(&str, u64)> {
    profile.not_used.iter().map(|item| (item.what.as_str(), item.count)).collect()
}

#[test]
fn sizes_are_those_of_a_part() {
    let lines = ["AllReduce", "AllGather", "ReduceScatter", "Broadcast", "All2All", "AllGatherV"];
    let lines = lines.map(|name| collective(head("v4.0", "0x1", 1, 4, 1), name, 9, 5.5));
    let profile = profile(&[text(&lines)]).unwrap();
    let rows: Vec<_> = profile.ops.iter().map(|op| (op.op, op.bytes_in, op.bytes_out)).collect();
    let (part, all) = (Some(65_536), Some(262_144));
    assert_eq!(
        rows,
        [
            (CollectiveOp::AllReduce, part, part),
            (CollectiveOp::AllGather, part, all),
            (CollectiveOp::ReduceScatter, all, part),
            (CollectiveOp::Broadcast, part, part),
            (CollectiveOp::AllToAll, all, all),
            (CollectiveOp::AllGather, part, all),
        ]
    );
    let first = &profile.ops[0];
    assert_eq!((first.rank, first.duration_ns, profile.world_size), (1, 5500, 4));
    assert_eq!((profile.timing, profile.gpus_per_node), (Timing::Durations, Some(4)));
}

#[test]
fn calls_are_matched_by_number_where_a_rank_has_lost_some() {
    let log = |rank: u32, numbers: &[u64]| {
        let call = |number: &u64| {
            collective(head("v4.1", "0x1", rank, 2, rank), "AllReduce", *number, 10.0 * *number as f64)
        };
        text(&numbers.iter().map(call).collect::<Vec<_>>())
    };
    let profile = profile(&[log(0, &[1, 2, 3, 5]), log(1, &[2, 3, 3, 4])]).unwrap();
    let seen: Vec<_> =
        profile.ops.iter().map(|op| (op.rank, op.duration_ns / 10_000, op.ranks_seen)).collect();
    assert_eq!(seen, [(0, 1, 1), (0, 2, 2), (0, 3, 2), (0, 5, 1), (1, 2, 2), (1, 3, 2), (1, 4, 1)]);
    let gap = "collectives that the log leaves out: numbers between others (small ones, NCCL_INSPECTOR_DUMP_MIN_SIZE_BYTES)";
    assert_eq!(not_used(&profile), [(gap, 1), ("records of a call that is there already", 1)]);
}

#[test]
fn what_cannot_be_used_is_named() {
    let lines = [
        collective(head("v4.0", "0x1", 0, 2, 1), "AllReduce", 1, 5.0),
        collective(head("v4.0", "0x1", 0, 2, 1), "AllReduce", 2, 0.0),
        collective(head("v4.0", "0x1", 0, 2, 1), "AllReduce", 3, 1e12),
        collective(head("v4.0", "0x1", 0, 2, 1), "Invalid", 4, 5.0),
        head("v4.0", "0x1", 0, 2, 1),
    ];
    let mut lines = lines.to_vec();
    lines[0]["coll_perf"]["coll_timing_source"] = json!("kernel_cpu");
    let mut stats = head("v4.2", "0x1", 0, 2, 1);
    stats["dump_stats"] =
        json!({"coll_records": 1, "coll_dropped_since_last_dump": 3, "p2p_dropped_since_last_dump": 4});
    lines.push(stats);
    let profile = profile(&[text(&lines)]).unwrap();
    assert_eq!(
        not_used(&profile),
        [
            ("calls of `Invalid`", 1),
            ("calls of zero duration", 1),
            ("calls that last longer than 2 hours", 1),
            (
                "calls that the plugin dropped, as its ring was full (NCCL_INSPECTOR_DUMP_COLL_RING_SIZE, ..P2P..)",
                7
            ),
            ("lines without `coll_perf` or `p2p_perf`", 1),
        ]
    );
    assert!(
        profile.notes.iter().any(|note| note.contains("1 durations that the CPU measured (`kernel_cpu`)"))
    );
}

#[test]
fn a_process_of_several_gpus_is_as_many_ranks() {
    let mut lines = Vec::new();
    for rank in 0..4 {
        lines.push(collective(head("v4.0", "0x1", rank, 4, 1), "AllReduce", 1, 5.0 + f64::from(rank)));
        lines.push(collective(head("v4.0", "0x2", rank % 2, 2, 1), "AllGather", u64::from(rank), 5.0));
    }
    let profile = profile(&[text(&lines)]).unwrap();
    let rows: Vec<_> = profile.ops.iter().map(|op| (op.rank, op.duration_ns, op.transfer_ns)).collect();
    assert_eq!(rows, [(0, 5000, 5000), (1, 6000, 5000), (2, 7000, 5000), (3, 8000, 5000)]);
    let what = "calls of communicators of a process of several GPUs, which do not say whose they are";
    assert!(not_used(&profile).contains(&(what, 4)), "{:?}", profile.not_used);
}

#[test]
fn files_of_one_process_are_put_together() {
    let run = written::run(2);
    let whole = |rank| String::from_utf8(written::inspector(&run, rank, InspectorForm::Lines)).unwrap();
    let mut logs: Vec<String> = (0..4).map(whole).collect();
    let together = profile(&logs).unwrap();
    let lines: Vec<&str> = logs[0].lines().collect();
    let (first, second) = lines.split_at(11);
    let parts = [first, second].map(|lines| format!("{}\n", lines.join("\n")));
    logs.splice(0..1, parts);
    let apart = profile(&logs).unwrap();
    assert_eq!(apart.ops.len(), together.ops.len());
    assert!(
        apart
            .ops
            .iter()
            .zip(&together.ops)
            .all(|(one, other)| (one.op, one.duration_ns) == (other.op, other.duration_ns))
    );
}

#[test]
fn a_process_outside_the_largest_communicator_is_refused() {
    let log = |id: &str, rank: u32, pid: u32| {
        text(&[collective(head("v4.0", id, rank, 2, pid), "AllReduce", 1, 5.0)])
    };
    let said = message(profile(&[log("0x1", 0, 1), log("0x1", 1, 2), log("0x2", 0, 3)]));
    assert!(
        said.contains("`h-pid2.log` has no call of `0x1`, the largest communicator of all files"),
        "{said}"
    );
}

#[test]
fn batches_that_are_not_whole_are_refused() {
    let run = written::run(1);
    let bytes = String::from_utf8(written::inspector(&run, 0, InspectorForm::Batches)).unwrap();
    let lines: Vec<&str> = bytes.lines().collect();
    let cut = lines[..lines.len() - 1].join("\n") + "\n";
    let said = message(profile(&[cut]));
    assert!(said.starts_with("`h-pid0.log` ends in the middle, after "), "{said}");
    let early = [&lines[..2], &lines[3..]].concat().join("\n");
    let said = message(profile(&[early]));
    assert!(said.contains("a batch begins before the one in front of it is whole"), "{said}");
    let more = [&lines[..2], &lines[1..]].concat().join("\n");
    let said = message(profile(&[more]));
    assert!(said.contains("a line more than the batch has"), "{said}");
    let said = message(profile(&[lines[1..].join("\n")]));
    assert!(said.contains("begins with a line without `header` and `metadata`"), "{said}");
}

#[test]
fn logs_that_are_damaged_or_of_another_version_are_refused() {
    let line = collective(head("v4.0", "0x1", 0, 2, 1), "AllReduce", 1, 5.0).to_string();
    for (bytes, said) in [
        (
            line.replace("v4.0", "v5.1"),
            "is a log of NCCL's Inspector of version `v5.1`, which is not known here: v4.0 to v4.3",
        ),
        (format!("{line}\n{}", &line[..100]), "h-pid0.log:2: the file ends in the middle of this line"),
        (format!("{line}\n\n{}\n", &line[..100]), "h-pid0.log:3: byte 100: EOF while parsing"),
        (format!("{line}\n{}\n", line.replace("65536", "-1")), "h-pid0.log:2: byte "),
        (format!("{line}\n{{\"a\": 1}}\n"), "h-pid0.log:2: a line without `header` and `metadata`"),
    ] {
        let message = message(profile(&[bytes]));
        assert!(message.contains(said), "{said}: {message}");
    }
}
