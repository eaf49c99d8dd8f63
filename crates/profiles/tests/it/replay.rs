//! Replays of profiles: ranks that are missing, exchanges that are uneven, types that no codec knows, and profiles that do not fit together.

use serde_json::{Value, json};
use zipwire_profiles::{ParseError, Profile, Replay, ReplaySetup, merge};

use crate::{ALL_REDUCE, call, compute, read, with};

/// A call of one of two groups of two ranks, of which rank 0 has the first.
fn exchange(ts: f64, splits: &str, dtype: &str) -> Value {
    let event = call("ncclDevKernel_SendRecv(x)", "all_to_allv", ts, 20.0, 400);
    let event = with(event, "/In split size", json!(splits));
    with(with(event, "/dtype", json!(dtype)), "/Process Group Description", json!("experts"))
}

/// The profile of rank 0 of four.
fn one_of_four(events: &[Value]) -> Profile {
    let text = json!({
        "distributedInfo": {"rank": 0, "world_size": 4,
            "pg_config": [{"pg_name": "0", "pg_desc": "experts", "pg_size": 2, "ranks": [0, 1]}]},
        "traceEvents": events,
    });
    merge(vec![read("rank-0.json", text.to_string()).expect("it is read")]).expect("it is one rank")
}

#[test]
fn uneven_exchanges_of_groups_without_a_rank_are_those_of_their_twins() {
    let events = [
        compute(0.0, 90.0),
        exchange(100.0, "[3, 1]", "Float"),
        compute(130.0, 60.0),
        exchange(200.0, "[1, 3]", "Float"),
    ];
    let replay = Replay::of(&one_of_four(&events), &ReplaySetup::default()).unwrap();
    let splits: Vec<_> =
        replay.calls.iter().map(|call| (call.groups.group(0).first.0, call.splits.clone())).collect();
    // 1600 bytes of four rows; the twin of each rank is rank 0.
    let step = |to: [u64; 2]| Some(vec![to.to_vec(); 2]);
    assert_eq!(splits.len(), 2, "{splits:?}");
    for (first, found) in splits {
        assert!(first == 0 || first == 2);
        assert_eq!(found, step([1200, 400]), "of the first step");
    }
}

#[test]
fn values_that_no_codec_knows_are_a_class_of_their_own() {
    let count = with(call(ALL_REDUCE, "allreduce", 200.0, 20.0, 2), "/dtype", json!("Long"));
    let events =
        [compute(0.0, 90.0), call(ALL_REDUCE, "allreduce", 100.0, 20.0, 400), compute(130.0, 60.0), count];
    let replay = Replay::of(&one_of_four(&events), &ReplaySetup::default()).unwrap();
    let classes: Vec<(&str, bool)> =
        replay.calls.iter().map(|call| (&*call.class, call.codable().is_some())).collect();
    assert_eq!(classes, [("all_reduce default_pg (Long)", false), ("all_reduce default_pg", true)]);
}

#[test]
fn profiles_whose_rows_do_not_fit_together_are_refused() {
    let profile = one_of_four(&[compute(0.0, 90.0), exchange(100.0, "[3, 1]", "Float")]);
    let text = serde_json::to_string(&profile).unwrap();
    assert_eq!(Profile::parse(&text).unwrap(), profile);
    let value: Value = serde_json::from_str(&text).unwrap();
    for (place, wrong, says) in [
        ("/ops/0/group", json!(1), "the group of call 0"),
        ("/ops/0/source", json!(7), "the rank of call 0"),
        ("/ops/0/rank", json!(1), "the rank of call 0"),
        ("/ops/0/peer", json!(4), "the peer of call 0"),
        ("/ops/0/bytes_in", json!(u64::MAX), "a size of call 0"),
        ("/ops/0/start_ns", json!(i64::MAX), "a time of call 0"),
        ("/ops/0/duration_ns", json!(-1), "a time of call 0"),
        ("/groups/0/ranks", json!([]), "the list of ranks of group 0"),
        ("/groups/0/ranks", json!([1, 0]), "the list of ranks of group 0"),
        ("/groups/0/size", json!(0), "the list of ranks of group 0"),
        ("/world_size", json!(4_000_000_000_u32), "the number of ranks of job 0"),
        ("/ranks/0/rank", json!(4), "the number of rank 0"),
        ("/ranks_missing/0/twin", json!(3), "the range or the twin of missing ranks 0"),
    ] {
        let mut damaged = value.clone();
        *damaged.pointer_mut(place).unwrap() = wrong;
        // The mark is the first key of a file.
        damaged.as_object_mut().unwrap().remove("zipwire_profile");
        let text = format!("{{\"zipwire_profile\":2,{}", &damaged.to_string()[1..]);
        let refused = Profile::parse(&text).unwrap_err().to_string();
        assert!(refused.contains(says), "{place}: {refused}");
    }
    let old = text.replacen("\"zipwire_profile\":2", "\"zipwire_profile\":1", 1);
    assert!(matches!(Profile::parse(&old), Err(ParseError::Version { found }) if found == "1"));
    assert!(matches!(Profile::parse("{}"), Err(ParseError::Foreign)));
}
