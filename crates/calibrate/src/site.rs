//! The cluster that series were measured on: its GPUs, and NICs as logs name them, or as they must be for what was measured.

use zipwire_cluster::library::{Constant, Constants, Generation, Hardware, Operation};

use crate::cluster_file::significant;
use crate::error::CalibrateError;
use crate::series::Series;

/// Nominal speeds of NICs, in bytes per second: 25 Gb/s to 800 Gb/s.
const NIC_SPEEDS: [f64; 6] = [3.125e9, 6.25e9, 12.5e9, 25e9, 50e9, 100e9];
/// Measured bandwidth may be that much above the nominal one, for rounding.
const ABOVE: f64 = 1.02;
/// Bus bandwidth within a node below which GPUs without a known name have no NVLink, in bytes per second.
const NO_NVLINK: f64 = 60e9;

/// A cluster, nominal.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Site {
    /// Its GPU, or the known one that is nearest to it.
    pub gpu: Gpu,
    /// Most nodes that took part.
    pub nodes: u32,
    /// Most GPUs of a node that took part.
    pub gpus_per_node: u32,
    /// NICs that belong to so many GPUs, at most one for each.
    pub nics_per_node: u32,
    /// Bytes per second of each, in each direction.
    pub nic_bytes_per_s: f64,
}

impl Site {
    /// The cluster of some series, and what is assumed of it.
    pub(crate) fn of(series: &[Series]) -> Result<(Self, Vec<String>), CalibrateError> {
        let mut notes = Vec::new();
        let gpu = gpu_of(series, &mut notes)?;
        let most = |of: fn(&Series) -> u32| series.iter().map(of).max().unwrap_or(1);
        let (nodes, gpus_per_node) = (most(|series| series.nodes), most(|series| series.gpus_per_node));
        let (per_gpu, is_named) = nic_bytes_per_gpu(series, gpu);
        let per_node = per_gpu * f64::from(gpus_per_node);
        // As many NICs as there are GPUs, unless one alone gives all of it at a speed that NICs have.
        let named = series
            .iter()
            .filter(|series| series.gpus_per_node == gpus_per_node)
            .find_map(|series| series.nics);
        let nics_per_node = match named {
            Some(nics) => nics.per_node.clamp(1, gpus_per_node),
            None if per_gpu < NIC_SPEEDS[0] => 1,
            None => gpus_per_node,
        };
        if nodes > 1 && !is_named {
            notes.push(format!(
                "no log names the NICs: {nics_per_node} of {} Gb/s per node are assumed, for {gpus_per_node} GPUs",
                significant(per_node / f64::from(nics_per_node) * 8e-9)
            ));
        }
        let nic_bytes_per_s = per_node / f64::from(nics_per_node);
        Ok((Self { gpu, nodes, gpus_per_node, nics_per_node, nic_bytes_per_s }, notes))
    }

    /// The hardware of nodes of which so many GPUs take part.
    pub fn hardware(&self, nodes: u32, gpus_per_node: u32) -> Hardware {
        let nics = (self.nics_per_node * gpus_per_node).div_ceil(self.gpus_per_node).max(1);
        Hardware {
            nodes,
            gpus_per_node,
            gpu_bytes_per_s: self.gpu.bytes_per_s,
            node_bytes_per_s: f64::from(nics) * self.nic_bytes_per_s,
            nvlink_domain: self.gpu.nvlink_domain,
        }
    }

    /// Constants before anything is fitted.
    pub fn constants(&self) -> Constants {
        self.gpu.constants()
    }
}

/// The cluster of one series alone.
///
/// # Errors
/// None for a series of one GPU.
pub fn site_of(series: &Series) -> Result<Site, CalibrateError> {
    Ok(Site::of(std::slice::from_ref(series))?.0)
}

fn gpu_of(series: &[Series], notes: &mut Vec<String>) -> Result<Gpu, CalibrateError> {
    // What the file is called goes for what the log does not name.
    let of_file = |series: &Series| Gpu::named(&series.file).map(|gpu| gpu.name.to_owned());
    let names: Vec<String> =
        series.iter().filter_map(|series| series.gpu.clone().or_else(|| of_file(series))).collect();
    let mut names = names.iter().map(String::as_str);
    let first = names.next();
    let known = first.and_then(Gpu::named);
    if let (Some(first), Some(known)) = (first, known)
        && let Some(other) = names.find(|name| Gpu::named(name).is_some_and(|gpu| gpu.name != known.name))
    {
        let (first, second) = (first.to_owned(), other.to_owned());
        return Err(CalibrateError::SeveralGpus { first, second });
    }
    if let Some(gpu) = known {
        return Ok(gpu);
    }
    let within = series.iter().filter(|series| series.nodes == 1).map(Series::peak_bus).fold(0.0, f64::max);
    let (name, generation) = if within > 0.0 && within < NO_NVLINK {
        ("RTX PRO 6000", Generation::Pcie)
    } else {
        ("H100", Generation::Hopper)
    };
    notes.push(format!(
        "the GPU is {}: the fit begins from constants of `{}` and the links of `{name}`",
        first.map_or("not named".to_owned(), |first| format!("`{first}`, which is not known")),
        generation.name()
    ));
    Ok(Gpu::named(name).expect("it is in the list"))
}

/// Nominal bytes per second of NICs for each GPU, and whether a log names them; else the least speed of NICs that gives what was
/// measured between nodes.
fn nic_bytes_per_gpu(series: &[Series], gpu: Gpu) -> (f64, bool) {
    let named = series.iter().filter(|series| series.nodes > 1).filter_map(|series| {
        series.nics.map(|nics| f64::from(nics.per_node) * nics.bytes_per_s / f64::from(series.gpus_per_node))
    });
    if let Some(most) = named.reduce(f64::max) {
        return (most, true);
    }
    let leaves_domain = |series: &&Series| series.ranks() > gpu.nvlink_domain.max(series.gpus_per_node);
    let measured = series.iter().filter(leaves_domain).map(through_nics).fold(0.0, f64::max);
    let speed = NIC_SPEEDS.into_iter().find(|speed| measured <= ABOVE * speed && measured > 0.2 * speed);
    (speed.unwrap_or(if measured > 0.0 { measured } else { gpu.bytes_per_s / 9.0 }), false)
}

/// Bytes per second that a GPU's share of NICs carried at least, each way, at the highest bandwidth of a series.
fn through_nics(series: &Series) -> f64 {
    let (n, g, bus) = (f64::from(series.ranks()), f64::from(series.gpus_per_node), series.peak_bus());
    match series.operation {
        Operation::AllToAll => bus * (n - g) / (n - 1.0),
        Operation::SendRecv => bus / g,
        // Trees between two nodes carry all values once in each direction.
        Operation::AllReduce if series.nodes == 2 => bus / series.operation.bus_factor(series.ranks()) / g,
        _ => bus / g,
    }
}

/// Properties of a GPU that the model needs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Gpu {
    /// Part of its name.
    pub name: &'static str,
    /// Generation, whose constants are where a fit begins.
    pub generation: Generation,
    /// Nominal bytes per second of its link to other GPUs of the node, in each direction.
    pub bytes_per_s: f64,
    /// Whether a switch connects the GPUs of a node.
    pub has_switch: bool,
    /// GPUs that NVLink connects across nodes; 0 if it does not leave the node.
    pub nvlink_domain: u32,
}

const fn gpu(name: &'static str, generation: Generation, gigabytes_per_s: f64) -> Gpu {
    Gpu { name, generation, bytes_per_s: gigabytes_per_s * 1e9, has_switch: true, nvlink_domain: 0 }
}

/// By name; the first one whose words are all in a name is it. NVLink: half of what NVIDIA's data sheets name for both directions;
/// PCIe: 16 lanes of the generation.
const GPUS: [Gpu; 16] = [
    gpu("A100 PCIE", Generation::Pcie, 32.0),
    gpu("H100 PCIE", Generation::Pcie, 64.0),
    gpu("H200 NVL", Generation::Pcie, 64.0),
    Gpu { has_switch: false, ..gpu("GH200", Generation::Hopper, 450.0) },
    Gpu { nvlink_domain: 72, ..gpu("GB200", Generation::Blackwell, 900.0) },
    Gpu { nvlink_domain: 72, ..gpu("GB300", Generation::Blackwell, 900.0) },
    gpu("A800", Generation::Ampere, 200.0),
    gpu("A100", Generation::Ampere, 300.0),
    gpu("H800", Generation::Hopper, 200.0),
    gpu("H100", Generation::Hopper, 450.0),
    gpu("H200", Generation::Hopper, 450.0),
    gpu("H20", Generation::Hopper, 450.0),
    gpu("B200", Generation::Blackwell, 900.0),
    gpu("B300", Generation::Blackwell, 900.0),
    gpu("L40S", Generation::Pcie, 32.0),
    gpu("RTX PRO 6000", Generation::Pcie, 64.0),
];

impl Gpu {
    /// The GPU of that name, as drivers and data sheets spell it.
    pub fn named(name: &str) -> Option<Self> {
        let upper = name.to_ascii_uppercase();
        let words: Vec<&str> = upper.split(|c: char| !c.is_ascii_alphanumeric()).collect();
        GPUS.into_iter().find(|gpu| gpu.name.split(' ').all(|word| words.contains(&word)))
    }

    /// Its constants, before anything is fitted.
    pub fn constants(&self) -> Constants {
        let mut constants = self.generation.constants();
        if !self.has_switch {
            constants.set(Constant::NvlsShare, 0.0);
        }
        constants
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_drivers_are_known() {
        let name = |name: &str| Gpu::named(name).map(|gpu| gpu.name);
        assert_eq!(name("NVIDIA H200"), Some("H200"));
        assert_eq!(name("NVIDIA GH200 120GB"), Some("GH200"));
        assert_eq!(name("NVIDIA A100-SXM4-80GB"), Some("A100"));
        assert_eq!(name("NVIDIA A100-PCIE-40GB"), Some("A100 PCIE"));
        assert_eq!(name("A100-PCIe-40GB"), Some("A100 PCIE"));
        assert_eq!(name("RTX-PRO-6000-Server"), Some("RTX PRO 6000"));
        assert_eq!(name("Tesla V100"), None);
        assert_eq!(Gpu::named("GH200").unwrap().constants().get(Constant::NvlsShare), 0.0);
    }
}
