//! Progressive filling from scratch, as the textbook has it.

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
