//! `requests.csv`: what happened to each request of a run of serving.

use std::io::{self, Write};

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
}
