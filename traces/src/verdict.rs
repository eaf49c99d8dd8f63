//! `verdict` of `summary.json`: what follows from the results of a run, and what they rest on.

use serde::ser::{Serialize, Serializer};
use zipwire_timeline::CriticalPath;

use crate::{Executors, VariantSummary};

/// Conclusions from a run: the bottleneck of each variant, when coding pays, the most sensitive constants, and the assumptions behind all numbers.
#[derive(Clone, Debug, Default, PartialEq, serde::Serialize)]
pub struct Verdict {
    /// Largest part of each simulated variant's critical path, in the order of the scenario; the key is absent where no path is known.
    #[serde(serialize_with = "as_map", skip_serializing_if = "Vec::is_empty")]
    pub binds: Vec<(String, Binds)>,
    /// Coded variants by name, in the order of the scenario; the key is absent where it was not looked for.
    #[serde(serialize_with = "as_map", skip_serializing_if = "Vec::is_empty")]
    pub break_even: Vec<(String, BreakEven)>,
    /// Constants on which the speedup of the best coded variant depends, the strongest first; the key is absent with the one before.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub sensitivity: Vec<Sensitivity>,
    /// Assumptions on which simulated numbers rest, a sentence each that says what to do.
    pub warnings: Vec<String>,
    /// All of that but warnings in words, a sentence each; the key is absent where no speedup is split.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub text: Vec<String>,
}

/// Bottleneck of an iteration.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct Binds {
    /// A key of `critical_path_s`.
    pub cause: &'static str,
    /// Its part of the mean iteration, from 0 to 1.
    pub share: f64,
    /// The busiest link, if the cause is `links`; the key is absent elsewhere.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub link: Option<String>,
}

impl Binds {
    /// Largest part of a critical path; `None` if the path takes no time.
    fn of(path: &CriticalPath) -> Option<Self> {
        let (&cause, &most_s) = path.critical_path_s.iter().max_by(|a, b| a.1.total_cmp(b.1))?;
        let busiest = path.busiest_link.as_ref().filter(|_| cause == "links");
        Some(Self {
            cause,
            share: most_s / path.critical_path_s.values().sum::<f64>(),
            link: busiest.map(|link| link.name.clone()),
        })
    }
}

impl Verdict {
    /// Bottleneck of each variant whose critical path is known, and nothing else yet.
    pub fn on(executors: &Executors) -> Self {
        let path_of = |(_, variant, result): (&str, &str, &VariantSummary)| {
            Some((variant.to_owned(), Binds::of(result.critical_path.as_ref()?)?))
        };
        Self { binds: executors.iter().filter_map(path_of).collect(), ..Self::default() }
    }
}

/// Speedup that would result if a constant of the scenario were a tenth larger.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct Sensitivity {
    /// The variant whose speedup it is.
    pub variant: String,
    /// The constant, by its path in scenarios.
    pub constant: String,
    /// The speedup with it a tenth larger.
    pub speedup: f64,
}

/// Values at which a coded variant takes as long as the first variant, each with all else unchanged.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize)]
pub struct BreakEven {
    /// The ratio of all frames; `None` if none from 1 to 16 is low or high enough.
    pub ratio: Option<f64>,
    /// The codec's speed, in GB/s of raw values encoded, with the launch that is declared; `None` if no speed is slow or fast enough.
    pub encode_gbps: Option<f64>,
    /// Decoded, in the proportion that is declared.
    pub decode_gbps: Option<f64>,
}

fn as_map<T: Serialize, S: Serializer>(entries: &[(String, T)], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_map(entries.iter().map(|(name, value)| (name, value)))
}
