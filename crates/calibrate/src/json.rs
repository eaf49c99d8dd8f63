//! Logs as JSON: what nccl-tests writes with `-J`. Booleans are strings there, numbers that are none are the string `nan`, and what
//! was killed while it wrote has no end.

use serde_json::Value;

use crate::error::LogError;
use crate::log::{Given, Header, Log, shape};
use crate::series::{Series, Timed, points};

pub(crate) fn parse(file: &str, text: &str, given: Given) -> Result<Log, LogError> {
    let failed = |line: usize, reason: String| LogError::Json { file: file.to_owned(), line, reason };
    let mut notes = Vec::new();
    let value: Value = match serde_json::from_str(text) {
        Ok(value) => value,
        Err(error) if error.is_eof() => {
            let closed = close(text).and_then(|text| serde_json::from_str(&text).ok());
            let value = closed.ok_or_else(|| {
                failed(error.line(), "the JSON ends before anything was measured".to_owned())
            })?;
            notes.push(format!(
                "{file}:{}: the JSON has no end, and what is there of it is taken",
                error.line()
            ));
            value
        }
        Err(error) => return Err(failed(error.line(), format!("invalid JSON: {error}"))),
    };
    let results = value.get("results").and_then(Value::as_array);
    let results = results.ok_or_else(|| failed(1, "there is no array `results`".to_owned()))?;
    let header = header(&value);
    let rows: Vec<_> = results.iter().filter_map(row).collect();
    let dtype = results.iter().find_map(|result| result.get("type")?.as_str()).unwrap_or("float").to_owned();
    if rows.is_empty() {
        return Err(failed(1, "there is no time in `results`".to_owned()));
    }
    let (operation, nodes, gpus_per_node) = shape(file, 1, &header, given)?;
    let nics = header.nics_of(gpus_per_node);
    let (file, gpu) = (file.to_owned(), header.gpu);
    let series = Series { file, operation, nodes, gpus_per_node, gpu, nics, dtype, points: points(rows) };
    Ok(Log { series: vec![series], notes })
}

fn header(value: &Value) -> Header {
    let mut header = Header::default();
    let args = value.get("args").and_then(Value::as_array).into_iter().flatten();
    args.filter_map(Value::as_str).flat_map(str::split_whitespace).for_each(|word| header.read_program(word));
    let devices = value.get("config").and_then(|config| config.get("devices")).and_then(Value::as_array);
    for device in devices.into_iter().flatten() {
        if let Some(host) = device.get("hostname").and_then(Value::as_str) {
            header.hosts.push(host.to_owned());
        }
        if let Some(name) = device.get("device_info").and_then(Value::as_str) {
            header.gpu.get_or_insert_with(|| name.to_owned());
        }
    }
    header
}

/// Size, seconds and, if there are both, seconds in place.
fn row(result: &Value) -> Option<Timed> {
    let bytes = number(result.get("size")?)?;
    let time = |half: &str| {
        let half = result.get(half)?;
        let us = number(half.get("time").or_else(|| half.get("cpu_time"))?)?;
        (us > 0.0).then_some(us * 1e-6)
    };
    let (plain, in_place) = (time("out_of_place"), time("in_place"));
    let seconds = plain.or(in_place)?;
    (bytes >= 0.0).then_some((bytes as u64, seconds, plain.and(in_place)))
}

/// A number, or one in a string.
fn number(value: &Value) -> Option<f64> {
    let number = value.as_f64().or_else(|| value.as_str()?.trim().parse().ok());
    number.filter(|number| number.is_finite())
}

/// The text up to the last value of an array or table that is whole, with what is open closed.
fn close(text: &str) -> Option<String> {
    let (mut open, mut is_string, mut is_escaped) = (Vec::new(), false, false);
    let mut last = None;
    for (at, byte) in text.bytes().enumerate() {
        if is_string {
            match byte {
                _ if is_escaped => is_escaped = false,
                b'\\' => is_escaped = true,
                b'"' => is_string = false,
                _ => {}
            }
            continue;
        }
        match byte {
            b'"' => is_string = true,
            b'{' => open.push('}'),
            b'[' => open.push(']'),
            b'}' | b']' => {
                open.pop();
                last = Some((at + 1, open.clone()));
            }
            _ => {}
        }
    }
    let (end, open) = last?;
    Some(text[..end].chars().chain(open.into_iter().rev()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = r#"{"version":3,"args":["./build/all_gather_perf","-b","8"],"config":{"blocking_collectives":"false",
      "devices":[{"rank":0,"hostname":"a","device_info":"NVIDIA B200"},{"rank":1,"hostname":"a","device_info":"NVIDIA B200"}]},
      "results":[{"size":1024,"type":"float","root":"    -1","out_of_place":{"time":10.0,"alg_bw":0.1,"nwrong":"nan"},"in_place":{"time":11.0}},
      {"size":2048,"type":"float","out_of_place":null,"in_place":{"time":12.0}},
      {"size":4096,"type":"float","out_of_place":{"time":"nan"},"in_place":{"time":13.0}}],"out_of_bounds":{"okay":"true"}}"#;

    #[test]
    fn json_is_read_with_its_oddities() {
        let log = parse("j", TEXT, Given::default()).unwrap();
        let series = &log.series[0];
        assert_eq!((series.name().as_str(), series.gpu.as_deref()), ("all_gather 1x2", Some("NVIDIA B200")));
        let seconds: Vec<_> =
            series.points.iter().map(|point| (point.bytes, (point.seconds * 1e6).round())).collect();
        assert_eq!(seconds, [(1024, 10.0), (2048, 12.0), (4096, 13.0)]);
    }

    #[test]
    fn what_a_killed_run_leaves_is_taken() {
        let cut = TEXT.find("{\"size\":4096").unwrap() + 20;
        let log = parse("j", &TEXT[..cut], Given::default()).unwrap();
        assert_eq!(log.series[0].points.len(), 2);
        assert!(log.notes[0].contains("has no end"), "{:?}", log.notes);
        let error = |text: &str| parse("j", text, Given::default()).unwrap_err().to_string();
        assert!(error("{\"version\":3,").starts_with("j:1: the JSON ends before"));
        assert!(error("{\"version\":3}").starts_with("j:1: there is no array `results`"));
        assert!(error("{\"version\":3,\n x}").starts_with("j:2: invalid JSON"));
    }
}
