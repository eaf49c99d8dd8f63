//! A calibration as a file of `[cluster]`, which scenarios take.

use std::fmt::Write as _;

use zipwire_cluster::library::{Constant, ConstantUnit, Constants, Generation, LibraryModel};

use crate::calibrate::Calibration;
use crate::fit::Fit;
use crate::site::{Gpu, Site};

/// Text in the first line of every such file.
pub const CLUSTER_FILE_MARK: &str = "fitted to nccl-tests";

/// The file, with the source of each constant as a comment. Bandwidths of links and NICs are those that were reached, and shares of
/// them follow.
pub fn cluster_file(calibration: &Calibration) -> String {
    let parts = [header(calibration), rest(calibration), hardware(calibration), library(calibration)];
    parts.iter().flatten().flat_map(|line| [line.as_str(), "\n"]).collect()
}

/// Source of a constant, for comments.
fn source(calibration: &Calibration, constant: Constant) -> &'static str {
    if calibration.fit.determined.contains(&constant) { "fitted" } else { "of the generation" }
}

/// The logs, and how well each is met.
fn header(calibration: &Calibration) -> Vec<String> {
    let site = &calibration.site;
    let mut lines = vec![
        format!(
            "# {} x {} per node, {CLUSTER_FILE_MARK}; any number of nodes by `nodes`.",
            site.gpus_per_node, site.gpu.name
        ),
        "#".to_owned(),
        "# Fitted: to the logs below. Of the generation: no log determines it, so it is as of other GPUs of this kind.".to_owned(),
    ];
    let gpu = &site.gpu;
    if gpu.is_stand_in {
        lines.push(format!(
            "# Assumed: what these logs did not measure is as on other GPUs of `{}`; no public log is of such GPUs.",
            gpu.generation.name()
        ));
    }
    lines.extend(calibration.scores.iter().map(|(series, score)| {
        let large = score
            .large
            .map_or(String::new(), |error| format!(", met within {:.1} % from 32 MiB on", 100.0 * error));
        let sizes = series.points.len();
        format!("# - {}, {}: {sizes} sizes{large}", one_line(&series.file), series.name())
    }));
    lines.push(String::new());
    lines
}

/// Preset of hardware with a GPU, and whether its GPU is the same one.
fn preset(gpu: &Gpu) -> (&'static str, bool) {
    match gpu.name {
        "A100" | "A800" => ("a100-8x", true),
        "H100" | "H800" if !gpu.is_stand_in => ("h100-8x", true),
        "H200" => ("h200-8x", true),
        "B200" => ("b200-8x", true),
        "GB200" => ("gb200-nvl72", true),
        _ => match gpu.generation {
            Generation::Blackwell => ("b200-8x", false),
            Generation::Hopper => ("h100-8x", false),
            Generation::Ampere | Generation::Pcie => ("a100-8x", false),
        },
    }
}

/// The preset that has what no log of a library measures, as a key where it is of this GPU, and else as a proposal.
fn rest(calibration: &Calibration) -> Vec<String> {
    let gpu = &calibration.site.gpu;
    let missing = "`launch`, `host_sync`, `reduce`, `gpu_memory` and the speeds of codecs";
    let mut lines = match preset(gpu) {
        (name, true) => vec![
            format!("# No such log tells {missing}: they are those of this preset, with their sources"),
            format!("# (`zipwire scenario presets {name}`). Keys of this file go before it."),
            format!("preset = \"{name}\""),
        ],
        (name, false) => vec![
            format!(
                "# No such log tells {missing}, and no preset is of {}: state them here, or take",
                gpu.name
            ),
            format!("# them from a GPU that is like it (`zipwire scenario presets {name}`) by this line:"),
            format!("# preset = \"{name}\""),
        ],
    };
    lines.push(String::new());
    lines
}

/// Most ranks that scenarios take.
const MOST_RANKS: u32 = 4096;

/// Numbers of nodes, GPUs and NICs, bandwidths and latencies.
fn hardware(calibration: &Calibration) -> Vec<String> {
    let (site, constants) = (&calibration.site, &calibration.fit.constants);
    let source = |constant| source(calibration, constant);
    let link_share = constants.get(Constant::LinkShare);
    let nic_share = constants.get(Constant::NicShare);
    let nodes = site.nodes.min(MOST_RANKS / site.gpus_per_node).max(1);
    let mut lines = vec![
        format!("nodes = {nodes}                   # the most that were measured, and that scenarios take"),
        format!("gpus_per_node = {}           # the most that took part", site.gpus_per_node),
        format!("nics_per_node = {}           # NICs of these GPUs", site.nics_per_node),
        "topology = \"nodes\"          # logs do not tell of switches: nothing between NICs limits"
            .to_owned(),
        format!(
            "# What rings reach of {} GB/s of each GPU's link: {}.",
            significant(site.gpu.bytes_per_s / 1e9),
            source(Constant::LinkShare)
        ),
        format!("gpu_bandwidth = \"{} GB/s\"", significant(site.gpu.bytes_per_s * link_share / 1e9)),
        format!(
            "# What rings reach of {} Gb/s of each NIC: {}.",
            significant(site.nic_bytes_per_s * 8e-9),
            source(Constant::NicShare)
        ),
        format!("nic_bandwidth = \"{} GB/s\"", significant(site.nic_bytes_per_s * nic_share / 1e9)),
        "# A step of a ring with protocol Simple, within a node and between nodes.".to_owned(),
    ];
    let steps = [("latency_intra", Constant::SimpleStep), ("latency_inter", Constant::RingSimpleHop)];
    lines.extend(steps.map(|(key, constant)| {
        format!("{key} = \"{} us\" # {}", significant(constants.get(constant) * 1e6), source(constant))
    }));
    lines.push(String::new());
    lines
}

/// The model of the library and its constants.
fn library(calibration: &Calibration) -> Vec<String> {
    let gpu = &calibration.site.gpu;
    let mut lines = vec![
        "# What the library's own collectives take.".to_owned(),
        "[library]".to_owned(),
        format!(
            "model = \"{}\"         # a model after the tuning model of that version",
            LibraryModel::NAME
        ),
        format!("gpus = \"{}\"", gpu.generation.name()),
    ];
    if gpu.nvlink_domain > 0 {
        lines.push(format!("nvlink_domain = {}         # a rack", gpu.nvlink_domain));
    }
    lines.push(format!(
        "fitted_domains = {}        # {} of a log, at most",
        domains(calibration),
        match gpu.nvlink_domain {
            0 => "nodes",
            _ => "racks",
        }
    ));
    lines.extend([String::new(), "[library.constants]".to_owned()]);
    let constants = rescaled(&calibration.fit.constants);
    lines.extend(Constant::ALL.into_iter().map(|constant| {
        let value = constants.get(constant);
        let value = match constant.unit() {
            ConstantUnit::Time => format!("\"{} us\"", significant(value * 1e6)),
            ConstantUnit::Bandwidth => format!("\"{} GB/s\"", significant(value / 1e9)),
            ConstantUnit::Ratio => significant(value),
        };
        format!("{} = {value} # {}. {}", constant.key(), source(calibration, constant), constant.about())
    }));
    lines
}

/// Most NVLink domains of a log that is in the fit.
fn domains(calibration: &Calibration) -> u32 {
    let of_series = calibration.scores.iter().map(|(series, _)| {
        let hardware = calibration.site.hardware(series.nodes, series.gpus_per_node);
        hardware.shape(series.ranks()).domains
    });
    of_series.max().unwrap_or(1).min(MOST_RANKS)
}

/// Remark on NICs that measurements would have faster than their line rate.
pub(crate) fn above_line_rate(site: &Site, fit: &Fit) -> Option<String> {
    let shares = [Constant::NicShare, Constant::TreeNicShare, Constant::PeerNicShare, Constant::LlNicShare];
    let above: Vec<&str> =
        shares.into_iter().filter(|share| fit.at_most.contains(share)).map(Constant::key).collect();
    (!above.is_empty()).then(|| {
        format!(
            "these logs would have {} above what NICs of {} Gb/s can carry, and the fit has it at that: paths within nodes, or more NICs than \
             stated; `--nics 8x400G` states what a node has",
            above.join(", "),
            significant(site.nic_bytes_per_s * 8e-9)
        )
    })
}

/// Constants rescaled from shares of nominal bandwidths to shares of the bandwidths that are reached.
fn rescaled(constants: &Constants) -> Constants {
    let mut rescaled = *constants;
    let mut divide = |by: f64, all: &[Constant]| {
        for constant in all {
            rescaled.set(*constant, constants.get(*constant) / by);
        }
    };
    divide(constants.get(Constant::LinkShare), &[Constant::LinkShare, Constant::PeerChannelShare]);
    let of_nics = [
        Constant::NicShare,
        Constant::TreeNicShare,
        Constant::PeerNicShare,
        Constant::LlNicShare,
        Constant::SharpShare,
    ];
    divide(constants.get(Constant::NicShare), &of_nics);
    rescaled
}

/// Five digits that say something, without an exponent.
pub(crate) fn significant(value: f64) -> String {
    if value == 0.0 {
        return "0".to_owned();
    }
    let before = 1 + libm::floor(libm::log10(value.abs())) as i32;
    let behind = usize::try_from(5 - before).unwrap_or(0);
    let mut text = String::new();
    write!(text, "{value:.behind$}").expect("a string takes everything");
    if text.contains('.') {
        text.truncate(text.trim_end_matches('0').trim_end_matches('.').len());
    }
    text
}

/// A file's name without what would end a comment.
fn one_line(name: &str) -> String {
    name.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::significant;

    #[test]
    fn numbers_are_short_and_plain() {
        assert_eq!(significant(0.0), "0");
        assert_eq!(significant(0.012_345_678), "0.012346");
        assert_eq!(significant(371.25), "371.25");
        assert_eq!(significant(123_456.0), "123456");
        assert_eq!(significant(50.0), "50");
    }
}
