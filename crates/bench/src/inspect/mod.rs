//! Compressibility of tensors, and its reasons: statistics of values, limits, and the size under each codec.

mod moments;

use serde::Serialize;
use zipwire_codec::{Auto, Base, Codec, Costs, DType, EncodeError, Estimate, Layout, RowIndex, Spec};
use zipwire_traces::TensorInfo;

pub use self::moments::Histogram;
use self::moments::{Format, patterns};
use self::moments::{Moments, normal_distance};
use self::moments::{Order0, inside_groups};

/// Statistics, limits and sizes of one tensor.
#[derive(Clone, Debug, Serialize)]
pub struct TensorReport {
    /// Its name.
    pub name: String,
    /// Type of the values, as safetensors files name it.
    pub dtype: String,
    /// Shape; empty for a scalar.
    pub shape: Vec<usize>,
    /// Bytes of the values.
    pub bytes_raw: u64,
    /// `None` for tensors without values or without floating-point values.
    #[serde(flatten)]
    pub statistics: Option<Statistics>,
    /// Size of the `compact` frame of the whole tensor, in percent of the raw size, by codec, which is told how long rows
    /// are; codecs that do not know the type are left out.
    #[serde(serialize_with = "as_map")]
    pub size_pct: Vec<(String, f64)>,
    /// For each codec that chooses another one by the values: what, and why.
    pub choices: Vec<Chosen>,
    /// How many of the values differ from those of a base, in percent, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub changed_pct: Option<f64>,
    /// Remarks on properties that stand out.
    pub remarks: Vec<String>,
}

/// The choice of `auto` for a tensor.
#[derive(Clone, Debug, Serialize)]
pub struct Chosen {
    /// The spec that was asked for.
    pub codec: String,
    /// The codec of the frame.
    pub chosen: String,
    /// Estimates for all candidates, the chosen one among them.
    pub estimates: Vec<ChoiceEstimate>,
}

/// Estimated size and time of a codec for a tensor.
#[derive(Clone, Debug, Serialize)]
pub struct ChoiceEstimate {
    /// The codec.
    pub codec: &'static str,
    /// Size of its frame, in percent of the raw size.
    pub size_pct: f64,
    /// Encoding, in microseconds.
    pub encode_us: f64,
    /// The frame on the link, in microseconds; 0 if the goal has none.
    pub transfer_us: f64,
    /// Decoding, in microseconds.
    pub decode_us: f64,
}

/// Statistics of floating-point values.
#[derive(Clone, Debug, Serialize)]
pub struct Statistics {
    /// Mean of |x|, of finite values as all moments; `None` where there are none.
    pub mean_abs: Option<f64>,
    /// Standard deviation about the mean.
    pub std: Option<f64>,
    /// E[x^4] / E[x^2]^2, 3 for a Gaussian; `None` where all values are zero.
    pub kurtosis: Option<f64>,
    /// Kolmogorov-Smirnov distance of |x| from a Gaussian of the same mean square, at powers of two; from 0 to 1.
    pub normal_distance: Option<f64>,
    /// Order-0 entropy of the exponents, in bits per value.
    pub exponent_entropy_bits: f64,
    /// The same inside one row of a matrix, in the mean; `None` for other shapes and short rows.
    pub exponent_entropy_in_rows_bits: Option<f64>,
    /// The same inside one column.
    pub exponent_entropy_in_columns_bits: Option<f64>,
    /// Share of the values that have one of the 7 most frequent exponents, from 0 to 1.
    pub coverage_top7: f64,
    /// The same of the 16 most frequent ones.
    pub coverage_top16: f64,
    /// Zeros of both signs, in percent.
    pub zeros_pct: f64,
    /// Rows (of the last dimension) that repeat an earlier one bit for bit, in percent; `None` for tensors of fewer
    /// dimensions than two.
    pub repeated_rows_pct: Option<f64>,
    /// Infinities and NaN, in percent.
    pub not_finite_pct: f64,
    /// Size with exponents coded at their entropy and everything else stored, in percent.
    pub limit_exponent_pct: f64,
    /// Size with sign, exponent and mantissa each coded at its order-0 entropy, in percent: the information limit of coders
    /// that look at one value at a time.
    pub limit_pct: f64,
}

/// Size of several tensors of one type together.
#[derive(Clone, Debug, Serialize)]
pub struct Total {
    /// Type of the values.
    pub dtype: String,
    /// Tensors.
    pub tensors: usize,
    /// Bytes of their values.
    pub bytes_raw: u64,
    /// Size in percent, by codec.
    #[serde(serialize_with = "as_map")]
    pub size_pct: Vec<(String, f64)>,
}

/// Inspects one tensor; `values` are its little-endian bytes. Codecs that choose do so by `costs`, if there are any.
///
/// # Errors
/// If a codec refuses values of a type that it claims to know.
pub fn inspect(
    tensor: &TensorInfo,
    values: &[u8],
    codecs: &[Spec],
    costs: Option<&Costs>,
) -> Result<TensorReport, EncodeError> {
    let dtype = DType::from_name(&tensor.dtype);
    let statistics =
        dtype.filter(|_| !values.is_empty()).map(|dtype| statistics(dtype, &tensor.shape, values));
    let (mut size_pct, mut choices) = (Vec::new(), Vec::new());
    for (dtype, spec) in dtype.iter().flat_map(|&dtype| codecs.iter().map(move |spec| (dtype, spec))) {
        let spec_of_rows = spec.clone().for_rows(tensor.shape.last().copied().unwrap_or(0));
        let mut codec = spec_of_rows.codec();
        if let Some(auto) = spec_of_rows.auto().filter(|_| !values.is_empty()) {
            let auto = costs.map_or(auto.clone(), |costs| auto.costs(costs.clone()));
            choices.push(chosen(spec.to_string(), &auto, dtype, values)?);
            codec = Box::new(auto);
        }
        if !values.is_empty() && codec.supports(dtype) {
            let frame = codec.as_ref().encode_to_vec(Layout::Compact, dtype, values)?;
            size_pct.push((spec.to_string(), 100.0 * frame.len() as f64 / values.len() as f64));
        }
    }
    let remarks = remarks(&tensor.dtype, values.len(), statistics.as_ref());
    let TensorInfo { name, dtype, shape, .. } = tensor.clone();
    let (bytes_raw, changed_pct) = (values.len() as u64, None);
    Ok(TensorReport { name, dtype, shape, bytes_raw, statistics, size_pct, changed_pct, choices, remarks })
}

fn chosen(codec: String, auto: &Auto, dtype: DType, values: &[u8]) -> Result<Chosen, EncodeError> {
    let estimates = auto.estimates(dtype, values)?;
    // Values are stored if no codec has a speed.
    let chosen = auto.best(&estimates).map_or("raw", |best| best.codec).to_owned();
    let estimate = |estimate: &Estimate| ChoiceEstimate {
        codec: estimate.codec,
        size_pct: 100.0 * estimate.bytes as f64 / values.len() as f64,
        encode_us: 1e6 * estimate.encode_s,
        transfer_us: 1e6 * estimate.transfer_s,
        decode_us: 1e6 * estimate.decode_s,
    };
    Ok(Chosen { codec, chosen, estimates: estimates.iter().map(estimate).collect() })
}

/// Like [`inspect`], with earlier values of the tensor, of the same type and number, as the base of codecs that code differences.
///
/// # Errors
/// Errors of [`inspect`], and if the values are others in type or number.
pub fn inspect_against(
    tensor: &TensorInfo,
    values: &[u8],
    base: &Base,
    codecs: &[Spec],
    costs: Option<&Costs>,
) -> Result<TensorReport, EncodeError> {
    let codecs: Vec<Spec> = codecs.iter().map(|spec| spec.clone().against(base.clone())).collect();
    let mut report = inspect(tensor, values, &codecs, costs)?;
    let width = base.dtype().width();
    let pairs = values.chunks(width).zip(base.as_bytes().chunks(width));
    let changed = pairs.filter(|(value, base)| value != base).count();
    let changed_pct = 100.0 * (changed * width) as f64 / values.len().max(1) as f64;
    report.remarks.insert(0, format!("{changed_pct:.2} % of the values differ"));
    report.changed_pct = Some(changed_pct);
    Ok(report)
}

/// Sums over tensors, by type, in the order in which types first come; types that no codec knows are left out.
pub fn totals(reports: &[TensorReport]) -> Vec<Total> {
    let mut totals: Vec<Total> = Vec::new();
    for report in reports.iter().filter(|report| !report.size_pct.is_empty()) {
        let index = totals.iter().position(|total| total.dtype == report.dtype).unwrap_or_else(|| {
            let size_pct = report.size_pct.iter().map(|(codec, _)| (codec.clone(), 0.0)).collect();
            totals.push(Total { dtype: report.dtype.clone(), tensors: 0, bytes_raw: 0, size_pct });
            totals.len() - 1
        });
        let total = &mut totals[index];
        total.tensors += 1;
        total.bytes_raw += report.bytes_raw;
        // Bytes for now.
        for ((_, sum), (_, pct)) in total.size_pct.iter_mut().zip(&report.size_pct) {
            *sum += pct / 100.0 * report.bytes_raw as f64;
        }
    }
    for total in &mut totals {
        total.size_pct.iter_mut().for_each(|(_, sum)| *sum = 100.0 * *sum / total.bytes_raw as f64);
    }
    totals
}

fn statistics(dtype: DType, shape: &[usize], values: &[u8]) -> Statistics {
    let format = Format::of(dtype);
    let (mut order0, mut moments) = (Order0::new(format), Moments::default());
    let mut exponents = Vec::with_capacity(values.len() / dtype.width());
    for bits in patterns(dtype, values) {
        let parts = format.split(bits);
        order0.add(parts);
        exponents.push(u8::try_from(parts.exponent).expect("exponents have at most eight bits"));
        if let Some(value) = format.value(parts) {
            moments.add(value);
        }
    }
    let (rows, columns) = match shape {
        &[_, columns] => inside_groups(&exponents, columns, format.exponent_bits),
        _ => (None, None),
    };
    let percent = |count: u64| 100.0 * count as f64 / exponents.len() as f64;
    Statistics {
        mean_abs: moments.mean_abs(),
        std: moments.std(),
        kurtosis: moments.kurtosis(),
        normal_distance: normal_distance(format, &order0.exponent, &moments),
        exponent_entropy_bits: order0.exponent.entropy(),
        exponent_entropy_in_rows_bits: rows,
        exponent_entropy_in_columns_bits: columns,
        coverage_top7: order0.exponent.coverage(7),
        coverage_top16: order0.exponent.coverage(16),
        zeros_pct: percent(moments.zeros()),
        repeated_rows_pct: repeated_rows_pct(dtype, shape, values),
        not_finite_pct: percent(exponents.len() as u64 - moments.count()),
        limit_exponent_pct: 100.0 * order0.limit_exponent(),
        limit_pct: 100.0 * order0.limit(),
    }
}

fn repeated_rows_pct(dtype: DType, shape: &[usize], values: &[u8]) -> Option<f64> {
    let &[_, .., row] = shape else { return None };
    if row == 0 {
        return None;
    }
    // What is too much for an index is left out by nobody.
    RowIndex::find(values, row * dtype.width()).ok().map(|index| index.repeated_pct())
}

/// Bytes below which the header of a frame weighs more than a percent.
const TINY_BYTES: usize = 4096;

/// Remarks on a tensor. The thresholds are those at which another form of coding begins to pay.
fn remarks(dtype: &str, bytes: usize, statistics: Option<&Statistics>) -> Vec<String> {
    let mut remarks = Vec::new();
    if DType::from_name(dtype).is_none() {
        return vec![format!("no codec for {dtype}: stored as it is")];
    }
    let Some(statistics) = statistics else { return vec!["empty".to_owned()] };
    let mut remark = |applies: bool, text: String| {
        if applies {
            remarks.push(text);
        }
    };
    let Statistics { exponent_entropy_bits: whole, zeros_pct, limit_pct, limit_exponent_pct, .. } =
        statistics;
    remark(bytes < TINY_BYTES, "tiny: headers count".to_owned());
    remark(*zeros_pct == 100.0, "all zero".to_owned());
    remark((1.0..100.0).contains(zeros_pct), format!("{zeros_pct:.1} % exact zeros"));
    let repeated = statistics.repeated_rows_pct.filter(|repeated| *repeated >= 1.0 && *zeros_pct < 100.0);
    if let Some(repeated) = repeated {
        remark(true, format!("{repeated:.1} % of the rows repeat others"));
    }
    let gain = |inside: Option<f64>| inside.map(|inside| whole - inside).filter(|gain| *gain > 0.25);
    if let Some(gain) = gain(statistics.exponent_entropy_in_rows_bits) {
        remark(true, format!("rows differ in scale: {gain:.2} bits"));
    }
    if let Some(gain) = gain(statistics.exponent_entropy_in_columns_bits) {
        remark(true, format!("columns differ in scale: {gain:.2} bits"));
    }
    let mantissa_gain = limit_exponent_pct - limit_pct;
    remark(
        mantissa_gain > 5.0 && *zeros_pct < 50.0 && bytes >= TINY_BYTES,
        format!("sign and mantissa save {mantissa_gain:.0} points"),
    );
    let is_normal = statistics.normal_distance.is_some_and(|distance| distance < 0.02);
    remark(is_normal, "near-Gaussian".to_owned());
    remark(statistics.not_finite_pct > 0.0, format!("{:.2} % not finite", statistics.not_finite_pct));
    remarks
}

fn as_map<S: serde::Serializer>(entries: &[(String, f64)], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_map(entries.iter().map(|(key, value)| (key, value)))
}
