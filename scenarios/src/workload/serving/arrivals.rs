//! `arrivals` and `requests`: requests that are drawn, and requests that are listed.

use rand::Rng;
use rand_distr::{Distribution, Exp1};
use zipwire_payload::stream;
use zipwire_serving::{Request, Requests};

use super::TOKEN_LIMIT;
use crate::error::Result;
use crate::language::{
    Field, Raw, Rule, Schema, array, custom, integer, keys, number, one_of, rate, raw, schema, table, time,
};

pub(super) const REQUEST_LIMIT: u32 = 1 << 22;

keys! { static KEYS =
    poisson: f64 = rate(), "requests per second on average, at times that do not depend on one another", example = "\"2 /s\"";
    every: f64 = time(), "time between two requests, or two bursts of them", example = "\"100 ms\"";
    burst: u32 = integer(1..=REQUEST_LIMIT), "requests that arrive at the same time; 1 by default";
    requests: u32 = integer(1..=REQUEST_LIMIT), "how many requests there are", needed = "1000";
    input: Lengths = custom(Lengths::read, Lengths::schema), "tokens of a prompt: a number, or how they are drawn", needed = "4096";
    output: Lengths = custom(Lengths::read, Lengths::schema), "tokens of an answer, likewise", needed = "256";
}

keys! { static LENGTHS =
    exponential: f64 = number(1.0..=TOKEN_LIMIT as f64), "mean of exponentially distributed lengths";
    uniform: Raw = raw(|| array(schema::integer(1..=TOKEN_LIMIT)).exactly(2)), "the least and the greatest of lengths that are equally likely";
}

keys! { static REQUEST =
    at: f64 = time(), "when it arrives", needed = "\"0 s\"";
    input: u32 = integer(1..=TOKEN_LIMIT), "tokens of the prompt", needed = "4096";
    output: u32 = integer(1..=TOKEN_LIMIT), "tokens of the answer", needed = "256";
}

/// How long prompts or answers are.
#[derive(Clone, Copy, Debug)]
enum Lengths {
    Fixed(u32),
    Exponential(f64),
    Uniform(u32, u32),
}

impl Lengths {
    fn read(field: &Field<'_>) -> Result<Self> {
        let Ok(table) = field.table(LENGTHS.all) else {
            return Ok(Self::Fixed(field.integer_u32(1..=TOKEN_LIMIT)?));
        };
        table.check(&[Self::rule()])?;
        if let Some(mean) = table.get(LENGTHS.exponential)? {
            return Ok(Self::Exponential(mean));
        }
        let field = table.need_field(LENGTHS.uniform)?;
        let items = field.array()?;
        let [least, greatest] = items.as_slice() else {
            return Err(field.out_of_range(format!("{} numbers", items.len()), "two numbers"));
        };
        let (low, high) = (least.integer_u32(1..=TOKEN_LIMIT)?, greatest.integer_u32(1..=TOKEN_LIMIT)?);
        if low > high {
            return Err(greatest.out_of_range(high, format!("at least {low}, the first number")));
        }
        Ok(Self::Uniform(low, high))
    }

    fn schema() -> Schema {
        one_of([schema::integer(1..=TOKEN_LIMIT), table(LENGTHS.all).with(vec![Self::rule()])])
    }

    fn rule() -> Rule {
        Rule::one_of(LENGTHS.all)
    }

    fn draw(self, rng: &mut impl Rng) -> u32 {
        match self {
            Self::Fixed(tokens) => tokens,
            Self::Exponential(mean) => {
                let drawn: f64 = Exp1.sample(rng);
                // Rounded up: no length is zero.
                (drawn * mean).ceil().clamp(1.0, f64::from(TOKEN_LIMIT)) as u32
            }
            Self::Uniform(low, high) => {
                let choices = u64::from(high - low) + 1;
                // The upper half of a product: the bias is below 2^-40.
                low + ((u128::from(rng.next_u64()) * u128::from(choices)) >> 64) as u32
            }
        }
    }
}

fn rules() -> Vec<Rule> {
    vec![Rule::one_of(&[KEYS.poisson, KEYS.every])]
}

pub(super) fn schema() -> Schema {
    table(KEYS.all).with(rules())
}

/// Draws requests. Arrivals, prompts and answers have streams of their own, so that with another rate the same requests come.
pub(super) fn read(field: &Field<'_>, seed: u64) -> Result<Requests> {
    let table = field.table(KEYS.all)?;
    table.check(&rules())?;
    let (poisson, every_s) = (table.get(KEYS.poisson)?, table.get(KEYS.every)?);
    let burst = table.get(KEYS.burst)?.unwrap_or(1);
    let (input, output) = (table.need(KEYS.input)?, table.need(KEYS.output)?);
    let count = table.need(KEYS.requests)?;
    let [mut arrivals, mut inputs, mut outputs] = [0, 1, 2].map(|key| stream(seed, "requests", [key, 0, 0]));
    let mut now_s = 0.0;
    let request = |index: u32| {
        if index.is_multiple_of(burst) && (index > 0 || poisson.is_some()) {
            now_s += match poisson {
                Some(rate) => {
                    let drawn: f64 = Exp1.sample(&mut arrivals);
                    // The rate is that of requests, not of bursts.
                    drawn * f64::from(burst) / rate
                }
                None => every_s.unwrap_or(0.0),
            };
        }
        Request {
            arrival_s: now_s,
            input_tokens: input.draw(&mut inputs),
            output_tokens: output.draw(&mut outputs),
            prefix: Vec::new(),
        }
    };
    Ok(Requests::new((0..count).map(request).collect(), Requests::BLOCK_TOKENS))
}

pub(super) fn list_schema() -> Schema {
    array(table(REQUEST.all)).at_least(1)
}

pub(super) fn read_list(field: &Field<'_>) -> Result<Requests> {
    let items = field.tables(REQUEST_LIMIT as usize, "requests")?;
    if items.is_empty() {
        return Err(field.out_of_range("[]", "at least one request"));
    }
    let request = |item: &Field<'_>| {
        let table = item.table(REQUEST.all)?;
        Ok(Request {
            arrival_s: table.need(REQUEST.at)?,
            input_tokens: table.need(REQUEST.input)?,
            output_tokens: table.need(REQUEST.output)?,
            prefix: Vec::new(),
        })
    };
    let list = items.iter().map(request).collect::<Result<_>>()?;
    Ok(Requests::new(list, Requests::BLOCK_TOKENS))
}
