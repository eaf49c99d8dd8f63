//! Profiles from traces: what is read, what is refused, what ranks together give.

mod chakra;
mod flight;
mod formats;
mod inspector;
mod kineto;
mod ranks;
mod real;
mod replay;
mod shim;
mod written;

use std::io::Write;

use flate2::Compression;
use flate2::write::GzEncoder;
use serde_json::{Value, json};
use zipwire_profiles::{ProfileError, RankTrace, read_kineto};

const ALL_REDUCE: &str = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)";

/// A communication kernel of group `0` of ranks 0 and 1, with times in microseconds.
fn call(name: &str, collective: &str, ts: f64, dur: f64, elements: u64) -> Value {
    json!({"ph": "X", "cat": "kernel", "name": name, "pid": 0, "tid": 40, "ts": ts, "dur": dur, "args": {
        "device": 0, "stream": 40, "correlation": 1, "Collective name": collective, "In msg nelems": elements,
        "Out msg nelems": elements, "Group size": 2, "dtype": "Float", "In split size": "[]", "Out split size": "[]",
        "Process Group Name": "0", "Process Group Description": "default_pg", "Process Group Ranks": "[0, 1]",
    }})
}

fn all_reduce(ts: f64, dur: f64) -> Value {
    call(ALL_REDUCE, "allreduce", ts, dur, 250)
}

fn compute(ts: f64, dur: f64) -> Value {
    json!({"ph": "X", "cat": "kernel", "name": "sm90_gemm", "pid": 0, "tid": 7, "ts": ts, "dur": dur, "args": {"stream": 7}})
}

/// The same event with a value put in, below `args` if the key has a slash before it.
fn with(mut event: Value, key: &str, value: Value) -> Value {
    match key.strip_prefix('/') {
        Some(key) => event["args"][key] = value,
        None => event[key] = value,
    }
    event
}

/// A trace of one of two ranks, as PyTorch lays it out.
fn trace(rank: u32, events: &[Value]) -> String {
    json!({
        "schemaVersion": 1,
        "distributedInfo": {"backend": "nccl", "rank": rank, "world_size": 2, "pg_count": 1,
            "pg_config": [{"pg_name": "0", "pg_desc": "default_pg", "pg_size": 2, "ranks": [0, 1]}]},
        "traceEvents": events,
        "traceName": "trace.json",
        "baseTimeNanoseconds": 1_000_000_000,
    })
    .to_string()
}

fn read(file: &str, text: impl AsRef<[u8]>) -> Result<RankTrace, ProfileError> {
    read_kineto(file, text.as_ref())
}

fn gzip(text: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(text).expect("memory takes all");
    encoder.finish().expect("memory takes all")
}

/// Message of an error, whose last line says what to do.
fn message<T: std::fmt::Debug>(result: Result<T, ProfileError>) -> String {
    let message = result.expect_err("it is refused").to_string();
    assert!(message.lines().last().is_some_and(|line| line.starts_with("help: ")), "{message}");
    message
}
