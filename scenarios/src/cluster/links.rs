//! `cluster.links`: single links that differ, by name.

use std::collections::{BTreeMap, HashMap};

use zipwire_cluster::{Fabric, LinkId, Topology};
use zipwire_traces::nearest;

use crate::document::Place;
use crate::error::Result;
use crate::language::Field;
use crate::problem::Problem;

/// Bytes per second of each link that the table names.
pub(crate) fn read(field: &Field<'_>, topology: &Topology) -> Result<BTreeMap<LinkId, f64>> {
    let by_name: HashMap<String, LinkId> =
        topology.links().map(|link| (topology.link_name(link), link)).collect();
    let bandwidth = |(name, place, value): (&str, &Place, Field<'_>)| match by_name.get(name) {
        Some(&link) => Ok((link, value.bandwidth()?)),
        None => Err(unknown_link(name, topology).at(place.clone())),
    };
    field.entries()?.into_iter().map(bandwidth).collect()
}

fn unknown_link(name: &str, topology: &Topology) -> Problem {
    let names: Vec<String> = topology.links().map(|link| topology.link_name(link)).collect();
    Problem::UnknownLink {
        name: name.to_owned(),
        nearest: nearest(name, names.iter().map(String::as_str)).map(str::to_owned),
        kinds: topology.kinds().collect(),
        edges: if matches!(topology.fabric, Fabric::Graph(_)) { names } else { Vec::new() },
    }
}
