//! `zipwire scenario routes`: the links of a scenario's cluster, and which of them each transfer crosses.

use serde::Serialize;
use zipwire::cluster::Topology;
use zipwire::schedule::Rank;

use super::{load_file, print, print_json};
use crate::cli::RoutesArgs;
use crate::error::CliError;
use crate::table;

/// A cluster as a graph.
#[derive(Serialize)]
struct Report {
    scenario: String,
    ranks: u32,
    links: Vec<LinkReport>,
    routes: Vec<RouteReport>,
}

#[derive(Serialize)]
struct LinkReport {
    name: String,
    bytes_per_s: f64,
}

#[derive(Serialize)]
struct RouteReport {
    src: u32,
    dst: u32,
    latency_s: f64,
    /// Links crossed, in order, by position in the report.
    links: Vec<usize>,
}

pub(crate) fn run(args: &RoutesArgs) -> Result<(), CliError> {
    let experiment = load_file(&args.scenario, &args.set, None)?;
    let topology = &experiment.topology;
    let (sources, destinations) = (ranks(args.src, "--src", topology)?, ranks(args.dst, "--dst", topology)?);
    let pairs = sources.flat_map(|src| destinations.clone().map(move |dst| (src, dst)));
    let report = Report {
        ranks: topology.ranks(),
        links: links(topology),
        routes: pairs.filter(|(src, dst)| src != dst).map(|(src, dst)| route(topology, src, dst)).collect(),
        scenario: experiment.name,
    };
    if args.json { print_json(&report) } else { print(text(&report) + "\n") }
}

/// The rank that an argument names, or all.
fn ranks(chosen: Option<u32>, argument: &str, topology: &Topology) -> Result<std::ops::Range<u32>, CliError> {
    let count = topology.ranks();
    match chosen {
        None => Ok(0..count),
        Some(rank) if rank < count => Ok(rank..rank + 1),
        Some(rank) => Err(CliError::Usage(format!(
            "`{argument} {rank}`: there is no rank {rank}\nhelp: ranks go from 0 to {}",
            count - 1
        ))),
    }
}

fn links(topology: &Topology) -> Vec<LinkReport> {
    let capacities = topology.capacities();
    let link = |link| LinkReport { name: topology.link_name(link), bytes_per_s: capacities[link.index()] };
    topology.links().map(link).collect()
}

fn route(topology: &Topology, src: u32, dst: u32) -> RouteReport {
    let route = topology.route(Rank(src), Rank(dst));
    let links = route.links().iter().map(|link| link.index()).collect();
    RouteReport { src, dst, latency_s: route.latency_s, links }
}

fn text(report: &Report) -> String {
    let mut lines = table::new(&["from", "to", "latency", "slowest link", "links"], &[4]);
    for route in &report.routes {
        let links = || route.links.iter().map(|&link| &report.links[link]);
        let slowest = links().map(|link| link.bytes_per_s).fold(f64::INFINITY, f64::min);
        lines.add_row(vec![
            route.src.to_string(),
            route.dst.to_string(),
            table::seconds(route.latency_s),
            format!("{}/s", table::bytes(slowest)),
            links().map(|link| link.name.as_str()).collect::<Vec<_>>().join(", "),
        ]);
    }
    let Report { scenario, ranks, links, .. } = report;
    format!("{scenario}: {ranks} ranks, {} links\n\n{}", links.len(), table::text(&lines))
}
