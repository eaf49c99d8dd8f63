//! The cluster that series were measured on: its GPUs, and NICs as logs name them, or as they must be for what was measured.

use zipwire_cluster::library::{Constant, Constants, Generation, Hardware, Operation};

use crate::cluster_file::significant;
use crate::error::CalibrateError;
use crate::series::Series;

/// Nominal speeds of NICs, in bytes per second: 10 Gb/s to 800 Gb/s.
const NIC_SPEEDS: [f64; 7] = [1.25e9, 3.125e9, 6.25e9, 12.5e9, 25e9, 50e9, 100e9];
/// GPUs that get less than this of NICs share one NIC of their node, in bytes per second.
const SLOWEST_OF_MANY: f64 = 3.125e9;
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
            None if per_gpu < SLOWEST_OF_MANY => 1,
            None => gpus_per_node,
        };
        if nodes > 1 && !is_named {
            notes.push(format!(
                "no log names the NICs: {nics_per_node} of {} Gb/s per node are assumed, for {gpus_per_node} GPUs; state those of a node with \
                 `--nics 8x200G`",
                significant(per_node / f64::from(nics_per_node) * 8e-9)
            ));
        }
        let nic_bytes_per_s = per_node / f64::from(nics_per_node);
        let site = Self { gpu, nodes, gpus_per_node, nics_per_node, nic_bytes_per_s };
        notes.extend(above_nics(&site, series));
        Ok((site, notes))
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
        if gpu.is_stand_in {
            notes.push(format!(
                "of GPUs like `{}` nothing is known but their links, of {} GB/s: the fit begins from constants of `{}`, and what these logs did \
                 not measure is as on GPUs of that kind",
                gpu.name,
                significant(gpu.bytes_per_s / 1e9),
                gpu.generation.name()
            ));
        }
        return Ok(gpu);
    }
    let within = series.iter().filter(|series| series.nodes == 1).map(Series::peak_bus).fold(0.0, f64::max);
    let (name, generation) = if within > 0.0 && within < NO_NVLINK {
        ("RTX PRO 6000", Generation::Pcie)
    } else {
        ("H100", Generation::Hopper)
    };
    notes.push(format!(
        "the GPU is {}: the fit begins from constants of `{}` and the links of `{name}`, and what these logs did not measure is as there",
        first.map_or("not named".to_owned(), |first| format!("`{first}`, which is not known")),
        generation.name()
    ));
    Ok(Gpu { is_stand_in: true, ..Gpu::named(name).expect("it is in the list") })
}

/// Nominal bytes per second of NICs for each GPU, and whether a log names them; else the least speed of NICs that gives what was
/// measured between nodes.
fn nic_bytes_per_gpu(series: &[Series], gpu: Gpu) -> (f64, bool) {
    // Where a log states the NICs of a whole node and few of its GPUs took part, the log with most of them decides.
    let named = series.iter().filter(|series| series.nodes > 1).filter_map(|series| {
        let of_node = series.nics.map(|nics| f64::from(nics.per_node) * nics.bytes_per_s)?;
        Some((series.gpus_per_node, of_node / f64::from(series.gpus_per_node)))
    });
    if let Some((_, per_gpu)) = named.max_by(|a, b| a.0.cmp(&b.0).then(a.1.total_cmp(&b.1))) {
        return (per_gpu, true);
    }
    let leaves_domain = |series: &&Series| series.ranks() > gpu.nvlink_domain.max(series.gpus_per_node);
    let measured = series.iter().filter(leaves_domain).map(|series| through_nics(series, gpu));
    // Calls between racks do not use all of their NICs.
    let measured = if gpu.nvlink_domain > 0 { 0.0 } else { measured.fold(0.0, f64::max) };
    // One for each GPU, or one that all of a node share.
    let gpus = series.iter().filter(leaves_domain).map(|series| series.gpus_per_node).max().unwrap_or(1);
    let gives =
        |of_nic: f64| NIC_SPEEDS.into_iter().find(|speed| of_nic <= ABOVE * speed && of_nic > 0.2 * speed);
    let gpus = f64::from(gpus);
    let speed = gives(measured).or_else(|| Some(gives(measured * gpus)? / gpus));
    (speed.unwrap_or(if measured > 0.0 { measured } else { gpu.bytes_per_s / 9.0 }), false)
}

/// Remark on runs that moved more between nodes than their NICs can carry, and so not by these alone.
fn above_nics(site: &Site, series: &[Series]) -> Option<String> {
    let leaves_domain = |series: &&Series| series.ranks() > site.gpu.nvlink_domain.max(series.gpus_per_node);
    let per_gpu = |series: &Series| {
        let hardware = site.hardware(series.nodes, series.gpus_per_node);
        hardware.node_bytes_per_s / f64::from(series.gpus_per_node)
    };
    let above = |series: &&Series| through_nics(series, site.gpu) > ABOVE * per_gpu(series);
    let fast = series.iter().filter(leaves_domain).find(above)?;
    Some(format!(
        "{} ({}) moved {} GB/s for each GPU between nodes, and the NICs that are stated carry {}: there are more or faster NICs, or other paths \
         between nodes; the fit takes no more than the line rate. `--nics 8x400G` states what a node has",
        fast.name(),
        fast.file,
        significant(through_nics(fast, site.gpu) / 1e9),
        significant(per_gpu(fast) / 1e9)
    ))
}

/// Bytes per second that a GPU's share of NICs carried at least, each way, at the highest bandwidth of a series.
fn through_nics(series: &Series, gpu: Gpu) -> f64 {
    let domain = gpu.nvlink_domain.max(series.gpus_per_node);
    let (n, g, bus) = (f64::from(series.ranks()), f64::from(domain), series.peak_bus());
    match series.operation {
        Operation::AllToAll => bus * (n - g) / (n - 1.0),
        Operation::SendRecv => bus / g,
        // Trees between two nodes carry all values once in each direction.
        Operation::AllReduce if series.ranks() == 2 * domain => {
            bus / series.operation.bus_factor(series.ranks()) / g
        }
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
    /// Whether its generation's constants are those of other GPUs, because no public log is of its own.
    pub is_stand_in: bool,
}

const fn gpu(name: &'static str, generation: Generation, gigabytes_per_s: f64) -> Gpu {
    let bytes_per_s = gigabytes_per_s * 1e9;
    Gpu { name, generation, bytes_per_s, has_switch: true, nvlink_domain: 0, is_stand_in: false }
}

/// GPUs of which no public log says anything, and that links alone connect, all to all.
const fn mesh(name: &'static str, generation: Generation, gigabytes_per_s: f64) -> Gpu {
    Gpu { has_switch: false, is_stand_in: true, ..gpu(name, generation, gigabytes_per_s) }
}

/// By name; the first one whose words are all in a name is it. NVLink and Infinity Fabric: half of what NVIDIA's and AMD's data sheets name
/// for both directions of all links to other GPUs; PCIe: 16 lanes of the generation.
const GPUS: [Gpu; 41] = [
    gpu("A100 PCIE", Generation::Pcie, 32.0),
    gpu("A800 PCIE", Generation::Pcie, 32.0),
    gpu("H100 PCIE", Generation::Pcie, 64.0),
    gpu("H100 NVL", Generation::Pcie, 64.0),
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
    gpu("L40", Generation::Pcie, 32.0),
    gpu("L4", Generation::Pcie, 16.0),
    gpu("A40", Generation::Pcie, 32.0),
    gpu("A30", Generation::Pcie, 32.0),
    gpu("A10", Generation::Pcie, 32.0),
    gpu("A10G", Generation::Pcie, 32.0),
    gpu("T4", Generation::Pcie, 16.0),
    gpu("RTX A6000", Generation::Pcie, 32.0),
    gpu("RTX PRO 6000", Generation::Pcie, 64.0),
    gpu("RTX 6000", Generation::Pcie, 32.0),
    gpu("RTX 4090", Generation::Pcie, 32.0),
    gpu("RTX 5090", Generation::Pcie, 64.0),
    mesh("V100", Generation::Ampere, 150.0),
    Gpu { has_switch: true, nvlink_domain: 72, ..mesh("VR200", Generation::Blackwell, 1800.0) },
    Gpu { has_switch: true, ..mesh("R200", Generation::Blackwell, 1800.0) },
    mesh("MI210", Generation::Pcie, 32.0),
    mesh("MI250", Generation::Ampere, 200.0),
    mesh("MI250X", Generation::Ampere, 200.0),
    mesh("MI300A", Generation::Hopper, 384.0),
    mesh("MI300X", Generation::Hopper, 448.0),
    mesh("MI308X", Generation::Hopper, 448.0),
    mesh("MI325X", Generation::Hopper, 448.0),
    mesh("MI350X", Generation::Hopper, 537.6),
    mesh("MI355X", Generation::Hopper, 537.6),
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
        assert_eq!(name("Tesla V100-SXM2-16GB"), Some("V100"));
        assert_eq!(name("AMD Instinct MI300X"), Some("MI300X"));
        assert_eq!(name("AMD Instinct MI250X/MI250"), Some("MI250"));
        assert_eq!(name("NVIDIA H100 NVL"), Some("H100 NVL"));
        assert_eq!(name("Tesla K80"), None);
        assert_eq!(Gpu::named("GH200").unwrap().constants().get(Constant::NvlsShare), 0.0);
    }
}
