//! The files of a sweep that has ended: `summary.json` and `sweep.csv`, a row at a time.

use std::io::{self, Write};

use serde::ser::{Error, SerializeSeq, Serializer};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::journal::Journal;

/// Metrics: the column, which names the unit, and where `summary.json` has them.
const COLUMNS: [(&str, &str); 49] = [
    ("iteration_mean_s", "/iteration_s/mean"),
    ("iteration_sd_s", "/iteration_s/sd"),
    ("iteration_min_s", "/iteration_s/min"),
    ("iteration_max_s", "/iteration_s/max"),
    ("comm_s", "/comm_s"),
    ("wait_s", "/wait_s"),
    ("codec_s", "/codec_s"),
    ("reduce_s", "/reduce_s"),
    ("compute_s", "/compute_s"),
    ("bytes_raw", "/bytes_raw"),
    ("bytes_wire", "/bytes_wire"),
    ("ratio", "/ratio"),
    ("speedup", "/speedup"),
    ("by_compression", "/split/compression"),
    ("by_algorithm", "/split/algorithm"),
    ("algbw_gbps", "/algbw_gbps"),
    ("busbw_gbps", "/busbw_gbps"),
    ("effective_busbw_gbps", "/effective_busbw_gbps"),
    ("update_mean_s", "/update_s/mean"),
    ("age_mean_s", "/age_s/mean"),
    ("age_max_s", "/age_s/max"),
    ("age_mean_steps", "/age_steps/mean"),
    ("age_max_steps", "/age_steps/max"),
    ("received_max_over_mean", "/imbalance/received/max_over_mean"),
    ("received_gini", "/imbalance/received/gini"),
    ("compute_max_over_mean", "/imbalance/compute/max_over_mean"),
    ("compute_gini", "/imbalance/compute/gini"),
    ("wait_max_over_mean", "/imbalance/wait/max_over_mean"),
    ("wait_gini", "/imbalance/wait/gini"),
    ("requests_finished", "/requests/finished"),
    ("requests_failed", "/requests/failed"),
    ("ttft_mean_s", "/requests/ttft_s/mean"),
    ("ttft_p50_s", "/requests/ttft_s/p50"),
    ("ttft_p90_s", "/requests/ttft_s/p90"),
    ("ttft_p99_s", "/requests/ttft_s/p99"),
    ("tpot_mean_s", "/requests/tpot_s/mean"),
    ("tpot_p99_s", "/requests/tpot_s/p99"),
    ("itl_p99_s", "/requests/itl_s/p99"),
    ("e2e_mean_s", "/requests/e2e_s/mean"),
    ("e2e_p99_s", "/requests/e2e_s/p99"),
    ("kv_wait_mean_s", "/requests/kv_wait_s/mean"),
    ("kv_wait_p99_s", "/requests/kv_wait_s/p99"),
    ("goodput_per_s", "/requests/goodput_per_s"),
    ("slo_met", "/requests/slo_met"),
    ("is_overloaded", "/requests/is_overloaded"),
    ("verified", "/verified"),
    ("plan_digest", "/plan_digest"),
    ("ranks_alike", "/ranks_alike"),
    ("iteration_margin_s", "/iteration_margin_s"),
];

#[derive(Serialize)]
pub(crate) struct SweepSummary<'a> {
    pub(crate) scenario: &'a str,
    /// The scenario's own; a sweep may set another one in each row.
    pub(crate) seed: u64,
    pub(crate) version: &'static str,
    pub(crate) rows: Rows<'a>,
}

/// All rows of a journal in which every point has ended, in their order.
pub(crate) struct Rows<'a> {
    pub(crate) journal: &'a Journal<'a>,
    pub(crate) count: usize,
}

impl Serialize for Rows<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut rows = serializer.serialize_seq(Some(self.count))?;
        for point in 0..self.count {
            rows.serialize_element(&self.journal.read(point).map_err(S::Error::custom)?)?;
        }
        rows.end()
    }
}

impl SweepSummary<'_> {
    /// Writes the summary as indented JSON that ends in a newline.
    pub(crate) fn write(&self, mut out: impl Write) -> io::Result<()> {
        serde_json::to_writer_pretty(&mut out, self)?;
        out.write_all(b"\n")
    }
}

impl Rows<'_> {
    /// Writes a line per point, executor and variant: the point from 1, what it sets, the run, its metrics, and what went wrong
    /// if it has none. Numbers are the shortest text that reads back as the same number.
    pub(crate) fn write_csv<'p>(
        &self,
        paths: impl Iterator<Item = &'p str>,
        out: impl Write,
    ) -> io::Result<()> {
        let mut writer = csv::Writer::from_writer(out);
        let header = ["point"].into_iter().chain(paths).chain(["executor", "variant"]);
        let header = header.chain(COLUMNS.map(|(name, _)| name)).chain(["error"]);
        writer.write_record(header)?;
        for point in 0..self.count {
            let row = self.journal.read(point).map_err(io::Error::other)?;
            let set: Vec<String> = row.set.values().map(field).collect();
            for run in row.runs() {
                let mut line = vec![(point + 1).to_string()];
                line.extend_from_slice(&set);
                line.extend(fields(&run));
                writer.write_record(line)?;
            }
        }
        writer.flush()
    }
}

fn fields(run: &Run<'_>) -> Vec<String> {
    let mut fields =
        vec![run.executor.unwrap_or_default().to_owned(), run.variant.unwrap_or_default().to_owned()];
    let metric = |pointer| run.result.ok().and_then(|result| result.pointer(pointer)).map(field);
    fields.extend(COLUMNS.map(|(_, pointer)| metric(pointer).unwrap_or_default()));
    fields.push(run.result.err().unwrap_or_default().to_owned());
    fields
}

/// A value as a field: strings without quotes, tables and arrays as JSON, nothing for null.
fn field(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// One point. As JSON it reads back as it was written.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SweepRow {
    /// The value of each path of the sweep.
    pub set: Map<String, Value>,
    /// Results of runs that ended well, as in [`Summary`](zipwire_traces::Summary), by executor and variant.
    pub executors: Map<String, Value>,
    /// The runs that failed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub failed: Vec<FailedRun>,
}

/// A run that has no result, or a point that has none.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FailedRun {
    /// The executor; `None` if the point could not be run at all.
    pub executor: Option<String>,
    /// The variant, likewise.
    pub variant: Option<String>,
    /// The error in words.
    pub error: String,
}

/// One run of a point: a line of `sweep.csv`.
#[derive(Clone, Copy, Debug)]
pub struct Run<'a> {
    /// The executor.
    pub executor: Option<&'a str>,
    /// The variant.
    pub variant: Option<&'a str>,
    /// The numbers of `summary.json`, or what went wrong.
    pub result: Result<&'a Value, &'a str>,
}

impl SweepRow {
    /// All runs: those that ended well, in the order of executors and variants, then those that did not.
    pub fn runs(&self) -> Vec<Run<'_>> {
        let mut runs = Vec::new();
        for (executor, variants) in &self.executors {
            for (variant, result) in variants.as_object().into_iter().flatten() {
                let (executor, variant) = (Some(executor.as_str()), Some(variant.as_str()));
                runs.push(Run { executor, variant, result: Ok(result) });
            }
        }
        runs.extend(self.failed.iter().map(|failed| Run {
            executor: failed.executor.as_deref(),
            variant: failed.variant.as_deref(),
            result: Err(&failed.error),
        }));
        runs
    }
}
