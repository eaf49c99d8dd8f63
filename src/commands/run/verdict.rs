//! What a simulated comparison comes to, in words: whether compressing pays, and what of a gain is something else.

use zipwire::executors::SIM;
use zipwire::scenarios::Experiment;
use zipwire::traces::{Split, Summary};

/// Of a speedup, what is more than this is called another algorithm.
const BY_ALGORITHM: f64 = 1.02;

/// A gain or loss below this is called none.
const NOTHING: f64 = 0.005;

/// Lines for below the table; none where no speedup is split.
pub(super) fn text(experiment: &Experiment, summary: &Summary) -> String {
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
    let uncompressed =
        experiment.variants.iter().filter(|variant| !variant.is_coded() && !variant.is_adaptive());
    let speedups = uncompressed.filter_map(|variant| {
        let result = summary.executors.get(SIM.name(), &variant.name)?;
        Some((variant.name.as_str(), result.speedup?))
    });
    let fastest = speedups.reduce(|a, b| if b.1 > a.1 { b } else { a });
    let of = format!("{:.3} by compression and {:.3} by algorithm", split.compression, split.algorithm);
    let faster = fastest.filter(|&(name, other)| name != first && other > speedup * (1.0 + NOTHING));
    let mut text = if let Some((uncompressed, other)) = faster {
        format!(
            "verdict: do not compress here: `{uncompressed}`, which compresses nothing, is {:.3} times as fast as the best coded \
             variant, `{best}`, which is {speedup:.3} times as fast as `{first}` ({of})\n",
            other / speedup
        )
    } else if speedup < 1.0 - NOTHING {
        format!(
            "verdict: do not compress here: the best coded variant, `{best}`, is {speedup:.3} of `{first}` ({of})\n"
        )
    } else if speedup < 1.0 + NOTHING {
        format!(
            "verdict: compressing makes no difference here: `{best}` is {speedup:.3} of `{first}` ({of})\n"
        )
    } else {
        format!("verdict: `{best}` is {speedup:.3} times as fast as `{first}`: {of}\n")
    };
    for (name, _, split) in coded.iter().filter(|(.., split)| split.algorithm > BY_ALGORITHM) {
        text += &format!(
            "note: `{name}` is {:.3} times as fast at ratio 1 with a free codec: that is its algorithm and its overlap, and a \
             variant that compresses nothing could have them, too\n",
            split.algorithm
        );
    }
    text
}
