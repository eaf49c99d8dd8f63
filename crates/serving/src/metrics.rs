//! Metrics of serving: the numbers that variants are compared by, and how a run is summed up.

use crate::{Outcome, Recorder, Request, Requests};

/// Promise to a user: requests that keep all of it count for goodput. All in seconds; `None` promises nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Slo {
    /// To the first token.
    pub ttft_s: Option<f64>,
    /// Between tokens, mean of a request. Requests of one token keep it.
    pub tpot_s: Option<f64>,
    /// To the last token.
    pub e2e_s: Option<f64>,
}

/// A distribution in a few numbers. Percentiles are interpolated between neighbours, as NumPy does by default.
#[derive(Clone, Copy, Debug, Default, PartialEq, serde::Serialize)]
pub struct Percentiles {
    /// Mean.
    pub mean: f64,
    /// Half are below.
    pub p50: f64,
    /// Nine tenths are below.
    pub p90: f64,
    /// All but a hundredth are below.
    pub p99: f64,
}

/// Metrics of serving some requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, serde::Serialize)]
pub struct Metrics {
    /// Requests that arrived.
    pub arrived: u32,
    /// Requests that were served.
    pub finished: u32,
    /// Requests that were not.
    pub failed: u32,
    /// Requests that were being served at the end of the run.
    pub in_flight: u32,
    /// Seconds to the first token, of those that have one.
    pub ttft_s: Option<Percentiles>,
    /// Mean seconds between tokens of a request that was served and has two or more.
    pub tpot_s: Option<Percentiles>,
    /// Seconds between two tokens, of all tokens; to within [`Recorder::inter_token_error`].
    pub itl_s: Option<Percentiles>,
    /// Seconds to the last token, of those that were served.
    pub e2e_s: Option<Percentiles>,
    /// Seconds from the end of prefill until the cache was where it is decoded.
    pub kv_wait_s: Option<Percentiles>,
    /// Seconds from the first arrival to the last end.
    pub duration_s: f64,
    /// Requests that kept all promises, per second of the duration.
    pub goodput_per_s: f64,
    /// Their share of those that arrived.
    pub slo_met: f64,
    /// Tokens that were generated for requests that were served, per second of the duration.
    pub output_tokens_per_s: f64,
    /// Requests whose answer had not begun when the last one arrived.
    pub unanswered_at_last_arrival: u32,
    /// Whether these are more than a tenth of all: requests come faster than they are served, and what users wait depends on how many there are.
    pub is_overloaded: bool,
}

/// More than this share of all requests that wait when the last one arrives is an overload.
const OVERLOAD: f64 = 0.1;
/// Fewer requests than this that wait are none.
const OVERLOAD_LEAST: u32 = 8;

impl Slo {
    /// Whether a request was served as promised.
    pub fn is_met(&self, record: &crate::Record, request: &Request) -> bool {
        let keeps = |limit: Option<f64>, seconds: Option<f64>| match (limit, seconds) {
            (Some(limit_s), Some(seconds)) => seconds <= limit_s,
            (Some(_), None) => false,
            (None, _) => true,
        };
        let tpot_s = if request.output_tokens < 2 { Some(0.0) } else { record.tpot_s(request.output_tokens) };
        record.outcome == Outcome::Finished
            && keeps(self.ttft_s, record.ttft_s())
            && keeps(self.tpot_s, tpot_s)
            && keeps(self.e2e_s, record.e2e_s())
    }
}

impl Percentiles {
    /// Distribution of these values; `None` if there is none.
    pub fn of(values: impl Iterator<Item = f64>) -> Option<Self> {
        Self::weighted(values.map(|value| (value, 1)).collect())
    }

    /// Distribution of values that each count so many times.
    pub fn weighted(mut values: Vec<(f64, u64)>) -> Option<Self> {
        values.retain(|(_, count)| *count > 0);
        values.sort_by(|a, b| a.0.total_cmp(&b.0));
        let total: u64 = values.iter().map(|(_, count)| count).sum();
        if total == 0 {
            return None;
        }
        let sum: f64 = values.iter().map(|(value, count)| value * *count as f64).sum();
        let mut ends = Vec::with_capacity(values.len());
        let mut end = 0;
        for (_, count) in &values {
            end += count;
            ends.push(end);
        }
        let at = |position: u64| values[ends.partition_point(|&end| end <= position)].0;
        let percentile = |hundredths: u64| {
            // The position in the sorted values, in hundredths.
            let position = hundredths * (total - 1);
            let (below, rest) = (position / 100, position % 100);
            let low = at(below);
            if rest == 0 { low } else { low + (at(below + 1) - low) * (rest as f64 / 100.0) }
        };
        let [p50, p90, p99] = [50, 90, 99].map(percentile);
        Some(Self { mean: sum / total as f64, p50, p90, p99 })
    }
}

impl Metrics {
    /// Metrics of a recorded run; `unanswered_at_last_arrival` is a census's count at that time.
    pub fn of(requests: &Requests, recorder: &Recorder, slo: &Slo, unanswered_at_last_arrival: u32) -> Self {
        let both = || recorder.records().iter().zip(requests.list());
        let arrived = || both().filter(|(record, _)| record.outcome != Outcome::Expected);
        let count = |is: fn(Outcome) -> bool| both().filter(|(record, _)| is(record.outcome)).count() as u32;
        let begin_s = arrived().map(|(record, _)| record.arrival_s).fold(f64::INFINITY, f64::min);
        let end_s = arrived().filter_map(|(record, _)| record.end_s).fold(begin_s, f64::max);
        let duration_s = if begin_s.is_finite() { end_s - begin_s } else { 0.0 };
        let per_s = |amount: f64| if duration_s > 0.0 { amount / duration_s } else { 0.0 };
        let met = both().filter(|(record, request)| slo.is_met(record, request)).count();
        let served = both().filter(|(record, _)| record.outcome == Outcome::Finished);
        let tokens: u64 = served.map(|(_, request)| u64::from(request.output_tokens)).sum();
        let arrived_count = arrived().count() as u32;
        let share = |amount: f64| if arrived_count > 0 { amount / f64::from(arrived_count) } else { 0.0 };
        Self {
            arrived: arrived_count,
            finished: count(|outcome| outcome == Outcome::Finished),
            failed: count(|outcome| matches!(outcome, Outcome::Failed(_))),
            in_flight: count(|outcome| outcome == Outcome::InFlight),
            ttft_s: Percentiles::of(both().filter_map(|(record, _)| record.ttft_s())),
            tpot_s: Percentiles::of(both().filter_map(|(record, r)| record.tpot_s(r.output_tokens))),
            itl_s: Percentiles::weighted(recorder.inter_token_s().to_vec()),
            e2e_s: Percentiles::of(both().filter_map(|(record, _)| record.e2e_s())),
            kv_wait_s: Percentiles::of(both().filter_map(|(record, _)| record.kv_wait_s())),
            duration_s,
            goodput_per_s: per_s(met as f64),
            slo_met: share(met as f64),
            output_tokens_per_s: per_s(tokens as f64),
            unanswered_at_last_arrival,
            is_overloaded: unanswered_at_last_arrival >= OVERLOAD_LEAST
                && share(f64::from(unanswered_at_last_arrival)) > OVERLOAD,
        }
    }
}

/// Metrics of the requests, and of caches, links and instances.
#[derive(Clone, Copy, Debug, Default, PartialEq, serde::Serialize)]
pub struct Summary {
    /// Requests.
    #[serde(flatten)]
    pub metrics: Metrics,
    /// Bytes of caches that have moved, before coding.
    pub kv_bytes_raw: u64,
    /// The same on the wire.
    pub kv_bytes_wire: u64,
    /// Share of the tokens of prompts that a prefill instance had from earlier ones.
    pub cached_tokens: f64,
    /// Share of the run in which prefill instances computed, mean of them.
    pub prefill_busy: f64,
    /// The same of decode instances.
    pub decode_busy: f64,
    /// Share of its capacity that the busiest link carried over the run; `None` where links are not known.
    pub busiest_link: Option<f64>,
}

/// Distinct times kept before equal ones are merged.
const LIMIT: usize = 1 << 20;

/// Inter-token latencies in seconds, and how often each was seen.
///
/// Memory is bounded: when there are more than a million entries, equal ones are merged, and if that does not halve them, all are rounded to
/// fewer and fewer bits until it does. [`Self::error`] bounds the error of that.
#[derive(Clone, Debug)]
pub(crate) struct LatencyHistogram {
    list: Vec<(f64, u64)>,
    limit: usize,
    /// Bits of mantissas that are rounded off.
    rounded_bits: u32,
}

impl Default for LatencyHistogram {
    fn default() -> Self {
        Self::new(LIMIT)
    }
}

impl LatencyHistogram {
    fn new(limit: usize) -> Self {
        Self { list: Vec::new(), limit, rounded_bits: 0 }
    }

    pub(crate) fn push(&mut self, seconds: f64, count: u64) {
        if self.list.len() == self.limit {
            self.merge();
        }
        self.list.push((round(seconds, self.rounded_bits), count));
    }

    pub(crate) fn list(&self) -> &[(f64, u64)] {
        &self.list
    }

    /// How far each time may be from what was measured, relative to it; 0 where nothing was rounded.
    pub(crate) fn error(&self) -> f64 {
        if self.rounded_bits == 0 { 0.0 } else { ((1_u64 << self.rounded_bits) as f64) * f64::EPSILON }
    }

    fn merge(&mut self) {
        self.list.sort_by(|a, b| a.0.total_cmp(&b.0));
        loop {
            self.list.dedup_by(|next, kept| {
                let is_equal = next.0.to_bits() == kept.0.to_bits();
                kept.1 += if is_equal { next.1 } else { 0 };
                is_equal
            });
            if self.list.len() <= self.limit / 2 || self.rounded_bits == f64::MANTISSA_DIGITS - 1 {
                return;
            }
            self.rounded_bits += 1;
            for (seconds, _) in &mut self.list {
                *seconds = round(*seconds, self.rounded_bits);
            }
        }
    }
}

/// The nearest number whose last bits are zero. Larger numbers stay larger or become equal, so what is sorted stays so.
fn round(seconds: f64, bits: u32) -> f64 {
    if bits == 0 {
        return seconds;
    }
    let half = 1_u64 << (bits - 1);
    // What a mantissa carries over goes to the exponent, which is right.
    f64::from_bits((seconds.to_bits() + half) & !((1 << bits) - 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `numpy.percentile([1, 2, 3, 4, 10], [50, 90, 99])`.
    #[test]
    fn percentiles_are_those_of_numpy() {
        let values = Percentiles::of([10.0, 2.0, 3.0, 1.0, 4.0].into_iter()).unwrap();
        assert_eq!((values.mean, values.p50), (4.0, 3.0));
        assert!((values.p90 - 7.6).abs() < 1e-12 && (values.p99 - 9.76).abs() < 1e-12, "{values:?}");
    }

    #[test]
    fn a_weight_is_a_value_so_many_times() {
        let weighted = Percentiles::weighted(vec![(5.0, 3), (1.0, 4), (9.0, 0)]);
        assert_eq!(weighted, Percentiles::of([1.0, 1.0, 1.0, 1.0, 5.0, 5.0, 5.0].into_iter()));
        assert_eq!(Percentiles::weighted(Vec::new()), None);
    }

    #[test]
    fn equal_ones_are_merged_and_nothing_is_rounded() {
        let mut histogram = LatencyHistogram::new(8);
        (0..1000).for_each(|index| histogram.push(f64::from(index % 4) * 0.1, 1 + index as u64 % 2));
        assert!(histogram.list().len() <= 8);
        assert_eq!(histogram.error(), 0.0);
        assert_eq!(histogram.list().iter().map(|(_, count)| count).sum::<u64>(), 1500);
    }

    #[test]
    fn different_ones_are_rounded_by_no_more_than_is_said() {
        let value = |index: u32| 1e-3 * f64::from(1 + index * 7919 % 10_007);
        let mut histogram = LatencyHistogram::new(4096);
        (0..10_000).for_each(|index| histogram.push(value(index), 1));
        let (mut kept, mut exact): (Vec<f64>, Vec<f64>) = (Vec::new(), (0..10_000).map(value).collect());
        for &(seconds, count) in histogram.list() {
            (0..count).for_each(|_| kept.push(seconds));
        }
        kept.sort_by(f64::total_cmp);
        exact.sort_by(f64::total_cmp);
        assert!(
            histogram.list().len() <= 4096 && histogram.error() > 0.0 && histogram.error() < 4e-3,
            "{}",
            histogram.error()
        );
        for (kept, exact) in kept.iter().zip(&exact) {
            assert!((kept - exact).abs() <= histogram.error() * exact, "{kept} for {exact}");
        }
    }
}
