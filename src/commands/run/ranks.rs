//! The tables of `zipwire run --ranks`: what each rank does, and how uneven ranks are.

use zipwire::timeline::{ByRank, Imbalance};
use zipwire::traces::Summary;

use crate::table;

/// A table with a row per executor, variant and rank, and one with a row per executor and variant.
pub(super) fn text(summary: &Summary) -> String {
    let of_ranks =
        ["executor", "variant", "rank", "compute", "communication", "waiting", "codec", "received"];
    let mut ranks = table::new(&of_ranks, &[0, 1]);
    let uneven = ["executor", "variant", "received max/mean", "Gini", "compute max/mean", "Gini"];
    let mut imbalance = table::new(&[&uneven[..], &["waiting max/mean", "Gini"]].concat(), &[0, 1]);
    for (executor, variant, result) in summary.executors.iter() {
        let Some(by_rank) = &result.by_rank else { continue };
        let names = [executor, variant].map(str::to_owned);
        for rank in 0..by_rank.wait_s.len() {
            ranks.add_row(names.iter().cloned().chain([rank.to_string()]).chain(row(by_rank, rank)));
        }
        let all = [by_rank.imbalance.received, by_rank.imbalance.compute, by_rank.imbalance.wait];
        imbalance.add_row(names.into_iter().chain(all.into_iter().flat_map(numbers)));
    }
    format!("{}\n\n{}\n", table::text(&ranks), table::text(&imbalance))
}

/// The columns of a rank behind its number.
fn row(by_rank: &ByRank, rank: usize) -> [String; 5] {
    let ByRank { compute_s, comm_s, wait_s, codec_s, bytes_received, .. } = by_rank;
    let [compute, comm, wait, codec] =
        [compute_s, comm_s, wait_s, codec_s].map(|seconds| table::seconds(seconds[rank]));
    [compute, comm, wait, codec, table::bytes(bytes_received[rank] as f64)]
}

fn numbers(imbalance: Option<Imbalance>) -> [String; 2] {
    let number = |of: fn(&Imbalance) -> f64| {
        imbalance.as_ref().map_or_else(|| "-".to_owned(), |imbalance| format!("{:.3}", of(imbalance)))
    };
    [number(|of| of.max_over_mean), number(|of| of.gini)]
}
