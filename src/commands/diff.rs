//! `zipwire diff`: two timelines side by side, span by span.

use std::fmt::Write as _;
use std::path::Path;

use serde::Serialize;

use zipwire::traces::{Comparison, Diff, Pair, Total, Trace, TracedSpan, read_chrome};
use zipwire::{Cancel, ExecuteError};

use super::{print, print_json};
use crate::cli::DiffArgs;
use crate::error::CliError;
use crate::progress::Progress;
use crate::table::{self, Table};

pub(crate) fn run(args: &DiffArgs, cancel: &Cancel) -> Result<(), CliError> {
    let read = |path: &Path| {
        let _span = tracing::info_span!("read timeline").entered();
        read_chrome(path).map_err(|error| CliError::Usage(error.to_string()))
    };
    let progress = Progress::of_unknown("timelines");
    let mut a = read(&args.a)?;
    check(cancel)?;
    let mut b = read(&args.b)?;
    drop(progress);
    check(cancel)?;
    for (side, trace) in [("A", &a), ("B", &b)] {
        if let Some(sampling) = &trace.sampling {
            say!("warning: {side} holds {sampling} only: what it does not hold is not compared");
        }
    }
    a.keep_what_is_in(&b);
    b.keep_what_is_in(&a);
    if a.meta.plan_digest != b.meta.plan_digest {
        let digests = (&a.meta.plan_digest, &b.meta.plan_digest);
        say!(
            "warning: the plans differ, `{}` in A and `{}` in B: ops of one index may be different work",
            digests.0,
            digests.1
        );
    }
    let diff = tracing::info_span!("compare").in_scope(|| Diff::of(&a, &b));
    check(cancel)?;
    if args.json {
        print_json(&Report::of(args, &a, &b, &diff))
    } else {
        print(text(&a, &b, &diff, args.top))
    }
}

fn check(cancel: &Cancel) -> Result<(), CliError> {
    if cancel.is_cancelled() { Err(ExecuteError::Cancelled.into()) } else { Ok(()) }
}

fn seconds(ns: impl Into<i128>) -> f64 {
    ns.into() as f64 / 1e9
}

/// The JSON. Times in seconds.
#[derive(Serialize)]
struct Report<'t> {
    a: TraceReport<'t>,
    b: TraceReport<'t>,
    same_plan: bool,
    iteration: ComparisonReport,
    groups: Vec<GroupReport<'t>>,
    /// Spans in both.
    paired: usize,
    durations: Listed<PairReport<'t>>,
    ends: Listed<PairReport<'t>>,
    bytes: Listed<PairReport<'t>>,
    only_a: Listed<SpanReport<'t>>,
    only_b: Listed<SpanReport<'t>>,
}

#[derive(Serialize)]
struct TraceReport<'t> {
    file: String,
    scenario: &'t str,
    variant: &'t str,
    executor: &'t str,
    clock: &'static str,
    seed: u64,
    codec: Option<&'t str>,
    plan_digest: &'t str,
    ranks: u32,
    iterations: usize,
    spans: usize,
}

#[derive(Serialize)]
struct GroupReport<'t> {
    segment: &'t str,
    name: &'t str,
    #[serde(flatten)]
    durations: ComparisonReport,
}

#[derive(Serialize)]
struct ComparisonReport {
    a: TotalReport,
    b: TotalReport,
    ratio: Option<f64>,
}

#[derive(Serialize)]
struct TotalReport {
    count: usize,
    total_s: f64,
    mean_s: Option<f64>,
}

/// The first spans of a list, and how many it has.
#[derive(Serialize)]
struct Listed<T> {
    count: usize,
    spans: Vec<T>,
}

#[derive(Serialize)]
struct PairReport<'t> {
    #[serde(flatten)]
    place: PlaceReport<'t>,
    a: ValuesReport,
    b: ValuesReport,
}

#[derive(Serialize)]
struct SpanReport<'t> {
    #[serde(flatten)]
    place: PlaceReport<'t>,
    #[serde(flatten)]
    values: ValuesReport,
}

#[derive(Serialize)]
struct PlaceReport<'t> {
    iteration: u32,
    rank: u32,
    segment: &'t str,
    name: &'t str,
    lane: &'static str,
    op: u32,
    stage: Option<&'static str>,
    peer: Option<u32>,
    tag: u32,
}

#[derive(Serialize)]
struct ValuesReport {
    begin_s: f64,
    end_s: f64,
    duration_s: f64,
    bytes: u64,
    bytes_coded: Option<u64>,
}

impl<'t> Report<'t> {
    fn of(args: &DiffArgs, a: &'t Trace, b: &'t Trace, diff: &Diff<'t>) -> Self {
        let group = |group: &zipwire::traces::Group<'t>| GroupReport {
            segment: group.segment,
            name: group.name,
            durations: ComparisonReport::of(&group.durations),
        };
        let pairs = |pairs: &[Pair<'t>]| Listed::of(pairs, args.top, PairReport::of);
        let spans = |spans: &[&'t TracedSpan]| Listed::of(spans, args.top, |span| SpanReport::of(span));
        Self {
            a: TraceReport::of(&args.a, a),
            b: TraceReport::of(&args.b, b),
            same_plan: a.meta.plan_digest == b.meta.plan_digest,
            iteration: ComparisonReport::of(&diff.iterations),
            groups: diff.groups.iter().map(group).collect(),
            paired: diff.paired,
            durations: pairs(&diff.durations),
            ends: pairs(&diff.ends),
            bytes: pairs(&diff.bytes),
            only_a: spans(&diff.only_a),
            only_b: spans(&diff.only_b),
        }
    }
}

impl<'t> TraceReport<'t> {
    fn of(path: &Path, trace: &'t Trace) -> Self {
        let meta = &trace.meta;
        Self {
            file: path.display().to_string(),
            scenario: &meta.scenario,
            variant: &meta.variant,
            executor: &meta.executor,
            clock: meta.clock,
            seed: meta.seed,
            codec: meta.codec.as_deref(),
            plan_digest: &meta.plan_digest,
            ranks: trace.rank_count,
            iterations: trace.iterations_ns.len(),
            spans: trace.spans.len(),
        }
    }
}

impl ComparisonReport {
    fn of(comparison: &Comparison) -> Self {
        let total = |total: Total| TotalReport {
            count: total.count,
            total_s: seconds(total.sum_ns),
            mean_s: total.mean_ns().map(|ns| ns / 1e9),
        };
        Self { a: total(comparison.a), b: total(comparison.b), ratio: comparison.ratio() }
    }
}

impl<R> Listed<R> {
    fn of<T>(all: &[T], top: usize, report: impl Fn(&T) -> R) -> Self {
        Self { count: all.len(), spans: all.iter().take(top).map(report).collect() }
    }
}

impl<'t> PairReport<'t> {
    fn of(pair: &Pair<'t>) -> Self {
        Self { place: PlaceReport::of(pair.a), a: ValuesReport::of(pair.a), b: ValuesReport::of(pair.b) }
    }
}

impl<'t> SpanReport<'t> {
    fn of(span: &'t TracedSpan) -> Self {
        Self { place: PlaceReport::of(span), values: ValuesReport::of(span) }
    }
}

impl<'t> PlaceReport<'t> {
    fn of(span: &'t TracedSpan) -> Self {
        Self {
            iteration: span.iteration,
            rank: span.rank.0,
            segment: &span.segment,
            name: &span.name,
            lane: span.lane.name(),
            op: span.op.0,
            stage: span.stage.map(zipwire::schedule::Stage::name),
            peer: span.peer.map(|rank| rank.0),
            tag: span.tag,
        }
    }
}

impl ValuesReport {
    fn of(span: &TracedSpan) -> Self {
        Self {
            begin_s: seconds(span.begin_ns),
            end_s: seconds(span.end_ns),
            duration_s: seconds(span.duration_ns()),
            bytes: span.bytes,
            bytes_coded: span.bytes_coded,
        }
    }
}

/// The tables: the traces, the sums, and each list that is not empty, cut to `top` spans.
fn text(a: &Trace, b: &Trace, diff: &Diff<'_>, top: usize) -> String {
    let mut text = format!("{}\n\n{}\n\n", table::text(&traces(a, b)), table::text(&sums(diff)));
    let Diff { paired, durations, ends, bytes, only_a, only_b, .. } = diff;
    let counts = if diff.is_empty() {
        "none differs".to_owned()
    } else {
        let [in_duration, in_end, in_bytes] = [durations, ends, bytes].map(Vec::len);
        let (in_a, in_b) = (only_a.len(), only_b.len());
        format!(
            "{in_duration} differ in duration, {in_end} in end, {in_bytes} in bytes; \
             {in_a} are only in A, {in_b} only in B"
        )
    };
    let _ = writeln!(text, "{paired} spans are in both: {counts}");

    let mut list = |title: &str, header: &[&str], count: usize, rows: Vec<Vec<String>>| {
        if count > 0 && top > 0 {
            let mut listed = table::new(&[&PLACE[..], header].concat(), &[2, 3]);
            rows.into_iter().for_each(|row| listed.add_row(row));
            let shown = if count > top { format!(" ({top} of {count})") } else { String::new() };
            let _ = writeln!(text, "\n{title}{shown}\n\n{}", table::text(&listed));
        }
    };
    for (title, pairs) in [("differ most in duration", durations), ("differ most in end", ends)] {
        let rows = pairs.iter().take(top).map(|pair| {
            let Pair { a, b } = pair;
            let durations = [time(a.duration_ns()), time(b.duration_ns()), change(pair.longer_ns())];
            let ends = [time(a.end_ns), time(b.end_ns), change(pair.later_ns())];
            [&place(a)[..], &durations, &ends].concat()
        });
        let header = ["A: duration", "B: duration", "longer by", "A: end", "B: end", "later by"];
        list(title, &header, pairs.len(), rows.collect());
    }
    let byte_rows = bytes.iter().take(top).map(|Pair { a, b }| {
        let coded = [a, b].map(|span| span.bytes_coded.map_or_else(dash, |bytes| bytes.to_string()));
        [&place(a)[..], &[a, b].map(|span| span.bytes.to_string()), &coded].concat()
    });
    let header = ["A: bytes", "B: bytes", "A: coded bytes", "B: coded bytes"];
    list("differ most in bytes", &header, bytes.len(), byte_rows.collect());
    for (title, spans) in [("only in A", only_a), ("only in B", only_b)] {
        let rows = spans.iter().take(top).map(|span| {
            let values = [time(span.begin_ns), time(span.duration_ns()), span.bytes.to_string()];
            [&place(span)[..], &values].concat()
        });
        list(title, &["begin", "duration", "bytes"], spans.len(), rows.collect());
    }
    text
}

/// Table of the two runs: scenario, variant, executor, plan.
fn traces(a: &Trace, b: &Trace) -> Table {
    let mut traces = table::new(
        &["", "scenario", "variant", "executor", "plan digest", "seed", "ranks", "spans"],
        &[0, 1, 2, 3, 4],
    );
    for (side, trace) in [("A", a), ("B", b)] {
        let meta = &trace.meta;
        let mut row: Vec<String> =
            [side, &meta.scenario, &meta.variant, &meta.executor, &meta.plan_digest].map(String::from).into();
        row.extend([meta.seed.to_string(), trace.rank_count.to_string(), trace.spans.len().to_string()]);
        traces.add_row(row);
    }
    traces
}

/// Iterations, then every group.
fn sums(diff: &Diff<'_>) -> Table {
    let header =
        ["segment", "name", "A: count", "B: count", "A: total", "B: total", "A: mean", "B: mean", "mean B/A"];
    let mut sums = table::new(&header, &[0, 1]);
    let mut add = |segment: &str, name: &str, comparison: &Comparison| {
        let sides = [comparison.a, comparison.b];
        let mut row = vec![segment.to_owned(), name.to_owned()];
        row.extend(sides.map(|total| total.count.to_string()));
        row.extend(sides.map(|total| table::seconds(seconds(total.sum_ns))));
        row.extend(sides.map(|total| total.mean_ns().map_or_else(dash, |ns| table::seconds(ns / 1e9))));
        row.push(comparison.ratio().map_or_else(dash, ratio));
        sums.add_row(row);
    };
    add("", "iteration", &diff.iterations);
    for group in &diff.groups {
        add(group.segment, group.name, &group.durations);
    }
    sums
}

/// Columns that say which span it is.
const PLACE: [&str; 7] = ["iteration", "rank", "segment", "name", "op", "peer", "tag"];

fn place(span: &TracedSpan) -> [String; PLACE.len()] {
    [
        span.iteration.to_string(),
        span.rank.to_string(),
        span.segment.to_string(),
        span.name.to_string(),
        span.op.to_string(),
        span.peer.map_or_else(dash, |rank| rank.to_string()),
        span.peer.map_or_else(dash, |_| span.tag.to_string()),
    ]
}

fn dash() -> String {
    "-".to_owned()
}

fn time(ns: i64) -> String {
    table::seconds(seconds(ns))
}

fn change(ns: i64) -> String {
    let sign = if ns > 0 { "+" } else { "" };
    format!("{sign}{}", time(ns))
}

/// A factor with three significant decimals, however far from 1.
fn ratio(ratio: f64) -> String {
    match ratio {
        0.0 => "0".to_owned(),
        r if (0.01..1e4).contains(&r) => format!("{r:.3}"),
        r => format!("{r:.2e}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ratios_read_well_at_any_scale() {
        let shown = [1.0, 0.0, 0.0123, 0.000_123_4, 1234.5, 5_432_100.0].map(ratio);
        assert_eq!(shown, ["1.000", "0", "0.012", "1.23e-4", "1234.500", "5.43e6"]);
    }

    #[test]
    fn changes_have_a_sign() {
        assert_eq!([0, 2, -1500].map(change), ["0", "+0.002 us", "-1.500 us"]);
    }
}
