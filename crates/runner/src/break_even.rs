//! From when on a coded variant pays: the ratio and the codec speed at which it takes as long as the first variant.

use zipwire_cluster::CodecCost;
use zipwire_scenarios::{CodecChoice, Experiment};
use zipwire_schedule::PlanSize;
use zipwire_traces::{BreakEven, Executors};

use crate::executors::SIM;
use crate::split::coded;
use crate::{Cancel, ExecuteError, Prepared};

/// How near to the first variant's time a search gets, as a part of it.
const NEAR: f64 = 2e-4;
/// Simulations of one search at the most.
const MOST: usize = 40;
/// The largest ratio that is looked at. No codec here shortens floating-point values more, but where they repeat.
pub const LARGEST_RATIO: f64 = 16.0;
/// The slowest codec that is looked at: so many times as slow as the one that is declared.
const SLOWEST: f64 = 1e4;

/// Spans of a run up to which searches take about as long as the run itself did with its files, a second or two.
const FEW_SPANS: u64 = 100_000;

/// Where each coded variant breaks even with the first, in the order of the scenario: ratio, up to 16, and speed each with all else as it is.
/// Plans are those of a run with that ratio or speed. Adaptive variants, and scenarios with faults or drift, are left out.
///
/// # Errors
/// If a simulation is interrupted, or takes more memory than there is.
pub fn break_evens(
    executors: &Executors,
    prepared: &mut Prepared<'_>,
    cancel: &Cancel,
) -> Result<Vec<(String, BreakEven)>, ExecuteError> {
    let mut found = Vec::new();
    for (index, variant) in coded(prepared.experiment(), executors) {
        let Some(codec) = prepared.experiment().codec_of(variant).cloned() else { continue };
        let result = executors.get(SIM.name(), &variant.name).expect("it has a speedup");
        let Some(speedup) = result.speedup else { continue };
        let first_s = speedup * result.metrics.iteration_s.mean;
        let cost = codec.cost;
        let alone = Experiment { variants: vec![variant.clone()], ..prepared.experiment().clone() };
        let mut mean_s = |choice| {
            let changed = alone.with_changed(|changed| changed.variants[0].codec = Some(choice));
            prepared.mean_s_in(&changed, &changed.variants[0], index, cancel)
        };

        let mut with_share = |share: f64| mean_s(CodecChoice { ratio: Some(1.0 / share), ..codec.clone() });
        let share = crossing(&mut with_share, (1.0 / LARGEST_RATIO, 1.0), first_s)?;
        let mut with_slowness =
            |slowness: f64| mean_s(CodecChoice { cost: slower(cost, slowness), ..codec.clone() });
        // What gains at this speed may be slower, and the other way round.
        let ends = if speedup >= 1.0 { (1.0, SLOWEST) } else { (0.0, 1.0) };
        let slowness = crossing(&mut with_slowness, ends, first_s)?;
        let speed = slowness.filter(|slowness| *slowness > 0.0).map(|slowness| slower(cost, slowness));
        let break_even = BreakEven {
            ratio: share.map(|share| 1.0 / share),
            encode_gbps: speed.map(|speed| speed.encode_bytes_per_s / 1e9).filter(|gbps| gbps.is_finite()),
            decode_gbps: speed.map(|speed| speed.decode_bytes_per_s / 1e9).filter(|gbps| gbps.is_finite()),
        };
        found.push((variant.name.clone(), break_even));
    }
    Ok(found)
}

/// Whether searching takes no longer than a second or two.
pub fn is_quick(prepared: &Prepared<'_>) -> bool {
    let coded = prepared.variants().filter(|(variant, _)| variant.is_coded());
    let spans: u64 = coded.map(|(_, planned)| PlanSize::of(&planned.plan).spans).sum();
    spans * u64::from(prepared.experiment().iterations) <= FEW_SPANS
}

/// A codec that takes so many times as long for each byte, and as long as before to launch.
fn slower(cost: CodecCost, slowness: f64) -> CodecCost {
    CodecCost {
        encode_bytes_per_s: cost.encode_bytes_per_s / slowness,
        decode_bytes_per_s: cost.decode_bytes_per_s / slowness,
        ..cost
    }
}

/// Where a time that grows with `x` reaches `target_s`, within [`NEAR`], or where it jumps across: the last `x` that is known to be below.
/// `None` if it does neither between the two ends. Times of iterations are nearly piecewise linear, so regula falsi finds it in a few
/// steps; an end that stays has its weight halved (the Illinois algorithm).
fn crossing<E>(
    time_s: &mut dyn FnMut(f64) -> Result<f64, E>,
    (mut low, mut high): (f64, f64),
    target_s: f64,
) -> Result<Option<f64>, E> {
    let (mut below, mut above) = (time_s(low)? - target_s, time_s(high)? - target_s);
    if below > 0.0 || above < 0.0 {
        return Ok(None);
    }
    let mut stayed = 0_i32;
    for _ in 0..MOST {
        let x = if above > below { low + (high - low) * (-below / (above - below)) } else { low };
        let off = time_s(x)? - target_s;
        if off.abs() <= NEAR * target_s {
            return Ok(Some(x));
        }
        if off < 0.0 {
            (low, below) = (x, off);
            above = if stayed > 0 { above / 2.0 } else { above };
            stayed = 1;
        } else {
            (high, above) = (x, off);
            below = if stayed < 0 { below / 2.0 } else { below };
            stayed = -1;
        }
    }
    Ok(Some(low))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(time_s: impl Fn(f64) -> f64, ends: (f64, f64), target_s: f64) -> (Option<f64>, usize) {
        let mut count = 0;
        let mut counted = |x| {
            count += 1;
            Ok::<f64, ()>(time_s(x))
        };
        let x = crossing(&mut counted, ends, target_s).unwrap();
        (x, count)
    }

    #[test]
    fn lines_take_one_step_and_corners_a_few() {
        let (x, count) = found(|x| 3.0 + 2.0 * x, (0.0, 10.0), 7.0);
        assert!((x.unwrap() - 2.0).abs() < 1e-9 && count == 3, "{x:?} {count}");
        // Nothing changes for long, and then much.
        let (x, count) = found(|x| 1.0 + (x - 9.0).max(0.0) * 50.0, (0.0, 1e4), 2.0);
        assert!((x.unwrap() - 9.02).abs() < 1e-4 && count <= MOST, "{x:?} {count}");
        let (x, count) = found(|x| 1.0 + x.min(0.5) * 3.0, (0.0, 1.0), 2.0);
        assert!((x.unwrap() - 1.0 / 3.0).abs() < 1e-3 && count <= 12, "{x:?} {count}");
    }

    #[test]
    fn what_is_not_between_the_ends_is_not_found() {
        assert_eq!(found(|x| 3.0 + x, (0.0, 1.0), 2.0).0, None);
        assert_eq!(found(|x| 3.0 + x, (0.0, 1.0), 5.0).0, None);
    }

    #[test]
    fn a_jump_across_the_target_is_where_it_is() {
        let (x, _) = found(|x| if x < 0.3 { 1.0 } else { 3.0 }, (0.0, 1.0), 2.0);
        assert!(x.is_some_and(|x| (0.3 - 1e-6..0.3).contains(&x)), "{x:?}");
    }
}
