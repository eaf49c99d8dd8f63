//! `zipwire calibrate probe`: constants of the hosts that ranks run on.

use std::time::Instant;

use zipwire::calibrate::{HostConstants, Line, Pair};
use zipwire::cluster::{Fabric, FatTree, Topology, Uplink};
use zipwire::codec::Spec;
use zipwire::launch::RanksToStart;
use zipwire::{Cancel, probe};

use super::write_file;
use crate::cli::ProbeArgs;
use crate::commands::ranks::with_ranks;
use crate::commands::{print, print_json};
use crate::error::CliError;
use crate::progress::Progress;
use crate::table;

pub(super) fn run(args: &ProbeArgs, cancel: &Cancel) -> Result<(), CliError> {
    let topology = topology(args)?;
    let specs = specs(args)?;
    let job = || Ok(RanksToStart { ranks: topology.ranks(), folder: None });
    with_ranks(&[args.on], &args.mpi, job, cancel, || run_here(args, &topology, &specs, cancel))
}

fn run_here(args: &ProbeArgs, topology: &Topology, specs: &[Spec], cancel: &Cancel) -> Result<(), CliError> {
    let begin = Instant::now();
    let progress = Progress::new(3 + specs.len());
    let constants = probe(args.on, topology, specs, cancel, |step| progress.next(&step));
    drop(progress);
    let constants = constants?;
    if let Some(path) = &args.out {
        write_file(path, &constants.file(), cancel)?;
    }
    if args.json {
        print_json(&constants)?;
    } else {
        print(text(&constants))?;
        constants.notes.iter().for_each(|note| say!("note: {note}"));
    }
    say!("measured in {}", table::seconds(begin.elapsed().as_secs_f64()));
    Ok(())
}

/// The cluster's shape; nothing looks at its bandwidths.
fn topology(args: &ProbeArgs) -> Result<Topology, CliError> {
    let &ProbeArgs { nodes, gpus_per_node, nics_per_node, nodes_per_leaf, .. } = args;
    if u64::from(nodes) * u64::from(gpus_per_node) < 2 {
        let message =
            "one rank has nobody to send to\nhelp: `--nodes` x `--gpus-per-node` must be 2 at the least";
        return Err(CliError::Usage(message.to_owned()));
    }
    if nics_per_node > gpus_per_node {
        let message = format!("`--nics-per-node {nics_per_node}` is above `--gpus-per-node {gpus_per_node}`");
        return Err(CliError::Usage(message));
    }
    if u64::from(nodes) * u64::from(gpus_per_node) > 4096 {
        return Err(CliError::Usage(format!("{nodes} x {gpus_per_node} ranks are more than 4096")));
    }
    let fabric = match nodes_per_leaf {
        None => Fabric::Nodes,
        Some(nodes_per_leaf) => {
            Fabric::FatTree(FatTree { nodes_per_leaf, uplink: Uplink::default(), pods: None })
        }
    };
    Ok(Topology {
        nodes,
        gpus_per_node,
        nics_per_node,
        gpu_bandwidth: 1e9,
        nic_bandwidth: 1e9,
        latency_intra_s: 0.0,
        latency_inter_s: 0.0,
        fabric,
        nodes_per_domain: 1,
        link_bandwidths: Default::default(),
    })
}

/// Codecs as `codec_speed` knows them: by identifier, whatever their options.
fn specs(args: &ProbeArgs) -> Result<Vec<Spec>, CliError> {
    let all = || Spec::ids().map(|id| id.parse().expect("identifiers are specs")).collect();
    let specs = args.codec.as_ref().map_or_else(all, |specs| specs.0.clone());
    match specs.iter().find(|spec| Spec::ids().all(|id| *id != spec.to_string())) {
        None => Ok(specs),
        Some(spec) => Err(CliError::Usage(format!(
            "`--codec {spec}`: speeds are those of a codec without options\nhelp: choose among {}",
            Spec::ids().collect::<Vec<_>>().join(", ")
        ))),
    }
}

/// Tables: pairs, NICs, what is shared, and codecs.
fn text(constants: &HostConstants) -> String {
    let rate = |bytes_per_s: f64| format!("{:.2} MB/s", bytes_per_s / 1e6);
    let mut pairs =
        table::new(&["messages", "ranks", "from", "to", "alpha", "bandwidth", "R2", "residual"], &[0, 1]);
    for (name, pair) in [("within a node", constants.intra), ("between nodes", constants.inter)] {
        let Some(Pair { src, dst, alpha_s, line, bytes }) = pair else { continue };
        pairs.add_row([
            name.to_owned(),
            format!("{src} to {dst}"),
            table::bytes(bytes.0 as f64),
            table::bytes(bytes.1 as f64),
            table::seconds(alpha_s),
            rate(line.bytes_per_s),
            format!("{:.5}", line.r2),
            format!("{:.1} %", line.residual_pct),
        ]);
    }
    let mut text = format!("{}\n", table::text(&pairs));
    if !constants.nics.is_empty() {
        let mut ports = table::new(&["NIC", "up", "down"], &[]);
        for port in &constants.nics {
            ports.add_row([port.nic.to_string(), rate(port.up_bytes_per_s), rate(port.down_bytes_per_s)]);
        }
        text += &format!("\n{}\n", table::text(&ports));
    }
    let mut shared = table::new(&["at the same time", "together", "one alone"], &[0]);
    for sharing in &constants.sharing {
        shared.add_row([sharing.what.clone(), rate(sharing.bytes_per_s), rate(sharing.alone_bytes_per_s)]);
    }
    let alone = |pair: Option<Pair>| table::or_dash(pair, |pair| rate(pair.line.bytes_per_s));
    if let Some(host) = constants.host_bytes_per_s {
        shared.add_row(["all within a node".to_owned(), rate(host), alone(constants.intra)]);
    }
    if let Some(uplink) = constants.uplink_bytes_per_s {
        shared.add_row(["all of a leaf to another".to_owned(), rate(uplink), alone(constants.inter)]);
    }
    if !shared.is_empty() {
        text += &format!("\n{}\n", table::text(&shared));
    }
    let mut work = table::new(&["while all ranks do it", "alpha", "bandwidth", "R2", "residual"], &[0]);
    let mut row = |what: String, line: &Line| {
        let Line { alpha_s, bytes_per_s, r2, residual_pct } = *line;
        work.add_row([
            what,
            table::seconds(alpha_s),
            rate(bytes_per_s),
            format!("{r2:.5}"),
            format!("{residual_pct:.1} %"),
        ]);
    };
    for codec in &constants.codecs {
        row(format!("encode {}", codec.id), &codec.encode);
        row(format!("decode {}", codec.id), &codec.decode);
    }
    if !work.is_empty() {
        text += &format!("\n{}\n", table::text(&work));
    }
    text += &format!("\nlaunch of an exchange: {}\n", table::seconds(constants.launch_s));
    if let Some(reduce) = constants.reduce_bytes_per_s {
        text += &format!("sums, while all ranks add up: {} read\n", rate(reduce));
    }
    text + &format!("copies in memory, of rank 0 alone: {}\n", rate(constants.copy_bytes_per_s))
}
