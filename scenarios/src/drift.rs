//! `[[drift]]`: what becomes different in the course of a run.

use std::collections::BTreeMap;
use std::ops::Range;

use zipwire_cluster::{LinkId, Topology};

use crate::cluster;
use crate::codec::{ratio_schema, read_ratio};
use crate::error::Result;
use crate::language::{Field, Raw, Schema, array, bandwidth, custom, integer, keys, map, raw, schema, table};

/// A change of the cluster or of what a codec does.
#[derive(Clone, Debug, PartialEq)]
pub struct Drift {
    /// The iteration in which it begins.
    pub from: u32,
    /// The first iteration in which it is complete; in between it grows linearly. Equal to `from` if it comes at once.
    pub to: u32,
    /// The stated ratio from then on.
    pub ratio: Option<f64>,
    /// Bytes per second of each NIC from then on.
    pub nic_bandwidth: Option<f64>,
    /// Bytes per second of single links from then on.
    pub links: BTreeMap<LinkId, f64>,
}

/// Links and ratio that hold in one iteration.
#[derive(Clone, Debug, PartialEq)]
pub struct Conditions {
    /// The cluster's links.
    pub topology: Topology,
    /// The stated ratio, if one is stated.
    pub ratio: Option<f64>,
}

keys! { static KEYS =
    from: u32 = integer(0..=u32::MAX), "the iteration in which it begins", needed = "20";
    to: u32 = integer(0..=u32::MAX), "the first iteration in which it is complete, after growing linearly; `from` by default";
    ratio: f64 = custom(read_ratio, ratio_schema), "the ratio that `codec` states, from then on", example = "1.42";
    nic_bandwidth: f64 = bandwidth(), "bandwidth of each NIC, from then on";
    links: Raw = raw(|| map(schema::bandwidth())), "bandwidth of single links by name, from then on";
}

/// Most drifts of a scenario.
const LIMIT: usize = 1000;

/// Reads the array of tables: drifts follow one another.
pub(crate) fn read(
    field: &Field<'_>,
    iterations: u32,
    topology: &Topology,
    ratio: Option<f64>,
) -> Result<Vec<Drift>> {
    let mut drifts: Vec<Drift> = Vec::new();
    for item in &field.tables(LIMIT, "drifts")? {
        let least = drifts.last().map_or(0, |last| last.to);
        let drift = read_one(item, least, iterations, topology)?;
        if drift.ratio.is_some() && ratio.is_none() {
            let reason = "`codec` states no ratio: frames are as long as the payload makes them";
            item.table(KEYS.all)?.refuse(KEYS.ratio, reason)?;
        }
        drifts.push(drift);
    }
    Ok(drifts)
}

pub(crate) fn schema() -> Schema {
    array(table(KEYS.all)).at_most(LIMIT)
}

fn read_one(item: &Field<'_>, least: u32, iterations: u32, topology: &Topology) -> Result<Drift> {
    let table = item.table(KEYS.all)?;
    let from = table.need_field(KEYS.from)?.integer_u32(least..=(iterations - 1).max(least))?;
    let to = table.field(KEYS.to).map_or(Ok(from), |field| field.integer_u32(from..=iterations.max(from)))?;
    let ratio = table.get(KEYS.ratio)?;
    if topology.nodes == 1 || !topology.fabric.has_nics() {
        table.refuse(KEYS.nic_bandwidth, "the cluster has no NICs that are used")?;
    }
    let nic_bandwidth = table.get(KEYS.nic_bandwidth)?;
    let links = table.field(KEYS.links).map(|field| cluster::read_links(&field, topology)).transpose()?;
    let links = links.unwrap_or_default();
    if ratio.is_none() && nic_bandwidth.is_none() && links.is_empty() {
        table.need(KEYS.ratio)?;
    }
    Ok(Drift { from, to, ratio, nic_bandwidth, links })
}

impl Drift {
    /// How much of it has come by an iteration: 0 before it begins, 1 when it is complete.
    fn progress(&self, iteration: u32) -> f64 {
        if iteration < self.from {
            0.0
        } else if iteration >= self.to {
            1.0
        } else {
            f64::from(iteration - self.from) / f64::from(self.to - self.from)
        }
    }
}

impl Conditions {
    /// Lets one drift come as far as it has in an iteration.
    fn apply(&mut self, drift: &Drift, iteration: u32) {
        let progress = drift.progress(iteration);
        if progress == 0.0 {
            return;
        }
        let towards = |old: f64, new: f64| if progress == 1.0 { new } else { old + progress * (new - old) };
        if let (Some(old), Some(new)) = (self.ratio, drift.ratio) {
            self.ratio = Some(towards(old, new));
        }
        let capacities = self.topology.capacities();
        for (&link, &new) in &drift.links {
            self.topology.link_bandwidths.insert(link, towards(capacities[link.index()], new));
        }
        if let Some(new) = drift.nic_bandwidth {
            self.topology.nic_bandwidth = towards(self.topology.nic_bandwidth, new);
        }
    }
}

/// Conditions of an iteration, from those of a run without drift.
pub(crate) fn conditions(drifts: &[Drift], mut first: Conditions, iteration: u32) -> Conditions {
    drifts.iter().for_each(|drift| first.apply(drift, iteration));
    first
}

/// The iterations as ranges within which nothing changes.
pub(crate) fn phases(drifts: &[Drift], iterations: u32) -> Vec<Range<u32>> {
    let mut begins = vec![0];
    for drift in drifts {
        // Conditions of `from` are those before it, if the drift takes time.
        begins.extend((drift.from..=drift.to).filter(|&begin| begin > 0 && begin < iterations));
    }
    begins.dedup();
    let ends = begins.iter().copied().skip(1).chain([iterations]);
    begins.iter().copied().zip(ends).map(|(begin, end)| begin..end).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drift(from: u32, to: u32, ratio: f64) -> Drift {
        Drift { from, to, ratio: Some(ratio), nic_bandwidth: None, links: BTreeMap::new() }
    }

    #[test]
    fn phases_cover_all_iterations_once() {
        assert_eq!(phases(&[], 5), vec![0..5; 1]);
        assert_eq!(phases(&[drift(0, 0, 1.2)], 5), vec![0..5; 1]);
        assert_eq!(phases(&[drift(2, 2, 1.2), drift(4, 9, 1.3)], 5), [0..2, 2..4, 4..5]);
        assert_eq!(phases(&[drift(1, 3, 1.2), drift(3, 3, 1.3)], 5), [0..1, 1..2, 2..3, 3..5]);
    }

    #[test]
    fn a_ramp_is_linear() {
        let ramp = drift(10, 14, 1.4);
        assert_eq!([9, 10, 11, 14, 20].map(|i| ramp.progress(i)), [0.0, 0.0, 0.25, 1.0, 1.0]);
    }
}
