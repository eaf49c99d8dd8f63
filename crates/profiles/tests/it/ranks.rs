//! Ranks of a job together: matching, clocks, transfer times, overlap with compute, and ranks that do not fit.

use serde_json::{Value, json};
use zipwire_profiles::{CollectiveOp, MissingRanks, Profile, ProfileError, merge, summarise};

use crate::{all_reduce, call, compute, message, read, trace, with};

fn ranks(all: &[(u32, &[Value])]) -> Result<Profile, ProfileError> {
    let read = |(rank, events): &(u32, &[Value])| {
        read(&format!("r{rank}.json"), trace(*rank, events)).expect("it is read")
    };
    merge(all.iter().map(read).collect())
}

#[test]
fn waiting_for_a_late_rank_is_not_counted() {
    // Rank 1 comes 30 us late to the first call, rank 0 10 us to the second; both calls move bytes for 20 us.
    let first = [all_reduce(100.0, 50.0), all_reduce(210.0, 20.0)];
    let second = [all_reduce(130.0, 20.0), all_reduce(200.0, 30.0)];
    let profile = ranks(&[(0, &first), (1, &second)]).unwrap();
    let rows: Vec<_> =
        profile.ops.iter().map(|op| (op.rank, op.seq, op.duration_ns, op.transfer_ns)).collect();
    let us = 1000;
    assert_eq!(
        rows,
        [
            (0, 0, 50 * us, 20 * us),
            (0, 1, 20 * us, 20 * us),
            (1, 0, 20 * us, 20 * us),
            (1, 1, 30 * us, 20 * us)
        ]
    );
    assert!(profile.ops.iter().all(|op| op.ranks_seen == 2));
    assert_eq!(profile.ranks.iter().map(|rank| rank.wait_ns).collect::<Vec<_>>(), [30 * us, 10 * us]);
    let sums = summarise(&profile);
    assert_eq!(sums.len(), 1);
    assert_eq!((sums[0].op, sums[0].calls, sums[0].bytes), (CollectiveOp::AllReduce, 2, 2000));
    assert_eq!((sums[0].mean_s, sums[0].algbw_bytes_per_s), (20e-6, Some(50e6)));
}

#[test]
fn a_clock_that_is_three_seconds_ahead_is_taken_out() {
    let ahead = 3e6;
    let first = [all_reduce(100.0, 50.0), all_reduce(210.0, 20.0), all_reduce(300.0, 20.0)];
    // One of the ends is off by 4 us, as ends are.
    let second =
        [all_reduce(ahead + 130.0, 20.0), all_reduce(ahead + 200.0, 30.0), all_reduce(ahead + 300.0, 24.0)];
    let profile = ranks(&[(0, &first), (1, &second)]).unwrap();
    assert_eq!(profile.ranks[1].clock_offset_ns, Some(3_000_000_000));
    assert_eq!(profile.ranks[1].clock_spread_ns, Some(1333));
    let starts: Vec<_> = profile.ops.iter().map(|op| op.start_ns).collect();
    assert_eq!(starts, [0, 110_000, 200_000, 30_000, 100_000, 200_000]);
    let said = "the clock of rank 1 is 3.000000 s ahead of that of the lowest rank";
    assert!(profile.notes.iter().any(|note| note.contains(said)), "{:?}", profile.notes);
}

#[test]
fn steps_that_do_not_fit_together_are_said() {
    let first = [all_reduce(100.0, 50.0), all_reduce(200.0, 20.0)];
    let second = [all_reduce(100.0, 50.0), all_reduce(9e6, 20.0)];
    let profile = ranks(&[(0, &first), (1, &second)]).unwrap();
    assert!(
        profile.notes.iter().any(|note| note.contains("are these the same steps?")),
        "{:?}",
        profile.notes
    );
}

#[test]
fn exposed_communication_is_what_no_compute_covers() {
    // Communication 10-30 and 50-60; compute 0-15, 12-20 (which overlap), 55-70, 80-90.
    let events = [
        all_reduce(10.0, 20.0),
        compute(0.0, 15.0),
        compute(12.0, 8.0),
        all_reduce(50.0, 10.0),
        compute(55.0, 15.0),
        compute(80.0, 10.0),
    ];
    let profile = ranks(&[(0, &events)]).unwrap();
    let rank = &profile.ranks[0];
    let us = 1000;
    assert_eq!((rank.span_ns, rank.communication_ns, rank.compute_ns), (90 * us, 30 * us, 45 * us));
    // 20-30 of the first and 50-55 of the second.
    assert_eq!(rank.exposed_ns, 15 * us);
    let gaps: Vec<_> = profile.ops.iter().map(|op| (op.compute_before_ns, op.compute_beside_ns)).collect();
    assert_eq!(gaps, [(10 * us, 10 * us), (10 * us, 5 * us)]);
    assert_eq!(rank.compute_after_ns, 25 * us);
    assert_eq!(gaps.iter().map(|gap| gap.0).sum::<i64>() + rank.compute_after_ns, rank.compute_ns);
}

#[test]
fn numbers_of_the_library_match_calls_whatever_their_order() {
    let numbered = |ts, dur, seq| with(all_reduce(ts, dur), "/Seq", json!(seq));
    // Rank 1 was profiled one call later.
    let first = [numbered(0.0, 9.0, 4), numbered(20.0, 8.0, 5), numbered(40.0, 7.0, 6)];
    let second = [numbered(25.0, 3.0, 5), numbered(43.0, 4.0, 6)];
    let profile = ranks(&[(0, &first), (1, &second)]).unwrap();
    let rows: Vec<_> =
        profile.ops.iter().map(|op| (op.rank, op.seq, op.transfer_ns, op.ranks_seen)).collect();
    assert_eq!(rows, [(0, 4, 9000, 1), (0, 5, 3000, 2), (0, 6, 4000, 2), (1, 5, 3000, 2), (1, 6, 4000, 2)]);
    assert_eq!(summarise(&profile)[0].calls, 3);
}

#[test]
fn one_rank_without_numbers_makes_all_be_counted_in_order() {
    let first = [with(all_reduce(0.0, 9.0), "/Seq", json!(17))];
    let profile = ranks(&[(0, &first), (1, &[all_reduce(4.0, 5.0)])]).unwrap();
    let rows: Vec<_> = profile.ops.iter().map(|op| (op.seq, op.transfer_ns)).collect();
    assert_eq!(rows, [(0, 5000), (0, 5000)]);
}

#[test]
fn senders_and_receivers_are_matched() {
    let pair = |name: &str, ts, dur| {
        let event = call("ncclDevKernel_SendRecv(x)", name, ts, dur, 10);
        with(with(event, "/Src Rank", json!(0)), "/Dst Rank", json!(1))
    };
    let first = [pair("send", 0.0, 5.0), all_reduce(10.0, 2.0), pair("send", 20.0, 2.0)];
    let second = [all_reduce(10.0, 2.0), pair("recv", 20.0, 9.0)];
    let profile = ranks(&[(0, &first), (1, &second)]).unwrap();
    let rows: Vec<_> = profile.ops.iter().map(|op| (op.op, op.seq, op.transfer_ns, op.ranks_seen)).collect();
    assert_eq!(
        rows,
        [
            (CollectiveOp::Send, 0, 5000, 2),
            (CollectiveOp::AllReduce, 0, 2000, 2),
            (CollectiveOp::Send, 1, 2000, 1),
            (CollectiveOp::AllReduce, 0, 2000, 2),
            (CollectiveOp::Recv, 0, 5000, 2),
        ]
    );
    let calls: Vec<_> = summarise(&profile).iter().map(|sum| (sum.op, sum.calls)).collect();
    assert_eq!(calls, [(CollectiveOp::AllReduce, 1), (CollectiveOp::Send, 2), (CollectiveOp::Recv, 1)]);
}

#[test]
fn calls_that_disagree_are_not_matched() {
    let other = call("ncclDevKernel_AllGather_RING_LL(x)", "_allgather_base", 20.0, 3.0, 5);
    let profile =
        ranks(&[(0, &[all_reduce(0.0, 9.0), all_reduce(20.0, 8.0)]), (1, &[all_reduce(0.0, 5.0), other])]);
    let profile = profile.unwrap();
    let seen: Vec<_> = profile.ops.iter().map(|op| (op.transfer_ns, op.ranks_seen)).collect();
    assert_eq!(seen, [(5000, 2), (8000, 1), (5000, 2), (3000, 1)]);
    assert!(
        profile.notes.iter().any(|note| note.starts_with("1 calls are not matched")),
        "{:?}",
        profile.notes
    );
    let alone = call("ncclDevKernel_AllGather_RING_LL(x)", "_allgather_base", 0.0, 3.0, 5);
    let said = message(ranks(&[(0, &[all_reduce(0.0, 9.0)]), (1, &[alone])]));
    assert!(said.contains("`r0.json` and `r1.json`") && said.contains("no two of them agree"), "{said}");
}

#[test]
fn a_missing_rank_has_a_twin() {
    let profile = ranks(&[(1, &[all_reduce(0.0, 9.0)])]).unwrap();
    assert_eq!((profile.world_size, profile.ranks.len()), (2, 1));
    assert_eq!(profile.ranks_missing, [MissingRanks { from: 0, to: 0, twin: 1 }]);
    assert!(profile.notes.iter().any(|note| note.starts_with("1 of 2 ranks are missing")));
    let eight =
        |rank: u32| trace(rank, &[all_reduce(0.0, 9.0)]).replace("\"world_size\":2", "\"world_size\":8");
    let some = [2, 5].map(|rank| read(&format!("r{rank}"), eight(rank)).unwrap());
    let range = |from, to, twin| MissingRanks { from, to, twin };
    assert_eq!(merge(some.into()).unwrap().ranks_missing, [range(0, 1, 2), range(3, 4, 2), range(6, 7, 5)]);
}

#[test]
fn ranks_come_from_names_where_traces_do_not_say_them() {
    let bare = |events: &[Value]| json!({"traceEvents": events}).to_string();
    let text = bare(&[all_reduce(0.0, 9.0)]);
    let both =
        ["run_rank-1.pt.trace.json.gz", "run_rank-0.pt.trace.json"].map(|name| read(name, &text).unwrap());
    let profile = merge(both.into()).unwrap();
    assert_eq!(profile.ranks.iter().map(|rank| rank.rank).collect::<Vec<_>>(), [0, 1]);
    assert_eq!((profile.world_size, profile.ranks_missing.len()), (2, 0));
    let nameless = ["a.json", "b.json"].map(|name| read(name, &text).unwrap());
    assert!(message(merge(nameless.into())).contains("`a.json` does not say which rank it is of"));
    let said = with(all_reduce(0.0, 9.0), "/Rank", json!(1));
    let profile = merge(vec![read("a.json", bare(&[said])).unwrap()]).unwrap();
    assert_eq!(profile.ranks[0].rank, 1);
}

#[test]
fn ranks_that_are_there_twice_or_of_other_jobs_are_refused() {
    let text = trace(1, &[all_reduce(0.0, 9.0)]);
    let two = || ["a.json", "b.json"].map(|name| read(name, &text).unwrap());
    assert!(message(merge(two().into())).contains("`a.json` and `b.json` are both of rank 1"));
    let other = trace(0, &[all_reduce(0.0, 9.0)]).replace("\"world_size\":2", "\"world_size\":4");
    let said = message(merge(vec![read("a.json", &text).unwrap(), read("c.json", other).unwrap()]));
    assert!(said.contains("`c.json` is of a job of 4 ranks, and `a.json` of one of 2"), "{said}");
    let beyond = trace(9, &[all_reduce(0.0, 9.0)]);
    let said = message(merge(vec![read("d.json", beyond).unwrap()]));
    assert!(said.contains("`d.json` is of rank 9, which a job of 2 ranks does not have"), "{said}");
}

#[test]
fn a_profile_is_the_same_after_writing_and_reading() {
    let profile =
        ranks(&[(0, &[all_reduce(0.0, 9.0), compute(3.0, 1.0)]), (1, &[all_reduce(1.0, 8.0)])]).unwrap();
    let text = serde_json::to_string(&profile).unwrap();
    assert!(text.starts_with(zipwire_profiles::PROFILE_MARK), "{text}");
    assert_eq!(serde_json::from_str::<Profile>(&text).unwrap(), profile);
}
