//! `[cluster.codec_speed]`: how fast the cluster's GPUs code, for scenarios that do not say it themselves.

use std::collections::BTreeMap;

use zipwire_cluster::CodecCost;
use zipwire_codec::Spec;

use crate::error::Result;
use crate::problem::Problem;
use crate::reader::{Field, Reader};
use crate::schema::{Key, Schema, bandwidth, map, names, needed, optional, string, table, time};

/// How a codec's speed is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SpeedBasis {
    /// Measured by whoever wrote the file, on this GPU.
    Measured,
    /// Published for this GPU.
    Published,
    /// Chosen so that published results on this GPU come out.
    Fitted,
    /// That of another GPU, times the ratio of their memory bandwidths.
    Scaled,
    /// Taken from something else than this codec on some GPU.
    Assumed,
}

impl SpeedBasis {
    /// All, the best known first.
    pub const ALL: [Self; 5] = [Self::Measured, Self::Published, Self::Fitted, Self::Scaled, Self::Assumed];

    /// Name in files and reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Measured => "measured",
            Self::Published => "published",
            Self::Fitted => "fitted",
            Self::Scaled => "scaled",
            Self::Assumed => "assumed",
        }
    }

    /// Whether results that rest on it rest on an assumption: nobody saw the codec run so fast on this GPU.
    pub fn is_assumption(self) -> bool {
        match self {
            Self::Measured | Self::Published => false,
            Self::Fitted | Self::Scaled | Self::Assumed => true,
        }
    }
}

/// What a hardware file says of a codec's speed.
#[derive(Clone, Debug, PartialEq)]
pub struct DeclaredSpeed {
    /// What encoding and decoding cost.
    pub cost: CodecCost,
    /// How that is known.
    pub basis: SpeedBasis,
    /// Where it comes from, in words.
    pub source: String,
}

/// Speeds by the id of the codec.
pub(crate) type CodecSpeeds = BTreeMap<&'static str, DeclaredSpeed>;

const COST_KEYS: [&str; 3] = ["encode", "decode", "launch"];
const KEYS: &[&str] = &["encode", "decode", "launch", "basis", "source"];

/// Reads the table.
pub(super) fn read(field: &Field<'_>) -> Result<CodecSpeeds> {
    let mut speeds = CodecSpeeds::new();
    for (name, place, field) in field.entries()? {
        let id = Spec::ids().find(|id| *id == name).ok_or_else(|| {
            let valid = Spec::ids().map(str::to_owned).collect();
            Problem::UnknownName { what: "codec", name: name.to_owned(), valid }.at(place.clone())
        })?;
        let table = field.table(KEYS)?;
        let basis = table.need("basis", "\"measured\"")?;
        let declared = DeclaredSpeed {
            cost: read_cost(&table)?,
            basis: basis.choice("basis of a speed", &SpeedBasis::ALL, SpeedBasis::name)?,
            source: table.need("source", "\"zipwire bench gpu on this cluster\"")?.string()?.to_owned(),
        };
        speeds.insert(id, declared);
    }
    Ok(speeds)
}

/// Reads encode, decode and launch of a table that has more keys, or only these.
pub(crate) fn read_cost(table: &Reader<'_>) -> Result<CodecCost> {
    Ok(CodecCost {
        encode_bytes_per_s: table.need("encode", EXAMPLE)?.bandwidth()?,
        decode_bytes_per_s: table.need("decode", EXAMPLE)?.bandwidth()?,
        launch_s: table.get("launch").map_or(Ok(0.0), |field| field.time())?,
    })
}

/// No GPU's: a figure in an example is copied.
const EXAMPLE: &str = "\"... GB/s\"";

/// The schema of what [`read_cost`] reads.
pub(crate) fn cost_schema() -> [Key; COST_KEYS.len()] {
    #[rustfmt::skip]
    let keys = [
        needed("encode", "raw bytes per second of encoding", bandwidth()),
        needed("decode", "raw bytes per second of decoding", bandwidth()),
        optional("launch", "time of launching either; none by default", time()),
    ];
    keys
}

/// What [`read`] reads.
pub(super) fn schema() -> Schema {
    #[rustfmt::skip]
    let known = [
        needed("basis", "how the speed is known", names(SpeedBasis::ALL.map(SpeedBasis::name))),
        needed("source", "where it comes from, in words", string()),
    ];
    map(table(KEYS, cost_schema().into_iter().chain(known)))
}
