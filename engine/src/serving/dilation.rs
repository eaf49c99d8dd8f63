//! How much slower than its cluster a machine must play a run.

use zipwire_cluster::{Rank, Topology};

use super::{Served, Setup};

/// Least ratio of declared time to real work.
const MARGIN: f64 = 3.0;

/// The least dilation with which real work takes no more than a third of the time that is declared for it, even while all ranks code, or
/// fill links with what is not coded, at the same time. `measured` is what an unpaced run of the same setup came to.
pub fn least_dilation(setup: &Setup<'_>, topology: &Topology, measured: &Served) -> f64 {
    let Served { bytes_raw, bytes_wire, totals, .. } = measured;
    if *bytes_raw == 0 {
        return 1.0;
    }
    let (raw, config, shards) = (*bytes_raw as f64, &setup.config, setup.shards);
    let first = Rank(shards.prefill_ranks(0).start);
    let route = topology.route(first, Rank(shards.decode_ranks(0).start));
    let capacities = topology.capacities();
    let link = route.links().iter().map(|link| capacities[link.index()]).fold(f64::INFINITY, f64::min);
    // In bytes of values, as coders are.
    let link = link * raw / *bytes_wire as f64;
    let cost = setup.coding.as_ref().map(|coding| coding.cost);
    let encode = link.min(cost.map_or(f64::INFINITY, |cost| cost.encode_bytes_per_s));
    let decode = link.min(cost.map_or(f64::INFINITY, |cost| cost.decode_bytes_per_s));
    // Cores that one rank keeps busy where a second takes a second.
    let works = [encode * totals.encode_s / raw, decode * totals.decode_s / raw];
    let prefill = config.prefill.instances as usize * shards.prefill_ranks(0).len();
    let decode = config.decode.instances as usize * shards.decode_ranks(0).len();
    let all = (works[0] * prefill as f64 + works[1] * decode as f64) / setup.cores.max(1) as f64;
    (MARGIN * works[0].max(works[1]).max(all)).max(1.0)
}
