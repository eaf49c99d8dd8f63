//! Whole scenarios: read, planned, checked and simulated, with the timeline in memory.

use std::fmt::Write;

use tempfile::TempDir;
use zipwire_runner::executors::SIM;
use zipwire_runner::{Cancel, Prepared};
use zipwire_scenarios::{Source, load};
use zipwire_schedule::Lane;

use super::cases::Cluster;
use super::process::cpu_s;
use super::traffic::{MEAN_BYTES, Sizes, all_pairs};
use super::{Run, SimBenchError};

/// Workload of a scenario.
#[derive(Clone, Copy, Debug)]
pub(super) enum Workload {
    /// Eight layers of a mixture of experts: 16 All-to-Alls of unequal sizes, each rank at its own time.
    Moe,
    /// All pairs as explicit flows, from a file.
    Unequal,
    /// An equal All-to-All in shifted rounds.
    Rounds,
}

/// Simulates a workload on a cluster.
pub(super) fn drawn(cluster: Cluster, workload: Workload, cancel: &Cancel) -> Result<Run, SimBenchError> {
    // Only as long as the run: the file of the flows.
    let folder = TempDir::new()
        .map_err(|error| SimBenchError::Folder { folder: std::env::temp_dir(), source: error })?;
    let text = match workload {
        // One iteration has two All-to-Alls.
        Workload::Moe => {
            "iterations = 8\n[workload]\nkind = \"moe\"\nmodel = \"deepseek-v3\"\nrouting = { dirichlet = 16.0 }\n\
             skew = { base = \"1 ms\", per_compute = 0.15 }\n[compute]\nexpert = \"500 us\"\n"
                .to_owned()
        }
        Workload::Unequal => {
            let flows = flows_csv(cluster.ranks());
            let file = folder.path().join("flows.csv");
            std::fs::write(&file, flows).map_err(|error| SimBenchError::Folder { folder: file, source: error })?;
            "[workload]\nkind = \"transfers\"\nfile = \"flows.csv\"\n".to_owned()
        }
        Workload::Rounds => {
            let bytes = MEAN_BYTES * u64::from(cluster.ranks());
            format!(
                "[workload]\nkind = \"collective\"\ncollective = \"all-to-all\"\nbytes_per_rank = \"{bytes} B\"\n\
                 [[variant]]\nname = \"native\"\norder = \"shifted-rounds\"\n"
            )
        }
    };
    // Keys of the root come before tables.
    let (root, tables) = text.split_at(text.find('[').expect("a workload is a table"));
    let text = format!("name = \"bench\"\nseed = 1\n{root}{}{tables}", cluster.text());
    scenario(&Source::from_text("bench", text, folder.path()), cancel)
}

/// Simulates all variants of a scenario.
pub(super) fn scenario(source: &Source, cancel: &Cancel) -> Result<Run, SimBenchError> {
    let begin_s = cpu_s();
    let experiment = load(source, &[], None)?;
    let mut prepared = Prepared::new(&experiment, cancel)?;
    let prepared_s = cpu_s();
    let (mut transfers, mut simulated_s) = (0, 0.0);
    for index in 0..experiment.variants.len() {
        let timeline = prepared.run(index, SIM, cancel)?.timeline;
        transfers += timeline.spans.iter().filter(|span| span.lane == Lane::Tx).count() as u64;
        simulated_s += timeline.iterations.iter().map(|iteration| iteration.length_s).sum::<f64>();
    }
    let ranks = experiment.topology.ranks();
    let cpu_s = cpu_s() - prepared_s;
    Ok(Run { ranks, transfers, simulated_s, prepare_s: prepared_s - begin_s, cpu_s, work: None })
}

fn flows_csv(ranks: u32) -> String {
    let mut csv = "src,dst,bytes,start_us\n".to_owned();
    for transfer in all_pairs(ranks, Sizes::Unequal) {
        let (src, dst, bytes) = (transfer.src, transfer.dst, transfer.bytes);
        writeln!(csv, "{src},{dst},{bytes},0").expect("strings take everything");
    }
    csv
}
