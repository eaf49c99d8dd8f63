//! GPUs by their names: which generation of the model they are of, and what their links give.

use zipwire_cluster::library::{Constant, Constants, Generation};

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
