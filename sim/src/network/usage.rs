//! What every link carries at a moment: the levels of the links, summed along the flows.
//!
//! Costs one step per pair of links that flows have in common, not one per flow. It follows from what filling has found and
//! changes nothing.

use super::Network;

impl Network {
    /// Writes the bytes per second that move over every link now to `rates`, by [`LinkId`](zipwire_cluster::LinkId).
    ///
    /// ```
    /// use zipwire_cluster::LinkId;
    /// use zipwire_sim::Network;
    ///
    /// let mut network = Network::new(&[10.0, 100.0, 100.0]);
    /// network.add(&[LinkId(0), LinkId(1)], 100);
    /// network.add(&[LinkId(0), LinkId(1)], 100);
    /// let mut rates = Vec::new();
    /// network.usage(&mut rates);
    /// assert_eq!(rates, [10.0, 10.0, 0.0]);
    /// ```
    pub fn usage(&mut self, rates: &mut Vec<f64>) {
        self.settle();
        rates.clear();
        rates.resize(self.clocks.links() as usize, 0.0);
        for link in 0..self.clocks.links() {
            let level = self.clocks.level(link);
            if self.clocks.count(link) > 0 {
                rates[link as usize] += level * f64::from(self.clocks.count(link));
                for list in [self.bundles.outgoing(link), self.bundles.outgoing_asleep(link)] {
                    list.for_each(|other, flows| rates[other as usize] += level * flows);
                }
            }
        }
    }
}
