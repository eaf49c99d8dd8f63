//! Journals of `libzipwire_nccl.so`: bytes by operation, All-to-All in groups, late lines, and journals that are refused.

use zipwire_profiles::{CollectiveOp, Profile, ProfileError, Timing, merge, place, read_shim};

use crate::message;

const START: &str = r#"{"kind":"start","zipwire_nccl":1,"t":1795780068.5,"pid":7,"rank":0,"mode":"stats","codec":"tiered","min_bytes":1,"sample":1000}"#;
const END: &str = r#"{"kind":"end","t":1795780070.5,"ops":{},"lines":3,"lost":0,"samples":0}"#;

/// A call of 100 values of 2 bytes by rank 1 of 4, so many milliseconds after the start; `more` are further fields.
fn call(op: &str, ms: u32, more: &str) -> String {
    format!(
        r#"{{"kind":"op","t":1795780069.{ms:03},"op":"{op}","count":100,"bytes":200,"dtype":"bfloat16","comm":"0a","rank":1,"nranks":4{more},"stream":"0x10","capturing":false,"eligible":true}}"#
    )
}

fn read(lines: &[String]) -> Result<Profile, ProfileError> {
    let text = [&[START.to_owned()], lines, &[END.to_owned()]].concat().join("\n") + "\n";
    merge(place(vec![read_shim("a.jsonl", text.as_bytes())?])?)
}

fn rows(profile: &Profile) -> Vec<(CollectiveOp, Option<u64>, Option<u64>)> {
    profile.ops.iter().map(|op| (op.op, op.bytes_in, op.bytes_out)).collect()
}

#[test]
fn nccl_counts_a_part_of_each_rank() {
    use CollectiveOp::{AllGather, AllReduce, AllToAll, Broadcast, Gather, ReduceScatter, Scatter};
    let names = ["all_reduce", "all_gather", "reduce_scatter", "all_to_all", "bcast", "gather", "scatter"];
    let lines: Vec<String> = names.iter().zip(0..).map(|(name, ms)| call(name, ms, "")).collect();
    let profile = read(&lines).unwrap();
    let (part, all) = (Some(200), Some(800));
    let wanted = [
        (AllReduce, part, part),
        (AllGather, part, all),
        (ReduceScatter, all, part),
        (AllToAll, all, all),
        (Broadcast, part, part),
        (Gather, part, all),
        (Scatter, all, part),
    ];
    assert_eq!(rows(&profile), wanted);
    let op = &profile.ops[1];
    assert_eq!((op.rank, op.start_ns, op.stream, op.dtype.as_str()), (0, 1_000_000, 16, "bfloat16"));
    assert_eq!((profile.timing, profile.world_size, profile.notes.len()), (Timing::Issued, 4, 1));
}

/// Messages of rank 1 of 4 in a group, by peer: values that are sent and received, of 2 bytes.
fn messages(group: u64, peers: &[(u32, u64, u64)]) -> Vec<String> {
    let mut lines = Vec::new();
    for (peer, sent, received) in peers {
        for (op, count) in [("send", sent), ("recv", received)] {
            if *count > 0 {
                let line = call(op, 1, &format!(r#","peer":{peer},"group":{group}"#));
                lines.push(line.replace(
                    "\"count\":100,\"bytes\":200",
                    &format!("\"count\":{count},\"bytes\":{}", 2 * count),
                ));
            }
        }
    }
    lines
}

#[test]
fn messages_of_a_group_to_and_from_all_are_an_all_to_all() {
    let even = messages(1, &[(0, 5, 5), (1, 5, 5), (2, 5, 5), (3, 5, 5)]);
    let uneven = messages(2, &[(0, 1, 4), (1, 2, 2), (2, 3, 0), (3, 0, 1)]);
    let without_itself = messages(3, &[(0, 5, 5), (2, 5, 5), (3, 5, 5)]);
    let profile = read(&[even, uneven, without_itself].concat()).unwrap();
    let splits: Vec<_> = profile
        .ops
        .iter()
        .map(|op| (op.op, op.bytes_in, op.splits_in.as_slice(), op.splits_out.as_slice()))
        .collect();
    assert_eq!(
        splits,
        [
            (CollectiveOp::AllToAll, Some(40), &[][..], &[][..]),
            (CollectiveOp::AllToAll, Some(12), &[2, 4, 6, 0][..], &[8, 4, 0, 2][..]),
            (CollectiveOp::AllToAll, Some(30), &[10, 0, 10, 10][..], &[10, 0, 10, 10][..]),
        ]
    );
}

#[test]
fn other_messages_stay_what_they_are() {
    let pair = messages(1, &[(2, 5, 5)]);
    let single: Vec<String> = messages(0, &[(0, 5, 5), (1, 5, 5), (2, 5, 5), (3, 5, 5)])
        .iter()
        .map(|line| line.replace(r#","group":0"#, ""))
        .collect();
    let profile = read(&[pair, single].concat()).unwrap();
    assert_eq!(profile.ops.len(), 10);
    assert!(profile.ops.iter().all(|op| matches!(op.op, CollectiveOp::Send | CollectiveOp::Recv)));
}

#[test]
fn a_sampled_call_has_its_line_late_and_its_share_with_it() {
    let sampled = call("all_gather", 2, "")
        .replace("}", r#","sample":{"bytes":200,"exponent_bits":2.5,"ratio":0.6526}}"#);
    let sent = call("send", 5, r#","peer":0"#).replace("}", r#","wire_bytes":50,"resent":false}"#);
    let profile = read(&[call("all_reduce", 4, ""), sampled, sent]).unwrap();
    let shares: Vec<_> = profile.ops.iter().map(|op| (op.op, op.coded_share)).collect();
    let wanted = [
        (CollectiveOp::AllGather, Some(0.6526)),
        (CollectiveOp::AllReduce, None),
        (CollectiveOp::Send, Some(0.25)),
    ];
    assert_eq!(shares, wanted);
}

#[test]
fn what_a_journal_lacks_is_named() {
    let text = [
        START.to_owned(),
        r#"{"kind":"comm","t":1795780068.6,"op":"comm_split","comm":"0a","rank":null,"nranks":null,"parent":"0b"}"#.to_owned(),
        call("all_reduce", 1, "").replace("\"capturing\":false", "\"capturing\":true"),
        call("all_reduce", 2, "").replace("\"bytes\":200,\"dtype\":\"bfloat16\"", "\"bytes\":0,\"dtype\":77"),
        r#"{"kind":"new"}"#.to_owned(),
    ];
    let log = read_shim("a.jsonl", (text.join("\n") + "\n").as_bytes()).unwrap();
    let profile = merge(place(vec![log]).unwrap()).unwrap();
    for said in [
        "1 calls that were captured into a CUDA graph",
        "1 calls without bytes",
        "1 journals without a last line",
    ] {
        assert!(profile.notes.iter().any(|note| note.contains(said)), "{said}: {:?}", profile.notes);
    }
    let lost = END.replace("\"lost\":0", "\"lost\":12");
    let text = [START.to_owned(), call("all_reduce", 1, ""), lost].join("\n");
    let profile = merge(place(vec![read_shim("a.jsonl", text.as_bytes()).unwrap()]).unwrap()).unwrap();
    let not_used: Vec<_> = profile.not_used.iter().map(|item| (item.what.as_str(), item.count)).collect();
    assert_eq!(not_used, [("calls of which the journal has no line", 12)]);
}

#[test]
fn ranks_that_journals_do_not_say_are_those_of_the_largest_communicator() {
    let journal = |rank: u32, seat: u32| {
        let start = START.replace("\"rank\":0", "\"rank\":null");
        let call = call("all_reduce", 1, "")
            .replace("\"rank\":1,\"nranks\":4", &format!("\"rank\":{seat},\"nranks\":2"));
        read_shim(&format!("{rank}.jsonl"), [start, call, END.to_owned()].join("\n").as_bytes()).unwrap()
    };
    // A forked child without calls has a journal, too.
    let child = read_shim("child.jsonl", [START, END].join("\n").as_bytes()).unwrap();
    let profile = merge(place(vec![journal(0, 1), child, journal(1, 0)]).unwrap()).unwrap();
    let sources: Vec<_> = profile.ranks.iter().map(|rank| (rank.rank, rank.source.as_str())).collect();
    assert_eq!(sources, [(0, "1.jsonl"), (1, "0.jsonl")]);
    assert_eq!(profile.groups[0].ranks.as_deref(), Some(&[0, 1][..]));
}

#[test]
fn journals_that_are_damaged_or_of_another_version_are_refused() {
    let good = call("all_reduce", 1, "");
    for (text, said) in [
        (
            format!("{}\n{good}\n", START.replace("nccl\":1", "nccl\":2")),
            "of version `2`, which is not known here: 1",
        ),
        (format!("{START}\n{good}\n{START}\n"), "a.jsonl:3: a second trace begins here"),
        (format!("{START}\n{}", &good[..60]), "a.jsonl:2: the file ends in the middle of this line"),
        (format!("{START}\n{}\n", &good[..60]), "a.jsonl:2: byte 60: EOF while parsing"),
        (
            format!("{START}\n{}\n", good.replace("\"t\":", "\"u\":")),
            "a.jsonl:2: a call without its time `t`",
        ),
        (format!("{START}\n{}\n", good.replace("\"count\":100", "\"count\":-1")), "a.jsonl:2: byte "),
        (format!("{good}\n"), "has no first line with `\"kind\":\"start\"`"),
        ("{\"kind\":\"start\"}\n".to_owned(), "a.jsonl:1: a first line without `zipwire_nccl`, the version"),
    ] {
        let message = message(read_shim("a.jsonl", text.as_bytes()));
        assert!(message.contains(said), "{said}: {message}");
    }
    let said = message(read(&[]));
    assert!(said.contains("no call can be used"), "{said}");
}
