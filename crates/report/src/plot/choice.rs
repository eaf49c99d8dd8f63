//! Choice of a picture: which one a result has, and the numbers for it.

use serde_json::Value;

use crate::ReportError;
use crate::outcome::{Outcome, OutcomeResult};
use crate::plot::axis::{Quantity, Swept};
use crate::plot::bars::{BarChart, BarRow, Bars};
use crate::plot::curves::{Chart, Curves};
use crate::plot::{Plot, PlotKind};
use crate::quantity::{factor, percent, seconds};
use crate::run::{RunOutcome, VariantOutcome};
use crate::sweep::{PointOutcome, SweepOutcome, value_text, variants};
use crate::validation;

/// Charts of a picture at the most.
const MOST_CHARTS: usize = 12;

/// Causes of a critical path, in the order of bars; others follow as they come.
const CAUSES: [&str; 10] =
    ["links", "latency", "skew", "codec", "compute", "sums", "host", "library", "start", "other"];

/// Number of a variant that a sweep's picture shows.
struct Metric {
    name: &'static str,
    title: &'static str,
    /// Title of its axis.
    short: &'static str,
    quantity: Quantity,
    of: fn(&VariantOutcome) -> Option<f64>,
}

const METRICS: [Metric; 5] = [
    metric("speedup", "speedup", "speedup over the first variant", Quantity::Factor, |result| result.speedup),
    // Of serving it would say how long requests came.
    metric("time", "iteration", "time of an iteration", Quantity::Seconds, |result| {
        result.iteration_s.mean.filter(|_| result.requests.is_none())
    }),
    metric("slo", "SLO met", "requests served as promised", Quantity::Share, |result| {
        result.requests.as_ref()?.slo_met
    }),
    metric("ttft", "TTFT", "time to first token", Quantity::Seconds, |result| {
        result.requests.as_ref()?.ttft_s?.mean
    }),
    metric("goodput", "goodput", "requests served as promised", Quantity::Rate, |result| {
        result.requests.as_ref()?.goodput_per_s
    }),
];

const fn metric(
    name: &'static str,
    short: &'static str,
    title: &'static str,
    quantity: Quantity,
    of: fn(&VariantOutcome) -> Option<f64>,
) -> Metric {
    Metric { name, short, title, quantity, of }
}

pub(super) fn plot(outcome: &Outcome, picture: Option<&str>, x: Option<&str>) -> Result<Plot, ReportError> {
    let name = &outcome.name;
    if !matches!(outcome.result, OutcomeResult::Sweep(_)) {
        refuse_axis(name, x)?;
    }
    match &outcome.result {
        OutcomeResult::Run(run) => of_run(name, run, picture),
        OutcomeResult::Sweep(sweep) => of_sweep(name, sweep, picture, x),
        OutcomeResult::Validation(validation) => {
            one_of(name, "validation", picture, &["agreement"])?;
            let pairs = validation::pairs(validation);
            if pairs.is_empty() {
                return Err(nothing(name, "no variant has a predicted and a measured time"));
            }
            let title =
                format!("{}: predicted against measured on {}", validation.scenario, validation.executor);
            Ok(Plot { title, notes: Vec::new(), kind: PlotKind::Agreement(pairs) })
        }
        OutcomeResult::Advice(_) => Err(ReportError::NothingToDraw {
            name: name.clone(),
            reason: "it is an advice, which has no picture".to_owned(),
            help: "`zipwire report` makes a page of it",
        }),
    }
}

fn nothing(name: &str, reason: &str) -> ReportError {
    let help = "`zipwire report` shows what there is, with tables";
    ReportError::NothingToDraw { name: name.to_owned(), reason: reason.to_owned(), help }
}

/// The picture of these, of which there is one at least, that is asked for, or the first.
///
/// # Errors
/// If there is no such.
pub(super) fn one_of(
    name: &str,
    kind: &'static str,
    picture: Option<&str>,
    known: &[&'static str],
) -> Result<&'static str, ReportError> {
    let Some(picture) = picture else { return Ok(known[0]) };
    known.iter().find(|known| **known == picture).copied().ok_or_else(|| ReportError::UnknownPicture {
        name: name.to_owned(),
        kind,
        picture: picture.to_owned(),
        known: known.to_vec(),
    })
}

/// Refuses `--x` where nothing is swept.
pub(super) fn refuse_axis(name: &str, x: Option<&str>) -> Result<(), ReportError> {
    x.map_or(Ok(()), |path| {
        Err(ReportError::UnknownAxis { name: name.to_owned(), path: path.to_owned(), known: Vec::new() })
    })
}

/// Makes the group of a variant, with the names of paints.
type Rows = fn(&str, &VariantOutcome, &[&str]) -> (String, Vec<BarRow>);

fn of_run(name: &str, run: &RunOutcome, picture: Option<&str>) -> Result<Plot, ReportError> {
    let any = |of: &dyn Fn(&VariantOutcome) -> bool| run.executors.results().any(|(.., result)| of(result));
    let mut known = Vec::new();
    known.extend(any(&|result| !result.critical_path_s.0.is_empty()).then_some("variants"));
    known.extend(any(&|result| result.requests.is_some()).then_some("requests"));
    known.extend(any(&|result| result.comm_s.is_some()).then_some("times"));
    if known.is_empty() {
        return Err(nothing(name, "no variant has times"));
    }
    let picture = one_of(name, "run", picture, &known)?;
    let (title, paints, rows): (_, Vec<&str>, Rows) = match picture {
        "variants" => ("iteration by what bounds it", causes(run), critical_row),
        "requests" => ("requests, means", Vec::new(), request_rows),
        _ => ("times of ranks, which overlap", Vec::new(), time_rows),
    };
    let charts = run.executors.0.iter().map(|(executor, variants)| {
        let groups = variants.0.iter().map(|(variant, result)| rows(variant, result, &paints));
        BarChart { title: format!("on {executor}"), groups: groups.collect() }
    });
    let bars = Bars {
        title: "time".to_owned(),
        quantity: Quantity::Seconds,
        base: 0.0,
        charts: charts.collect(),
        paints: paints.iter().map(|name| (*name).to_owned()).collect(),
    };
    Ok(Plot { title: format!("{}: {title}", run.scenario), notes: Vec::new(), kind: PlotKind::Bars(bars) })
}

/// Causes that any variant has, and a last one if an iteration has none.
fn causes(run: &RunOutcome) -> Vec<&str> {
    let own = |result: &'_ VariantOutcome, cause: &str| {
        result.critical_path_s.0.iter().any(|(name, part_s)| name == cause && *part_s > 0.0)
    };
    let results = || run.executors.results().map(|(.., result)| result);
    let mut causes: Vec<&str> =
        CAUSES.into_iter().filter(|cause| results().any(|result| own(result, cause))).collect();
    for (cause, part_s) in results().flat_map(|result| &result.critical_path_s.0) {
        if *part_s > 0.0 && !causes.contains(&cause.as_str()) {
            causes.push(cause);
        }
    }
    causes.extend(results().any(|result| result.critical_path_s.0.is_empty()).then_some("not explained"));
    causes
}

/// The bar of a variant: its iteration in causes, and how fast it is.
fn critical_row(variant: &str, result: &VariantOutcome, causes: &[&str]) -> (String, Vec<BarRow>) {
    let mean_s = result.iteration_s.mean.unwrap_or(0.0);
    let cause = |name: &str| causes.iter().position(|cause| *cause == name);
    let path = result.critical_path_s.0.iter();
    let mut parts: Vec<(usize, f64)> =
        path.filter_map(|(name, part_s)| Some((cause(name)?, *part_s))).collect();
    parts.sort_by_key(|(paint, _)| *paint);
    if parts.is_empty() {
        parts.push((causes.len().saturating_sub(1), mean_s));
    }
    let beside = with_speedup(&seconds(mean_s), result.speedup);
    (String::new(), vec![BarRow { name: variant.to_owned(), parts, beside }])
}

fn with_speedup(text: &str, speedup: Option<f64>) -> String {
    speedup.map_or_else(|| text.to_owned(), |speedup| format!("{text}, {} x", factor(speedup)))
}

/// Bars of a group, one for each time that there is.
fn rows_of(name: String, times: &[(&str, Option<f64>)]) -> (String, Vec<BarRow>) {
    let there =
        times.iter().enumerate().filter_map(|(paint, (name, time_s))| Some((paint, name, (*time_s)?)));
    let rows = there.map(|(paint, name, time_s)| BarRow {
        name: format!("  {name}"),
        parts: vec![(paint, time_s)],
        beside: seconds(time_s),
    });
    (name, rows.collect())
}

fn time_rows(variant: &str, result: &VariantOutcome, _: &[&str]) -> (String, Vec<BarRow>) {
    let times = [
        ("communication", result.comm_s),
        ("waiting", result.wait_s),
        ("codec", result.codec_s),
        ("compute", result.compute_s),
    ];
    let iteration = result.iteration_s.mean.map_or(String::new(), |mean_s| format!(": {}", seconds(mean_s)));
    rows_of(with_speedup(&format!("{variant}{iteration}"), result.speedup), &times)
}

fn request_rows(variant: &str, result: &VariantOutcome, _: &[&str]) -> (String, Vec<BarRow>) {
    let requests = result.requests.clone().unwrap_or_default();
    let times = [("KV wait", requests.kv_wait_s), ("TTFT", requests.ttft_s), ("e2e", requests.e2e_s)];
    let kept = requests.slo_met.map_or(String::new(), |met| format!(": {} as promised", percent(met)));
    rows_of(
        format!("{variant}{kept}"),
        &times.map(|(name, times)| (name, times.and_then(|times| times.mean))),
    )
}

fn of_sweep(
    name: &str,
    sweep: &SweepOutcome,
    picture: Option<&str>,
    x: Option<&str>,
) -> Result<Plot, ReportError> {
    let axis = axis(name, sweep, x)?;
    let is_curve = axis.numbers.as_ref().is_some_and(|numbers| numbers.len() > 1);
    let results = || sweep.rows.iter().flat_map(|point| point.executors.results().map(|(.., result)| result));
    let has = |metric: &&Metric| {
        let is_told = |value: f64| value.is_finite() && (metric.name != "speedup" || value != 1.0);
        results().filter_map(metric.of).any(is_told)
    };
    let mut metrics: Vec<&Metric> = METRICS.iter().filter(has).collect();
    if !is_curve {
        // Who compares names asks which one is the fastest.
        metrics.sort_by_key(|metric| metric.name == "speedup");
    }
    let known: Vec<&'static str> = metrics.iter().map(|metric| metric.name).collect();
    if known.is_empty() {
        return Err(nothing(name, "no point has a time, a speedup or requests"));
    }
    let picture = one_of(name, "sweep", picture, &known)?;
    let metric = metrics.into_iter().find(|metric| metric.name == picture).expect("its name is known");
    let mut groups: Vec<(String, Vec<&PointOutcome>)> = Vec::new();
    for point in &sweep.rows {
        let others = point.set.0.iter().filter(|(path, _)| *path != axis.path);
        let others: Vec<String> =
            others.map(|(path, value)| format!("{path} = {}", value_text(value))).collect();
        let title = others.join(", ");
        match groups.iter_mut().find(|(known, _)| *known == title) {
            Some((_, points)) => points.push(point),
            None => groups.push((title, vec![point])),
        }
    }
    let mut notes = Vec::new();
    let failed = sweep.rows.iter().filter(|point| !point.failed.is_empty()).count();
    if failed > 0 {
        notes.push(format!("{failed} of {} points failed", sweep.rows.len()));
    }
    if groups.len() > MOST_CHARTS {
        notes.push(format!("the first {MOST_CHARTS} of {} charts", groups.len()));
        groups.truncate(MOST_CHARTS);
    }
    let title = format!("{}: {}", sweep.scenario, metric.title);
    let kind = if is_curve {
        PlotKind::Curves(curves(sweep, axis, metric, &groups))
    } else {
        PlotKind::Bars(bars(sweep, &axis, metric, &groups))
    };
    Ok(Plot { title, notes, kind })
}

/// The path that is asked for; else the one with most numbers, else with most values.
fn axis(name: &str, sweep: &SweepOutcome, x: Option<&str>) -> Result<Swept, ReportError> {
    let paths = sweep.rows.first().map(|point| &point.set.0);
    let of = |path: &str| {
        let values = sweep.rows.iter().flat_map(|point| &point.set.0).filter(|(own, _)| own == path);
        Swept::of(path, &values.map(|(_, value)| value).collect::<Vec<&Value>>())
    };
    let all: Vec<Swept> = paths.into_iter().flatten().map(|(path, _)| of(path)).collect();
    if let Some(path) = x {
        let known = all.iter().map(|axis| axis.path.clone()).collect();
        let found = all.into_iter().find(|axis| axis.path == path);
        return found.ok_or_else(|| ReportError::UnknownAxis {
            name: name.to_owned(),
            path: path.to_owned(),
            known,
        });
    }
    // Numbers first, of at least two values, and the first path among equals.
    let key = |axis: &&Swept| {
        let numbers = axis.numbers.as_ref().map_or(0, Vec::len);
        (if numbers > 1 { numbers } else { 0 }, axis.texts.len())
    };
    let best = all.iter().rev().max_by_key(key);
    best.cloned().ok_or_else(|| nothing(name, "the sweep has no points"))
}

/// Names of curves, each with the executor and the variant, and the place of the executor's first variant.
fn names(sweep: &SweepOutcome) -> Vec<(String, &str, &str, usize)> {
    let mut names = Vec::new();
    let executors = variants(sweep);
    for (executor, variants) in &executors {
        let base = names.len();
        for variant in variants {
            let on = if executors.len() > 1 { format!(" on {executor}") } else { String::new() };
            names.push((format!("{variant}{on}"), *executor, *variant, base));
        }
    }
    names
}

/// A number of a variant at a point.
fn value_at(point: &PointOutcome, executor: &str, variant: &str, metric: &Metric) -> Option<f64> {
    let mut results = point.executors.results();
    let (.., result) = results.find(|(e, v, _)| (*e, *v) == (executor, variant))?;
    (metric.of)(result).filter(|value| value.is_finite())
}

/// Place of a point on the axis.
fn place_of(point: &PointOutcome, axis: &Swept) -> Option<usize> {
    let (_, value) = point.set.0.iter().find(|(path, _)| *path == axis.path)?;
    axis.texts.iter().position(|text| *text == value_text(value))
}

fn curves(
    sweep: &SweepOutcome,
    x: Swept,
    metric: &Metric,
    groups: &[(String, Vec<&PointOutcome>)],
) -> Curves {
    let names = names(sweep);
    let charts = groups.iter().map(|(title, points)| {
        let curve = |(_, executor, variant, _): &(String, &str, &str, usize)| {
            let mut curve: Vec<[f64; 2]> = points
                .iter()
                .filter_map(|point| {
                    let number = x.numbers.as_ref()?[place_of(point, &x)?];
                    Some([number, value_at(point, executor, variant, metric)?])
                })
                .collect();
            curve.sort_by(|a, b| a[0].total_cmp(&b[0]));
            curve
        };
        Chart { title: title.clone(), curves: names.iter().map(curve).collect() }
    });
    Curves {
        charts: charts.collect(),
        y_title: metric.short.to_owned(),
        y_quantity: metric.quantity,
        names: names.iter().map(|(name, .., base)| (name.clone(), *base)).collect(),
        x,
    }
}

fn bars(
    sweep: &SweepOutcome,
    axis: &Swept,
    metric: &Metric,
    groups: &[(String, Vec<&PointOutcome>)],
) -> Bars {
    let names = names(sweep);
    let base = if metric.quantity == Quantity::Factor { 1.0 } else { 0.0 };
    let row = |point: &PointOutcome, paint: usize| {
        let (name, executor, variant, _) = &names[paint];
        let value = value_at(point, executor, variant, metric)?;
        let speedup = value_at(point, executor, variant, &METRICS[0]).filter(|_| metric.name == "time");
        let text = match metric.quantity {
            Quantity::Seconds => seconds(value),
            Quantity::Factor => format!("{} x", factor(value)),
            Quantity::Share => percent(value),
            Quantity::Rate => format!("{value:.3} /s"),
        };
        let beside = with_speedup(&text, speedup);
        Some(BarRow { name: format!("  {name}"), parts: vec![(paint, value - base)], beside })
    };
    let charts = groups.iter().map(|(title, points)| {
        let mut in_order: Vec<(usize, _)> =
            points.iter().filter_map(|point| Some((place_of(point, axis)?, point))).collect();
        in_order.sort_by_key(|(place, _)| *place);
        let in_order = in_order.into_iter().map(|(place, point)| (&axis.texts[place], point));
        let groups = in_order.map(|(text, point)| {
            let rows = (0..names.len()).filter_map(|paint| row(point, paint));
            (text.clone(), rows.collect())
        });
        let title = if title.is_empty() { axis.path.clone() } else { format!("{}; {title}", axis.path) };
        BarChart { title, groups: groups.collect() }
    });
    Bars {
        title: metric.title.to_owned(),
        quantity: metric.quantity,
        base,
        charts: charts.collect(),
        paints: Vec::new(),
    }
}
