//! Ways to obtain a published number here: the values of `measure` in `expected.toml`.

use std::str::FromStr;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer};
use zipwire_codec::{DType, Spec};
use zipwire_paper_codecs::scale::gaussian::{Rounding, bits, optimum, optimum_u, top_coverage};

use crate::samples::{self, Bits, Statistic};
use crate::zipccl::Collective;
use crate::{Bench, ReproduceError, dfloat11, lmc, splitzip, switcher, zipccl, zipnn};

/// How a published number is obtained here.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "kebab-case", rename_all_fields = "kebab-case", deny_unknown_fields)]
#[expect(clippy::large_enum_variant, reason = "there are a hundred of them, read once")]
pub(crate) enum Measure {
    /// No number, only a remark.
    Note(String),
    /// Ratio of the times of two variants of a scenario.
    Speedup(Speedup),
    /// The least speedup over all GPU counts.
    Least(Speedup),
    /// The greatest speedup over all GPU counts.
    Most(Speedup),
    /// Seconds of an iteration, less those of `less`.
    Seconds { scenario: String, set: Vec<String>, variant: String, less: f64 },
    /// Mean speedup over all sizes and GPU counts.
    MeanOverSizes(Collective),
    /// Mean speedup over all GPU counts at the smallest size.
    MeanOfSmallest(Collective),
    /// Gain of the adaptive switcher on the cluster with this index.
    Switcher(usize),
    /// Share of the transfer at which the whole is `reaches` times as fast; beside it a simulated speedup of the whole.
    ImpliedShare { reaches: f64, transfer: Speedup, whole: Speedup, note: String },
    /// Percent of normally distributed values that have one of so many most frequent exponents.
    TopExponents(usize),
    /// Raw over coded bytes of all tensors of a sample.
    CodecRatio(CodecRatio),
    /// Ratio and coverage of the tensors of the recorded KV cache whose names begin so.
    KvCache(String),
    /// Percent of values with one of seven exponents, chosen for each tensor of a sample.
    SevenExponents(String),
    /// A statistic of one field of pretrained weights.
    Pretrained(Bits, Statistic),
    /// Size of pretrained weights by `huffman` over raw, times this.
    HuffmanSize(f64),
    /// Percent of a byte group of pretrained weights by `grouped`.
    GroupSize(usize),
    /// Percent of a sample by `grouped`.
    SizeOf(String),
    /// Percent of pretrained weights as another type by `grouped`; of some byte groups, if these are named.
    Converted {
        #[serde(deserialize_with = "dtype")]
        dtype: DType,
        groups: Option<[usize; 2]>,
    },
    /// One of [`FUNCTIONS`].
    #[serde(untagged, deserialize_with = "function")]
    Function(Function),
}

/// Obtains a number.
type Function = fn(&Bench<'_>) -> Result<Ours, ReproduceError>;

/// Measures that only one number has.
const FUNCTIONS: &[(&str, Function)] = &[
    ("saving", |_| Ok((100.0 * (1.0 - bits(1.0) / 16.0)).into())),
    ("fixed-bits", |_| Ok(zipccl::fixed_bits())),
    ("window-start", |_| Ok(optimum_u().into())),
    ("window-offset", |_| Ok(optimum().into())),
    ("switcher-mean", switcher::mean),
    ("switcher-least-iteration", switcher::least_iteration),
    ("code-bits", dfloat11::code_bits),
    ("longest-word", dfloat11::longest_word),
    ("index", dfloat11::index),
    ("huffman-saving", |bench| dfloat11::sized(bench, |size| 100.0 * (1.0 - size))),
    ("shuffle", zipnn::shuffle),
    ("lz4", zipnn::lz4),
    ("fse", zipnn::fse),
    ("size", |bench| zipnn::sized(bench, None)),
    ("over-zstd", zipnn::over_zstd),
    ("over-ee-zstd", zipnn::over_ee_zstd),
    ("gradient-order", zipnn::gradient_order),
    ("gradient-layers", zipnn::gradient_layers),
    ("gradient-embedding", zipnn::gradient_embedding),
    ("gradient-embedding-zstd", zipnn::gradient_embedding_zstd),
    ("weights-embedding-zstd", zipnn::weights_embedding_zstd),
    ("zstd-zeros", zipnn::zstd_zeros),
    ("zero-run", zipnn::zero_run),
    ("auto", zipnn::auto),
    ("unchanged-bytes", zipnn::unchanged),
    ("delta-grouping", zipnn::delta_grouping),
    ("delta-alone", zipnn::delta_alone),
    ("increment-ratio", lmc::increment_ratio),
    ("increment-of-nothing", lmc::increment_of_nothing),
    ("above-entropy", lmc::above_entropy),
    ("byte-groups", lmc::grouping),
    ("stable-bytes", lmc::stable_bytes),
    ("adaptive", lmc::adaptive),
];

/// A sample and the codec for it.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct CodecRatio {
    sample: String,
    #[serde(deserialize_with = "spec")]
    codec: Spec,
    #[serde(deserialize_with = "dtype")]
    dtype: DType,
    note: Option<String>,
}

/// Time of one variant of a scenario over that of another.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Speedup {
    scenario: String,
    /// Values of the scenario that are replaced, as `--set` takes them.
    #[serde(default)]
    set: Vec<String>,
    /// The variants before and after.
    over: [String; 2],
    #[serde(default)]
    time: Time,
    /// A second speedup that the remark names.
    beside: Option<Beside>,
    /// In sweeps of a curve: factor from the first column to what `set` takes.
    #[serde(default = "one")]
    scale: f64,
}

/// The same speedup with other values or variants, named by a remark.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Beside {
    /// Values that are replaced, too.
    #[serde(default)]
    set: Vec<String>,
    over: Option<[String; 2]>,
    /// The remark, with `{}` for the speedup.
    note: String,
}

/// Time that is compared.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Time {
    #[default]
    Iteration,
    /// All calls of an iteration.
    Calls,
    /// From the arrival of a request to its first token.
    FirstToken,
    /// One request, where many are served at once.
    Request,
}

/// A number measured here, with a remark.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Ours {
    /// In the unit of the published number; `None` where it depends on what the text does not say.
    pub(crate) value: Option<f64>,
    pub(crate) note: Option<String>,
}

impl Ours {
    pub(crate) fn with(value: f64, note: impl Into<String>) -> Self {
        Self { value: Some(value), note: Some(note.into()) }
    }

    pub(crate) fn only(note: impl Into<String>) -> Self {
        Self { value: None, note: Some(note.into()) }
    }
}

impl From<f64> for Ours {
    fn from(value: f64) -> Self {
        Self { value: Some(value), note: None }
    }
}

impl Measure {
    pub(crate) fn ours(&self, bench: &Bench<'_>) -> Result<Ours, ReproduceError> {
        match self {
            Self::Note(note) => Ok(Ours::only(note)),
            Self::Speedup(speedup) => speedup.ours(bench),
            Self::Least(speedup) => zipccl::extreme(bench, speedup, |new, best| new < best),
            Self::Most(speedup) => zipccl::extreme(bench, speedup, |new, best| new > best),
            Self::Seconds { scenario, set, variant, less } => {
                Ok((bench.simulate(scenario, set)?.iteration_s(variant)? - less).into())
            }
            Self::MeanOverSizes(collective) => zipccl::mean_over_sizes(bench, *collective),
            Self::MeanOfSmallest(collective) => zipccl::mean_of_smallest(bench, *collective),
            Self::Switcher(cluster) => switcher::gain(bench, *cluster),
            Self::ImpliedShare { reaches, transfer, whole, note } => {
                splitzip::implied_share(bench, *reaches, [transfer, whole], note)
            }
            Self::TopExponents(count) => Ok((100.0 * top_coverage(1.0, Rounding::Nearest, *count)).into()),
            Self::CodecRatio(ratio) => ratio.ours(bench),
            Self::KvCache(prefix) => splitzip::kv_cache(bench, prefix),
            Self::SevenExponents(sample) => zipccl::seven_exponents(bench, sample),
            Self::Pretrained(bits, statistic) => samples::pretrained(bench, *bits, *statistic),
            Self::HuffmanSize(times) => dfloat11::sized(bench, |size| times * size),
            Self::GroupSize(group) => zipnn::sized(bench, Some(*group)),
            Self::SizeOf(sample) => zipnn::size_of(bench, sample),
            Self::Converted { dtype, groups } => zipnn::converted(bench, *dtype, *groups),
            Self::Function(function) => function(bench),
        }
    }
}

impl CodecRatio {
    fn ours(&self, bench: &Bench<'_>) -> Result<Ours, ReproduceError> {
        let Self { sample, codec, dtype, note } = self;
        let value = samples::ratio(bench, sample, codec, *dtype, &|_| true)?;
        Ok(Ours { value: Some(value), note: note.clone() })
    }
}

impl Speedup {
    /// The time before over the time after, with `more` values replaced.
    pub(crate) fn measure(&self, bench: &Bench<'_>, more: &[String]) -> Result<f64, ReproduceError> {
        self.of(bench, more, &self.over)
    }

    /// The speedup at a point of a sweep: `set` has `{}` where the number goes.
    pub(crate) fn at(&self, bench: &Bench<'_>, set: &[String], number: f64) -> Result<f64, ReproduceError> {
        let number = (self.scale * number).to_string();
        self.measure(bench, &set.iter().map(|set| set.replace("{}", &number)).collect::<Vec<_>>())
    }

    fn ours(&self, bench: &Bench<'_>) -> Result<Ours, ReproduceError> {
        let value = self.measure(bench, &[])?;
        let Some(Beside { set, over, note }) = &self.beside else { return Ok(value.into()) };
        let beside = self.of(bench, set, over.as_ref().unwrap_or(&self.over))?;
        Ok(Ours::with(value, note.replace("{}", &format!("{beside:.3}"))))
    }

    fn of(&self, bench: &Bench<'_>, more: &[String], over: &[String; 2]) -> Result<f64, ReproduceError> {
        let simulated = bench.simulate(&self.scenario, &[&self.set[..], more].concat())?;
        let [before, after] = over;
        Ok(match self.time {
            Time::Iteration => simulated.iteration_s(before)? / simulated.iteration_s(after)?,
            Time::Calls => simulated.calls_s(before)? / simulated.calls_s(after)?,
            Time::FirstToken => simulated.ttft_s(before)? / simulated.ttft_s(after)?,
            Time::Request => simulated.requests_per_s(after)? / simulated.requests_per_s(before)?,
        })
    }
}

fn one() -> f64 {
    1.0
}

fn spec<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Spec, D::Error> {
    zipwire_paper_codecs::register();
    Spec::from_str(&String::deserialize(deserializer)?).map_err(D::Error::custom)
}

fn dtype<'de, D: Deserializer<'de>>(deserializer: D) -> Result<DType, D::Error> {
    let name = String::deserialize(deserializer)?;
    DType::from_name(&name).ok_or_else(|| D::Error::custom(format!("there is no type `{name}`")))
}

fn function<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Function, D::Error> {
    let name = String::deserialize(deserializer)?;
    let found = FUNCTIONS.iter().find(|(known, _)| *known == name);
    found
        .map(|(_, function)| *function)
        .ok_or_else(|| D::Error::custom(format!("there is no measure `{name}`")))
}
