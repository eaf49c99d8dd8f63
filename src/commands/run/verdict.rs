//! Verdict of a simulated comparison in words: whether compressing pays, and how much of a gain has other causes.
//!
//! Speedups have two decimals: they rest on constants of clusters and codecs that are estimates. `summary.json` has all digits.

use zipwire::break_even::LARGEST_RATIO;
use zipwire::executors::SIM;
use zipwire::scenarios::{Experiment, Variant};
use zipwire::traces::{BreakEven, Sensitivity, Split, Summary};

/// Factor of a speedup above which it is attributed to another algorithm.
const BY_ALGORITHM: f64 = 1.02;

/// A gain or loss below this is called none.
const NOTHING: f64 = 0.005;

/// Lines for below the table: the verdict, if speedups are split, and warnings.
pub(super) fn text(summary: &Summary) -> String {
    let verdict = summary.verdict.iter();
    let lines = verdict.clone().flat_map(|verdict| &verdict.text).map(|line| format!("{line}\n"));
    let warnings = verdict.flat_map(|verdict| &verdict.warnings).map(|text| format!("warning: {text}\n"));
    lines.chain(warnings).collect()
}

/// The verdict, a line for each sentence; empty if no speedup is split.
pub(super) fn comparison(experiment: &Experiment, summary: &Summary) -> String {
    let first = &experiment.variants[0].name;
    let coded: Vec<(&str, f64, Split)> = experiment
        .variants
        .iter()
        .filter_map(|variant| {
            let result = summary.executors.get(SIM.name(), &variant.name)?;
            Some((variant.name.as_str(), result.speedup?, result.split?))
        })
        .collect();
    let Some(&(best, speedup, split)) = coded.iter().reduce(|a, b| if b.1 > a.1 { b } else { a }) else {
        return String::new();
    };
    let fastest = fastest_of(experiment, summary, |variant| !variant.is_coded() && !variant.is_adaptive());
    // What updates come to, another table says.
    let has_updates = summary.executors.iter().any(|(.., result)| result.updates.is_some());
    let verdict = if has_updates { "verdict on iterations" } else { "verdict" };
    let of = format!("{:.2} by compression and {:.2} by algorithm", split.compression, split.algorithm);
    let faster = fastest.filter(|&(name, other)| name != first && other > speedup * (1.0 + NOTHING));
    let mut text = if let Some((uncompressed, other)) = faster {
        format!(
            "{verdict}: do not compress here: `{uncompressed}`, which compresses nothing, is {:.2} times as fast as the best coded \
             variant, `{best}`, which is {speedup:.2} times as fast as `{first}` ({of})\n",
            other / speedup
        )
    } else if speedup < 1.0 - NOTHING {
        format!(
            "{verdict}: do not compress here: the best coded variant, `{best}`, is {speedup:.2} of `{first}` ({of})\n"
        )
    } else if speedup < 1.0 + NOTHING {
        format!(
            "{verdict}: compressing makes no difference here: `{best}` is {speedup:.2} of `{first}` ({of})\n"
        )
    } else {
        format!("{verdict}: `{best}` is {speedup:.2} times as fast as `{first}`: {of}\n")
    };
    let others = fastest.map_or(speedup, |(_, other)| speedup.max(other));
    if let Some((adaptive, gain)) = fastest_of(experiment, summary, Variant::is_adaptive)
        && gain > others * (1.0 + NOTHING)
    {
        text = format!(
            "{verdict}: `{adaptive}` is {gain:.2} times as fast as `{first}`: it changes between other variants as it goes\n{}",
            text.replacen(verdict, "of those that do not change", 1)
        );
    }
    for (name, _, split) in coded.iter().filter(|(.., split)| split.algorithm > BY_ALGORITHM) {
        text += &format!(
            "note: `{name}` is {:.2} times as fast at ratio 1 with a free codec: that is its algorithm and its overlap, and a \
             variant that compresses nothing could have them, too\n",
            split.algorithm
        );
    }
    text + &break_evens(experiment, summary)
}

/// Name and speedup of the fastest variant of a kind, as simulated.
fn fastest_of<'a>(
    experiment: &'a Experiment,
    summary: &Summary,
    is_of_kind: impl Fn(&Variant) -> bool,
) -> Option<(&'a str, f64)> {
    let of_kind = experiment.variants.iter().filter(|variant| is_of_kind(variant));
    let speedups = of_kind.filter_map(|variant| {
        let result = summary.executors.get(SIM.name(), &variant.name)?;
        Some((variant.name.as_str(), result.speedup?))
    });
    speedups.reduce(|a, b| if b.1 > a.1 { b } else { a })
}

/// From when on each coded variant pays: a line each.
fn break_evens(experiment: &Experiment, summary: &Summary) -> String {
    let Some(verdict) = summary.verdict.as_ref().filter(|verdict| !verdict.break_even.is_empty()) else {
        return "where coded variants break even takes longer to find here: add `--break-even`\n".to_owned();
    };
    let found = verdict.break_even.iter();
    let line = |(name, found): &(String, BreakEven)| {
        let result = summary.executors.get(SIM.name(), name)?;
        let gains = result.speedup? >= 1.0;
        let now = result.metrics.ratio.map_or_else(String::new, |ratio| format!(" (now {ratio:.3})"));
        let ratio = match found.ratio {
            Some(ratio) => format!("breaks even at ratio {ratio:.3}{now}"),
            None if gains => "gains at any ratio".to_owned(),
            None => format!("never breaks even at a ratio up to {LARGEST_RATIO}"),
        };
        let variant = experiment.variants.iter().find(|variant| variant.name == *name)?;
        let cost = experiment.codec_of(variant)?.cost;
        let speed = match (found.encode_gbps, found.decode_gbps) {
            (Some(encode), Some(decode)) => format!(
                "or with a codec that encodes at {} and decodes at {} GB/s (now {} and {})",
                digits(encode),
                digits(decode),
                digits(cost.encode_bytes_per_s / 1e9),
                digits(cost.decode_bytes_per_s / 1e9)
            ),
            _ if gains => "and however slow the codec".to_owned(),
            _ => "and at no speed of the codec".to_owned(),
        };
        Some(format!("`{name}` {ratio}, {speed}\n"))
    };
    found.filter_map(line).collect::<String>() + &sensitivity(&verdict.sensitivity)
}

/// Line on the constants that a speedup depends on most.
fn sensitivity(all: &[Sensitivity]) -> String {
    let Some(Sensitivity { variant, constant, speedup }) = all.first() else { return String::new() };
    let first = format!("the speedup of `{variant}` would be {speedup:.2} with `{constant}` a tenth larger");
    let with = |found: &Sensitivity| format!(", and {:.2} with `{}`", found.speedup, found.constant);
    format!("{first}{}\n", all[1..].iter().map(with).collect::<String>())
}

/// Three digits, and all of a larger whole number.
fn digits(value: f64) -> String {
    let decimals = match value {
        ..10.0 => 2,
        ..100.0 => 1,
        _ => 0,
    };
    format!("{value:.decimals$}")
}
