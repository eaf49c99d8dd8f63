//! Traces that are written and parsed again.

use std::collections::{BTreeMap, HashMap};

use rand::RngExt;
use serde_json::Value;
use zipwire_payload::stream;
use zipwire_schedule::{Lane, OpId, Rank, SegmentId, Stage};
use zipwire_timeline::{IterationTime, Link, LinkUsage};

use super::event::CALL;
use super::*;

const RANKS: u32 = 4;

pub(super) fn timeline(spans: Vec<Span>) -> Timeline {
    let segments = ["dispatch", "expert", "combine"].map(Into::into).to_vec();
    Timeline { spans, rank_count: RANKS, segments, ..Timeline::default() }
}

/// The sending end of a transfer of 1000 bytes.
pub(super) fn transfer(rank: u32, peer: u32, begin_s: f64, end_s: f64) -> Span {
    Span {
        iteration: 0,
        segment: SegmentId(0),
        rank: Rank(rank),
        lane: Lane::Tx,
        op: OpId(rank),
        stage: Some(Stage::Static),
        peer: Some(Rank(peer)),
        tag: 0,
        name: "send",
        begin_s,
        end_s,
        bytes: 1000,
        bytes_coded: None,
    }
}

/// Both ends of a transfer from `src` to `dst`.
pub(super) fn both_ends(src: u32, dst: u32, begin_s: f64, end_s: f64) -> [Span; 2] {
    let receive = Span { lane: Lane::Rx, name: "receive", ..transfer(dst, src, begin_s, end_s) };
    [transfer(src, dst, begin_s, end_s), receive]
}

pub(super) fn compute(rank: u32, begin_s: f64, end_s: f64) -> Span {
    Span {
        segment: SegmentId(1),
        lane: Lane::Compute,
        stage: None,
        peer: None,
        tag: 0,
        name: "expert",
        bytes: 0,
        ..transfer(rank, 0, begin_s, end_s)
    }
}

fn encode(rank: u32, begin_s: f64, end_s: f64) -> Span {
    let op = compute(rank, begin_s, end_s);
    Span {
        segment: SegmentId(0),
        lane: Lane::Codec,
        name: "encode",
        bytes: 3000,
        bytes_coded: Some(2000),
        ..op
    }
}

pub(super) fn meta() -> TraceMeta {
    TraceMeta {
        scenario: "quick \"start\"".to_owned(),
        variant: "static-first".to_owned(),
        executor: "sim".to_owned(),
        seed: 7,
        plan_digest: "0123abcd".to_owned(),
        clock: "virtual",
        codec: Some("window7".to_owned()),
    }
}

pub(super) const UNLIMITED: Limit = Limit { bytes: u64::MAX, ranks_per_node: 1 };

fn written(timeline: &Timeline) -> String {
    let mut out = Vec::new();
    assert_eq!(write_chrome(timeline, &meta(), &UNLIMITED, &mut out).unwrap(), None);
    String::from_utf8(out).unwrap()
}

/// Many transfers whose ends differ as real clocks' do, some of no length, some one after the other to the bit.
pub(super) fn busy(seed: u64) -> Timeline {
    let mut rng = stream(seed, "chrome test", [0; 3]);
    let mut spans = Vec::new();
    for iteration in 0..3 {
        let mut last_end_s = 0.0;
        for _ in 0..200 {
            let src = rng.random_range(0..RANKS);
            let dst = (src + rng.random_range(1..RANKS)) % RANKS;
            let touching = rng.random_bool(0.2);
            let begin_s = if touching { last_end_s } else { rng.random_range(0.0..0.09) };
            let length_s = if rng.random_bool(0.1) { 0.0 } else { rng.random_range(0.0..1e-3) };
            let mut ends = both_ends(src, dst, begin_s, begin_s + length_s);
            ends[1].begin_s += rng.random_range(-1e-4..1e-4);
            ends[1].end_s = f64::max(ends[1].begin_s, ends[1].end_s + rng.random_range(-1e-4..1e-4));
            last_end_s = ends[0].end_s;
            spans.extend(ends.map(|span| Span { iteration, ..span }));
        }
    }
    let iterations = [0.0, 0.1, 0.2].map(|begin_s| IterationTime { begin_s, length_s: 0.1 }).to_vec();
    Timeline { iterations, ..timeline(spans) }
}

/// A time in the trace, in nanoseconds; its text has exactly three decimals.
fn ns(event: &Value, key: &str) -> i64 {
    (event[key].as_f64().unwrap() * 1e3).round() as i64
}

fn by_phase(text: &str) -> HashMap<String, Vec<Value>> {
    let mut trace: Value = serde_json::from_str(text).unwrap();
    let mut phases: HashMap<String, Vec<Value>> = HashMap::new();
    for event in trace["traceEvents"].as_array_mut().unwrap() {
        phases.entry(event["ph"].as_str().unwrap().to_owned()).or_default().push(event.take());
    }
    phases
}

#[test]
fn slices_of_a_track_never_overlap() {
    for seed in 0..5 {
        let timeline = busy(seed);
        let phases = by_phase(&written(&timeline));
        let (calls, spans): (Vec<_>, Vec<_>) = phases["X"].iter().partition(|slice| slice["cat"] == CALL);
        assert_eq!(spans.len(), timeline.spans.len(), "no span is lost");
        assert_eq!(calls.len(), 3 * RANKS as usize, "one segment in each of three iterations");
        let mut tracks: BTreeMap<(u64, u64), Vec<(i64, i64)>> = BTreeMap::new();
        for slice in &phases["X"] {
            let (begin, dur) = (ns(slice, "ts"), ns(slice, "dur"));
            let track = (slice["pid"].as_u64().unwrap(), slice["tid"].as_u64().unwrap());
            tracks.entry(track).or_default().push((begin, begin + dur));
        }
        for ((pid, tid), slices) in &tracks {
            for pair in slices.windows(2) {
                assert!(pair[0].1 <= pair[1].0, "seed {seed} rank {pid} track {tid}: {pair:?}");
            }
        }
    }
}

#[test]
fn every_arrow_leads_from_inside_a_send_to_inside_a_receive() {
    for seed in 0..3 {
        let phases = by_phase(&written(&busy(seed)));
        let ends = |phase: &str| -> BTreeMap<u64, &Value> {
            let ends: BTreeMap<_, _> =
                phases[phase].iter().map(|event| (event["id"].as_u64().unwrap(), event)).collect();
            assert_eq!(ends.len(), phases[phase].len(), "ids are unique");
            ends
        };
        let mut slices: HashMap<u64, Vec<&Value>> = HashMap::new();
        for slice in &phases["X"] {
            slices.entry(slice["tid"].as_u64().unwrap()).or_default().push(slice);
        }
        let slice_around = |end: &Value| {
            let around = |slice: &&&Value| (0..ns(slice, "dur")).contains(&(ns(end, "ts") - ns(slice, "ts")));
            let of_track = &slices[&end["tid"].as_u64().unwrap()];
            *of_track.iter().find(around).expect("an arrow is bound to a slice")
        };
        let (starts, finishes) = (ends("s"), ends("f"));
        assert!(starts.keys().eq(finishes.keys()));
        assert!(starts.len() > 300, "most transfers have an arrow: {}", starts.len());
        for (start, finish) in starts.values().zip(finishes.values()) {
            assert!(ns(start, "ts") <= ns(finish, "ts"));
            assert_eq!(finish["bp"], "e");
            let (send, receive) = (slice_around(start), slice_around(finish));
            assert_eq!((&send["pid"], &receive["pid"]), (&start["pid"], &finish["pid"]));
            assert_eq!((&send["name"], &receive["name"]), (&"send static".into(), &"receive static".into()));
            assert_eq!((&send["pid"], &receive["pid"]), (&receive["args"]["peer"], &send["args"]["peer"]));
            assert_eq!(send["args"]["iteration"], receive["args"]["iteration"]);
        }
    }
}

#[test]
fn events_are_in_the_order_of_time() {
    let text = written(&busy(1));
    let trace: Value = serde_json::from_str(&text).unwrap();
    let events = trace["traceEvents"].as_array().unwrap();
    let times: Vec<_> =
        events.iter().filter(|event| event["ph"] != "M").map(|event| ns(event, "ts")).collect();
    assert!(times.is_sorted());
}

#[test]
fn times_have_three_decimals() {
    let text = written(&busy(1));
    for key in ["\"ts\":", "\"dur\":"] {
        for rest in text.split(key).skip(1) {
            let number = &rest[..rest.find(',').unwrap()];
            let (_, decimals) = number.split_once('.').expect("a decimal point");
            assert!(decimals.len() == 3 && decimals.bytes().all(|b| b.is_ascii_digit()), "{number}");
        }
    }
}

#[test]
fn counters_return_to_zero() {
    let phases = by_phase(&written(&busy(2)));
    for rank in 0..RANKS {
        let last = phases["C"].iter().rfind(|event| event["pid"] == rank).expect("every rank sends");
        assert_eq!((&last["name"], &last["args"]["tx"]), (&"bytes in flight".into(), &0.into()));
    }
}

#[test]
fn same_timeline_same_bytes() {
    assert_eq!(written(&busy(3)), written(&busy(3)));
}

#[test]
fn idle_ranks_are_shown() {
    let phases = by_phase(&written(&timeline(vec![])));
    let names: Vec<_> = phases["M"].iter().filter(|event| event["name"] == "process_name").collect();
    assert_eq!(names.len(), 1 + RANKS as usize, "and all of them together");
}

#[test]
fn a_failing_writer_is_an_error() {
    struct Full;
    impl Write for Full {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Err(io::ErrorKind::StorageFull.into())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let error = write_chrome(&busy(1), &meta(), &UNLIMITED, Full).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::StorageFull);
}

/// The whole file: names, arguments, order.
#[test]
fn golden() {
    let exchange = Span { lane: Lane::Exchange, peer: None, name: "exchange", ..transfer(0, 0, 2e-6, 5e-6) };
    let mut spans = vec![encode(0, 0.0, 2e-6), exchange, compute(1, 5e-6, 6.25e-6)];
    spans.extend(both_ends(0, 1, 2e-6, 4e-6));
    spans.extend(both_ends(0, 1, 3e-6, 5e-6).map(|span| Span { tag: 1, ..span }));
    let timeline = Timeline {
        rank_count: 2,
        iterations: vec![IterationTime { begin_s: 0.0, length_s: 6.25e-6 }],
        ..timeline(spans)
    };
    insta::assert_snapshot!(written(&timeline), @r#"
    {"displayTimeUnit":"ns","traceEvents":[
    {"ph":"M","name":"process_name","pid":13,"args":{"name":"all ranks"}},
    {"ph":"M","name":"process_sort_index","pid":13,"args":{"sort_index":-1}},
    {"ph":"M","name":"process_name","pid":0,"args":{"name":"rank 0"}},
    {"ph":"M","name":"process_sort_index","pid":0,"args":{"sort_index":0}},
    {"ph":"M","name":"process_name","pid":1,"args":{"name":"rank 1"}},
    {"ph":"M","name":"process_sort_index","pid":1,"args":{"sort_index":1}},
    {"ph":"M","name":"thread_name","pid":0,"tid":2,"args":{"name":"calls"}},
    {"ph":"M","name":"thread_sort_index","pid":0,"tid":2,"args":{"sort_index":2}},
    {"ph":"M","name":"thread_name","pid":0,"tid":3,"args":{"name":"codec"}},
    {"ph":"M","name":"thread_sort_index","pid":0,"tid":3,"args":{"sort_index":3}},
    {"ph":"M","name":"thread_name","pid":0,"tid":4,"args":{"name":"exchange"}},
    {"ph":"M","name":"thread_sort_index","pid":0,"tid":4,"args":{"sort_index":4}},
    {"ph":"M","name":"thread_name","pid":0,"tid":5,"args":{"name":"tx"}},
    {"ph":"M","name":"thread_sort_index","pid":0,"tid":5,"args":{"sort_index":5}},
    {"ph":"M","name":"thread_name","pid":0,"tid":6,"args":{"name":"tx 2"}},
    {"ph":"M","name":"thread_sort_index","pid":0,"tid":6,"args":{"sort_index":6}},
    {"ph":"M","name":"thread_name","pid":1,"tid":7,"args":{"name":"calls"}},
    {"ph":"M","name":"thread_sort_index","pid":1,"tid":7,"args":{"sort_index":7}},
    {"ph":"M","name":"thread_name","pid":1,"tid":8,"args":{"name":"compute"}},
    {"ph":"M","name":"thread_sort_index","pid":1,"tid":8,"args":{"sort_index":8}},
    {"ph":"M","name":"thread_name","pid":1,"tid":9,"args":{"name":"rx"}},
    {"ph":"M","name":"thread_sort_index","pid":1,"tid":9,"args":{"sort_index":9}},
    {"ph":"M","name":"thread_name","pid":1,"tid":10,"args":{"name":"rx 2"}},
    {"ph":"M","name":"thread_sort_index","pid":1,"tid":10,"args":{"sort_index":10}},
    {"ph":"b","id":0,"pid":13,"ts":0.000,"cat":"iteration","name":"iteration","args":{"iteration":0}},
    {"ph":"X","pid":0,"tid":2,"ts":0.000,"dur":5.000,"cat":"call","name":"dispatch","args":{"iteration":0}},
    {"ph":"X","pid":0,"tid":3,"ts":0.000,"dur":2.000,"cat":"codec","name":"encode","args":{"iteration":0,"segment":"dispatch","op":0,"bytes":3000,"bytes_coded":2000,"ratio":1.5,"codec":"window7"}},
    {"ph":"C","pid":13,"ts":0.000,"name":"ranks in codec","args":{"of 2":1}},
    {"ph":"X","pid":1,"tid":7,"ts":2.000,"dur":3.000,"cat":"call","name":"dispatch","args":{"iteration":0}},
    {"ph":"X","pid":0,"tid":5,"ts":2.000,"dur":2.000,"cat":"tx","name":"send static","args":{"iteration":0,"segment":"dispatch","op":0,"stage":"static","peer":1,"bytes":1000}},
    {"ph":"X","pid":1,"tid":9,"ts":2.000,"dur":2.000,"cat":"rx","name":"receive static","args":{"iteration":0,"segment":"dispatch","op":1,"stage":"static","peer":0,"bytes":1000}},
    {"ph":"X","pid":0,"tid":4,"ts":2.000,"dur":3.000,"cat":"exchange","name":"exchange static","args":{"iteration":0,"segment":"dispatch","op":0,"stage":"static","bytes":1000}},
    {"ph":"s","id":0,"pid":0,"tid":5,"ts":2.000,"cat":"transfer","name":"transfer"},
    {"ph":"C","pid":0,"ts":2.000,"name":"bytes in flight","args":{"tx":1000}},
    {"ph":"C","pid":13,"ts":2.000,"name":"ranks in codec","args":{"of 2":0}},
    {"ph":"C","pid":13,"ts":2.000,"name":"ranks receiving","args":{"of 2":1}},
    {"ph":"C","pid":13,"ts":2.000,"name":"ranks sending","args":{"of 2":1}},
    {"ph":"X","pid":0,"tid":6,"ts":3.000,"dur":2.000,"cat":"tx","name":"send static","args":{"iteration":0,"segment":"dispatch","op":0,"stage":"static","peer":1,"tag":1,"bytes":1000}},
    {"ph":"X","pid":1,"tid":10,"ts":3.000,"dur":2.000,"cat":"rx","name":"receive static","args":{"iteration":0,"segment":"dispatch","op":1,"stage":"static","peer":0,"tag":1,"bytes":1000}},
    {"ph":"s","id":1,"pid":0,"tid":6,"ts":3.000,"cat":"transfer","name":"transfer"},
    {"ph":"C","pid":0,"ts":3.000,"name":"bytes in flight","args":{"tx":2000}},
    {"ph":"f","bp":"e","id":0,"pid":1,"tid":9,"ts":3.999,"cat":"transfer","name":"transfer"},
    {"ph":"C","pid":0,"ts":4.000,"name":"bytes in flight","args":{"tx":1000}},
    {"ph":"f","bp":"e","id":1,"pid":1,"tid":10,"ts":4.999,"cat":"transfer","name":"transfer"},
    {"ph":"X","pid":1,"tid":7,"ts":5.000,"dur":1.250,"cat":"call","name":"expert","args":{"iteration":0}},
    {"ph":"X","pid":1,"tid":8,"ts":5.000,"dur":1.250,"cat":"compute","name":"expert","args":{"iteration":0,"segment":"expert","op":1}},
    {"ph":"C","pid":0,"ts":5.000,"name":"bytes in flight","args":{"tx":0}},
    {"ph":"C","pid":13,"ts":5.000,"name":"ranks in compute","args":{"of 2":1}},
    {"ph":"C","pid":13,"ts":5.000,"name":"ranks receiving","args":{"of 2":0}},
    {"ph":"C","pid":13,"ts":5.000,"name":"ranks sending","args":{"of 2":0}},
    {"ph":"e","id":0,"pid":13,"ts":6.250,"cat":"iteration","name":"iteration"},
    {"ph":"C","pid":13,"ts":6.250,"name":"ranks in compute","args":{"of 2":0}}
    ],"otherData":{"scenario":"quick \"start\"","variant":"static-first","executor":"sim","seed":7,"plan_digest":"0123abcd","clock":"virtual","codec":"window7"}}
    "#);
}

/// The counters of links have a process of their own, behind the ranks, and their own place in `otherData`.
#[test]
fn links_in_use_are_counters_below_the_ranks() {
    let link = |name: &str| Link { name: name.to_owned(), bytes_per_s: 25e9, is_of_gpu: false };
    let mut usage = LinkUsage::new(vec![link("nic 0 up"), link("nic 1 up")]);
    usage.add(1e-6, &[12.5e9, 0.0]);
    usage.add(2e-6, &[0.0, 0.0]);
    let timeline = Timeline { link_usage: Some(usage), ..timeline(both_ends(0, 1, 1e-6, 2e-6).into()) };
    let text = written(&timeline);
    let phases = by_phase(&text);
    let process = phases["M"].iter().find(|event| event["args"]["name"] == "links").expect("a process");
    let pid = process["pid"].as_u64().unwrap();
    let ids = phases["M"].iter().filter_map(|event| event["tid"].as_u64());
    assert!(pid >= u64::from(RANKS) && !ids.collect::<Vec<_>>().contains(&pid), "an id that nobody has");
    let counters: Vec<_> = phases["C"].iter().filter(|event| event["pid"] == pid).collect();
    let shown =
        counters.iter().map(|event| (ns(event, "ts"), &event["name"], &event["args"]["% of 25 GB/s"]));
    let name = Value::from("nic 0 up");
    assert_eq!(shown.collect::<Vec<_>>(), [(1000, &name, &50.0.into()), (2000, &name, &0.0.into())]);
    let trace: Value = serde_json::from_str(&text).unwrap();
    let links = &trace["otherData"]["links"];
    assert_eq!((&links["busy"], &links["drawn"], &links["samples"]), (&1.into(), &1.into(), &2.into()));
}
