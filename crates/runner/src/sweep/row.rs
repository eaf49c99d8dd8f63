//! Row of a sweep's `summary.json`: the result of one point.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

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
