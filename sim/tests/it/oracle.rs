//! Max-min fairness as the textbook has it: slow, obvious, and without a line in common with the simulator.
//!
//! Every flow keeps the bytes that it has left. At each event all rates are filled afresh, all flows move
//! until the next one ends or starts, and nothing merges ties. Cost grows like flows squared times links.

use zipwire_cluster::LinkId;

/// Max-min fair rates of flows over these routes, in bytes per second.
pub(crate) fn rates(capacities: &[f64], routes: &[&[LinkId]]) -> Vec<f64> {
    let mut rates = vec![f64::INFINITY; routes.len()];
    let mut left = capacities.to_vec();
    loop {
        let mut open = vec![0u32; capacities.len()];
        for (route, _) in routes.iter().zip(&rates).filter(|(_, rate)| rate.is_infinite()) {
            for link in *route {
                open[link.index()] += 1;
            }
        }
        let shares =
            (0..capacities.len()).filter(|&l| open[l] > 0).map(|l| (left[l] / f64::from(open[l]), l));
        let Some((share, fullest)) = shares.min_by(|a, b| a.0.total_cmp(&b.0)) else {
            return rates;
        };
        for (route, rate) in routes.iter().zip(&mut rates).filter(|(_, rate)| rate.is_infinite()) {
            if route.iter().any(|link| link.index() == fullest) {
                *rate = share;
                for link in *route {
                    left[link.index()] -= share;
                }
            }
        }
    }
}

/// A flow from the moment its first byte moves.
#[derive(Clone, Debug)]
pub(crate) struct Transfer {
    pub(crate) links: Vec<LinkId>,
    /// Bytes to move; a transfer of none ends as it starts.
    pub(crate) bytes: u64,
    /// Seconds, latency included.
    pub(crate) start_s: f64,
}

/// When each transfer ends, in seconds; `capacities` are bytes per second by link.
pub(crate) fn finish_times(capacities: &[f64], transfers: &[Transfer]) -> Vec<f64> {
    let mut finish: Vec<f64> = transfers.iter().map(|transfer| transfer.start_s).collect();
    let mut left: Vec<f64> = transfers.iter().map(|transfer| transfer.bytes as f64).collect();
    let mut waiting: Vec<usize> = (0..transfers.len()).filter(|&i| transfers[i].bytes > 0).collect();
    let mut moving: Vec<usize> = Vec::new();
    let mut now_s = 0.0;
    loop {
        let routes: Vec<&[LinkId]> = moving.iter().map(|&i| &transfers[i].links[..]).collect();
        let rates = rates(capacities, &routes);
        let end_in_s: Vec<f64> = moving.iter().zip(&rates).map(|(&i, rate)| left[i] / rate).collect();
        let first_end_s = now_s + end_in_s.iter().copied().fold(f64::INFINITY, f64::min);
        let first_start_s = waiting.iter().map(|&i| transfers[i].start_s).fold(f64::INFINITY, f64::min);
        let next_s = first_end_s.min(first_start_s);
        if next_s.is_infinite() {
            return finish;
        }
        let mut still_moving = Vec::new();
        for ((&i, rate), &end_in_s) in moving.iter().zip(&rates).zip(&end_in_s) {
            if now_s + end_in_s <= next_s {
                finish[i] = next_s;
            } else {
                left[i] -= rate * (next_s - now_s);
                still_moving.push(i);
            }
        }
        now_s = next_s;
        moving = still_moving;
        moving.extend(waiting.extract_if(.., |i| transfers[*i].start_s <= now_s));
    }
}
