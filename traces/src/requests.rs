//! Requests of a run of serving, and what happened to each, as `requests.csv` and as tracks of a Chrome trace; and `transfers.csv`, for flows.

use std::io::{self, BufWriter, Write};

use serde::Serialize;
use serde_json::json;
use zipwire_serving::{Outcome, Record, Requests};

/// The columns. Times are seconds of the run, and those that end in `_s` of a request's own are counted from its arrival.
const HEADER: [&str; 17] = [
    "request",
    "arrival_s",
    "input_tokens",
    "output_tokens",
    "cached_tokens",
    "prefill_instance",
    "decode_instance",
    "prefill_begin_s",
    "prefilled_s",
    "admitted_s",
    "moved_s",
    "first_token_s",
    "end_s",
    "ttft_s",
    "tpot_s",
    "e2e_s",
    "outcome",
];

/// Writes a row for each request, in the order of arrival. What has not happened is empty; times are the shortest text that reads back as the
/// same number.
///
/// # Errors
/// If `out` fails.
pub fn write_requests(requests: &Requests, records: &[Record], out: impl Write) -> io::Result<()> {
    let mut writer = csv::WriterBuilder::new().has_headers(false).from_writer(out);
    writer.write_record(HEADER)?;
    for ((index, request), record) in requests.list().iter().enumerate().zip(records) {
        let number = |value: Option<u32>| value.map(|value| value.to_string()).unwrap_or_default();
        let time = |seconds: Option<f64>| seconds.map(|seconds| format!("{seconds:?}")).unwrap_or_default();
        writer.write_record([
            index.to_string(),
            format!("{:?}", request.arrival_s),
            request.input_tokens.to_string(),
            request.output_tokens.to_string(),
            number(record.prefill.map(|(_, cached)| cached)),
            number(record.prefill.map(|(instance, _)| instance)),
            number(record.decode),
            time(record.prefill_begin_s),
            time(record.prefilled_s),
            time(record.admitted_s),
            time(record.moved_s),
            time(record.first_token_s),
            time(record.end_s),
            time(record.ttft_s()),
            time(record.tpot_s(request.output_tokens)),
            time(record.e2e_s()),
            outcome(record.outcome).to_owned(),
        ])?;
    }
    writer.flush()
}

fn outcome(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::Expected => "not arrived",
        Outcome::InFlight => "in flight",
        Outcome::Finished => "finished",
        Outcome::Failed(reason) => reason.name(),
    }
}

/// Requests that are drawn at the most: viewers show a row for each.
const LIMIT: usize = 2000;

/// A phase, its begin and its end in nanoseconds.
type Phase = (&'static str, u64, u64);

/// Writes a trace that Perfetto opens: each request has a track with the phases `queue`, `prefill`, `transfer` (what of it prefill does not hide) and
/// `decode`, and a mark for its first token. The number of requests that are drawn, the first ones.
///
/// # Errors
/// If `out` fails.
pub fn write_request_tracks(requests: &Requests, records: &[Record], out: impl Write) -> io::Result<usize> {
    let mut out = BufWriter::new(out);
    write!(out, "{{\"displayTimeUnit\":\"ms\",\"traceEvents\":[")?;
    write!(
        out,
        "\n{}",
        json!({ "ph": "M", "pid": 0, "name": "process_name", "args": { "name": "requests" } })
    )?;
    let drawn = requests.len().min(LIMIT);
    for ((index, request), record) in requests.list().iter().enumerate().zip(records).take(drawn) {
        let track = index + 1;
        let name = format!("request {index}");
        event(
            &mut out,
            &json!({ "ph": "M", "pid": 0, "tid": track, "name": "thread_name", "args": { "name": name } }),
        )?;
        let order = json!({ "ph": "M", "pid": 0, "tid": track, "name": "thread_sort_index", "args": { "sort_index": track } });
        event(&mut out, &order)?;
        let args = json!({
            "input_tokens": request.input_tokens,
            "output_tokens": request.output_tokens,
            "cached_tokens": record.prefill.map(|(_, cached)| cached),
            "prefill": record.prefill.map(|(instance, _)| instance),
            "decode": record.decode,
        });
        for (name, begin_ns, end_ns) in phases(record) {
            let slice = json!({
                "ph": "X", "pid": 0, "tid": track, "name": name, "cat": "request", "ts": begin_ns as f64 / 1e3,
                "dur": (end_ns - begin_ns) as f64 / 1e3, "args": args,
            });
            event(&mut out, &slice)?;
        }
        if let Some(at_s) = record.first_token_s {
            let mark = json!({
                "ph": "i", "s": "t", "pid": 0, "tid": track, "name": "first token", "ts": nanoseconds(at_s) as f64 / 1e3,
            });
            event(&mut out, &mark)?;
        }
    }
    write!(out, "\n]}}\n")?;
    out.flush()?;
    Ok(drawn)
}

/// The successive phases of a request, as far as it came; it may wait for room before prefill and after it.
fn phases(record: &Record) -> Vec<Phase> {
    let marks = [
        ("queue", record.prefill_begin_s),
        ("prefill", record.prefilled_s),
        ("transfer", record.moved_s),
        ("decode", record.end_s),
    ];
    let mut begin_ns = nanoseconds(record.arrival_s);
    let mut phases = Vec::new();
    for (name, end_s) in marks {
        let Some(end_s) = end_s else { break };
        let end_ns = nanoseconds(end_s);
        if end_ns > begin_ns {
            phases.push((name, begin_ns, end_ns));
            begin_ns = end_ns;
        }
    }
    phases
}

fn event(out: &mut impl Write, event: &serde_json::Value) -> io::Result<()> {
    write!(out, ",\n{event}")
}

/// Whole nanoseconds: what does not overlap here does not overlap in the viewer.
fn nanoseconds(seconds: f64) -> u64 {
    (seconds * 1e9).round() as u64
}

/// One transfer: a row of the file.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct TransferRow {
    /// Sending rank.
    pub src: u32,
    /// Receiving rank.
    pub dst: u32,
    /// Bytes sent.
    pub bytes: u64,
    /// Start of the latency or, if it is coded, of its coding, in seconds.
    pub start_s: f64,
    /// Arrival of the last byte or, if it is coded, end of its decoding, in seconds.
    pub finish_s: f64,
}

/// Writes `rows` in the order given, under the header `src,dst,bytes,start_s,finish_s`. Times are the shortest text
/// that reads back as the same number, so that files compare bit by bit.
///
/// # Errors
/// If `out` fails.
pub fn write_transfers(rows: impl IntoIterator<Item = TransferRow>, out: impl Write) -> io::Result<()> {
    let mut writer = csv::WriterBuilder::new().has_headers(false).from_writer(out);
    // By hand, so that a file without transfers has a header too.
    writer.write_record(["src", "dst", "bytes", "start_s", "finish_s"])?;
    for row in rows {
        writer.serialize(row)?;
    }
    writer.flush()
}

#[cfg(test)]
mod tests {
    use zipwire_serving::{FailReason, Moment, Recorder, Request, RequestId};

    use super::*;

    #[test]
    fn what_has_not_happened_is_empty() {
        let request =
            |arrival_s| Request { arrival_s, input_tokens: 100, output_tokens: 3, prefix: Vec::new() };
        let requests = Requests::new(vec![request(0.0), request(0.5), request(9.0)], 512);
        let mut recorder = Recorder::new(3, 1);
        let mut note = |at_s, id, moment| recorder.note(at_s, RequestId(id), moment);
        note(0.0, 0, Moment::Arrived);
        note(0.25, 0, Moment::PrefillBegun { instance: 1, cached_tokens: 64 });
        note(1.0, 0, Moment::Token);
        note(2.0, 0, Moment::Finished);
        note(0.5, 1, Moment::Arrived);
        note(0.5, 1, Moment::Failed(FailReason::TooLarge));
        let mut out = Vec::new();
        write_requests(&requests, recorder.records(), &mut out).unwrap();
        insta::assert_snapshot!(String::from_utf8(out).unwrap(), @r"
        request,arrival_s,input_tokens,output_tokens,cached_tokens,prefill_instance,decode_instance,prefill_begin_s,prefilled_s,admitted_s,moved_s,first_token_s,end_s,ttft_s,tpot_s,e2e_s,outcome
        0,0.0,100,3,64,1,,0.25,,,,1.0,2.0,1.0,0.5,2.0,finished
        1,0.5,100,3,,,,,,,,,0.5,,,,too large
        2,9.0,100,3,,,,,,,,,,,,,not arrived
        ");
    }

    #[test]
    fn phases_follow_one_another() {
        let mut recorder = Recorder::new(1, 1);
        let mut note = |at_s, moment| recorder.note(at_s, RequestId(0), moment);
        note(1.0, Moment::Arrived);
        note(2.0, Moment::PrefillBegun { instance: 0, cached_tokens: 0 });
        note(3.0, Moment::Prefilled);
        note(3.0, Moment::Moved);
        note(3.5, Moment::Token);
        note(4.0, Moment::Finished);
        let found = phases(&recorder.records()[0]);
        let s = 1_000_000_000;
        assert_eq!(found, [("queue", s, 2 * s), ("prefill", 2 * s, 3 * s), ("decode", 3 * s, 4 * s)]);

        let request = Request { arrival_s: 1.0, input_tokens: 1, output_tokens: 2, prefix: Vec::new() };
        let mut out = Vec::new();
        let drawn = write_request_tracks(&Requests::new(vec![request], 512), recorder.records(), &mut out);
        assert_eq!(drawn.unwrap(), 1);
        let trace: serde_json::Value = serde_json::from_slice(&out).unwrap();
        assert_eq!(trace["traceEvents"].as_array().unwrap().len(), 7);
    }

    fn row(src: u32, start_s: f64, finish_s: f64) -> TransferRow {
        TransferRow { src, dst: src + 1, bytes: 1 << 40, start_s, finish_s }
    }

    fn written(rows: &[TransferRow]) -> String {
        let mut out = Vec::new();
        write_transfers(rows.iter().copied(), &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn rows_in_the_order_given() {
        insta::assert_snapshot!(written(&[row(3, 0.0, 1.5), row(0, 1e-7, 0.1 + 0.2)]), @r#"
        src,dst,bytes,start_s,finish_s
        3,4,1099511627776,0.0,1.5
        0,1,1099511627776,1e-7,0.30000000000000004
        "#);
    }

    #[test]
    fn times_read_back_bit_by_bit() {
        let times = [0.1 + 0.2, 1.0 / 3.0, 5e-324, 1e-9, 123_456_789.000_000_01, f64::EPSILON];
        let text = written(&times.map(|time| row(0, time, time * 3.0)));
        let read: Vec<f64> =
            text.lines().skip(1).map(|line| line.split(',').nth(3).unwrap().parse().unwrap()).collect();
        assert_eq!(read, times);
    }

    #[test]
    fn no_transfers_is_a_header() {
        assert_eq!(written(&[]), "src,dst,bytes,start_s,finish_s\n");
    }
}
