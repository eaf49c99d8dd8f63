//! `[cluster.codec_speed]`: how fast the cluster's GPUs code, for scenarios that do not say it themselves.

use std::collections::BTreeMap;

use zipwire_cluster::CodecCost;

use crate::error::Result;
use crate::language::{
    AnyKey, Field, Reader, Schema, bandwidth, choice, keys, map, named, table, text, time,
};
use crate::problem::Problem;

named! {
    /// How a codec's speed is known, the best known first.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum SpeedBasis {
        /// Measured by the author of the file, on this GPU.
        Measured = "measured",
        /// Published for this GPU.
        Published = "published",
        /// Chosen so that published results on this GPU come out.
        Fitted = "fitted",
        /// That of another GPU, times the ratio of their memory bandwidths.
        Scaled = "scaled",
        /// Taken from something else than this codec on some GPU.
        Assumed = "assumed",
    }
}

impl SpeedBasis {
    /// Whether results that rest on it rest on an assumption: the speed was not measured on this GPU.
    pub fn is_assumption(self) -> bool {
        match self {
            Self::Measured | Self::Published => false,
            Self::Fitted | Self::Scaled | Self::Assumed => true,
        }
    }
}

/// Speed of a codec as a hardware file declares it.
#[derive(Clone, Debug, PartialEq)]
pub struct DeclaredSpeed {
    /// Time of encoding and decoding, by size.
    pub cost: CodecCost,
    /// How that is known.
    pub basis: SpeedBasis,
    /// Where it comes from, in words.
    pub source: String,
}

/// Speeds by the id of the codec.
pub(crate) type CodecSpeeds = BTreeMap<&'static str, DeclaredSpeed>;

/// No GPU's: a figure in an example is copied.
const EXAMPLE: &str = "\"... GB/s\"";

keys! { pub(crate) static COST =
    encode: f64 = bandwidth(), "raw bytes per second of encoding", needed = EXAMPLE;
    decode: f64 = bandwidth(), "raw bytes per second of decoding", needed = EXAMPLE;
    launch: f64 = time(), "time of launching either; none by default";
}

keys! { static BASIS =
    basis: SpeedBasis = choice("basis of a speed", &SpeedBasis::ALL, SpeedBasis::name), "how the speed is known", needed = "\"measured\"";
    source: String = text(), "where it comes from, in words", needed = "\"zipwire bench gpu on this cluster\"";
}

pub(super) fn read(field: &Field<'_>) -> Result<CodecSpeeds> {
    let mut speeds = CodecSpeeds::new();
    for (name, place, field) in field.entries()? {
        let id = crate::codec::ids().find(|id| *id == name).ok_or_else(|| {
            let valid = crate::codec::ids().map(str::to_owned).collect();
            Problem::UnknownName { what: "codec", name: name.to_owned(), valid }.at(place.clone())
        })?;
        let table = field.table(&speed_keys())?;
        let (basis, cost) = (table.need(BASIS.basis)?, read_cost_of(&table)?);
        speeds.insert(id, DeclaredSpeed { cost, basis, source: table.need(BASIS.source)? });
    }
    Ok(speeds)
}

pub(super) fn schema() -> Schema {
    map(table(&speed_keys()))
}

fn speed_keys() -> Vec<&'static dyn AnyKey> {
    [COST.all, BASIS.all].concat()
}

pub(crate) fn read_cost(field: &Field<'_>) -> Result<CodecCost> {
    read_cost_of(&field.table(COST.all)?)
}

fn read_cost_of(table: &Reader<'_>) -> Result<CodecCost> {
    Ok(CodecCost {
        encode_bytes_per_s: table.need(COST.encode)?,
        decode_bytes_per_s: table.need(COST.decode)?,
        launch_s: table.get(COST.launch)?.unwrap_or(0.0),
    })
}
