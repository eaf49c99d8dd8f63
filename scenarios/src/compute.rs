//! `[compute]`: how long the model computes.

use crate::error::Result;
use crate::noise::Noise;
use crate::reader::Field;
use crate::schema::{Condition, Rule, Schema, optional, table, time};

/// The model's own computation.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Compute {
    /// Seconds of the expert computation at mean load.
    pub(crate) expert_s: f64,
    pub(crate) noise: Noise,
}

const KEYS: &[&str] = &["expert", "noise"];

impl Compute {
    pub(crate) fn read(field: &Field<'_>) -> Result<Self> {
        let table = field.table(KEYS)?;
        let Some(expert) = table.get("expert") else {
            table.refuse("noise", "without `expert`, computation takes no time")?;
            return Ok(Self::default());
        };
        let noise = table.get("noise").map_or(Ok(Noise::default()), |field| Noise::read(&field))?;
        Ok(Self { expert_s: expert.time()?, noise })
    }

    /// What [`read`](Self::read) reads.
    pub(crate) fn schema() -> Schema {
        #[rustfmt::skip]
        let keys = [
            optional("expert", "time of the expert computation at mean load; none by default", time()),
            optional("noise", "relative standard deviation of each computation, drawn anew per rank and iteration; 0 by default", Noise::schema()),
        ];
        table(KEYS, keys).when(Condition::Lacks("expert"), Rule::Refuses(&["noise"]))
    }
}
