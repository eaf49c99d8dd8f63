//! What a reader of an experiment's results should know about its inputs: assumptions that nobody made in the scenario, and
//! quantities that no hardware has.

use zipwire_cluster::Topology;

use crate::codec::CodecChoice;
use crate::experiment::Experiment;
use crate::variant::Variant;

/// Most bytes per second of one NIC, in each direction: two ports of 800 Gb/s are the most that is announced (NVIDIA ConnectX-9).
const NIC_LIMIT: f64 = 200e9;
/// Most bytes per second of a GPU's links, in each direction: NVLink of the sixth generation, 3.6 TB/s in both together.
const GPU_LIMIT: f64 = 1.8e12;
/// Bits of a byte: what bandwidths are off by when their unit is mistaken.
const BITS: f64 = 8.0;

impl Experiment {
    /// Remarks on what the experiment takes for granted, each a sentence without a full stop; in a fixed order.
    pub fn warnings(&self) -> Vec<String> {
        let mut warnings = links(&self.topology);
        let mut named: Vec<&CodecChoice> = Vec::new();
        // An adaptive variant does what its arms do.
        let fixed = self.variants.iter().flat_map(|variant| match variant.arms.as_slice() {
            [] => std::slice::from_ref(variant),
            arms => arms,
        });
        let uses_codec = |variant: &&Variant| variant.is_coded() || variant.dedup.is_some();
        for choice in fixed.filter(uses_codec).filter_map(|variant| self.codec_of(variant)) {
            if !named.iter().any(|other| other.spec == choice.spec && other.declared == choice.declared) {
                warnings.extend(speed(choice));
                named.push(choice);
            }
        }
        warnings
    }
}

/// Links that are faster than any.
fn links(topology: &Topology) -> Vec<String> {
    let mut warnings = Vec::new();
    let mut check = |key: &str, value: f64, limit: f64, what: &str| {
        if value > limit {
            warnings.push(format!(
                "`cluster.{key}` is {} GB/s, and {what} has more than {} GB/s: if bits were meant, it is `{} Gb/s`, \
                 {} GB/s",
                value / 1e9,
                limit / 1e9,
                value / 1e9,
                value / 1e9 / BITS
            ));
        }
    };
    if topology.nodes > 1 && topology.fabric.has_nics() {
        check("nic_bandwidth", topology.nic_bandwidth, NIC_LIMIT, "no NIC");
    }
    check("gpu_bandwidth", topology.gpu_bandwidth, GPU_LIMIT, "no GPU's link");
    warnings
}

/// A speed that the scenario does not state and that nobody saw.
fn speed(choice: &CodecChoice) -> Option<String> {
    let declared = choice.declared.as_ref().filter(|declared| declared.basis.is_assumption())?;
    Some(format!(
        "the speed of codec `{}`, {:.1} GB/s to encode and {:.1} GB/s to decode, is {}: {}; `[codec] speed` replaces it",
        choice.spec,
        declared.cost.encode_bytes_per_s / 1e9,
        declared.cost.decode_bytes_per_s / 1e9,
        declared.basis.name(),
        declared.source
    ))
}
