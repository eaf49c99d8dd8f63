//! `routing`: how many token copies go from each source rank to each expert.

mod recorded;
mod synthetic;
pub(crate) mod tokens;

use std::ops::RangeInclusive;

use ndarray::Array2;

use crate::error::Result;
use crate::files::Files;
use crate::problem::Problem;
use crate::reader::Field;
use crate::schema::{Condition, Rule, Schema, integer, names, number, one_of, optional, string, table};
use synthetic::Popularity;

/// What routing needs to know about everything else.
pub(crate) struct Context<'a> {
    pub(crate) files: &'a Files,
    pub(crate) seed: u64,
    pub(crate) ranks: u32,
    pub(crate) experts: u32,
    /// Token copies that each rank sends, its own included: tokens x top-k.
    pub(crate) copies_per_rank: u64,
    pub(crate) place: Place,
}

/// Which of the routings of an iteration is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// The only one.
    Only,
    /// That of a layer, counted from 0, in one micro-batch. Synthetic popularity belongs to the layer, and what is drawn from
    /// it to the micro-batch, too. Recordings are of steps: their layers follow one another and begin again behind the last.
    Layer { layer: u32, micro_batch: u32 },
}

const SOURCES: &[&str] = &["matrix", "trace", "dirichlet", "zipf"];
const KEYS: &[&str] = &["matrix", "trace", "dirichlet", "zipf", "layer", "sharding", "step"];

/// Keys that select a record.
const SELECTION: &[&str] = &["layer", "sharding", "step"];

/// The routing that needs no number.
const UNIFORM: &str = "uniform";

const CONCENTRATION_LIMITS: RangeInclusive<f64> = 0.001..=1e6;
const EXPONENT_LIMITS: RangeInclusive<f64> = 0.0..=10.0;

/// Source rank x expert; every row sums to `copies_per_rank`.
pub(crate) fn read(field: &Field<'_>, context: &Context<'_>) -> Result<Array2<u64>> {
    if let Some(name) = field.as_string() {
        if name == UNIFORM {
            return Ok(synthetic::draw(Popularity::Uniform, context));
        }
        let problem =
            Problem::UnknownName { what: "routing", name: name.to_owned(), valid: vec![UNIFORM.to_owned()] };
        return Err(field.error(problem));
    }
    let table = field.table(KEYS)?;
    let (source, value) = table.one_of(SOURCES)?;
    let recorded_only = "it selects a record, and this routing is synthetic";
    match source {
        "matrix" => recorded::matrix(&table, &value, context),
        "trace" => {
            table.refuse("sharding", "the records of a trace are sums over all ranks")?;
            recorded::trace(&table, &value, context)
        }
        _ => {
            for key in SELECTION {
                table.refuse(key, recorded_only)?;
            }
            let popularity = match source {
                "dirichlet" => Popularity::Dirichlet { concentration: value.number(CONCENTRATION_LIMITS)? },
                _ => Popularity::Zipf { exponent: value.number(EXPONENT_LIMITS)? },
            };
            Ok(synthetic::draw(popularity, context))
        }
    }
}

/// What [`read`] reads.
pub(crate) fn schema() -> Schema {
    let record = || integer(0..=u32::MAX);
    #[rustfmt::skip]
    let keys = [
        optional("matrix", "a JSONL file of recorded source rank x expert matrices", string()),
        optional("trace", "a CSV file of recorded tokens per expert", string()),
        optional("dirichlet", "concentration of a symmetric Dirichlet distribution of popularity", number(CONCENTRATION_LIMITS)),
        optional("zipf", "exponent of Zipf popularity", number(EXPONENT_LIMITS)),
        optional("layer", "layer of the record", record()),
        optional("sharding", "sharding of the record", string()),
        optional("step", "step of the record", record()),
    ];
    let table = table(KEYS, keys)
        .with_one_of(SOURCES)
        .when(Condition::Has("trace"), Rule::Refuses(&["sharding"]))
        .when(Condition::Has("dirichlet"), Rule::Refuses(SELECTION))
        .when(Condition::Has("zipf"), Rule::Refuses(SELECTION));
    one_of([names([UNIFORM]), table])
}
