//! Report of a run: verdict, variants, predictions beside measurements.

use serde::Deserialize;

use crate::agreement::{ErrorSign, Pair, agreement, shown};
use crate::html::{BarScale, Cell, list, paragraph, table};
use crate::outcome::{Named, Outcome};
use crate::page::Section;
use crate::quantity::{bytes, factor, percent, seconds};
use crate::timelines;

/// `summary.json` of a run.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct RunOutcome {
    pub(crate) scenario: String,
    pub(crate) seed: u64,
    #[serde(default)]
    pub(crate) version: String,
    pub(crate) executors: Executors,
    #[serde(default)]
    pub(crate) verdict: Option<VerdictOutcome>,
}

/// Results of variants by executor.
pub(crate) type Executors = Named<Named<VariantOutcome>>;

impl Executors {
    /// All results as (executor, variant, result).
    pub(crate) fn results(&self) -> impl Iterator<Item = (&str, &str, &VariantOutcome)> {
        self.0.iter().flat_map(|(executor, variants)| {
            variants.0.iter().map(move |(variant, result)| (executor.as_str(), variant.as_str(), result))
        })
    }
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct VerdictOutcome {
    pub(crate) text: Vec<String>,
    pub(crate) break_even: Named<BreakEvenOutcome>,
    pub(crate) warnings: Vec<String>,
}

#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct BreakEvenOutcome {
    pub(crate) ratio: Option<f64>,
    pub(crate) encode_gbps: Option<f64>,
}

/// Numbers of a variant on an executor; what a result lacks is `None`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct VariantOutcome {
    pub(crate) iteration_s: SpreadOutcome,
    pub(crate) iteration_margin_s: Option<f64>,
    pub(crate) comm_s: Option<f64>,
    pub(crate) wait_s: Option<f64>,
    pub(crate) codec_s: Option<f64>,
    pub(crate) compute_s: Option<f64>,
    pub(crate) bytes_raw: Option<f64>,
    pub(crate) bytes_wire: Option<f64>,
    pub(crate) ratio: Option<f64>,
    pub(crate) speedup: Option<f64>,
    pub(crate) split: Option<SplitOutcome>,
    pub(crate) critical_path_s: Named<f64>,
    pub(crate) busiest_link: Option<BusiestLinkOutcome>,
    pub(crate) verified: Option<bool>,
    pub(crate) plan_digest: Option<String>,
    pub(crate) ranks_alike: Option<u32>,
    pub(crate) requests: Option<RequestsOutcome>,
}

#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct SpreadOutcome {
    pub(crate) mean: Option<f64>,
    pub(crate) sd: Option<f64>,
}

#[derive(Clone, Copy, Debug, Deserialize)]
pub(crate) struct SplitOutcome {
    pub(crate) compression: f64,
    pub(crate) algorithm: f64,
}

#[derive(Clone, Debug, Deserialize)]
pub(crate) struct BusiestLinkOutcome {
    pub(crate) name: String,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct RequestsOutcome {
    pub(crate) ttft_s: Option<PercentilesOutcome>,
    pub(crate) tpot_s: Option<PercentilesOutcome>,
    pub(crate) e2e_s: Option<PercentilesOutcome>,
    pub(crate) kv_wait_s: Option<PercentilesOutcome>,
    pub(crate) goodput_per_s: Option<f64>,
    pub(crate) slo_met: Option<f64>,
    pub(crate) is_overloaded: Option<bool>,
}

#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct PercentilesOutcome {
    pub(crate) mean: Option<f64>,
    pub(crate) p99: Option<f64>,
}

/// Sections of a run.
pub(crate) fn sections(outcome: &Outcome, run: &RunOutcome) -> Vec<Section> {
    let mut sections = vec![
        Section::verdict(&verdict_lines(run), &warnings(run)),
        Section::new("Variants", variants(run)),
        Section::new("Predicted against measured", measured(run)),
    ];
    sections.extend(timelines::sections(outcome, &codec_rows(run)));
    sections
}

/// Verdict in sentences, the first one first.
pub(crate) fn verdict_lines(run: &RunOutcome) -> Vec<String> {
    let text = run.verdict.iter().flat_map(|verdict| &verdict.text);
    let mut lines: Vec<String> = text.map(|line| line.trim_start_matches("verdict: ").to_owned()).collect();
    if lines.is_empty() {
        lines.push(fastest(run));
    }
    lines
}

/// The fastest variant, where nobody asked for more.
fn fastest(run: &RunOutcome) -> String {
    let speedups = run
        .executors
        .results()
        .filter_map(|(executor, variant, result)| Some((result.speedup?, executor, variant)));
    let best = speedups.reduce(|best, next| if next.0 > best.0 { next } else { best });
    if let Some((speedup, executor, variant)) = best {
        return format!(
            "`{variant}` is the fastest on `{executor}`: {speedup:.2} times as fast as the first variant"
        );
    }
    let waits = run
        .executors
        .results()
        .filter_map(|(.., variant, result)| Some((result.requests.as_ref()?.ttft_s?.mean?, variant)));
    let best = waits.reduce(|best, next| if next.0 < best.0 { next } else { best });
    best.map_or_else(
        || {
            "no speedups: times of these executors are no measure, or the first variant did not run"
                .to_owned()
        },
        |(mean_s, variant)| {
            format!("`{variant}` answers first: {} to the first token in the mean", seconds(mean_s))
        },
    )
}

fn warnings(run: &RunOutcome) -> String {
    let warnings: Vec<String> = run.verdict.iter().flat_map(|verdict| &verdict.warnings).cloned().collect();
    let warned = if warnings.is_empty() {
        ""
    } else {
        "<p>Numbers rest on assumptions that nobody has checked:</p>\n"
    };
    format!("{warned}{}", list(&warnings))
}

fn variants(run: &RunOutcome) -> String {
    if run.executors.results().any(|(.., result)| result.requests.is_some()) {
        return served(run);
    }
    let all = || run.executors.results().map(|(.., result)| result);
    let factors = all().flat_map(|result| {
        let split = result.split.map(|split| [split.compression, split.algorithm]);
        split.into_iter().flatten().chain(result.speedup)
    });
    let scale = BarScale::of(1.0, factors);
    let gain =
        |value: Option<f64>| Cell::number(value, factor).with_bar(value.map(|value| scale.bar_to(value)));
    let rows = run.executors.results().map(|(executor, variant, result)| {
        vec![
            Cell::name(variant),
            Cell::text(executor),
            Cell::number(result.iteration_s.mean, |mean_s| time(mean_s, result)),
            gain(result.speedup),
            gain(result.split.map(|split| split.compression)),
            gain(result.split.map(|split| split.algorithm)),
            Cell::number(result.ratio, factor),
            Cell::text(&bound_by(result)),
            Cell::text(result.verified.map_or("-", |all| if all { "yes" } else { "no" })),
        ]
    });
    let lead = "Times are means over iterations; behind ± is how far these differ, or the estimate may be off. A speedup is over the first variant, \
                and the product of two: by compression is what smaller messages bring, by algorithm is what another order of messages brings \
                without any compression. Bars begin at 1.";
    let header = [
        "variant",
        "executor",
        "time",
        "speedup",
        "by compression",
        "by algorithm",
        "ratio",
        "bound by",
        "bytes compared",
    ];
    format!("{}{}{}", paragraph(lead), table(&header, &rows.collect::<Vec<_>>()), rank_times(run))
}

/// Table of the times of ranks and of bytes.
fn rank_times(run: &RunOutcome) -> String {
    let rows = run.executors.results().map(|(executor, variant, result)| {
        vec![
            Cell::name(variant),
            Cell::text(executor),
            Cell::number(result.comm_s, seconds),
            Cell::number(result.wait_s, seconds),
            Cell::number(result.codec_s, seconds),
            Cell::number(result.compute_s, seconds),
            Cell::number(result.bytes_raw, bytes),
            Cell::number(result.bytes_wire, bytes),
        ]
    });
    let lead = "Times that ranks spend, means over ranks and iterations: they overlap, so that they do not add up to an iteration. Bytes are sums over \
                ranks, before and after compression.";
    let header = ["variant", "executor", "communication", "waiting", "codec", "compute", "raw", "wire"];
    let alike = run.executors.results().find_map(|(.., result)| result.ranks_alike);
    let alike = alike.map(|ranks| format!("Ranks are alike: each that is simulated stands for {ranks}."));
    let alike = alike.map_or(String::new(), |text| paragraph(&text));
    format!("{}{}{alike}", paragraph(lead), table(&header, &rows.collect::<Vec<_>>()))
}

/// Mean of iterations, how far it may be off, and how far they differ.
fn time(mean_s: f64, result: &VariantOutcome) -> String {
    let share = |part_s: f64| format!(" ± {}", percent(part_s / mean_s));
    let spread_s = result.iteration_margin_s.or(result.iteration_s.sd.filter(|sd| *sd > 1e-4 * mean_s));
    let spread_s = spread_s.filter(|_| mean_s > 0.0);
    format!("{}{}", seconds(mean_s), spread_s.map_or(String::new(), share))
}

/// Largest part of the critical path.
fn bound_by(result: &VariantOutcome) -> String {
    let parts = &result.critical_path_s.0;
    let sum: f64 = parts.iter().map(|(_, part_s)| part_s).sum();
    let Some((cause, most_s)) = parts.iter().max_by(|a, b| a.1.total_cmp(&b.1)).filter(|_| sum > 0.0) else {
        return "-".to_owned();
    };
    let link = result.busiest_link.as_ref().filter(|_| cause == "links");
    let link = link.map_or(String::new(), |link| format!(", most on `{}`", link.name));
    format!("{cause} {}{link}", percent(most_s / sum))
}

/// Table of runs that serve requests.
fn served(run: &RunOutcome) -> String {
    let header = [
        "variant", "executor", "TTFT", "TTFT p99", "TPOT", "e2e", "KV wait", "goodput", "SLO met", "ratio",
        "raw", "wire", "overload",
    ];
    let rows = run.executors.results().map(|(executor, variant, result)| {
        let requests = result.requests.clone().unwrap_or_default();
        let mean = |of: Option<PercentilesOutcome>| Cell::number(of.and_then(|of| of.mean), seconds);
        vec![
            Cell::name(variant),
            Cell::text(executor),
            mean(requests.ttft_s),
            Cell::number(requests.ttft_s.and_then(|of| of.p99), seconds),
            mean(requests.tpot_s),
            mean(requests.e2e_s),
            mean(requests.kv_wait_s),
            Cell::number(requests.goodput_per_s, |rate| format!("{rate:.3} /s")),
            Cell::number(requests.slo_met, percent).with_bar(requests.slo_met.map(|met| [0.0, met])),
            Cell::number(result.ratio, factor),
            Cell::number(result.bytes_raw, bytes),
            Cell::number(result.bytes_wire, bytes),
            Cell::text(requests.is_overloaded.map_or("-", |is| if is { "yes" } else { "no" })),
        ]
    });
    let lead = "Times are means over requests: TTFT to the first token, TPOT between tokens, e2e to the last one, KV wait from the end of \
                prefill until the cache is where it is decoded.";
    format!("{}{}", paragraph(lead), table(&header, &rows.collect::<Vec<_>>()))
}

/// Simulated times beside those of executors whose times are a measure.
fn measured(run: &RunOutcome) -> String {
    let simulated = |variant: &str| {
        run.executors
            .results()
            .find(|(executor, name, _)| *executor == "sim" && *name == variant)?
            .2
            .iteration_s
            .mean
    };
    let timed = run
        .executors
        .results()
        .filter(|(executor, _, result)| *executor != "sim" && result.speedup.is_some());
    let pairs: Vec<Pair> = timed
        .filter_map(|(executor, variant, result)| {
            shown(&format!("{variant} on {executor}"), simulated(variant), result.iteration_s.mean)
        })
        .collect();
    if run.executors.results().any(|(.., result)| result.requests.is_some()) {
        return paragraph(
            "Requests are held against the simulation by `zipwire validate`, one by one; its table has how far they are off, and no report \
             does.",
        );
    }
    if pairs.is_empty() {
        return paragraph(
            "Nothing was measured here whose times could be held against the simulation: `zipwire validate` does that, with real ranks on \
             paced links.",
        );
    }
    agreement(&pairs, ErrorSign::OfMeasured)
}

/// Ratio and time of each codec, and from when on it pays.
fn codec_rows(run: &RunOutcome) -> Vec<timelines::CodecRow> {
    let break_even = |variant: &str| {
        let found = run.verdict.as_ref()?.break_even.0.iter().find(|(name, _)| name == variant)?;
        Some(found.1)
    };
    let coded = run.executors.results().filter(|(.., result)| result.codec_s.is_some_and(|s| s > 0.0));
    coded
        .map(|(executor, variant, result)| timelines::CodecRow {
            executor: executor.to_owned(),
            variant: variant.to_owned(),
            ratio: result.ratio,
            codec_s: result.codec_s,
            share: result
                .codec_s
                .zip(result.iteration_s.mean.filter(|mean_s| *mean_s > 0.0))
                .map(|(codec_s, mean_s)| codec_s / mean_s),
            break_even: break_even(variant).filter(|_| executor == "sim"),
        })
        .collect()
}
