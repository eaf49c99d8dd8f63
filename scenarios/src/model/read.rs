//! The reader of a whole model: a preset's name, or a table with sizes; and the presets.

use super::{Architecture, Attention, EXPERT_LIMIT, Experts, HIDDEN_LIMIT};
use crate::error::Result;
use crate::language::Condition::{All, Fits, Has, Lacks, Misfits};
use crate::language::{
    AnyKey, Field, Key, Keys, Reader, Schema, custom, integer, keys, names, one_of, schema, table,
};
use crate::problem::Problem;

/// Part of a model that a workload needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Needs {
    /// A layer with experts.
    Experts,
    Nothing,
}

const LAYER_LIMIT: u32 = 1024;
const HEAD_LIMIT: u32 = 4096;
/// Most values of a head.
const HEAD_SIZE_LIMIT: u32 = 1 << 16;
/// Largest inner size of an MLP or an expert.
const INTERMEDIATE_LIMIT: u32 = 1 << 22;
/// Most tokens that there are.
const VOCABULARY_LIMIT: u32 = 1 << 24;
/// Most parameters, 2^50: a thousand times those of the largest models, and sums of bytes fit 64 bits.
const PARAMETER_LIMIT: u128 = 1 << 50;

keys! { static KEYS =
    layers: u32 = integer(1..=LAYER_LIMIT), "layers of the model", example = "4";
    dense_layers: u32 = integer(0..=LAYER_LIMIT), "the first layers, which have an MLP instead of experts";
    hidden: u32 = integer(1..=HIDDEN_LIMIT), "values per token", example = "4096";
    heads: u32 = integer(1..=HEAD_LIMIT), "heads of attention", example = "32";
    kv_heads: u32 = integer(1..=HEAD_LIMIT), "heads of keys and values; as many as `heads` by default";
    head_size: u32 = integer(1..=HEAD_SIZE_LIMIT), "values of a head; `hidden` / `heads` by default";
    intermediate: u32 = integer(1..=INTERMEDIATE_LIMIT), "inner size of the MLP of a layer without experts", example = "14336";
    experts: u32 = integer(1..=EXPERT_LIMIT), "routed experts of a layer", example = "16";
    top_k: u32 = integer(1..=EXPERT_LIMIT), "experts that each token goes to, at most all", example = "2";
    expert_intermediate: u32 = integer(1..=INTERMEDIATE_LIMIT), "inner size of an expert", example = "2048";
    shared_experts: u32 = integer(0..=EXPERT_LIMIT), "experts besides, which every token goes to";
    vocabulary: u32 = integer(0..=VOCABULARY_LIMIT), "tokens that there are; 0 leaves embedding and head out";
}

// Which presets there are depends on what the workload needs.
keys! { static PRESETS =
    of_all as "preset": Architecture = custom(|field| preset(field, Needs::Nothing), || names(presets(false))), PRESET;
    of_experts as "preset": Architecture = custom(|field| preset(field, Needs::Experts), || names(presets(true))), PRESET;
}
const PRESET: &str = "published sizes, for the keys that are left out";

const NO_EXPERTS: &str = "no layer of the model has `experts`";
const ALL_EXPERTS: &str = "every layer of the model has experts; theirs is `expert_intermediate`";

impl Needs {
    fn preset(self) -> &'static Key<Architecture> {
        match self {
            Self::Experts => PRESETS.of_experts,
            Self::Nothing => PRESETS.of_all,
        }
    }

    fn keys(self) -> Vec<&'static dyn AnyKey> {
        [&[self.preset() as &dyn AnyKey], KEYS.all].concat()
    }
}

pub(crate) fn read(field: &Field<'_>, needs: Needs) -> Result<Architecture> {
    if field.as_string().is_some() {
        return preset(field, needs);
    }
    let table = field.table(&needs.keys())?;
    let base = table.get(needs.preset())?;
    let base = base.as_ref();
    let layers = table.get_or(KEYS.layers, base.map(|model| model.layers))?;
    let hidden = table.get_or(KEYS.hidden, base.map(|model| model.hidden))?;
    let experts = experts(&table, base.and_then(|model| model.experts), needs)?;
    let dense_layers = match experts {
        Some(_) => {
            let published = base.filter(|model| model.experts.is_some()).map(|model| model.dense_layers);
            table.get_or(KEYS.dense_layers, Some(published.unwrap_or(0)))?
        }
        None => {
            table.refuse(KEYS.dense_layers, "no layer of the model has experts")?;
            layers
        }
    };
    let published = base.map(|model| model.intermediate).filter(|&size| size > 0);
    let intermediate = if dense_layers > 0 {
        table.get_or(KEYS.intermediate, published)?
    } else {
        table.refuse(KEYS.intermediate, ALL_EXPERTS)?;
        0
    };
    let model = Architecture {
        layers,
        dense_layers,
        hidden,
        attention: attention(&table, base.map(|model| &model.attention), hidden)?,
        intermediate,
        experts,
        vocabulary: table.get(KEYS.vocabulary)?.unwrap_or(base.map_or(0, |model| model.vocabulary)),
    };
    check(&model, needs, field, &table)?;
    Ok(model)
}

pub(crate) fn schema(needs: Needs) -> Schema {
    let explicit = |condition| All(vec![Lacks(needs.preset()), condition]);
    let dense = || schema::integer(1..=LAYER_LIMIT);
    let all_experts = All(vec![Has(KEYS.experts), Misfits(KEYS.dense_layers, dense())]);
    let sizes: Keys<'_> = &[KEYS.layers, KEYS.hidden, KEYS.heads];
    let of_experts: Keys<'_> = &[KEYS.experts, KEYS.top_k, KEYS.expert_intermediate];
    let sizes = if needs == Needs::Experts { [sizes, of_experts].concat() } else { sizes.to_vec() };
    let only_experts: Keys<'_> =
        &[KEYS.dense_layers, KEYS.top_k, KEYS.expert_intermediate, KEYS.shared_experts];
    let table = table(&needs.keys()).with(vec![
        Lacks(needs.preset()).needs(&sizes),
        explicit(Has(KEYS.experts)).needs(&of_experts[1..]),
        explicit(Lacks(KEYS.experts)).needs(&[KEYS.intermediate]),
        explicit(Lacks(KEYS.experts)).refuses(only_experts, NO_EXPERTS),
        explicit(Fits(KEYS.dense_layers, dense())).needs(&[KEYS.intermediate]),
        explicit(all_experts).refuses(&[KEYS.intermediate], ALL_EXPERTS),
    ]);
    one_of([names(presets(needs == Needs::Experts)), table])
}

fn preset(field: &Field<'_>, needs: Needs) -> Result<Architecture> {
    let known: Vec<&str> = presets(needs == Needs::Experts).collect();
    let name = field.choice("model", &known, |name| name)?;
    Ok(find(name).expect("the names are those of presets").clone())
}

/// The experts of a layer, if it has some; `base` are those of a preset.
fn experts(table: &Reader<'_>, base: Option<Experts>, needs: Needs) -> Result<Option<Experts>> {
    if base.is_none() && needs == Needs::Nothing && table.field(KEYS.experts).is_none() {
        let keys: Keys<'_> = &[KEYS.top_k, KEYS.expert_intermediate, KEYS.shared_experts];
        table.refuse_all(keys, NO_EXPERTS)?;
        return Ok(None);
    }
    Ok(Some(Experts {
        count: table.get_or(KEYS.experts, base.map(|experts| experts.count))?,
        top_k: table.get_or(KEYS.top_k, base.map(|experts| experts.top_k))?,
        intermediate: table.get_or(KEYS.expert_intermediate, base.map(|experts| experts.intermediate))?,
        shared: table.get(KEYS.shared_experts)?.unwrap_or(base.map_or(0, |experts| experts.shared)),
    }))
}

fn attention(table: &Reader<'_>, base: Option<&Attention>, hidden: u32) -> Result<Attention> {
    let (heads, kv_heads, head_size, has_norms) = match base {
        Some(&Attention::Latent { heads, query_rank, kv_rank, head_size, rotary_size, value_size }) => {
            let reason = "the latent attention of this preset has sizes of its own";
            table.refuse_all(&[KEYS.kv_heads, KEYS.head_size], reason)?;
            let heads = table.get_or(KEYS.heads, Some(heads))?;
            return Ok(Attention::Latent { heads, query_rank, kv_rank, head_size, rotary_size, value_size });
        }
        Some(&Attention::Grouped { heads, kv_heads, head_size, has_norms }) => {
            (table.get_or(KEYS.heads, Some(heads))?, kv_heads, head_size, has_norms)
        }
        None => {
            let heads = table.need(KEYS.heads)?;
            (heads, heads, (hidden / heads).clamp(1, HEAD_SIZE_LIMIT), false)
        }
    };
    let kv_heads = table.get(KEYS.kv_heads)?.unwrap_or(kv_heads);
    let head_size = table.get(KEYS.head_size)?.unwrap_or(head_size);
    Ok(Attention::Grouped { heads, kv_heads, head_size, has_norms })
}

fn check(model: &Architecture, needs: Needs, field: &Field<'_>, table: &Reader<'_>) -> Result<()> {
    if let Some(Experts { count, top_k, .. }) = model.experts
        && top_k > count
    {
        let blamed = table.field(KEYS.top_k).or_else(|| table.field(KEYS.experts));
        let problem = Problem::TopK { top_k: top_k.into(), experts: count.into() };
        return Err(blamed.as_ref().unwrap_or(field).error(problem));
    }
    let most = model.layers - u32::from(needs == Needs::Experts);
    if model.dense_layers > most {
        let blamed = table.field(KEYS.dense_layers).or_else(|| table.field(KEYS.layers));
        let (what, limits) = (
            format!("{}.{}", field.path, KEYS.dense_layers.name),
            format!("at most {most}, with `layers = {}`", model.layers),
        );
        let problem = Problem::out_of_range(what, model.dense_layers, limits);
        return Err(blamed.as_ref().unwrap_or(field).error(problem));
    }
    let parameters = model.parameters();
    if parameters > PARAMETER_LIMIT {
        let limits = "at most 2^50, 1.1 x 10^15";
        return Err(field.error(Problem::out_of_range("parameters of the model", parameters, limits)));
    }
    Ok(())
}

/// Names and sizes. Sources: the papers, and the `config.json` that its authors publish with each model.
///
/// - DeepSeek-V3: arXiv:2412.19437, sec. 4.2. Its multi-token prediction module is not part of it here.
/// - Qwen3-235B-A22B: arXiv:2505.09388, table 2.
/// - Qwen3-32B: arXiv:2505.09388, table 1.
/// - Mixtral 8x7B: arXiv:2401.04088, table 1.
/// - Llama 3 8B, 70B and 405B: arXiv:2407.21783, table 3; the vocabulary with its special tokens.
pub(super) const PUBLISHED: [(&str, Architecture); 7] = [
    (
        "deepseek-v3",
        Architecture {
            layers: 61,
            dense_layers: 3,
            hidden: 7168,
            attention: Attention::Latent {
                heads: 128,
                query_rank: 1536,
                kv_rank: 512,
                head_size: 128,
                rotary_size: 64,
                value_size: 128,
            },
            intermediate: 18432,
            experts: Some(Experts { count: 256, top_k: 8, intermediate: 2048, shared: 1 }),
            vocabulary: 129_280,
        },
    ),
    (
        "qwen3-235b-a22b",
        Architecture {
            layers: 94,
            dense_layers: 0,
            hidden: 4096,
            attention: Attention::Grouped { heads: 64, kv_heads: 4, head_size: 128, has_norms: true },
            intermediate: 0,
            experts: Some(Experts { count: 128, top_k: 8, intermediate: 1536, shared: 0 }),
            vocabulary: 151_936,
        },
    ),
    (
        "qwen3-32b",
        Architecture {
            layers: 64,
            dense_layers: 64,
            hidden: 5120,
            attention: Attention::Grouped { heads: 64, kv_heads: 8, head_size: 128, has_norms: true },
            intermediate: 25600,
            experts: None,
            vocabulary: 151_936,
        },
    ),
    (
        "mixtral-8x7b",
        Architecture {
            layers: 32,
            dense_layers: 0,
            hidden: 4096,
            attention: Attention::Grouped { heads: 32, kv_heads: 8, head_size: 128, has_norms: false },
            intermediate: 0,
            experts: Some(Experts { count: 8, top_k: 2, intermediate: 14336, shared: 0 }),
            vocabulary: 32_000,
        },
    ),
    (
        "llama3-8b",
        Architecture {
            layers: 32,
            dense_layers: 32,
            hidden: 4096,
            attention: Attention::Grouped { heads: 32, kv_heads: 8, head_size: 128, has_norms: false },
            intermediate: 14336,
            experts: None,
            vocabulary: 128_256,
        },
    ),
    (
        "llama3-70b",
        Architecture {
            layers: 80,
            dense_layers: 80,
            hidden: 8192,
            attention: Attention::Grouped { heads: 64, kv_heads: 8, head_size: 128, has_norms: false },
            intermediate: 28672,
            experts: None,
            vocabulary: 128_256,
        },
    ),
    (
        "llama3-405b",
        Architecture {
            layers: 126,
            dense_layers: 126,
            hidden: 16384,
            attention: Attention::Grouped { heads: 128, kv_heads: 8, head_size: 128, has_norms: false },
            intermediate: 53248,
            experts: None,
            vocabulary: 128_256,
        },
    ),
];

/// The names of those that have experts, or of all.
pub(super) fn presets(with_experts_only: bool) -> impl Iterator<Item = &'static str> + Clone {
    let fits = move |(_, model): &&(&str, Architecture)| model.experts.is_some() || !with_experts_only;
    PUBLISHED.iter().filter(fits).map(|(name, _)| *name)
}

/// The sizes of a name.
pub(super) fn find(name: &str) -> Option<&'static Architecture> {
    PUBLISHED.iter().find(|(known, _)| *known == name).map(|(_, model)| model)
}
