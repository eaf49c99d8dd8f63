//! `[cluster] compute_slowdown`: what compute loses to the other lanes of its rank.

use std::ops::RangeInclusive;

use zipwire_cluster::Slowdown;

use crate::error::Result;
use crate::reader::Field;
use crate::schema::{Schema, number, optional, table};

const KEYS: &[&str] = &["codec", "exchange"];

/// Something beside it makes nothing faster; and what takes a thousand times as long does not overlap.
const FACTOR_LIMITS: RangeInclusive<f64> = 1.0..=1000.0;

/// Reads the table.
pub(crate) fn read(field: &Field<'_>) -> Result<Slowdown> {
    let table = field.table(KEYS)?;
    let factor = |key| table.get(key).map_or(Ok(1.0), |field| field.number(FACTOR_LIMITS));
    Ok(Slowdown { codec: factor("codec")?, exchange: factor("exchange")? })
}

/// What [`read`] reads.
pub(crate) fn schema() -> Schema {
    #[rustfmt::skip]
    let keys = [
        optional("codec", "factor while the rank encodes or decodes; 1 by default", number(FACTOR_LIMITS)),
        optional("exchange", "factor while a transfer of the rank is in latency or moving; 1 by default", number(FACTOR_LIMITS)),
    ];
    table(KEYS, keys)
}
