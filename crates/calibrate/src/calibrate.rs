//! From series of one cluster to constants of the model, with checks before and errors after.

use zipwire_cluster::library::{Constant, ConstantUnit, Constants, Hardware, LibraryModel, Operation};

use crate::affine::{AffineFit, affine};
use crate::cluster_file::above_line_rate;
use crate::error::CalibrateError;
use crate::fit::{Fit, fit};
use crate::row::is_integer;
use crate::series::{LEAST_SIZES, Series, median};
use crate::site::Site;

/// A series that is slower than the fit by this factor, in the middle over its large sizes, is one of a run that went wrong.
const OUTLIER: f64 = 1.5;

/// Result of a calibration.
#[derive(Clone, Debug, PartialEq)]
pub struct Calibration {
    /// The cluster.
    pub site: Site,
    /// Constants of the model.
    pub fit: Fit,
    /// Latency and bandwidth of each series by range of sizes.
    pub lines: Vec<AffineFit>,
    /// Each series that is in the fit, and how well it is met.
    pub scores: Vec<(Series, Score)>,
    /// Errors at every second size, of a fit that does not know these.
    pub held: Held,
    /// Remarks on everything odd, assumed, left out or not determined.
    pub notes: Vec<String>,
}

/// Errors of a fit at sizes that it does not know.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Held {
    /// Mean of how far times are off, as a share of the measured ones.
    pub mean_abs_error: f64,
    /// The same of sizes of 32 MiB and more; none if there are none.
    pub mean_abs_error_large: Option<f64>,
    /// Number of sizes that were left out, over all series.
    pub rows: usize,
}

/// Fits the model of a library to what was measured on one cluster.
///
/// # Errors
/// If no series has four sizes, or series are of different GPUs.
pub fn calibrate(series: &[Series]) -> Result<Calibration, CalibrateError> {
    calibrate_from(series, LEAST_SIZES)
}

/// Like [`calibrate()`], with as few sizes as there are: constants that they do not tell are those of the generation of GPUs. For what a job has
/// measured by the way.
///
/// # Errors
/// If nothing was measured, or series are of different GPUs.
pub fn calibrate_few(series: &[Series]) -> Result<Calibration, CalibrateError> {
    calibrate_from(series, 1)
}

fn calibrate_from(series: &[Series], least_sizes: usize) -> Result<Calibration, CalibrateError> {
    let mut notes = Vec::new();
    let series = usable(series, least_sizes, &mut notes)?;
    let (site, assumed) = Site::of(&series)?;
    notes.extend(assumed);
    let start = site.constants();
    for one in &series {
        let hardware = site.hardware(one.nodes, one.gpus_per_node);
        notes.extend(check(one, &model(hardware, start)));
    }
    let all: Vec<&Series> = series.iter().collect();
    let kept = without_outliers(&site, &all, &start, &mut notes);
    let fit = fit_of(&site, &kept, &start);
    notes.extend(undetermined(&site, &kept, &fit));
    notes.extend(above_line_rate(&site, &fit));
    let held = held_out(&site, &kept, &start);
    let scores = kept.iter().map(|series| {
        let model = model(site.hardware(series.nodes, series.gpus_per_node), fit.constants);
        ((*series).clone(), score(series, &model))
    });
    let lines = series.iter().flat_map(affine).collect();
    let mut calibration = Calibration { site, lines, scores: scores.collect(), held, notes, fit };
    calibration.notes.extend(calibration.unlike());
    Ok(calibration)
}

/// Logarithm of a time over what constants of the generation say, from which on these say nothing of the cluster.
const UNLIKE: f64 = 0.15;

impl Calibration {
    /// Seconds of an operation on so many nodes and GPUs of each; `bytes` are its size, as nccl-tests has it.
    pub fn seconds(&self, operation: Operation, (nodes, gpus_per_node): (u32, u32), bytes: u64) -> f64 {
        let model = model(self.site.hardware(nodes, gpus_per_node), self.fit.constants);
        model.cost(operation, nodes * gpus_per_node).seconds(bytes as f64)
    }

    /// The same of a cluster on which everything takes so many times as long: for measurements that no constants of the generation meet.
    #[must_use]
    pub fn slowed(mut self, factor: f64) -> Self {
        self.site.gpu.bytes_per_s /= factor;
        self.site.nic_bytes_per_s /= factor;
        for constant in Constant::ALL {
            let value = self.fit.constants.get(constant);
            let scaled = match constant.unit() {
                ConstantUnit::Time => value * factor,
                ConstantUnit::Bandwidth => value / factor,
                ConstantUnit::Ratio => value,
            };
            self.fit.constants.set(constant, scaled);
        }
        self
    }

    /// Why the calibration does not predict an operation on so many nodes and GPUs of each, if it does not: nothing like it was measured,
    /// and what was measured is unlike other GPUs of the generation.
    pub fn not_predicted(&self, operation: Operation, nodes: u32, gpus_per_node: u32) -> Option<String> {
        let crosses = |nodes, gpus_per_node| {
            let hardware = self.site.hardware(nodes, gpus_per_node);
            hardware.shape(hardware.ranks()).domains > 1
        };
        let is_across = crosses(nodes, gpus_per_node);
        let series = self.scores.iter().map(|(one, _)| one);
        let alike: Vec<&Series> =
            series.filter(|one| crosses(one.nodes, one.gpus_per_node) == is_across).collect();
        if is_across && alike.is_empty() {
            return Some(
                "no log is of several nodes, or racks, so nothing is known of the network".to_owned(),
            );
        }
        if alike.iter().any(|one| kind(one.operation) == kind(operation)) {
            return None;
        }
        if is_across && self.site.gpu.nvlink_domain > 0 {
            return Some(
                "no log is of it or its like between racks, and none of other clusters is".to_owned(),
            );
        }
        let generation = self.site.gpu.generation.name();
        if self.site.gpu.is_stand_in {
            return Some(format!(
                "no log is of it or its like, and constants of `{generation}` are of other GPUs"
            ));
        }
        let factor = alike.iter().map(|one| self.factor_of_generation(one));
        let unlike = factor.reduce(|most, factor| {
            if libm::fabs(libm::log(factor)) > libm::fabs(libm::log(most)) { factor } else { most }
        });
        let unlike = unlike.filter(|factor| libm::fabs(libm::log(*factor)) > UNLIKE)?;
        Some(format!(
            "no log is of it or its like, and what was measured takes {unlike:.2} times what constants of `{generation}` say"
        ))
    }

    /// Time of a series' largest size, over what constants of the generation say.
    fn factor_of_generation(&self, series: &Series) -> f64 {
        let hardware = self.site.hardware(series.nodes, series.gpus_per_node);
        let largest = series.points.last().filter(|point| point.bytes >= LARGE_BYTES);
        largest.map_or(1.0, |largest| {
            let cost = model(hardware, self.site.constants()).cost(series.operation, series.ranks());
            largest.seconds / cost.seconds(largest.bytes as f64)
        })
    }

    /// Remarks on operations that nothing like was measured of, on nodes that were measured.
    fn unlike(&self) -> Vec<String> {
        let gpus = self.site.gpus_per_node;
        let is_measured = |nodes: &u32| {
            let is_several = |nodes: u32| nodes > 1;
            self.scores.iter().any(|(one, _)| is_several(one.nodes) == is_several(*nodes))
        };
        let remark = |nodes: u32| {
            let reason = |operation: &Operation| self.not_predicted(*operation, nodes, gpus);
            let operations: Vec<Operation> =
                Operation::ALL.into_iter().filter(|operation| reason(operation).is_some()).collect();
            let names: Vec<&str> = operations.iter().map(|operation| operation.name()).collect();
            let why = operations.first().and_then(reason)?;
            Some(format!(
                "{} on {nodes} x {gpus} GPUs: do not rely on what is predicted: {why}; measure with `{}_perf`",
                names.join(", "),
                names[0]
            ))
        };
        let several = Some(self.site.nodes).filter(|nodes| *nodes > 1);
        [Some(1), several].into_iter().flatten().filter(is_measured).filter_map(remark).collect()
    }
}

/// Series that count. Integers are left out where the same was measured with floating-point values: their sums are slower.
fn usable(
    series: &[Series],
    least_sizes: usize,
    notes: &mut Vec<String>,
) -> Result<Vec<Series>, CalibrateError> {
    let is_integer = |series: &Series| is_integer(&series.dtype);
    let same = |a: &Series, b: &Series| {
        (a.operation, a.nodes, a.gpus_per_node) == (b.operation, b.nodes, b.gpus_per_node)
    };
    let mut kept = Vec::new();
    for one in series.iter().filter(|one| !one.points.is_empty()) {
        if is_integer(one) && series.iter().any(|other| !is_integer(other) && same(one, other)) {
            let (name, file, dtype) = (one.name(), &one.file, &one.dtype);
            notes.push(format!("{name} ({file}): `{dtype}` is left out, as there are floating-point values"));
        } else {
            kept.push(one.clone());
        }
    }
    let sizes: usize = kept.iter().map(|one| one.points.len()).sum();
    if sizes < least_sizes {
        let few = kept.iter().map(|one| format!("{} ({}): {} sizes", one.name(), one.file, one.points.len()));
        return Err(CalibrateError::TooFew { reasons: few.collect::<Vec<_>>().join("; ") });
    }
    Ok(kept)
}

fn fit_of(site: &Site, series: &[&Series], start: &Constants) -> Fit {
    let with_hardware = |series: &&Series| site.hardware(series.nodes, series.gpus_per_node);
    let all: Vec<_> = series.iter().map(|series| (*series, with_hardware(series))).collect();
    fit(&all, start)
}

/// Leaves out series that are slow for their hardware and much slower than what others of their kind let expect.
fn without_outliers<'s>(
    site: &Site,
    series: &[&'s Series],
    start: &Constants,
    notes: &mut Vec<String>,
) -> Vec<&'s Series> {
    let hardware = |series: &Series| site.hardware(series.nodes, series.gpus_per_node);
    let (slow, sound): (Vec<&Series>, Vec<&Series>) =
        series.iter().partition(|series| is_slow(series, &model(hardware(series), *start)));
    if slow.is_empty() || sound.is_empty() {
        return series.to_vec();
    }
    let constants = fit_of(site, &sound, start).constants;
    let factor = |series: &Series| {
        let cost = model(hardware(series), constants).cost(series.operation, series.ranks());
        let large = series.points.iter().filter(|point| point.bytes >= LARGE_BYTES);
        median(large.map(|point| point.seconds / cost.seconds(point.bytes as f64)).collect()).unwrap_or(1.0)
    };
    // The same constants say what both take.
    let is_of_kind = |a: &Series, b: &Series| {
        kind(a.operation) == kind(b.operation)
            && (hardware(a).shape(a.ranks()).domains > 1) == (hardware(b).shape(b.ranks()).domains > 1)
    };
    let is_out = |series: &Series| {
        slow.iter().any(|slow| std::ptr::eq(*slow, series))
            && sound.iter().any(|sound| is_of_kind(sound, series))
            && factor(series) > OUTLIER
    };
    let (out, kept): (Vec<&Series>, Vec<&Series>) = series.iter().partition(|series| is_out(series));
    notes.extend(out.iter().map(|series| {
        let (name, file) = (series.name(), &series.file);
        format!(
            "{name} ({file}): {:.1} times as slow as other runs let expect, and left out of the fit",
            factor(series)
        )
    }));
    kept
}

/// Operations whose bandwidths the same constants say.
fn kind(operation: Operation) -> u8 {
    match operation {
        Operation::AllReduce => 0,
        Operation::AllGather | Operation::ReduceScatter | Operation::Broadcast | Operation::Reduce => 1,
        Operation::AllToAll | Operation::SendRecv => 2,
    }
}

/// Remarks on constants that the series do not determine.
fn undetermined(site: &Site, series: &[&Series], fit: &Fit) -> Vec<String> {
    let mut notes = Vec::new();
    let generation = site.gpu.generation.name();
    let several = |series: &&&Series| {
        let hardware = site.hardware(series.nodes, series.gpus_per_node);
        hardware.shape(series.ranks()).domains > 1
    };
    let has_several = series.iter().any(|series| several(&series));
    let has_one = series.iter().any(|series| !several(&series));
    let from = format!("constants of `{generation}` in general are taken");
    if !has_several {
        notes.push(format!("no log of several nodes: nothing is known of this network, and {from}"));
    }
    if !has_one {
        notes.push(format!(
            "no log of one node: of links within nodes {from}, as far as logs of several do not tell"
        ));
    }
    let is_undetermined =
        |constant: &Constant| !fit.determined.contains(constant) && fit.constants.get(*constant) > 0.0;
    let keys: Vec<&str> = Constant::ALL.into_iter().filter(is_undetermined).map(Constant::key).collect();
    if !keys.is_empty() {
        notes.push(format!(
            "not determined by these logs, and near those of `{generation}` in general: {}",
            keys.join(", ")
        ));
    }
    notes
}

/// Fits to the first, third, ... size of each series, and looks at the others. The first and the last size of a series are at the edge
/// of what is known and so never left out.
fn held_out(site: &Site, series: &[&Series], start: &Constants) -> Held {
    let is_left_out = |series: &Series, index: usize| index % 2 == 1 && index + 1 < series.points.len();
    let known: Vec<Series> =
        series.iter().map(|series| series.keep(|index| !is_left_out(series, index))).collect();
    let known: Vec<&Series> = known.iter().collect();
    let constants = fit_of(site, &known, start).constants;
    let mut errors = Vec::new();
    for series in series {
        let cost = model(site.hardware(series.nodes, series.gpus_per_node), constants)
            .cost(series.operation, series.ranks());
        let left_out = series.points.iter().enumerate().filter(|(index, _)| is_left_out(series, *index));
        errors.extend(
            left_out.map(|(_, point)| {
                (point.bytes, (cost.seconds(point.bytes as f64) / point.seconds - 1.0).abs())
            }),
        );
    }
    let mean = |least: u64| {
        let errors: Vec<f64> =
            errors.iter().filter(|(bytes, _)| *bytes >= least).map(|(_, error)| *error).collect();
        (!errors.is_empty()).then(|| errors.iter().sum::<f64>() / errors.len() as f64)
    };
    Held {
        mean_abs_error: mean(0).unwrap_or(0.0),
        mean_abs_error_large: mean(LARGE_BYTES),
        rows: errors.len(),
    }
}

/// Below this share of what GPUs and NICs of the kind give, at the largest size, a run is called slow.
const SLOW: f64 = 0.65;
/// Below this share of the less of both neighbours, a size is called a dip.
const DIP: f64 = 0.7;
/// Above this spread of rows of one size, in the middle over sizes, a run is called noisy.
const NOISY: f64 = 0.1;

/// Notes on a series, against a model of healthy hardware of its kind.
pub fn check(series: &Series, healthy: &LibraryModel) -> Vec<String> {
    let mut notes = Vec::new();
    let mut note = |text: String| notes.push(format!("{} ({}): {text}", series.name(), series.file));
    let buses: Vec<f64> = series.points.iter().map(|point| series.bus(point.bytes, point.seconds)).collect();
    if let Some((last, reached, expected)) = slow(series, healthy) {
        note(format!(
            "slow: {:.1} GB/s of bus bandwidth at {}, where hardware of this kind gives about {:.1}; look at the network's \
             plugin, GPUDirect RDMA and the NICs in use before this run is relied on",
            reached / 1e9,
            size(last),
            expected / 1e9
        ));
    }
    for (index, window) in buses.windows(3).enumerate() {
        let (before, at, after) = (window[0], window[1], window[2]);
        if at < DIP * before.min(after) {
            note(format!(
                "dip: {:.2} GB/s of bus bandwidth at {}, between {:.2} and {:.2} at the sizes beside it",
                at / 1e9,
                size(series.points[index + 1].bytes),
                before / 1e9,
                after / 1e9
            ));
        }
    }
    let scatter = series.scatter(0);
    if scatter > NOISY {
        note(format!(
            "noisy: rows of the same size are {:.0} % apart, in the middle over sizes",
            100.0 * scatter
        ));
    }
    notes
}

/// Whether a series is slow at its largest size, for hardware of its kind.
fn is_slow(series: &Series, healthy: &LibraryModel) -> bool {
    slow(series, healthy).is_some()
}

/// The largest size, and the bus bandwidths that it reached and should have, if that is slow.
fn slow(series: &Series, healthy: &LibraryModel) -> Option<(u64, f64, f64)> {
    let last = series.points.last()?;
    let cost = healthy.cost(series.operation, series.ranks());
    let expected = series.bus(last.bytes, cost.seconds(last.bytes as f64));
    let reached = series.bus(last.bytes, last.seconds);
    (reached < SLOW * expected).then_some((last.bytes, reached, expected))
}

/// A size with the largest unit that it is one of at least.
pub(crate) fn size(bytes: u64) -> String {
    let units = [(30, "GiB"), (20, "MiB"), (10, "KiB")];
    let unit = units.into_iter().find(|(shift, _)| bytes >= 1 << shift);
    unit.map_or(format!("{bytes} B"), |(shift, name)| {
        let number = bytes as f64 / f64::from(1_u32 << shift);
        if number.fract() == 0.0 { format!("{number} {name}") } else { format!("{number:.2} {name}") }
    })
}

/// Bytes from which bandwidth matters, and below which latency does: 32 MiB.
pub const LARGE_BYTES: u64 = 32 << 20;

/// How well a series is met.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Score {
    /// Mean of how far bus bandwidth is off, as a share of the measured one, over sizes of 32 MiB and more; none if there are none.
    pub large: Option<f64>,
    /// Largest of these errors.
    pub worst_large: Option<f64>,
    /// Largest factor between modelled and measured time, either way, over sizes below 32 MiB; none if there are none.
    pub worst_small: Option<f64>,
}

/// Holds a model against a series that ran on `model`'s hardware.
pub fn score(series: &Series, model: &LibraryModel) -> Score {
    let cost = model.cost(series.operation, series.ranks());
    let mut score = Score::default();
    let mut large = Vec::new();
    for point in &series.points {
        let modelled = cost.seconds(point.bytes as f64);
        if point.bytes >= LARGE_BYTES {
            large.push((point.seconds / modelled - 1.0).abs());
        } else {
            let factor = (modelled / point.seconds).max(point.seconds / modelled);
            score.worst_small = Some(score.worst_small.map_or(factor, |worst: f64| worst.max(factor)));
        }
    }
    if !large.is_empty() {
        score.large = Some(large.iter().sum::<f64>() / large.len() as f64);
        score.worst_large = large.iter().copied().reduce(f64::max);
    }
    score
}

/// The model of a series' hardware.
pub(crate) fn model(hardware: Hardware, constants: zipwire_cluster::library::Constants) -> LibraryModel {
    LibraryModel { hardware, constants }
}
