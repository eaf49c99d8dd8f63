//! `[cluster] compute_slowdown`: what compute loses to the other lanes of its rank.

use std::ops::RangeInclusive;

use zipwire_cluster::Slowdown;

use crate::error::Result;
use crate::language::{Field, keys, number};

/// Something beside it makes nothing faster; and what takes a thousand times as long does not overlap.
const FACTOR_LIMITS: RangeInclusive<f64> = 1.0..=1000.0;

keys! { pub(crate) static KEYS =
    codec: f64 = number(FACTOR_LIMITS), "factor while the rank encodes or decodes; 1 by default";
    exchange: f64 = number(FACTOR_LIMITS), "factor while a transfer of the rank is in latency or moving; 1 by default";
}

/// Reads the table.
pub(crate) fn read(field: &Field<'_>) -> Result<Slowdown> {
    let table = field.table(KEYS.all)?;
    let (codec, exchange) = (table.get(KEYS.codec)?, table.get(KEYS.exchange)?);
    Ok(Slowdown { codec: codec.unwrap_or(1.0), exchange: exchange.unwrap_or(1.0) })
}
