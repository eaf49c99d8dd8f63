//! SplitZip: recorded KV caches (Fig. 5), and speedups as functions of the share that the transfer has in a request (Fig. 2). The text gives
//! no such share, so nothing here is a prediction.

use zipwire_codec::{DType, Spec};

use crate::measure::{Ours, Speedup};
use crate::samples::{Bits, Counts, KV_BF16, ratio};
use crate::{Bench, ReproduceError};

/// Ratio of our codec on a recorded cache, of the tensors whose names begin with `prefix`, and the share of values that it covers.
pub(super) fn kv_cache(bench: &Bench<'_>, prefix: &str) -> Result<Ours, ReproduceError> {
    let is_wanted = |name: &str| name.starts_with(prefix);
    zipwire_paper_codecs::register();
    let codec: Spec = "codebook16".parse().expect("the codec is there");
    let ratio = ratio(bench, KV_BF16, &codec, DType::Bf16, &is_wanted)?;
    let covered = 100.0 * Counts::of(bench, KV_BF16, Bits::Exponent, &is_wanted)?.coverage(16);
    Ok(Ours::only(format!("ours, of a small model: ratio {ratio:.3}, {covered:.2} % covered")))
}

/// Speedup of a time if the part `share` of it becomes `speedup` times as fast.
fn gain(share: f64, speedup: f64) -> f64 {
    1.0 / (1.0 - share + share / speedup)
}

/// The part at which [`gain`] is `gained`.
fn share_of(gained: f64, speedup: f64) -> f64 {
    (1.0 - 1.0 / gained) / (1.0 - 1.0 / speedup)
}

/// The share of the transfer that a published speedup implies, and the speedup of the whole as simulated.
pub(super) fn implied_share(
    bench: &Bench<'_>,
    published: f64,
    [transfer, whole]: [&Speedup; 2],
    note: &str,
) -> Result<Ours, ReproduceError> {
    let note = note.replace("{}", &format!("{:.3}", whole.measure(bench, &[])?));
    let speedup = transfer.measure(bench, &[])?;
    let share = 100.0 * share_of(published, speedup);
    Ok(Ours::only(format!(
        "{published:.2} where the transfer is {share:.0} % of it, at most {speedup:.3}; {note}"
    )))
}

/// Gains of the whole for each share of the transfer, in percent, by the speedups of the transfer.
pub(super) fn gains(
    bench: &Bench<'_>,
    shares: &[f64],
    transfers: &[Speedup],
) -> Result<Vec<Vec<f64>>, ReproduceError> {
    let speedups = transfers.iter().map(|transfer| transfer.measure(bench, &[]));
    let speedups: Vec<f64> = speedups.collect::<Result<_, _>>()?;
    let point = |&share: &f64| {
        let gains = speedups.iter().map(|speedup| gain(share, *speedup));
        [100.0 * share].into_iter().chain(gains).collect()
    };
    Ok(shares.iter().map(point).collect())
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
