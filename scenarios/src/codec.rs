//! `[codec]`: which codec the coded variants use, and what it costs.

use std::str::FromStr;

use zipwire_codec::{Spec, SpecError};
use zipwire_schedule::CodecCost;

use crate::document::Place;
use crate::error::Result;
use crate::problem::Problem;
use crate::reader::Field;

/// A codec, its declared cost and, if stated, its ratio.
#[derive(Clone, Debug)]
pub struct CodecChoice {
    /// The codec, for real runs and for sizes.
    pub spec: Spec,
    /// What encoding and decoding cost.
    pub cost: CodecCost,
    /// Raw bytes over coded bytes. If given, simulations use it for every chunk and code no payload.
    pub ratio: Option<f64>,
}

/// Reads the table; also gives the place of its header.
pub(crate) fn read(field: &Field<'_>) -> Result<(CodecChoice, Place)> {
    let table = field.table(&["id", "speed", "ratio"])?;
    let id = table.need("id", "\"window7\"")?;
    let text = id.string()?;
    let spec = Spec::from_str(text).map_err(|error| {
        id.error(match error {
            SpecError::UnknownId { id, .. } => {
                let valid = Spec::ids().map(str::to_owned).collect();
                Problem::UnknownName { what: "codec", name: id, valid }
            }
            other => Problem::Codec(other),
        })
    })?;
    let speed = table.need("speed", "{ encode = \"180 GB/s\", decode = \"260 GB/s\" }")?;
    let speed = speed.table(&["encode", "decode", "launch"])?;
    let cost = CodecCost {
        encode_bytes_per_s: speed.need("encode", "\"180 GB/s\"")?.bandwidth()?,
        decode_bytes_per_s: speed.need("decode", "\"260 GB/s\"")?.bandwidth()?,
        launch_s: speed.get("launch").map_or(Ok(0.0), |field| field.time())?,
    };
    let ratio = table.get("ratio").map(|field| field.number(0.01..=1e4)).transpose()?;
    Ok((CodecChoice { spec, cost, ratio }, field.place()))
}
