//! Warnings to readers of an experiment's results: quantities that no hardware has, and codec speeds that
//! nobody measured on the cluster's GPUs.

use std::ops::RangeInclusive;

use zipwire_cluster::{CodecCost, Fabric};
use zipwire_codec::Layout;
use zipwire_schedule::Choice;

use crate::cluster::{DeclaredSpeed, Preset, presets};
use crate::codec::CodecChoice;
use crate::experiment::Experiment;
use crate::variant::Variant;
use crate::words::list;

/// Bytes per second of one NIC, in each direction: from 10 Gb/s, the least that GPUs are clustered with, to two ports of 800 Gb/s, the
/// most that is announced (NVIDIA ConnectX-9).
const NICS: RangeInclusive<f64> = 1.25e9..=200e9;
/// Bytes per second of a GPU's links, in each direction: from PCIe 3.0 with eight lanes, rounded down, to NVLink of the sixth generation,
/// 3.6 TB/s in both together.
const GPU_LINKS: RangeInclusive<f64> = 7.5e9..=1.8e12;
/// Times as many nodes as logs have, from which on costs that are fitted to them are said to be extrapolated.
const FAR: u32 = 64;
/// Most GPUs of what is called a node, and no rack.
const NODE: f64 = 16.0;
/// Bits of a byte: what bandwidths are off by when their unit is mistaken.
const BITS: f64 = 8.0;
/// How near to eight times, or an eighth, of what a preset says a bandwidth looks mistaken, as a part of it.
const NEAR: f64 = 0.1;

impl Experiment {
    /// Remarks on what the experiment takes for granted, each a sentence without a full stop and with what to do; at most one of a kind, in
    /// a fixed order.
    pub fn warnings(&self) -> Vec<String> {
        let used = self.used_codecs();
        let own = [
            self.mistaken_unit(&used),
            self.extrapolated(),
            unmeasured(&used),
            self.borrowed_speed(&used),
            self.no_differences(),
        ];
        let of_requests = self.as_serving().into_iter().flat_map(|serving| serving.remarks.iter().cloned());
        own.into_iter().flatten().chain(of_requests).collect()
    }

    /// Calls of a library on a cluster that is far larger than those whose logs say what they take.
    fn extrapolated(&self) -> Option<String> {
        let (fitted, model) = (self.fitted_domains?, self.host.library.model?);
        let shape = model.hardware.shape(self.topology.ranks());
        let is_far = if fitted == 1 { shape.domains > 1 } else { shape.domains > FAR.saturating_mul(fitted) };
        let unit =
            if model.hardware.nvlink_domain > 0 || shape.ranks_per_domain > NODE { "racks" } else { "nodes" };
        is_far.then(|| {
            format!(
                "what the library's own calls take between {} {unit} is extrapolated from logs of {fitted}: \
                 `zipwire calibrate nccl-tests` takes logs of more",
                shape.domains
            )
        })
    }

    fn used_codecs(&self) -> Vec<&CodecChoice> {
        let mut used: Vec<&CodecChoice> = Vec::new();
        // An adaptive variant does what its arms do.
        let fixed = self.variants.iter().flat_map(|variant| match variant.arms.as_slice() {
            [] => std::slice::from_ref(variant),
            arms => arms,
        });
        let uses_codec = |variant: &&Variant| variant.is_coded() || variant.dedup.is_some();
        for choice in fixed.filter(uses_codec).filter_map(|variant| self.codec_of(variant)) {
            if !used.contains(&choice) {
                used.push(choice);
            }
        }
        used
    }

    /// A bandwidth or speed that is off by what bits and bytes differ by.
    fn mistaken_unit(&self, used: &[&CodecChoice]) -> Option<String> {
        let topology = &self.topology;
        let named = self.preset.and_then(|preset| Some((preset, preset.topology().ok()?)));
        let named = named.as_ref().map(|(preset, topology)| (preset.name, topology));
        let has_nics = topology.nodes > 1 && topology.fabric.has_nics();
        let nics = has_nics.then(|| {
            let (key, value) = ("cluster.nic_bandwidth", topology.nic_bandwidth);
            off_limits(key, value, "NIC", &NICS).or_else(|| {
                named.and_then(|(name, named)| off_by_bits(key, value, named.nic_bandwidth, name))
            })
        });
        let gpus = || {
            let (key, value) = ("cluster.gpu_bandwidth", topology.gpu_bandwidth);
            off_limits(key, value, "GPU's link", &GPU_LINKS).or_else(|| {
                named.and_then(|(name, named)| off_by_bits(key, value, named.gpu_bandwidth, name))
            })
        };
        // Links of a graph have bandwidths of their own.
        let gpus = (!matches!(topology.fabric, Fabric::Graph(_))).then(gpus);
        let speeds = || used.iter().find_map(|choice| self.mistaken_speed(choice));
        nics.flatten().or(gpus.flatten()).or_else(speeds)
    }

    /// A stated speed of a codec that is off by what bits and bytes differ by.
    fn mistaken_speed(&self, choice: &CodecChoice) -> Option<String> {
        let (preset, CodecCost { encode_bytes_per_s, decode_bytes_per_s, .. }) =
            self.speed_of_preset(choice)?;
        let off = |key, value, usual| off_by_bits(key, value, usual, preset.name);
        off("codec.speed.encode", choice.cost.encode_bytes_per_s, encode_bytes_per_s)
            .or_else(|| off("codec.speed.decode", choice.cost.decode_bytes_per_s, decode_bytes_per_s))
    }

    /// A stated speed that is known to be that of other GPUs than the cluster's.
    fn borrowed_speed(&self, used: &[&CodecChoice]) -> Option<String> {
        used.iter().find_map(|choice| {
            let (preset, own) = self.speed_of_preset(choice)?;
            let is_stated = |cost: &CodecCost| speeds(cost) == speeds(&choice.cost);
            let others = presets().iter().filter(|other| **other != preset && !is_stated(&own));
            let owner = others.into_iter().find(|other| declared(other, choice).is_some_and(|of| is_stated(&of.cost)))?;
            Some(format!(
                "`codec.speed` is that of `{}`, not of `{}` ({} and {} GB/s): leave it out, or measure it there with \
                 `zipwire bench gpu`",
                owner.name,
                preset.name,
                gb(own.encode_bytes_per_s),
                gb(own.decode_bytes_per_s)
            ))
        })
    }

    /// Variants whose codec takes differences, and whose frames have none.
    fn no_differences(&self) -> Option<String> {
        let codes_none = |variant: &&Variant| {
            let layout = Choice { layout: variant.layout, ..Choice::of(variant.protocol, None) }.layout();
            let takes_base = self.codec_of(variant).is_some_and(|choice| choice.spec.takes_base());
            !variant.is_adaptive() && layout == Some(Layout::Split) && takes_base
        };
        let names: Vec<&str> =
            self.variants.iter().filter(codes_none).map(|variant| variant.name.as_str()).collect();
        (!names.is_empty()).then(|| {
            format!(
                "{} no differences, as frames have the layout `split`, whose lengths must not depend on values: for differences, \
                 take `size-first` or `speculative`, in the layout `compact`",
                match names[..] {
                    [name] => format!("variant `{name}` codes"),
                    _ => format!("variants {} code", list(names)),
                }
            )
        })
    }

    /// Speed in the cluster's preset of a codec whose speed the scenario states.
    fn speed_of_preset(&self, choice: &CodecChoice) -> Option<(Preset, CodecCost)> {
        let preset = self.preset.filter(|_| choice.declared.is_none())?;
        Some((preset, declared(&preset, choice)?.cost))
    }
}

/// Speed of a codec in a preset.
fn declared(preset: &Preset, choice: &CodecChoice) -> Option<DeclaredSpeed> {
    preset.codec_speeds().ok()?.remove(choice.spec.codec().id())
}

/// Bytes per second of both directions.
fn speeds(cost: &CodecCost) -> [f64; 2] {
    [cost.encode_bytes_per_s, cost.decode_bytes_per_s]
}

/// A bandwidth that no hardware has.
fn off_limits(key: &str, value: f64, what: &str, limits: &RangeInclusive<f64>) -> Option<String> {
    if value > *limits.end() {
        Some(mistaken(key, value, &format!("more than any {what} has"), true))
    } else if value < *limits.start() {
        Some(mistaken(key, value, &format!("less than any {what} has"), false))
    } else {
        None
    }
}

/// A bandwidth that is about eight times, or an eighth of, the one that a preset has.
fn off_by_bits(key: &str, value: f64, usual: f64, preset: &str) -> Option<String> {
    let is_near = |factor: f64| (value / usual / factor - 1.0).abs() <= NEAR;
    if is_near(BITS) {
        Some(mistaken(key, value, &format!("8 times that of `{preset}`"), true))
    } else if is_near(1.0 / BITS) {
        Some(mistaken(key, value, &format!("an eighth of that of `{preset}`"), false))
    } else {
        None
    }
}

/// Proposed value in place of a bandwidth that is too large, because bits were meant, or too small, because bytes were.
fn mistaken(key: &str, value: f64, why: &str, is_large: bool) -> String {
    let (bytes, bits) = (gb(value), gb(value * BITS));
    let instead = if is_large {
        format!("bits were meant, write `{bytes} Gb/s`")
    } else {
        format!("bytes were meant, write `{bits} GB/s`")
    };
    format!("`{key}` is {bytes} GB/s ({bits} Gb/s), {why}: if {instead}")
}

/// Speeds that the scenario does not state and that nobody has measured.
fn unmeasured(used: &[&CodecChoice]) -> Option<String> {
    let mut named: Vec<String> = Vec::new();
    for choice in used {
        let assumed = choice.declared.as_ref().filter(|declared| declared.basis.is_assumption());
        let name =
            assumed.map(|assumed| format!("`{}` ({})", choice.spec.codec().id(), assumed.basis.name()));
        named.extend(name.filter(|name| !named.contains(name)));
    }
    (!named.is_empty()).then(|| {
        format!(
            "nobody measured the speed of {} on these GPUs: `zipwire bench gpu` does, and `codec.speed` takes it",
            named.join(", ")
        )
    })
}

/// Billions, without the noise of their last digits.
fn gb(per_s: f64) -> f64 {
    (per_s / 1e6).round() / 1e3
}
