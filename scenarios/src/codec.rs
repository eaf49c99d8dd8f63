//! `[codec]`: which codec the coded variants use, and what it costs.

use std::ops::RangeInclusive;
use std::str::FromStr;

use zipwire_codec::{Spec, SpecError};
use zipwire_schedule::CodecCost;

use crate::document::Place;
use crate::error::Result;
use crate::problem::Problem;
use crate::reader::Field;
use crate::schema::{Schema, bandwidth, names, needed, number, one_of, optional, pattern, table, time};

/// A codec, its declared cost and, if stated, its ratio.
#[derive(Clone, Debug, PartialEq)]
pub struct CodecChoice {
    /// The codec, for real runs and for sizes.
    pub spec: Spec,
    /// What encoding and decoding cost.
    pub cost: CodecCost,
    /// Raw bytes over coded bytes. If given, simulations use it for every chunk and code no payload.
    pub ratio: Option<f64>,
}

const KEYS: &[&str] = &["id", "speed", "ratio"];
const SPEED_KEYS: &[&str] = &["encode", "decode", "launch"];

/// Stated ratios of raw to coded bytes.
pub(crate) const RATIO_LIMITS: RangeInclusive<f64> = 0.01..=1e4;

/// Reads the table; also gives the place of its header.
pub(crate) fn read(field: &Field<'_>) -> Result<(CodecChoice, Place)> {
    let table = field.table(KEYS)?;
    let id = table.need("id", "\"window7\"")?;
    let text = id.string()?;
    // What chunks are made of is not the same in all workloads, so the spec must say itself what a row is.
    let spec = Spec::from_str(text).and_then(Spec::complete).map_err(|error| {
        id.error(match error {
            SpecError::UnknownId { id, .. } => {
                let valid = Spec::ids().map(str::to_owned).collect();
                Problem::UnknownName { what: "codec", name: id, valid }
            }
            other => Problem::Codec(other),
        })
    })?;
    let speed = table.need("speed", "{ encode = \"180 GB/s\", decode = \"260 GB/s\" }")?;
    let speed = speed.table(SPEED_KEYS)?;
    let cost = CodecCost {
        encode_bytes_per_s: speed.need("encode", "\"180 GB/s\"")?.bandwidth()?,
        decode_bytes_per_s: speed.need("decode", "\"260 GB/s\"")?.bandwidth()?,
        launch_s: speed.get("launch").map_or(Ok(0.0), |field| field.time())?,
    };
    let ratio = table.get("ratio").map(|field| field.number(RATIO_LIMITS)).transpose()?;
    Ok((CodecChoice { spec, cost, ratio }, field.place()))
}

/// What [`read`] reads.
pub(crate) fn schema() -> Schema {
    #[rustfmt::skip]
    let speed = [
        needed("encode", "raw bytes per second of encoding", bandwidth()),
        needed("decode", "raw bytes per second of decoding", bandwidth()),
        optional("launch", "time of launching either; none by default", time()),
    ];
    // Which options a codec has, and what is in front of it, is the codec's matter.
    let (ids, prefixes): (Vec<_>, Vec<_>) = (Spec::ids().collect(), Spec::prefixes().collect());
    let (ids, prefixes) = (ids.join("|"), prefixes.join("|"));
    let with_options = pattern(&format!("^({ids}):|^({prefixes})(:[^+]*)?\\+({ids})(:|$)"));
    let spec = one_of([names(Spec::ids()), with_options]);
    #[rustfmt::skip]
    let keys = [
        needed("id", "the codec of the coded variants; options follow a colon: `window7:scale=std`; `dedup:row=N+` in front leaves out repeated rows", spec),
        needed("speed", "declared speed of encoding and decoding", table(SPEED_KEYS, speed)),
        optional("ratio", "raw bytes over coded bytes; measured on the payload by default", number(RATIO_LIMITS)),
    ];
    table(KEYS, keys)
}
