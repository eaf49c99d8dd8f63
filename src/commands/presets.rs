//! `zipwire scenario presets`: the hardware that scenarios can name.

use serde::Serialize;
use zipwire::scenarios::{nearest, presets};

use super::{print, print_json};
use crate::error::CliError;
use crate::table;

/// A preset, in base units.
#[derive(Serialize)]
struct Listed {
    preset: &'static str,
    nodes: u32,
    gpus_per_node: u32,
    gpu_bytes_per_s: f64,
    nics_per_node: u32,
    nic_bytes_per_s: f64,
    latency_intra_s: f64,
    latency_inter_s: f64,
    description: Option<String>,
}

/// Lists all presets, or prints the file of one.
pub(crate) fn run(name: Option<&str>, json: bool) -> Result<(), CliError> {
    if let Some(name) = name {
        let preset = presets().iter().find(|preset| preset.name == name).ok_or_else(|| {
            let names: Vec<&str> = presets().iter().map(|preset| preset.name).collect();
            let meant = nearest(name, names.iter().copied());
            let meant = meant.map_or_else(String::new, |near| format!("did you mean `{near}`? "));
            let names = names.join("`, `");
            CliError::Usage(format!("unknown preset `{name}`\nhelp: {meant}it must be one of `{names}`"))
        })?;
        return print(preset.text);
    }
    let listed = presets().iter().map(|preset| {
        let topology = preset.topology()?;
        Ok(Listed {
            preset: preset.name,
            nodes: topology.nodes,
            gpus_per_node: topology.gpus_per_node,
            gpu_bytes_per_s: topology.gpu_bandwidth,
            nics_per_node: topology.nics_per_node,
            nic_bytes_per_s: topology.nic_bandwidth,
            latency_intra_s: topology.latency_intra_s,
            latency_inter_s: topology.latency_inter_s,
            description: preset.description(),
        })
    });
    let listed: Vec<Listed> = listed.collect::<Result<_, CliError>>()?;
    if json {
        return print_json(&listed);
    }
    let columns = ["preset", "nodes x GPUs", "GPU link", "NICs per node", "NIC", "what it is"];
    let mut rows = table::new(&columns, &[0, 5]);
    for item in listed {
        rows.add_row(vec![
            item.preset.to_owned(),
            format!("{} x {}", item.nodes, item.gpus_per_node),
            per_second(item.gpu_bytes_per_s),
            item.nics_per_node.to_string(),
            per_second(item.nic_bytes_per_s),
            item.description.unwrap_or_default(),
        ]);
    }
    print(table::text(&table::fitted(rows)) + "\n")
}

fn per_second(bytes: f64) -> String {
    format!("{}/s", table::bytes(bytes))
}
