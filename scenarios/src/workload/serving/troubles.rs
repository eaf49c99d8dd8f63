//! `lost` and `cancelled`: instances that fail, and requests that are cancelled.

use zipwire_serving::{Config, Loss, RequestId, Requests, Trouble};

use crate::error::Result;
use crate::language::{Field, Rule, Schema, array, integer, keys, table, time};

keys! { static LOST =
    prefill: u32 = integer(0..=u32::MAX), "a prefill instance, from 0", example = "0";
    decode: u32 = integer(0..=u32::MAX), "a decode instance, from 0", example = "0";
    at: f64 = time(), "since when", needed = "\"1 s\"";
}

keys! { static CANCELLED =
    request: u32 = integer(0..=u32::MAX), "the request, from 0 in the order of arrival", needed = "0";
    at: f64 = time(), "since when", needed = "\"1 s\"";
}

fn one_instance() -> Rule {
    Rule::one_of(&[LOST.prefill, LOST.decode])
}

/// Schema of `lost`.
pub(super) fn lost_schema() -> Schema {
    array(table(LOST.all).with(vec![one_instance()]))
}

/// Schema of `cancelled`.
pub(super) fn cancelled_schema() -> Schema {
    array(table(CANCELLED.all))
}

/// Reads both, in the order of time.
pub(super) fn read(
    lost: Option<Field<'_>>,
    cancelled: Option<Field<'_>>,
    requests: &Requests,
    config: &Config,
) -> Result<Vec<Trouble>> {
    let mut troubles = Vec::new();
    for item in lost.map(|field| field.array()).transpose()?.unwrap_or_default() {
        let table = item.table(LOST.all)?;
        table.check(&[one_instance()])?;
        let at_s = table.need(LOST.at)?;
        let what = match table.field(LOST.prefill) {
            Some(field) => Loss::Prefill(below(&field, config.prefill.instances, "prefill instances")?),
            None => {
                let field = table.need_field(LOST.decode)?;
                Loss::Decode(below(&field, config.decode.instances, "decode instances")?)
            }
        };
        troubles.push(Trouble { at_s, what });
    }
    for item in cancelled.map(|field| field.array()).transpose()?.unwrap_or_default() {
        let table = item.table(CANCELLED.all)?;
        let request = below(&table.need_field(CANCELLED.request)?, requests.len() as u32, "requests")?;
        let at_s = table.need(CANCELLED.at)?;
        troubles.push(Trouble { at_s, what: Loss::Request(RequestId(request)) });
    }
    troubles.sort_by(|a, b| a.at_s.total_cmp(&b.at_s));
    Ok(troubles)
}

/// Index of one of `count` things, from 0.
fn below(field: &Field<'_>, count: u32, what: &str) -> Result<u32> {
    let index = field.integer_u32(0..=u32::MAX)?;
    if index < count {
        return Ok(index);
    }
    Err(field.out_of_range(index, format!("less than {count}, the number of {what}")))
}
