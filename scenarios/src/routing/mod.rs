//! `routing`: how many token copies go from each source rank to each expert.

mod gate;
mod recorded;
mod synthetic;
pub(crate) mod tokens;

use std::ops::RangeInclusive;

use ndarray::Array2;

use crate::error::Result;
use crate::files::Files;
use crate::model::EXPERT_LIMIT;
use crate::problem::Problem;
use crate::reader::Field;
use crate::schema::{Condition, Rule, Schema, integer, names, number, one_of, optional, string, table};
use gate::Limit;
use synthetic::Popularity;

/// What routing needs to know about everything else.
pub(crate) struct Context<'a> {
    pub(crate) files: &'a Files,
    pub(crate) seed: u64,
    pub(crate) ranks: u32,
    pub(crate) experts: u32,
    pub(crate) tokens_per_rank: u64,
    /// Experts that each token goes to.
    pub(crate) top_k: u32,
    pub(crate) place: Place,
}

impl Context<'_> {
    /// Token copies that each rank sends, its own included.
    fn copies_per_rank(&self) -> u64 {
        self.tokens_per_rank * u64::from(self.top_k)
    }
}

/// Where the token copies of all ranks go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Routed {
    /// Source rank x expert; every row sums to tokens x top-k.
    pub(crate) counts: Array2<u64>,
    /// The expert of each copy, by source rank, token and copy; `None` where routing gives counts only.
    chosen: Option<Vec<u32>>,
}

impl From<Array2<u64>> for Routed {
    fn from(counts: Array2<u64>) -> Self {
        Self { counts, chosen: None }
    }
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

impl Place {
    /// Layer and micro-batch, for streams of random numbers.
    fn numbers(self) -> [u64; 2] {
        match self {
            Self::Only => [0, 0],
            Self::Layer { layer, micro_batch } => [layer.into(), micro_batch.into()],
        }
    }
}

const SOURCES: &[&str] = &["matrix", "trace", "dirichlet", "zipf"];
const KEYS: &[&str] =
    &["matrix", "trace", "dirichlet", "zipf", "layer", "sharding", "step", "groups", "top_groups"];

/// Keys that select a record.
const SELECTION: &[&str] = &["layer", "sharding", "step"];

/// Keys that limit the choice of the gate.
const LIMIT: &[&str] = &["groups", "top_groups"];

/// The routing that needs no number.
const UNIFORM: &str = "uniform";
/// What one can write, for messages.
const ROUTINGS: [&str; 5] =
    [UNIFORM, "{ zipf = 0.8 }", "{ dirichlet = 16.0 }", "{ trace = \"F.csv\" }", "{ matrix = \"F.jsonl\" }"];

const CONCENTRATION_LIMITS: RangeInclusive<f64> = 0.001..=1e6;
const EXPONENT_LIMITS: RangeInclusive<f64> = 0.0..=10.0;

/// Reads who sends how many tokens to which expert.
pub(crate) fn read(field: &Field<'_>, context: &Context<'_>) -> Result<Routed> {
    if let Some(name) = field.as_string() {
        if name == UNIFORM {
            return Ok(synthetic::draw(Popularity::Uniform, context).into());
        }
        return Err(field.error(Problem::UnknownName {
            what: "routing",
            name: name.to_owned(),
            valid: ROUTINGS.map(str::to_owned).into(),
        }));
    }
    let table = field.table(KEYS)?;
    let (source, value) = table.one_of(SOURCES)?;
    let recorded_only = "it selects a record, and this routing is synthetic";
    if matches!(source, "matrix" | "trace") {
        for key in LIMIT {
            table.refuse(key, "a recording says what its gate chose")?;
        }
    }
    match source {
        "matrix" => Ok(recorded::matrix(&table, &value, context)?.into()),
        "trace" => {
            table.refuse("sharding", "the records of a trace are sums over all ranks")?;
            Ok(recorded::trace(&table, &value, context)?.into())
        }
        _ => {
            for key in SELECTION {
                table.refuse(key, recorded_only)?;
            }
            let popularity = match source {
                "dirichlet" => Popularity::Dirichlet { concentration: value.number(CONCENTRATION_LIMITS)? },
                _ => Popularity::Zipf { exponent: value.number(EXPONENT_LIMITS)? },
            };
            Ok(match Limit::read(&table, context)? {
                Some(limit) => gate::draw(popularity, limit, context),
                None => synthetic::draw(popularity, context).into(),
            })
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
        optional("groups", "groups of as many experts each, neighbours, of which a token reaches `top_groups`", integer(1..=EXPERT_LIMIT)),
        optional("top_groups", "groups that a token's experts are in, at most", integer(1..=EXPERT_LIMIT)),
    ];
    let table = table(KEYS, keys)
        .with_one_of(SOURCES)
        .when(Condition::Has("trace"), Rule::Refuses(&["sharding"]))
        .when(Condition::Has("trace"), Rule::Refuses(LIMIT))
        .when(Condition::Has("matrix"), Rule::Refuses(LIMIT))
        .when(Condition::Has("groups"), Rule::Needs(&["top_groups"]))
        .when(Condition::Has("top_groups"), Rule::Needs(&["groups"]))
        .when(Condition::Has("dirichlet"), Rule::Refuses(SELECTION))
        .when(Condition::Has("zipf"), Rule::Refuses(SELECTION));
    one_of([names([UNIFORM]), table])
}
