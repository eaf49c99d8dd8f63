//! The reader of a whole model: a preset's name, or a table with sizes.

use std::ops::RangeInclusive;

use super::presets::{find, names as presets};
use super::{Architecture, Attention, EXPERT_LIMIT, Experts, HIDDEN_LIMIT};
use crate::error::Result;
use crate::problem::Problem;
use crate::reader::{Field, Reader};
use crate::schema::{Condition, Rule, Schema, integer, names, one_of, optional, table};

/// What a workload needs of its model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Needs {
    /// A layer with experts.
    Experts,
    Nothing,
}

const KEYS: &[&str] = &[
    "preset",
    "layers",
    "dense_layers",
    "hidden",
    "heads",
    "kv_heads",
    "head_size",
    "intermediate",
    "experts",
    "top_k",
    "expert_intermediate",
    "shared_experts",
    "vocabulary",
];

/// Most layers.
const LAYER_LIMIT: u32 = 1024;
/// Most heads.
const HEAD_LIMIT: u32 = 4096;
/// Most values of a head.
const HEAD_SIZE_LIMIT: u32 = 1 << 16;
/// Largest inner size of an MLP or an expert.
const INTERMEDIATE_LIMIT: u32 = 1 << 22;
/// Most tokens that there are.
const VOCABULARY_LIMIT: u32 = 1 << 24;
/// Most parameters, 2^50: a thousand times those of the largest models, and sums of bytes fit 64 bits.
const PARAMETER_LIMIT: u128 = 1 << 50;

/// Reads a preset's name or a table.
pub(crate) fn read(field: &Field<'_>, needs: Needs) -> Result<Architecture> {
    if field.as_string().is_some() {
        return preset(field, needs);
    }
    let table = field.table(KEYS)?;
    let base = table.get("preset").map(|field| preset(&field, needs)).transpose()?;
    let base = base.as_ref();
    let sizes = Sizes { table: &table };
    let layers = sizes.get("layers", "4", base.map(|model| model.layers), 1..=LAYER_LIMIT)?;
    let hidden = sizes.get("hidden", "4096", base.map(|model| model.hidden), 1..=HIDDEN_LIMIT)?;
    let experts = sizes.experts(base.and_then(|model| model.experts.as_ref()), needs)?;
    let dense_layers = match experts {
        Some(_) => {
            let published = base.filter(|model| model.experts.is_some()).map(|model| model.dense_layers);
            sizes.get("dense_layers", "0", Some(published.unwrap_or(0)), 0..=LAYER_LIMIT)?
        }
        None => {
            table.refuse("dense_layers", "no layer of the model has experts")?;
            layers
        }
    };
    let published = base.map(|model| model.intermediate).filter(|&size| size > 0);
    let intermediate = if dense_layers > 0 {
        sizes.get("intermediate", "14336", published, 1..=INTERMEDIATE_LIMIT)?
    } else {
        table.refuse(
            "intermediate",
            "every layer of the model has experts; theirs is `expert_intermediate`",
        )?;
        0
    };
    let vocabulary = base.map_or(0, |model| model.vocabulary);
    let model = Architecture {
        layers,
        dense_layers,
        hidden,
        attention: sizes.attention(base.map(|model| &model.attention), hidden)?,
        intermediate,
        experts,
        vocabulary: sizes.get("vocabulary", "32000", Some(vocabulary), 0..=VOCABULARY_LIMIT)?,
    };
    check(&model, needs, field, &table)?;
    Ok(model)
}

/// What [`read`] reads.
pub(crate) fn schema(needs: Needs) -> Schema {
    let preset = || names(presets(needs == Needs::Experts));
    #[rustfmt::skip]
    let keys = [
        optional("preset", "published sizes, for the keys that are left out", preset()),
        optional("layers", "layers of the model", integer(1..=LAYER_LIMIT)),
        optional("dense_layers", "the first layers, which have an MLP instead of experts", integer(0..=LAYER_LIMIT)),
        optional("hidden", "values per token", integer(1..=HIDDEN_LIMIT)),
        optional("heads", "heads of attention", integer(1..=HEAD_LIMIT)),
        optional("kv_heads", "heads of keys and values; as many as `heads` by default", integer(1..=HEAD_LIMIT)),
        optional("head_size", "values of a head; `hidden` / `heads` by default", integer(1..=HEAD_SIZE_LIMIT)),
        optional("intermediate", "inner size of the MLP of a layer without experts", integer(1..=INTERMEDIATE_LIMIT)),
        optional("experts", "routed experts of a layer", integer(1..=EXPERT_LIMIT)),
        optional("top_k", "experts that each token goes to, at most all", integer(1..=EXPERT_LIMIT)),
        optional("expert_intermediate", "inner size of an expert", integer(1..=INTERMEDIATE_LIMIT)),
        optional("shared_experts", "experts besides, which every token goes to", integer(0..=EXPERT_LIMIT)),
        optional("vocabulary", "tokens that there are; 0 leaves embedding and head out", integer(0..=VOCABULARY_LIMIT)),
    ];
    let sizes = Rule::Needs(match needs {
        Needs::Experts => &["layers", "hidden", "heads", "experts", "top_k", "expert_intermediate"],
        Needs::Nothing => &["layers", "hidden", "heads"],
    });
    let explicit = |condition| Condition::All(vec![Condition::Lacks("preset"), condition]);
    let has_experts = || explicit(Condition::Has("experts"));
    let is_dense = || explicit(Condition::Lacks("experts"));
    let starts_dense = Condition::Is("dense_layers", integer(1..=LAYER_LIMIT));
    let all_experts = Condition::IsNot("dense_layers", integer(1..=LAYER_LIMIT));
    let all_experts = explicit(Condition::All(vec![Condition::Has("experts"), all_experts]));
    let table = table(KEYS, keys)
        .when(Condition::Lacks("preset"), sizes)
        .when(has_experts(), Rule::Needs(&["top_k", "expert_intermediate"]))
        .when(is_dense(), Rule::Needs(&["intermediate"]))
        .when(is_dense(), Rule::Refuses(&["dense_layers", "top_k", "expert_intermediate", "shared_experts"]))
        .when(explicit(starts_dense), Rule::Needs(&["intermediate"]))
        .when(all_experts, Rule::Refuses(&["intermediate"]));
    one_of([preset(), table])
}

fn preset(field: &Field<'_>, needs: Needs) -> Result<Architecture> {
    let known: Vec<&str> = presets(needs == Needs::Experts).collect();
    let name = field.choice("model", &known, |name| name)?;
    Ok(find(name).expect("the names are those of presets").clone())
}

/// A whole number of a width.
pub(super) trait Size: Sized {
    fn read(field: &Field<'_>, range: RangeInclusive<Self>) -> Result<Self>;
}

impl Size for u32 {
    fn read(field: &Field<'_>, range: RangeInclusive<Self>) -> Result<Self> {
        field.integer_u32(range)
    }
}

impl Size for u64 {
    fn read(field: &Field<'_>, range: RangeInclusive<Self>) -> Result<Self> {
        field.integer(range)
    }
}

/// Reads sizes that have defaults where a preset is named.
pub(super) struct Sizes<'a> {
    pub(super) table: &'a Reader<'a>,
}

impl Sizes<'_> {
    /// A size, or what it is by default.
    pub(super) fn get<N: Size>(
        &self,
        key: &'static str,
        example: &str,
        default: Option<N>,
        range: RangeInclusive<N>,
    ) -> Result<N> {
        match (self.table.get(key), default) {
            (None, Some(default)) => Ok(default),
            _ => N::read(&self.table.need(key, example)?, range),
        }
    }

    fn experts(&self, base: Option<&Experts>, needs: Needs) -> Result<Option<Experts>> {
        if base.is_none() && needs == Needs::Nothing && self.table.get("experts").is_none() {
            for key in ["top_k", "expert_intermediate", "shared_experts"] {
                self.table.refuse(key, "no layer of the model has `experts`")?;
            }
            return Ok(None);
        }
        Ok(Some(Experts {
            count: self.get("experts", "16", base.map(|experts| experts.count), 1..=EXPERT_LIMIT)?,
            top_k: self.get("top_k", "2", base.map(|experts| experts.top_k), 1..=EXPERT_LIMIT)?,
            intermediate: self.get(
                "expert_intermediate",
                "2048",
                base.map(|experts| experts.intermediate),
                1..=INTERMEDIATE_LIMIT,
            )?,
            shared: self.get(
                "shared_experts",
                "0",
                Some(base.map_or(0, |experts| experts.shared)),
                0..=EXPERT_LIMIT,
            )?,
        }))
    }

    fn attention(&self, base: Option<&Attention>, hidden: u32) -> Result<Attention> {
        let number = |default| self.get("heads", "32", default, 1..=HEAD_LIMIT);
        match base {
            Some(&Attention::Latent { heads, query_rank, kv_rank, head_size, rotary_size, value_size }) => {
                for key in ["kv_heads", "head_size"] {
                    self.table.refuse(key, "the latent attention of this preset has sizes of its own")?;
                }
                let heads = number(Some(heads))?;
                Ok(Attention::Latent { heads, query_rank, kv_rank, head_size, rotary_size, value_size })
            }
            Some(&Attention::Grouped { heads, kv_heads, head_size, has_norms }) => Ok(Attention::Grouped {
                heads: number(Some(heads))?,
                kv_heads: self.get("kv_heads", "8", Some(kv_heads), 1..=HEAD_LIMIT)?,
                head_size: self.get("head_size", "128", Some(head_size), 1..=HEAD_SIZE_LIMIT)?,
                has_norms,
            }),
            None => {
                let heads = number(None)?;
                let head_size = (hidden / heads).clamp(1, HEAD_SIZE_LIMIT);
                Ok(Attention::Grouped {
                    heads,
                    kv_heads: self.get("kv_heads", "8", Some(heads), 1..=HEAD_LIMIT)?,
                    head_size: self.get("head_size", "128", Some(head_size), 1..=HEAD_SIZE_LIMIT)?,
                    has_norms: false,
                })
            }
        }
    }
}

fn check(model: &Architecture, needs: Needs, field: &Field<'_>, table: &Reader<'_>) -> Result<()> {
    if let Some(Experts { count, top_k, .. }) = model.experts
        && top_k > count
    {
        let blamed = table.get("top_k").or_else(|| table.get("experts"));
        let problem = Problem::TopK { top_k: top_k.into(), experts: count.into() };
        return Err(blamed.as_ref().unwrap_or(field).error(problem));
    }
    let most = model.layers - u32::from(needs == Needs::Experts);
    if model.dense_layers > most {
        let blamed = table.get("dense_layers").or_else(|| table.get("layers"));
        let problem = Problem::OutOfRange {
            path: format!("{}.dense_layers", field.path),
            value: model.dense_layers.to_string(),
            limits: format!("at most {most}, with `layers = {}`", model.layers),
        };
        return Err(blamed.as_ref().unwrap_or(field).error(problem));
    }
    let parameters = model.parameters();
    if parameters > PARAMETER_LIMIT {
        let (path, value) = ("parameters of the model".to_owned(), parameters.to_string());
        let limits = "at most 2^50, 1.1 x 10^15".to_owned();
        return Err(field.error(Problem::OutOfRange { path, value, limits }));
    }
    Ok(())
}
