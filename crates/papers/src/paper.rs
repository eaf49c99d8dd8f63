//! The papers.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// A paper whose results are reproduced.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Paper {
    /// Compressed collectives for training.
    ZipCcl,
    /// Transfer of KV caches between prefill and decode.
    SplitZip,
    /// Huffman-coded weights for inference.
    DFloat11,
    /// Models and checkpoints at rest.
    ZipNn,
    /// Increments of checkpoints.
    Lmc,
}

impl Paper {
    /// All papers.
    pub const ALL: [Self; 5] = [Self::ZipCcl, Self::SplitZip, Self::DFloat11, Self::ZipNn, Self::Lmc];

    /// Its name on the command line and in files.
    pub fn name(self) -> &'static str {
        match self {
            Self::ZipCcl => "zipccl",
            Self::SplitZip => "splitzip",
            Self::DFloat11 => "dfloat11",
            Self::ZipNn => "zipnn",
            Self::Lmc => "lmc",
        }
    }

    /// Its title.
    pub fn title(self) -> &'static str {
        match self {
            Self::ZipCcl => "ZipCCL: lossless compressed collectives for training",
            Self::SplitZip => {
                "SplitZip: Ultra Fast Lossless KV Compression for Disaggregated LLM Serving (arXiv:2605.01708)"
            }
            Self::DFloat11 => {
                "70% Size, 100% Accuracy: Lossless LLM Compression for Efficient GPU Inference via Dynamic-Length Float \
                 (arXiv:2504.11651)"
            }
            Self::ZipNn => "ZipNN: Lossless Compression for AI Models",
            Self::Lmc => "Lossless Compression for LLM Tensor Incremental Snapshots (arXiv:2505.09810)",
        }
    }
}

impl fmt::Display for Paper {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Paper {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let names = || Self::ALL.map(|paper| format!("`{}`", paper.name())).join(", ");
        let found = Self::ALL.into_iter().find(|paper| paper.name() == text);
        found.ok_or_else(|| format!("unknown paper `{text}`: there are {}", names()))
    }
}
