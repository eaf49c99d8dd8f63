//! Logs as JSON: what nccl-tests writes with `-J`, and a fork of it by sizes. Booleans are strings there, numbers that are none are
//! the string `nan`, and what was killed while it wrote has no end.

use serde_json::Value;

use crate::error::LogError;
use crate::header::{Header, Naming, Program, Rank};
use crate::row::{Measured, Printed, Row, counted};
use crate::run::Run;

/// Runs of a file: one, or one after the other where files were put together.
pub(crate) fn parse(file: &str, text: &str, notes: &mut Vec<String>) -> Result<Vec<Run>, LogError> {
    let failed = |line: usize, reason: String| LogError::Json { file: file.to_owned(), line, reason };
    let mut values = serde_json::Deserializer::from_str(text).into_iter::<Value>();
    let mut runs = Vec::new();
    loop {
        let start = values.byte_offset();
        let spaces = text[start..].len() - text[start..].trim_start().len();
        let line = 1 + text[..start + spaces].matches('\n').count();
        let value: Value = match values.next() {
            None => return Ok(runs),
            Some(Ok(value)) => value,
            Some(Err(error)) if error.is_eof() => {
                let closed = close(&text[start..]).and_then(|text| serde_json::from_str(&text).ok());
                let value = closed.ok_or_else(|| {
                    failed(error.line(), "the JSON ends before anything was measured".to_owned())
                })?;
                notes.push(format!(
                    "{file}:{}: the JSON has no end, and what is there of it is taken",
                    error.line()
                ));
                runs.push(run(&value, line).map_err(|reason| failed(line, reason.to_owned()))?);
                return Ok(runs);
            }
            Some(Err(error)) => return Err(failed(error.line(), format!("invalid JSON: {error}"))),
        };
        runs.push(run(&value, line).map_err(|reason| failed(line, reason.to_owned()))?);
    }
}

/// The run of a value that begins in a line, or why it is none.
fn run(value: &Value, line: usize) -> Result<Run, &'static str> {
    let mut rows: Vec<Row> = match (value.get("results"), value.get("benchmark")) {
        (Some(Value::Array(results)), _) => results.iter().filter_map(row).collect(),
        (_, Some(Value::Array(parts))) => {
            parts.iter().filter_map(Value::as_object).flat_map(by_size).collect()
        }
        _ => return Err("there is no array `results`"),
    };
    if rows.is_empty() {
        return Err("there is no time in `results`");
    }
    rows.iter_mut().for_each(|row| row.line = line);
    Ok(Run { header: header(value, line), rows })
}

fn header(value: &Value, line: usize) -> Header {
    let mut header = Header::default();
    let args = value.get("args").and_then(Value::as_array).into_iter().flatten();
    for word in args.filter_map(Value::as_str).flat_map(str::split_whitespace) {
        if let Some(name) = word.rsplit('/').next().and_then(|program| program.strip_suffix("_perf")) {
            let program = Program::named(name).unwrap_or_else(|| Program::Other(name.to_owned()));
            header.name(program, Naming::Start);
        }
    }
    let devices = value.get("config").and_then(|config| config.get("devices")).and_then(Value::as_array);
    for device in devices.into_iter().flatten() {
        let part = |key: &str| device.get(key).filter(|part| !part.is_null());
        if let Some(host) = part("hostname").and_then(Value::as_str) {
            let number = part("rank").and_then(number).map(|rank| rank as u32);
            let bus = part("device").zip(part("device_hex")).map(|(device, bus)| format!("{device}{bus}"));
            let group = part("group").and_then(self::number).map_or(0, |group| group as u32);
            header.ranks.push(Rank { number, group, host: host.to_owned(), device: bus });
        }
        if let Some(name) = part("device_info").and_then(Value::as_str) {
            header.gpu.get_or_insert_with(|| name.to_owned());
        }
    }
    if let Some(bounds) = value.get("out_of_bounds")
        && bounds.get("okay").is_some_and(|okay| *okay == Value::Bool(false) || *okay == "false")
    {
        let count = bounds.get("count").and_then(number).map_or("some".to_owned(), |count| count.to_string());
        header.failed = Some((line, count));
    }
    header
}

/// A row as nccl-tests has it: `size`, and a table each for `out_of_place` and `in_place`.
fn row(result: &Value) -> Option<Row> {
    let half = |half: &str| {
        let half = result.get(half)?;
        let of = |key: &str| half.get(key).and_then(number);
        measured(of("time").or_else(|| of("cpu_time")), of("alg_bw"), of("bus_bw"), of("nwrong"))
    };
    of_halves(number(result.get("size")?)?, result, half("out_of_place"), half("in_place"))
}

/// Rows of a fork that has a table by sizes, with `oop_time`, `ip_time` and so on.
fn by_size(table: &serde_json::Map<String, Value>) -> Vec<Row> {
    let rows = table.iter().filter_map(|(size, result)| {
        let half = |name: &str| {
            let of = |key: &str| result.get(format!("{name}_{key}")).and_then(number);
            measured(of("time"), of("algbw"), of("busbw"), of("error"))
        };
        of_halves(size.parse().ok()?, result, half("oop"), half("ip"))
    });
    rows.collect()
}

fn of_halves(bytes: f64, result: &Value, plain: Option<Measured>, in_place: Option<Measured>) -> Option<Row> {
    let text = |key: &str| result.get(key).and_then(Value::as_str).map(|text| text.trim().to_owned());
    let first = plain.or(in_place)?;
    (bytes >= 0.0).then(|| Row {
        line: 1,
        bytes: bytes as u64,
        count: result.get("count").and_then(Value::as_u64),
        dtype: text("type").unwrap_or_else(|| "float".to_owned()),
        redop: text("redop"),
        root: result.get("root").and_then(number).map(|root| root as i64),
        first,
        second: plain.and(in_place),
    })
}

/// A time in microseconds with bandwidths and the number of wrong values; none without a time.
pub(crate) fn measured(
    us: Option<f64>,
    algbw: Option<f64>,
    busbw: Option<f64>,
    wrong: Option<f64>,
) -> Option<Measured> {
    let us = us.filter(|us| *us > 0.0)?;
    let wrong = wrong.map(counted);
    Some(Measured { us, algbw: algbw.map(Printed::precise), busbw: busbw.map(Printed::precise), wrong })
}

/// A number, or one in a string.
pub(crate) fn number(value: &Value) -> Option<f64> {
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
    use crate::log::{Given, parse_log};
    use crate::series::Series;

    const TEXT: &str = r#"{"version":3,"args":["./build/all_gather_perf","-b","8"],"config":{"blocking_collectives":"false",
      "devices":[{"rank":0,"hostname":"a","device_info":"NVIDIA B200"},{"rank":1,"hostname":"a","device_info":"NVIDIA B200"}]},
      "results":[{"size":1024,"type":"float","root":"    -1","out_of_place":{"time":10.0,"alg_bw":0.1,"nwrong":"nan"},"in_place":{"time":11.0}},
      {"size":2048,"type":"float","out_of_place":null,"in_place":{"time":12.0}},
      {"size":4096,"type":"float","out_of_place":{"time":"nan"},"in_place":{"time":13.0}}],"out_of_bounds":{"okay":"true"}}"#;

    #[test]
    fn json_is_read_with_its_oddities() {
        let log = parse_log("j", TEXT, Given::default()).unwrap();
        let series = &log.series[0];
        assert_eq!((series.name().as_str(), series.gpu.as_deref()), ("all_gather 1x2", Some("NVIDIA B200")));
        let seconds: Vec<_> =
            series.points.iter().map(|point| (point.bytes, (point.seconds * 1e6).round())).collect();
        assert_eq!(seconds, [(1024, 10.0), (2048, 12.0), (4096, 13.0)]);
    }

    #[test]
    fn files_that_were_put_together_are_several_runs() {
        let two = format!("{TEXT}\n{}", TEXT.replace("all_gather", "all_reduce"));
        let names: Vec<String> =
            parse_log("j", &two, Given::default()).unwrap().series.iter().map(Series::name).collect();
        assert_eq!(names, ["all_gather 1x2", "all_reduce 1x2"]);
        let cut = parse_log("j", &two[..two.len() - 2], Given::default()).unwrap();
        assert_eq!((cut.series.len(), cut.notes.len()), (2, 1));
    }

    #[test]
    fn what_a_killed_run_leaves_is_taken() {
        let cut = TEXT.find("{\"size\":4096").unwrap() + 20;
        let log = parse_log("j", &TEXT[..cut], Given::default()).unwrap();
        assert_eq!(log.series[0].points.len(), 2);
        assert!(log.notes[0].contains("has no end"), "{:?}", log.notes);
        let error = |text: &str| parse_log("j", text, Given::default()).unwrap_err().to_string();
        assert!(error("{\"version\":3,").starts_with("j:1: the JSON ends before"));
        assert!(error("{\"version\":3}").starts_with("j:1: there is no array `results`"));
        assert!(error("{\"version\":3,\n x}").starts_with("j:2: invalid JSON"));
        assert!(error(&format!("{TEXT}\n{{}}")).starts_with("j:6: there is no array `results`"));
    }
}
