//! `routing`: how many token copies go from each source rank to each expert.

mod gate;
mod recorded;
mod synthetic;
pub(crate) mod tokens;

use std::ops::RangeInclusive;

use ndarray::Array2;

use crate::error::Result;
use crate::files::Files;
use crate::language::{
    Condition::Has, Field, Keys, Raw, Rule, Schema, choice, integer, keys, names, number, one_of, raw,
    string, table, text,
};
use crate::model::EXPERT_LIMIT;
use crate::placement;
use crate::problem::Problem;
use gate::Limit;
use synthetic::Popularity;
use tokens::Rows;

/// Inputs of routing from the rest of the scenario.
pub(crate) struct Context<'a> {
    pub(crate) files: &'a Files,
    pub(crate) seed: u64,
    pub(crate) ranks: u32,
    pub(crate) experts: u32,
    pub(crate) tokens_per_rank: u64,
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

/// The routing that needs no number.
const UNIFORM: &str = "uniform";
/// Forms of the key `routing`, for messages.
const ROUTINGS: [&str; 5] =
    [UNIFORM, "{ zipf = 0.8 }", "{ dirichlet = 16.0 }", "{ trace = \"F.csv\" }", "{ matrix = \"F.jsonl\" }"];

const CONCENTRATION_LIMITS: RangeInclusive<f64> = 0.001..=1e6;
const EXPONENT_LIMITS: RangeInclusive<f64> = 0.0..=10.0;

// Keys of workloads whose tokens go to experts.
keys! { pub(crate) static OF_EXPERTS =
    routing: Raw = raw(schema), "who sends how many tokens to which expert", needed = "\"uniform\"";
    experts: Raw = raw(|| table(placement::KEYS.all)), "on which ranks experts are; contiguous and none twice by default";
    tokens: Rows = choice("relation of rows", &Rows::ALL, Rows::name), "whether the copies of a token that dispatch sends are equal; `drawn`, they are not, by default";
}

keys! { static KEYS =
    matrix: Raw = raw(string), "a JSONL file of recorded source rank x expert matrices";
    trace: Raw = raw(string), "a CSV file of recorded tokens per expert";
    dirichlet: f64 = number(CONCENTRATION_LIMITS), "concentration of a symmetric Dirichlet distribution of popularity";
    zipf: f64 = number(EXPONENT_LIMITS), "exponent of Zipf popularity";
    layer: u32 = integer(0..=u32::MAX), "layer of the record";
    sharding: String = text(), "sharding of the record";
    step: u32 = integer(0..=u32::MAX), "step of the record";
    groups: u32 = integer(1..=EXPERT_LIMIT), "groups of as many experts each, neighbours, of which a token reaches `top_groups`", example = "8";
    top_groups: u32 = integer(1..=EXPERT_LIMIT), "groups that a token's experts are in, at most", example = "4";
}

fn rules() -> Vec<Rule> {
    let limit: Keys<'_> = &[KEYS.groups, KEYS.top_groups];
    let selection: Keys<'_> = &[KEYS.layer, KEYS.sharding, KEYS.step];
    let recorded = "a recording says what its gate chose";
    let synthetic = "it selects a record, and this routing is synthetic";
    vec![
        Rule::one_of(&[KEYS.matrix, KEYS.trace, KEYS.dirichlet, KEYS.zipf]),
        Has(KEYS.trace).refuses(&[KEYS.sharding], "the records of a trace are sums over all ranks"),
        Has(KEYS.trace).refuses(limit, recorded),
        Has(KEYS.matrix).refuses(limit, recorded),
        Has(KEYS.groups).needs(&[KEYS.top_groups]),
        Has(KEYS.top_groups).needs(&[KEYS.groups]),
        Has(KEYS.dirichlet).refuses(selection, synthetic),
        Has(KEYS.zipf).refuses(selection, synthetic),
    ]
}

/// Reads the tokens from each rank to each expert.
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
    let table = field.table(KEYS.all)?;
    table.check(&rules())?;
    if let Some(file) = table.field(KEYS.matrix) {
        return Ok(recorded::matrix(&table, &file, context)?.into());
    }
    if let Some(file) = table.field(KEYS.trace) {
        return Ok(recorded::trace(&table, &file, context)?.into());
    }
    let popularity = match table.get(KEYS.dirichlet)? {
        Some(concentration) => Popularity::Dirichlet { concentration },
        None => Popularity::Zipf { exponent: table.need(KEYS.zipf)? },
    };
    Ok(match Limit::read(&table, context)? {
        Some(limit) => gate::draw(popularity, limit, context),
        None => synthetic::draw(popularity, context).into(),
    })
}

pub(crate) fn schema() -> Schema {
    one_of([names([UNIFORM]), table(KEYS.all).with(rules())])
}
