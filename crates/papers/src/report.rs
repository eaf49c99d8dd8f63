//! The table of all papers: published, ours, error, role.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize, Serializer};

use crate::curve::CurveAbout;
use crate::measure::Ours;
use crate::{Bench, Constant, Curve, NullModel, Number, Published, ReproduceError, Role, Score, Sensitivity};

/// Result of `zipwire reproduce` for a paper.
#[derive(Clone, Debug, Serialize)]
pub struct PaperReport {
    /// The paper.
    pub paper: Paper,
    /// One for each published number, in the order of `expected.toml`.
    pub rows: Vec<Row>,
    /// Tables of numbers that depend on something that the paper does not state.
    pub curves: Vec<Curve>,
    /// Constants of the scenarios, and how each was obtained.
    pub constants: Vec<Constant>,
    /// Results with fitted constants changed, on request.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sensitivity: Option<Sensitivity>,
    /// Sums over the rows.
    pub score: Score,
    /// The null model, of a paper with speedups that it has values for.
    pub null_model: Option<NullModel>,
}

/// A published number and ours.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// Its id.
    pub id: String,
    /// The figure, table or equation.
    pub figure: String,
    /// Where the text says it.
    pub place: String,
    /// Quantity, in words.
    pub quantity: String,
    /// Its unit.
    pub unit: String,
    /// Published value; an infinite end of a range is null in JSON.
    #[serde(serialize_with = "published")]
    pub paper: Published,
    /// Value that comes out here, if any.
    pub ours: Option<f64>,
    /// The least and the most of it over several seeds; absent where there was one seed, or all gave the same.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ours_range: Option<[f64; 2]>,
    /// Ours over the published value, less 1, in percent; of a range to its nearest end, 0 inside.
    pub error_pct: Option<f64>,
    /// The same of the gain, a speedup less 1; `None` of what is no speedup, of bounds, and where the paper has no gain.
    pub gain_error_pct: Option<f64>,
    /// Value of the null model, for speedups.
    pub null: Option<f64>,
    /// Role in the comparison.
    pub role: Role,
    /// Whether a prediction follows from nothing that was fitted and from no other number; `None` of other roles.
    pub independent: Option<bool>,
    /// Whether it is as near as `expected.toml` asks for.
    pub reached: Option<bool>,
    /// Reason why it cannot be measured yet.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pending: Option<String>,
    /// Remarks: on our value, on its conditions, and on why it is missed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

impl PaperReport {
    pub(super) fn measure(
        paper: Paper,
        numbers: &[Number],
        constants: Vec<Constant>,
        curves: &[CurveAbout],
        bench: &Bench<'_>,
        begin: &(dyn Fn(&str) + Sync),
    ) -> Result<Self, ReproduceError> {
        let mut rows = Vec::with_capacity(numbers.len());
        for number in numbers {
            let ours = match &number.measure {
                Some(measure) => {
                    begin(&number.id);
                    bench.proceed()?;
                    measure.ours(bench)?
                }
                None => Ours::default(),
            };
            rows.push(Row::new(number, ours));
        }
        let curves = curves.iter().map(|curve| curve.measure(bench)).collect::<Result<_, _>>()?;
        let score = Score::of(&rows);
        let null_model = NullModel::fit(numbers);
        for (row, number) in rows.iter_mut().zip(numbers) {
            row.null = null_model.as_ref().and_then(|model| model.speedup(number, numbers));
        }
        Ok(Self { paper, rows, curves, constants, sensitivity: None, score, null_model })
    }
}

impl PaperReport {
    /// Takes in the numbers of the same paper with another seed, as ends of ranges.
    pub(super) fn widen(&mut self, other: &Self) {
        for (row, other) in self.rows.iter_mut().zip(&other.rows) {
            let Some((ours, other)) = row.ours.zip(other.ours) else { continue };
            let [least, most] = row.ours_range.unwrap_or([ours; 2]);
            row.ours_range = Some([least.min(other), most.max(other)]).filter(|[least, most]| least < most);
        }
        for (curve, other) in self.curves.iter_mut().zip(&other.curves) {
            curve.widen(other);
        }
    }
}

impl Row {
    fn new(number: &Number, ours: Ours) -> Self {
        let Number {
            id, figure, place, quantity, paper, unit, role, reason, needs, follows, pending, ..
        } = number.clone();
        let independent = number.is_predicted().then_some(follows.is_none());
        let needs = needs.map(|needs| format!("depends on {needs}"));
        let follows = follows.map(|follows| format!("not independent: {follows}"));
        let notes: Vec<String> = [ours.note, needs, reason, follows].into_iter().flatten().collect();
        let is_held = !matches!(role, Role::Input | Role::Conditional);
        let held = ours.value.filter(|_| is_held);
        let error = held.and_then(|ours| paper.error(ours));
        let gain_error =
            held.filter(|_| number.gain_tolerance.is_some()).and_then(|ours| paper.gain_error(ours));
        Self {
            id,
            figure,
            place,
            quantity,
            unit,
            paper,
            ours: ours.value,
            ours_range: None,
            error_pct: error.map(|error| 100.0 * error),
            gain_error_pct: gain_error.map(|error| 100.0 * error),
            null: None,
            role,
            independent,
            reached: ours.value.and_then(|ours| number.is_reached(ours)),
            pending,
            note: (!notes.is_empty()).then(|| notes.join("; ")),
        }
    }
}

/// Two decimals with a sign, unless it would be that of a zero.
pub fn signed_percent(percent: f64) -> String {
    if percent.abs() < 0.005 { "0.00 %".to_owned() } else { format!("{percent:+.2} %") }
}

/// JSON knows no infinity.
fn published<S: Serializer>(paper: &Published, serializer: S) -> Result<S::Ok, S::Error> {
    match paper {
        Published::Value(value) => value.serialize(serializer),
        Published::Range(ends) => ends.map(|end| end.is_finite().then_some(end)).serialize(serializer),
    }
}

/// A paper whose results are reproduced.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Paper {
    /// Compressed collectives for training.
    ZipCcl,
    /// Transfer of KV caches between prefill and decode.
    SplitZip,
    /// Huffman-coded weights for inference.
    DFloat11,
    /// Models and checkpoints at rest.
    ZipNn,
    /// Increments of checkpoints.
    Lmc,
}

impl Paper {
    /// All papers.
    pub const ALL: [Self; 5] = [Self::ZipCcl, Self::SplitZip, Self::DFloat11, Self::ZipNn, Self::Lmc];

    /// Its name on the command line and in files.
    pub fn name(self) -> &'static str {
        match self {
            Self::ZipCcl => "zipccl",
            Self::SplitZip => "splitzip",
            Self::DFloat11 => "dfloat11",
            Self::ZipNn => "zipnn",
            Self::Lmc => "lmc",
        }
    }

    /// Its title.
    pub fn title(self) -> &'static str {
        match self {
            Self::ZipCcl => "ZipCCL: lossless compressed collectives for training",
            Self::SplitZip => {
                "SplitZip: Ultra Fast Lossless KV Compression for Disaggregated LLM Serving (arXiv:2605.01708)"
            }
            Self::DFloat11 => {
                "70% Size, 100% Accuracy: Lossless LLM Compression for Efficient GPU Inference via Dynamic-Length Float \
                 (arXiv:2504.11651)"
            }
            Self::ZipNn => "ZipNN: Lossless Compression for AI Models",
            Self::Lmc => "Lossless Compression for LLM Tensor Incremental Snapshots (arXiv:2505.09810)",
        }
    }
}

impl fmt::Display for Paper {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Paper {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let names = || Self::ALL.map(|paper| format!("`{}`", paper.name())).join(", ");
        let found = Self::ALL.into_iter().find(|paper| paper.name() == text);
        found.ok_or_else(|| format!("unknown paper `{text}`: there are {}", names()))
    }
}
