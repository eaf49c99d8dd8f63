//! `routing`: how many token copies go from each source rank to each expert.

mod recorded;
mod synthetic;

use std::path::Path;

use ndarray::Array2;

use crate::error::Result;
use crate::problem::Problem;
use crate::reader::Field;
use synthetic::Popularity;

/// What routing needs to know about everything else.
pub(crate) struct Context<'a> {
    pub(crate) base: &'a Path,
    pub(crate) seed: u64,
    pub(crate) ranks: u32,
    pub(crate) experts: u32,
    /// Token copies that each rank sends, its own included: tokens x top-k.
    pub(crate) copies_per_rank: u64,
}

const SOURCES: &[&str] = &["matrix", "trace", "dirichlet", "zipf"];
const KEYS: &[&str] = &["matrix", "trace", "dirichlet", "zipf", "layer", "sharding", "step"];

/// Source rank x expert; every row sums to `copies_per_rank`.
pub(crate) fn read(field: &Field<'_>, context: &Context<'_>) -> Result<Array2<u64>> {
    if let Some(name) = field.as_string() {
        if name == "uniform" {
            return Ok(synthetic::draw(Popularity::Uniform, context));
        }
        let problem = Problem::UnknownName {
            what: "routing",
            name: name.to_owned(),
            valid: vec!["uniform".to_owned()],
        };
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
            for key in ["layer", "sharding", "step"] {
                table.refuse(key, recorded_only)?;
            }
            let popularity = match source {
                "dirichlet" => Popularity::Dirichlet { concentration: value.number(0.001..=1e6)? },
                _ => Popularity::Zipf { exponent: value.number(0.0..=10.0)? },
            };
            Ok(synthetic::draw(popularity, context))
        }
    }
}
