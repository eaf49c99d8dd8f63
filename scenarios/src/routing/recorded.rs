//! Routing from recordings: their shares, scaled to the model's token count without randomness.

use std::collections::BTreeSet;

use ndarray::Array2;
use zipwire_traces::{RoutingMatrix, RoutingStep};

use super::{Context, KEYS, Place};
use crate::error::Result;
use crate::language::{Field, Reader};
use crate::problem::Problem;

/// Which record is asked for; `None` accepts any.
struct Selection {
    ranks: Option<u32>,
    step: Option<u64>,
    layer: Option<u32>,
    sharding: Option<String>,
}

impl Selection {
    fn read(table: &Reader<'_>, ranks: Option<u32>) -> Result<Self> {
        Ok(Self {
            ranks,
            step: table.get(KEYS.step)?.map(u64::from),
            layer: table.get(KEYS.layer)?,
            sharding: table.get(KEYS.sharding)?,
        })
    }

    /// Without a layer, that of the iteration: recorded layers follow one another and begin again behind the last.
    fn choose_layer(&mut self, place: Place, recorded: &BTreeSet<u32>) {
        if let (None, Place::Layer { layer, .. }) = (self.layer, place) {
            self.layer = recorded.iter().copied().nth(layer as usize % recorded.len().max(1));
        }
    }

    fn accepts(&self, ranks: Option<u32>, step: u64, layer: u32, sharding: Option<&str>) -> bool {
        (self.ranks.is_none() || self.ranks == ranks)
            && self.step.is_none_or(|wanted| wanted == step)
            && self.layer.is_none_or(|wanted| wanted == layer)
            && (self.sharding.is_none() || self.sharding.as_deref() == sharding)
    }
}

/// The name of a record, or of a selection, for messages.
fn describe(ranks: Option<u32>, step: Option<u64>, layer: Option<u32>, sharding: Option<&str>) -> String {
    let parts = [
        step.map(|step| format!("step {step}")),
        layer.map(|layer| format!("layer {layer}")),
        ranks.map(|ranks| format!("{ranks} ranks")),
        sharding.map(|sharding| format!("sharding `{sharding}`")),
    ];
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    if parts.is_empty() { "no condition".to_owned() } else { parts.join(", ") }
}

/// One recorded source rank x expert matrix: every source rank has shares of its own.
pub(super) fn matrix(table: &Reader<'_>, file: &Field<'_>, context: &Context<'_>) -> Result<Array2<u64>> {
    let mut selection = Selection::read(table, Some(context.ranks))?;
    let records = context.files.matrices(file.string()?);
    let records = records.map_err(|error| file.error(Problem::Recording(error)))?;
    let accepts = |selection: &Selection, record: &RoutingMatrix| {
        selection.accepts(Some(record.rank_count), record.step, record.layer, Some(&record.sharding))
    };
    let candidates = records.iter().filter(|record| accepts(&selection, record)).map(|record| record.layer);
    let layers = candidates.collect();
    selection.choose_layer(context.place, &layers);
    let fits = |record: &&RoutingMatrix| accepts(&selection, record);
    let names = |record: &RoutingMatrix| {
        let (step, layer) = (Some(record.step), Some(record.layer));
        describe(Some(record.rank_count), step, layer, Some(&record.sharding))
    };
    let record = only(&records, fits, names, &selection, file)?;
    check_experts(record.counts.ncols(), file, context)?;

    let mut counts = Array2::zeros((context.ranks as usize, context.experts as usize));
    for (rank, (mut row, shares)) in (0..).zip(counts.rows_mut().into_iter().zip(record.counts.rows())) {
        row.assign(&divide(&shares.to_vec(), Some(rank), file, context)?);
    }
    Ok(counts)
}

/// One record of tokens per expert: the same shares for every source rank.
pub(super) fn trace(table: &Reader<'_>, file: &Field<'_>, context: &Context<'_>) -> Result<Array2<u64>> {
    let mut selection = Selection::read(table, None)?;
    let records = context.files.trace(file.string()?);
    let records = records.map_err(|error| file.error(Problem::Recording(error)))?;
    let accepts = |selection: &Selection, record: &RoutingStep| {
        selection.accepts(None, record.step, record.layer, None)
    };
    let candidates = records.iter().filter(|record| accepts(&selection, record)).map(|record| record.layer);
    let layers = candidates.collect();
    selection.choose_layer(context.place, &layers);
    let fits = |record: &&RoutingStep| accepts(&selection, record);
    let names = |record: &RoutingStep| describe(None, Some(record.step), Some(record.layer), None);
    let record = only(&records, fits, names, &selection, file)?;
    check_experts(record.tokens.len(), file, context)?;

    let row = divide(&record.tokens, None, file, context)?;
    let shape = (context.ranks as usize, context.experts as usize);
    Ok(row.broadcast(shape).expect("a row as long as the matrix is wide").to_owned())
}

fn only<'a, T>(
    records: &'a [T],
    fits: impl Fn(&&T) -> bool,
    names: impl Fn(&T) -> String,
    selection: &Selection,
    file: &Field<'_>,
) -> Result<&'a T> {
    let fitting: Vec<&T> = records.iter().filter(&fits).collect();
    if let [only] = fitting[..] {
        return Ok(only);
    }
    let Selection { ranks, step, layer, sharding } = selection;
    // With several, the user has to choose among them; with none, among all.
    let shown = if fitting.is_empty() { records.iter().collect() } else { fitting.clone() };
    Err(file.error(Problem::NotOneRecord {
        file: file.string()?.to_owned(),
        count: fitting.len(),
        wanted: describe(*ranks, *step, *layer, sharding.as_deref()),
        available: shown.into_iter().map(names).collect(),
    }))
}

fn check_experts(found: usize, file: &Field<'_>, context: &Context<'_>) -> Result<()> {
    let wanted = context.experts as usize;
    if found == wanted {
        return Ok(());
    }
    Err(file.error(Problem::ExpertCount { file: file.string()?.to_owned(), found, wanted }))
}

fn divide(
    shares: &[u64],
    rank: Option<u32>,
    file: &Field<'_>,
    context: &Context<'_>,
) -> Result<ndarray::Array1<u64>> {
    let counts = largest_remainder(shares, context.copies_per_rank());
    let none = || file.error(Problem::NoShares { file: file.string().unwrap_or_default().to_owned(), rank });
    Ok(counts.ok_or_else(none)?.into())
}

/// `total` divided in proportion to `weights`, exactly: every part is its share rounded down, and what is
/// left goes one by one to the parts with the largest remainders, ties to the lower index (Hamilton's method).
///
/// `None` if all weights are zero.
fn largest_remainder(weights: &[u64], total: u64) -> Option<Vec<u64>> {
    let sum: u128 = weights.iter().map(|&weight| u128::from(weight)).sum();
    if sum == 0 {
        return None;
    }
    // Both factors are below 2^64, so the products fit.
    let scaled = |weight: u64| u128::from(weight) * u128::from(total);
    let floor = |weight| u64::try_from(scaled(weight) / sum).expect("a part is at most the total");
    let mut parts: Vec<u64> = weights.iter().map(|&weight| floor(weight)).collect();
    let left = total - parts.iter().sum::<u64>();

    let mut order: Vec<usize> = (0..weights.len()).collect();
    // The sort is stable: among equal remainders the lower index stays first.
    order.sort_by_key(|&index| std::cmp::Reverse(scaled(weights[index]) % sum));
    for &index in order.iter().take(usize::try_from(left).expect("fewer are left than there are parts")) {
        parts[index] += 1;
    }
    Some(parts)
}

#[cfg(test)]
mod tests {
    use rand::RngExt;

    use super::*;

    #[test]
    fn ties_go_to_the_lower_index() {
        assert_eq!(largest_remainder(&[1, 1, 1], 4).unwrap(), [2, 1, 1]);
        assert_eq!(largest_remainder(&[1, 1, 1], 5).unwrap(), [2, 2, 1]);
        assert_eq!(largest_remainder(&[0, 3, 3], 3).unwrap(), [0, 2, 1]);
    }

    #[test]
    fn larger_remainders_go_first() {
        // 10 x 7/12 = 5.83, 10 x 4/12 = 3.33, 10 x 1/12 = 0.83: one each to the first and the last.
        assert_eq!(largest_remainder(&[7, 4, 1], 10).unwrap(), [6, 3, 1]);
        assert_eq!(largest_remainder(&[0, 0], 10), None);
        assert_eq!(largest_remainder(&[], 10), None);
    }

    #[test]
    fn is_the_identity_on_a_record_of_the_same_size() {
        let record = [145, 100, 211, 0, 541, 194];
        assert_eq!(largest_remainder(&record, record.iter().sum()).unwrap(), record);
    }

    #[test]
    fn sums_and_stays_within_one_of_the_share() {
        let mut rng = zipwire_payload::stream(1, "test", [0; 3]);
        for _ in 0..2000 {
            let count = rng.random_range(1..40);
            let limit = [10, 1 << 20, u64::MAX][rng.random_range(0..3)];
            let weights: Vec<u64> = (0..count).map(|_| rng.random_range(0..=limit)).collect();
            let total = rng.random_range(0..=limit);
            let Some(parts) = largest_remainder(&weights, total) else {
                assert!(weights.iter().all(|&weight| weight == 0));
                continue;
            };
            assert_eq!(parts.iter().map(|&part| u128::from(part)).sum::<u128>(), u128::from(total));
            let sum: u128 = weights.iter().map(|&weight| u128::from(weight)).sum();
            for (&weight, &part) in weights.iter().zip(&parts) {
                let floor = u128::from(weight) * u128::from(total) / sum;
                assert!((floor..=floor + 1).contains(&u128::from(part)));
            }
        }
    }
}
