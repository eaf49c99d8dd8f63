//! `summary.json`: every variant on every executor, side by side.
//!
//! The names and the order of the keys are a contract; the same results give the same bytes.

use std::io::{self, Write};

use serde::ser::{Serialize, Serializer};
use zipwire_timeline::{Bandwidths, ByRank, CriticalPath, Metrics, Updates};

use crate::Verdict;

/// The results of a run.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct Summary {
    /// Name of the scenario.
    pub scenario: String,
    /// Seed of the run.
    pub seed: u64,
    /// Version of the program that wrote this.
    pub version: &'static str,
    /// The results.
    pub executors: Executors,
    /// Conclusions from the results; the key is absent where none were looked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub verdict: Option<Verdict>,
}

impl Summary {
    /// A summary of these results, signed with this version.
    pub fn new(scenario: impl Into<String>, seed: u64, executors: Executors) -> Self {
        Self { scenario: scenario.into(), seed, version: env!("CARGO_PKG_VERSION"), executors, verdict: None }
    }

    /// Writes the summary as indented JSON that ends in a newline. Floats are the shortest text that reads back as the
    /// same number.
    ///
    /// # Errors
    /// If `out` fails.
    pub fn write(&self, mut out: impl Write) -> io::Result<()> {
        serde_json::to_writer_pretty(&mut out, self)?;
        out.write_all(b"\n")
    }
}

/// A speedup as the product of two.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize)]
pub struct Split {
    /// Over the same variant at ratio 1 with a free codec.
    pub compression: f64,
    /// Speedup of the same variant at ratio 1 over the first variant: due to another algorithm, more exchanges and another overlap.
    pub algorithm: f64,
}

/// Results of one variant on one executor.
#[derive(Clone, Debug, Default, PartialEq, serde::Serialize)]
pub struct VariantSummary {
    /// Times and bytes.
    #[serde(flatten)]
    pub metrics: Metrics,
    /// Mean iteration time of the scenario's first variant / own: above 1 is faster. `None` if the first variant did not
    /// run on this executor, or if the executor's times mean nothing.
    pub speedup: Option<f64>,
    /// Digest of the plan that ran.
    pub plan_digest: String,
    /// Parts of [`Self::speedup`] that are due to compression and to another algorithm; `None` where nothing is coded or there is no speedup.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub split: Option<Split>,
    /// In which algorithms its calls travelled, by collective, in the order of first use; the key is absent where no collective has
    /// several.
    #[serde(
        rename = "algorithm",
        skip_serializing_if = "Vec::is_empty",
        serialize_with = "serialize_by_collective"
    )]
    pub algorithms: Vec<(&'static str, &'static str)>,
    /// How the speed of the variant's codec is known, where the cluster says it and not the scenario; its key is absent elsewhere.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub codec_speed_basis: Option<&'static str>,
    /// Critical path of its iterations; the keys are absent where it is not known.
    #[serde(flatten)]
    pub critical_path: Option<CriticalPath>,
    /// Whether every received byte was compared with what was sent and found equal; `None` in simulation, where there
    /// are no bytes.
    pub verified: Option<bool>,
    /// The waiting of each rank, and how uneven ranks are.
    #[serde(flatten)]
    pub by_rank: Option<ByRank>,
    /// Ranks that each of the first ones stands for, itself among them; the key is absent where each stands for itself.
    #[serde(rename = "ranks_alike", skip_serializing_if = "Option::is_none")]
    pub alike: Option<u32>,
    /// Bandwidths of a collective call; its keys are absent for other workloads and where the executor's times mean nothing.
    #[serde(flatten)]
    pub bandwidths: Option<Bandwidths>,
    /// How old weights are that are brought to other ranks; its keys are absent for other workloads and where the executor's times mean
    /// nothing.
    #[serde(flatten)]
    pub updates: Option<Updates>,
    /// Fates of requests; the key is absent for other workloads than `serving`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub requests: Option<zipwire_serving::Summary>,
    /// Decisions of the switcher; the key is absent where nothing is switched.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub switcher: Option<SwitcherSummary>,
    /// Faults of the scenario that had no effect, by their positions; the key is absent where there is none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub faults_not_fired: Vec<usize>,
}

/// Results by executor and variant, in the order in which they were inserted.
#[derive(Clone, Debug, PartialEq)]
pub struct Executors {
    first_variant: String,
    executors: Vec<Executor>,
}

#[derive(Clone, Debug, PartialEq)]
struct Executor {
    name: String,
    timed: bool,
    variants: Vec<(String, VariantSummary)>,
}

impl Executors {
    /// No results yet. `first_variant` is the scenario's first, which speedups refer to, whether it runs or not.
    pub fn new(first_variant: impl Into<String>) -> Self {
        Self { first_variant: first_variant.into(), executors: Vec::new() }
    }

    /// Adds what `variant` did on `executor`, or replaces it. `timed` says whether the executor's times can be compared
    /// (not those of threads without paced links).
    ///
    /// # Panics
    /// If `executor` was said to be timed before and is not now, or the other way round.
    pub fn insert(
        &mut self,
        executor: &str,
        timed: bool,
        variant: &str,
        metrics: Metrics,
        plan_digest: impl Into<String>,
        verified: Option<bool>,
    ) {
        let plan_digest = plan_digest.into();
        let summary = VariantSummary { metrics, plan_digest, verified, ..VariantSummary::default() };
        let found = self.executors.iter().position(|other| other.name == executor);
        let index = found.unwrap_or_else(|| {
            self.executors.push(Executor { name: executor.to_owned(), timed, variants: Vec::new() });
            self.executors.len() - 1
        });
        let executor = &mut self.executors[index];
        assert_eq!(executor.timed, timed, "executor `{}` is timed or not, for all variants", executor.name);
        match executor.variants.iter_mut().find(|(name, _)| name == variant) {
            Some((_, old)) => *old = summary,
            None => executor.variants.push((variant.to_owned(), summary)),
        }
        executor.compare(&self.first_variant);
    }

    /// Adds the bandwidths of a collective call to what `variant` did on `executor`.
    ///
    /// # Panics
    /// If it did not run there, or if the executor's times cannot be compared.
    pub fn insert_bandwidths(&mut self, executor: &str, variant: &str, bandwidths: Bandwidths) {
        let is_timed = self.executors.iter().any(|other| other.name == executor && other.timed);
        assert!(is_timed, "times of executor `{executor}` are no measure of bandwidth");
        self.inserted(executor, variant).bandwidths = Some(bandwidths);
    }

    /// Splits the speedup of `variant` on `executor`, which would take `uncompressed_s` seconds if its codec were free and its
    /// frames as long as their values. Nothing, where it has no speedup.
    ///
    /// # Panics
    /// If it did not run there.
    pub fn insert_split(&mut self, executor: &str, variant: &str, uncompressed_s: f64) {
        let result = self.inserted(executor, variant);
        let Some(speedup) = result.speedup else { return };
        let compression = uncompressed_s / result.metrics.iteration_s.mean;
        result.split = Some(Split { compression, algorithm: speedup / compression });
    }

    /// Results of `variant` on `executor`, for adding ranks, the switcher or algorithms.
    ///
    /// # Panics
    /// If it did not run there.
    pub fn inserted(&mut self, executor: &str, variant: &str) -> &mut VariantSummary {
        let executor = self.executors.iter_mut().find(|other| other.name == executor);
        let executor = executor.expect("an executor has results before anything is added");
        let summary = executor.variants.iter_mut().find(|(name, _)| name == variant);
        &mut summary.expect("a variant has results before anything is added").1
    }

    /// Results of `variant` on `executor`, if it ran.
    pub fn get(&self, executor: &str, variant: &str) -> Option<&VariantSummary> {
        self.iter().find(|&(e, v, _)| e == executor && v == variant).map(|(.., summary)| summary)
    }

    /// All results as (executor, variant, result), in order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str, &VariantSummary)> {
        self.executors.iter().flat_map(|executor| {
            executor
                .variants
                .iter()
                .map(|(variant, summary)| (executor.name.as_str(), variant.as_str(), summary))
        })
    }
}

impl Executor {
    /// Brings the speedups over `first_variant` up to date.
    fn compare(&mut self, first_variant: &str) {
        let first = self.variants.iter().find(|(name, _)| name == first_variant);
        let first_s = first.map(|(_, summary)| summary.metrics.iteration_s.mean).filter(|_| self.timed);
        for (_, summary) in &mut self.variants {
            let own_s = summary.metrics.iteration_s.mean;
            summary.speedup = first_s.filter(|_| own_s > 0.0).map(|first_s| first_s / own_s);
        }
    }
}

impl Serialize for Executors {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer
            .collect_map(self.executors.iter().map(|executor| (&executor.name, Variants(&executor.variants))))
    }
}

/// Pairs as a map, in their order.
struct Variants<'a>(&'a [(String, VariantSummary)]);

impl Serialize for Variants<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(name, summary)| (name, summary)))
    }
}

/// Each collective once, in the order of first use; several algorithms of one are joined by ` and `. `algorithms` are pairs of a
/// collective and an algorithm.
pub fn by_collective(algorithms: &[(&'static str, &'static str)]) -> Vec<(&'static str, String)> {
    let mut table: Vec<(&str, String)> = Vec::new();
    for &(collective, algorithm) in algorithms {
        match table.iter_mut().find(|(other, _)| *other == collective) {
            Some((_, names)) => names.push_str(&format!(" and {algorithm}")),
            None => table.push((collective, algorithm.to_owned())),
        }
    }
    table
}

fn serialize_by_collective<S: Serializer>(
    algorithms: &[(&'static str, &'static str)],
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.collect_map(by_collective(algorithms))
}

/// The results of a switcher.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct SwitcherSummary {
    /// Bytes before coding of an iteration, to the nearest byte of the mean: arms may send different types.
    #[serde(skip)]
    pub bytes_raw: u64,
    /// The ways between which it chose.
    pub arms: Vec<String>,
    /// The classes of calls for which it chose, and how many calls an iteration has of each.
    pub classes: Vec<SwitcherClass>,
    /// Iterations at the start that measured every arm. What follows is about the others.
    pub warm_up_iterations: u32,
    /// Seconds of these iterations.
    pub warm_up_s: f64,
    /// Seconds of all iterations after them.
    pub elapsed_s: f64,
    /// Share of the time that probes cost: with each probe, less without it. `None` where that was not simulated.
    pub probing_share: Option<f64>,
    /// Share of the time that exchanges of statistics took.
    pub statistics_share: f64,
    /// Time over that of the best fixed choice for each iteration, by class of calls, less 1. `None` if no iteration follows the
    /// warm-up, or other choices were not simulated.
    pub regret: Option<f64>,
    /// Time over that of the best single arm for all iterations and calls, less 1.
    pub over_best_arm: Option<f64>,
    /// Time over that of the uncompressed arm in every iteration, less 1; `None` if there is no such arm.
    pub over_native: Option<f64>,
    /// Decisions that changed something, and all probes.
    pub decisions: Vec<SwitcherDecision>,
    /// Tables that took the place of stale ones.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tables: Vec<SwitcherTable>,
}

/// A table that frames share from an iteration on.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct SwitcherTable {
    /// The first iteration whose frames name it.
    pub iteration: u32,
    /// Its id, as in specs.
    pub id: String,
    /// The rank from whose values it was calibrated.
    pub rank: u32,
    /// The share of that rank's values that the table before it did not serve.
    pub missed: f64,
    /// The share that the table before it promised not to serve.
    pub promised: f64,
}

/// Calls that are alike.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct SwitcherClass {
    /// Name of the calls, without numbers.
    pub name: String,
    /// Calls in an iteration.
    pub calls: usize,
}

/// A decision of a switcher.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct SwitcherDecision {
    /// The first iteration that it holds for; `probe` and `calibrate` hold for this one alone.
    pub iteration: u32,
    /// The class, by position.
    pub class: usize,
    /// The call, if it holds for one only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub segment: Option<String>,
    /// The arm.
    pub arm: String,
    /// `calibrate`, `best`, `probe`.
    pub reason: &'static str,
    /// Seconds that a call of the class was expected to take, by arm.
    pub costs_s: Vec<f64>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use zipwire_timeline::{Imbalance, Imbalances, Spread};

    fn metrics(mean: f64) -> Metrics {
        Metrics {
            iteration_s: Spread { mean, sd: 0.1, min: mean / 2.0, max: mean * 2.0 },
            margin_s: None,
            comm_s: 1e-7,
            wait_s: 0.0,
            codec_s: 1.0 / 3.0,
            reduce_s: 0.25,
            compute_s: 0.0005,
            bytes_raw: 1_000_000,
            bytes_wire: 700_000,
            ratio: Some(10.0 / 7.0),
        }
    }

    fn written(summary: &Summary) -> String {
        let mut out = Vec::new();
        summary.write(&mut out).unwrap();
        // The one thing that changes with every release.
        String::from_utf8(out).unwrap().replace(env!("CARGO_PKG_VERSION"), "(version)")
    }

    /// One variant, with bandwidths.
    fn with_bandwidths(executor: &'static str, timed: bool) -> Executors {
        let mut executors = Executors::new("native");
        executors.insert(executor, timed, "native", metrics(2.0), "", None);
        let bandwidths = Bandwidths { algbw_gbps: 4.0, busbw_gbps: 2.0, effective_busbw_gbps: 3.0 };
        executors.insert_bandwidths(executor, "native", bandwidths);
        executors
    }

    fn speedups(executors: &Executors) -> Vec<Option<f64>> {
        executors.iter().map(|(.., summary)| summary.speedup).collect()
    }

    #[test]
    fn golden() {
        let mut executors = Executors::new("native");
        executors.insert("sim", true, "native", Metrics { ratio: None, ..metrics(2.0) }, "0011", None);
        executors.insert("sim", true, "alpha", metrics(1.6), "2233", None);
        executors.insert("threads", false, "native", metrics(0.25), "0011", Some(true));
        let summary = Summary::new("quickstart", 7, executors);
        assert_eq!(written(&summary), GOLDEN);
    }

    const GOLDEN: &str = r#"{
  "scenario": "quickstart",
  "seed": 7,
  "version": "(version)",
  "executors": {
    "sim": {
      "native": {
        "iteration_s": {
          "mean": 2.0,
          "sd": 0.1,
          "min": 1.0,
          "max": 4.0
        },
        "comm_s": 1e-7,
        "wait_s": 0.0,
        "codec_s": 0.3333333333333333,
        "reduce_s": 0.25,
        "compute_s": 0.0005,
        "bytes_raw": 1000000,
        "bytes_wire": 700000,
        "ratio": null,
        "speedup": 1.0,
        "plan_digest": "0011",
        "verified": null
      },
      "alpha": {
        "iteration_s": {
          "mean": 1.6,
          "sd": 0.1,
          "min": 0.8,
          "max": 3.2
        },
        "comm_s": 1e-7,
        "wait_s": 0.0,
        "codec_s": 0.3333333333333333,
        "reduce_s": 0.25,
        "compute_s": 0.0005,
        "bytes_raw": 1000000,
        "bytes_wire": 700000,
        "ratio": 1.4285714285714286,
        "speedup": 1.25,
        "plan_digest": "2233",
        "verified": null
      }
    },
    "threads": {
      "native": {
        "iteration_s": {
          "mean": 0.25,
          "sd": 0.1,
          "min": 0.125,
          "max": 0.5
        },
        "comm_s": 1e-7,
        "wait_s": 0.0,
        "codec_s": 0.3333333333333333,
        "reduce_s": 0.25,
        "compute_s": 0.0005,
        "bytes_raw": 1000000,
        "bytes_wire": 700000,
        "ratio": 1.4285714285714286,
        "speedup": null,
        "plan_digest": "0011",
        "verified": true
      }
    }
  }
}
"#;

    #[test]
    fn bandwidths_follow_all_other_keys() {
        let text = written(&Summary::new("quickstart", 7, with_bandwidths("sim", true)));
        let (_, end) = text.split_once("\"verified\": null,").unwrap();
        insta::assert_snapshot!(end, @r#"

                "algbw_gbps": 4.0,
                "busbw_gbps": 2.0,
                "effective_busbw_gbps": 3.0
              }
            }
          }
        }
        "#);
    }

    #[test]
    fn ranks_stand_between_verification_and_bandwidths() {
        let mut executors = with_bandwidths("sim", true);
        let wait_s = vec![1.0, 0.0];
        let received = Imbalance::of_counts(&[6, 2]);
        let imbalance = Imbalances { wait: Imbalance::of(&wait_s), compute: None, received };
        executors.inserted("sim", "native").by_rank = Some(ByRank { wait_s, imbalance, ..ByRank::default() });
        let text = written(&Summary::new("quickstart", 7, executors));
        let (_, end) = text.split_once("\"verified\": null,").unwrap();
        insta::assert_snapshot!(end, @r#"

                "wait_s_by_rank": [
                  1.0,
                  0.0
                ],
                "imbalance": {
                  "received": {
                    "max_over_mean": 1.5,
                    "gini": 0.25
                  },
                  "compute": null,
                  "wait": {
                    "max_over_mean": 2.0,
                    "gini": 0.5
                  }
                },
                "algbw_gbps": 4.0,
                "busbw_gbps": 2.0,
                "effective_busbw_gbps": 3.0
              }
            }
          }
        }
        "#);
    }

    #[test]
    #[should_panic(expected = "no measure of bandwidth")]
    fn untimed_executors_have_no_bandwidths() {
        with_bandwidths("threads", false);
    }

    #[test]
    fn speedup_refers_to_the_first_variant_in_whatever_order_they_come() {
        let mut executors = Executors::new("native");
        executors.insert("sim", true, "zipped", metrics(1.0), "", None);
        assert_eq!(speedups(&executors), [None], "the first variant has not run");
        executors.insert("sim", true, "native", metrics(2.0), "", None);
        assert_eq!(speedups(&executors), [Some(2.0), Some(1.0)]);
        executors.insert("sim", true, "native", metrics(4.0), "", None);
        assert_eq!(speedups(&executors), [Some(4.0), Some(1.0)], "replaced, in its place");
    }

    #[test]
    fn executors_are_compared_with_themselves_and_untimed_ones_not_at_all() {
        let mut executors = Executors::new("native");
        executors.insert("sim", true, "native", metrics(2.0), "", None);
        executors.insert("threads", false, "native", metrics(2.0), "", Some(true));
        executors.insert("threads", false, "zipped", metrics(1.0), "", Some(false));
        executors.insert("mpi", true, "zipped", metrics(1.0), "", Some(true));
        assert_eq!(speedups(&executors), [Some(1.0), None, None, None]);
        assert_eq!(executors.get("threads", "zipped").unwrap().verified, Some(false));
        assert_eq!(executors.get("mpi", "native"), None);
    }

    #[test]
    fn an_iteration_of_no_time_has_no_speedup() {
        let mut executors = Executors::new("native");
        executors.insert("sim", true, "native", Metrics::default(), "", None);
        assert_eq!(speedups(&executors), [None]);
    }
}
