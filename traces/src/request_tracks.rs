//! Requests as tracks of a Chrome trace: what each of them waited for, phase by phase.

use std::io::{self, BufWriter, Write};

use serde_json::json;
use zipwire_serving::{Record, Requests};

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

#[cfg(test)]
mod tests {
    use zipwire_serving::{Moment, Recorder, Request, RequestId};

    use super::*;

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
}
