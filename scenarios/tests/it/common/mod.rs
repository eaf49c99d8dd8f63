//! A scenario to break, and files to break it with.

use std::fs;
use std::path::Path;

use tempfile::TempDir;
use zipwire_scenarios::{Experiment, ScenarioError, Source, load};

/// A valid scenario: 4 ranks on 2 nodes, coded, with drawn routing and payload.
pub(crate) const VALID: &str = include_str!("../errors/valid.toml");

/// [`VALID`] with one part replaced; the part must be there.
#[track_caller]
pub(crate) fn valid_with(old: &str, new: &str) -> String {
    assert!(VALID.contains(old), "the scenario has no `{old}`");
    VALID.replacen(old, new, 1)
}

/// A scenario without model: 4 ranks on one node.
pub(crate) fn flat(workload: &str) -> String {
    format!(
        r#"name = "test"
[cluster]
nodes = 1
gpus_per_node = 4
gpu_bandwidth = "25 GB/s"
latency_intra = "5 us"
[workload]
{workload}
"#
    )
}

/// A folder for the files that a scenario names.
pub(crate) struct Folder(TempDir);

impl Folder {
    pub(crate) fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    pub(crate) fn with(self, name: &str, content: impl AsRef<[u8]>) -> Self {
        fs::write(self.path().join(name), content).unwrap();
        self
    }

    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }

    pub(crate) fn try_load(&self, text: &str, sets: &[&str]) -> Result<Experiment, ScenarioError> {
        let sets: Vec<String> = sets.iter().map(|&set| set.to_owned()).collect();
        load(&Source::from_text("test.toml", text, self.path()), &sets, None)
    }

    pub(crate) fn load(&self, text: &str) -> Experiment {
        self.try_load(text, &[]).unwrap_or_else(|error| panic!("{}", error.render(false)))
    }

    /// The rendered error, with the folder's own path left out.
    #[track_caller]
    pub(crate) fn error(&self, text: &str, sets: &[&str]) -> String {
        let error = self.try_load(text, sets).expect_err("the scenario should be refused");
        self.clean(&error.render(false))
    }

    pub(crate) fn clean(&self, rendered: &str) -> String {
        rendered.replace(&format!("{}/", self.path().display()), "")
    }
}

/// A safetensors file with one tensor of 4 x 2 values.
pub(crate) fn safetensors(tensor: &str, dtype: &str, width: usize) -> Vec<u8> {
    let len = 8 * width;
    let header = format!(r#"{{"{tensor}":{{"dtype":"{dtype}","shape":[4,2],"data_offsets":[0,{len}]}}}}"#);
    let mut file = (header.len() as u64).to_le_bytes().to_vec();
    file.extend(header.as_bytes());
    file.extend((0..len).map(|i| i as u8));
    file
}

/// A line of a routing matrix file whose rank `r` sends `r + 1` times `shares`.
pub(crate) fn routing_record(step: u64, layer: u32, ranks: u32, sharding: &str, shares: &[u64]) -> String {
    let row = |rank| format!("{:?}", shares.iter().map(|share| share * rank).collect::<Vec<u64>>());
    let rows: Vec<String> = (1..=u64::from(ranks)).map(row).collect();
    let tokens = shares.iter().sum::<u64>() / 2;
    let head = format!(r#"{{"step":{step},"layer":{layer},"ranks":{ranks},"sharding":"{sharding}""#);
    format!("{head},\"tokens_per_rank\":{tokens},\"topk\":2,\"matrix\":[{}]}}\n", rows.join(","))
}
