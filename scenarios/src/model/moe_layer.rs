//! The sizes of one mixture-of-experts layer.

use super::read::{find, presets};
use super::{EXPERT_LIMIT, HIDDEN_LIMIT, TOKEN_LIMIT, VALUE_BYTES};
use crate::error::Result;
use crate::language::{
    BYTES_LIMIT, Condition, Field, Reader, Schema, custom, integer, keys, names, one_of, table,
};
use crate::problem::Problem;

/// One mixture-of-experts layer, as far as its All-to-Alls are concerned. Values are BF16.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Layer {
    pub(crate) experts: u32,
    pub(crate) top_k: u32,
    /// Values per token.
    pub(crate) hidden: u32,
    pub(crate) tokens_per_rank: u64,
}

/// Tokens per rank of a preset: sequence length 1024, micro-batch 1 (ZipCCL, sec. 6).
const PRESET_TOKENS: u64 = 1024;

keys! { static KEYS =
    preset: Layer = custom(preset, || names(presets(true))), "published sizes, for the keys that are left out";
    experts: u32 = integer(1..=EXPERT_LIMIT), "routed experts of the layer", example = "16";
    top_k: u32 = integer(1..=EXPERT_LIMIT), "experts that each token goes to, at most all", example = "2";
    hidden: u32 = integer(1..=HIDDEN_LIMIT), "values per token", example = "4096";
    tokens_per_rank: u64 = integer(1..=TOKEN_LIMIT), "tokens of each rank", example = "1024";
}

impl Layer {
    pub(crate) fn read(field: &Field<'_>) -> Result<Self> {
        if field.as_string().is_some() {
            return preset(field);
        }
        let table = field.table(KEYS.all)?;
        let preset = table.get(KEYS.preset)?;
        let model = Self {
            experts: table.get_or(KEYS.experts, preset.map(|model| model.experts))?,
            top_k: table.get_or(KEYS.top_k, preset.map(|model| model.top_k))?,
            hidden: table.get_or(KEYS.hidden, preset.map(|model| model.hidden))?,
            tokens_per_rank: table.get_or(KEYS.tokens_per_rank, preset.map(|model| model.tokens_per_rank))?,
        };
        model.check(field, &table)?;
        Ok(model)
    }

    pub(crate) fn schema() -> Schema {
        let sizes = [KEYS.experts as _, KEYS.top_k as _, KEYS.hidden as _, KEYS.tokens_per_rank as _];
        let table = table(KEYS.all).with(vec![Condition::Lacks(KEYS.preset).needs(&sizes)]);
        one_of([KEYS.preset.kind.schema(), table])
    }

    /// Copies of tokens that each rank sends, its own experts included.
    pub(crate) fn copies_per_rank(&self) -> u64 {
        self.tokens_per_rank * u64::from(self.top_k)
    }

    pub(crate) fn token_bytes(&self) -> u64 {
        u64::from(self.hidden) * VALUE_BYTES
    }

    fn check(&self, field: &Field<'_>, table: &Reader<'_>) -> Result<()> {
        if self.top_k > self.experts {
            let blamed = table.field(KEYS.top_k).or_else(|| table.field(KEYS.experts));
            let problem = Problem::TopK { top_k: self.top_k.into(), experts: self.experts.into() };
            return Err(blamed.as_ref().unwrap_or(field).error(problem));
        }
        let bytes = self.copies_per_rank().saturating_mul(self.token_bytes());
        if bytes > BYTES_LIMIT {
            let limits = "at most 1 TiB: tokens_per_rank x top_k x hidden x 2 bytes";
            return Err(field.error(Problem::out_of_range("bytes per rank and All-to-All", bytes, limits)));
        }
        Ok(())
    }
}

fn preset(field: &Field<'_>) -> Result<Layer> {
    let known: Vec<&str> = presets(true).collect();
    let name = field.choice("model", &known, |name| name)?;
    Ok(published(name).expect("the names are those of presets with experts"))
}

/// One of the layers with experts of a preset.
fn published(name: &str) -> Option<Layer> {
    let model = find(name)?;
    let experts = model.experts?;
    let (experts, top_k) = (experts.count, experts.top_k);
    Some(Layer { experts, top_k, hidden: model.hidden, tokens_per_rank: PRESET_TOKENS })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn presets_send_what_zipccl_reports() {
        let megabytes = |name: &str| {
            let model = published(name).unwrap();
            model.copies_per_rank() as f64 * model.token_bytes() as f64 / 1e6
        };
        assert!((megabytes("deepseek-v3") - 117.4).abs() < 0.05);
        assert!((megabytes("qwen3-235b-a22b") - 67.1).abs() < 0.05);
    }
}
