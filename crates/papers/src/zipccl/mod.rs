//! ZipCCL: collectives of training.

mod all_gather;
mod codec;
mod fig10;
mod fig14;
mod fig15;
mod fig16;
mod fig8;
mod fig9;
mod table1;
mod training;
mod window;

use super::figure::Figure;

/// Half of the layers: all layers are alike, and what a constant changes in one of them it changes in all.
pub(super) const SHORTER: &[(&str, &str)] =
    &[("zipccl-qwen3.toml", "workload.model.layers=8"), ("zipccl-llama3.toml", "workload.model.layers=16")];

/// In the order of the paper.
pub(super) const FIGURES: &[Figure] = &[
    codec::FIGURE,
    table1::FIGURE,
    window::FIGURE,
    fig8::FIGURE,
    fig9::FIGURE,
    fig10::FIGURE,
    all_gather::LAYERS,
    all_gather::FIGURE,
    fig14::FIGURE,
    fig15::FIGURE,
    fig16::FIGURE,
];
