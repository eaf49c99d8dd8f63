//! Fig. 2: time to first token and throughput. The text gives no part that the transfer has in either, so both are functions
//! of it, and, simulated, of prompts and links; nothing here is a prediction.

use super::super::figure::{Figure, Measurement, Ours};
use super::super::{Bench, Curve, PublishedLevel, ReproduceError};
use super::serving::{throughput, throughput_by_length, ttft, ttft_by_length, ttft_by_pieces};
use super::transfer::speedups;

/// Published speedups.
const TTFT: f64 = 1.30;
const THROUGHPUT: f64 = 1.23;

/// The link and the prompt of the scenario, which are assumed.
const LINK: f64 = 25.0;
const TOKENS: u32 = 8192;

/// Parts that the curve has.
const SHARES: [f64; 8] = [0.1, 0.25, 0.5, 0.7, 0.8, 0.9, 0.95, 1.0];

pub(super) const FIGURE: Figure = Figure {
    measurements: &[
        Measurement::of("fig2-ttft", |bench| {
            let simulated = ttft(bench, LINK, TOKENS)?;
            implied(
                bench,
                TTFT,
                &format!(
                    "with a prompt of {TOKENS} tokens it is {simulated:.3} over {LINK} GB/s as simulated"
                ),
            )
        }),
        Measurement::of("fig2-throughput", |bench| {
            let simulated = throughput(bench, LINK, TOKENS)?;
            implied(
                bench,
                THROUGHPUT,
                &format!(
                    "with prompts of {TOKENS} tokens it is {simulated:.3} over {LINK} GB/s as simulated"
                ),
            )
        }),
    ],
    curves: &[by_share, ttft_by_length, throughput_by_length, ttft_by_pieces],
};

/// What a time gains of which the part `share` becomes `speedup` times as fast.
fn gain(share: f64, speedup: f64) -> f64 {
    1.0 / (1.0 - share + share / speedup)
}

/// The part at which [`gain`] is `gained`.
fn share_of(gained: f64, speedup: f64) -> f64 {
    (1.0 - 1.0 / gained) / (1.0 - 1.0 / speedup)
}

/// The part of the transfer that a published speedup implies.
fn implied(bench: &Bench<'_>, published: f64, simulated: &str) -> Result<Ours, ReproduceError> {
    let [speedup, _] = speedups(bench, &[])?;
    let share = 100.0 * share_of(published, speedup);
    Ok(Ours::only(format!(
        "{published:.2} where the transfer is {share:.0} % of it, at most {speedup:.3}; {simulated}"
    )))
}

fn by_share(bench: &Bench<'_>) -> Result<Curve, ReproduceError> {
    let [pipelined, sequential] = speedups(bench, &[])?;
    let point = |share: f64| vec![100.0 * share, gain(share, pipelined), gain(share, sequential)];
    Ok(Curve {
        name: "speedup by part of the transfer",
        title: "time to first token, or requests per second, as a function of the part that the raw transfer has in it; a \
                formula on top of the simulated transfer, not a prediction",
        columns: &["transfer, %", "in chunks", "in one piece"],
        axes: ["part of the raw transfer, %", "raw over SplitZip, x"],
        groups: &[],
        published: const {
            &[
                PublishedLevel::of("fig2-ttft", "published: time to first token, at most", None),
                PublishedLevel::of("fig2-throughput", "published: requests per second, at most", None),
            ]
        },
        points: SHARES.into_iter().map(point).collect(),
        ranges: None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gains_and_shares_are_inverse() {
        assert_eq!((gain(0.0, 1.32), gain(1.0, 1.25)), (1.0, 1.25));
        for share in [0.1, 0.77, 0.95] {
            assert!((share_of(gain(share, 1.32), 1.32) - share).abs() < 1e-12);
        }
    }
}
