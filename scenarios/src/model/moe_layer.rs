//! The sizes of one mixture-of-experts layer.

use super::presets::{find, names as presets};
use super::read::Sizes;
use super::{EXPERT_LIMIT, HIDDEN_LIMIT, TOKEN_LIMIT, VALUE_BYTES};
use crate::error::Result;
use crate::problem::Problem;
use crate::reader::{BYTES_LIMIT, Field, Reader};
use crate::schema::{Condition, Rule, Schema, integer, names, one_of, optional, table};

/// One mixture-of-experts layer, as far as its All-to-Alls are concerned. Values are BF16.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Layer {
    pub(crate) experts: u32,
    /// Experts that each token goes to.
    pub(crate) top_k: u32,
    /// Values per token.
    pub(crate) hidden: u32,
    pub(crate) tokens_per_rank: u64,
}

/// Tokens per rank of a preset: sequence length 1024, micro-batch 1 (ZipCCL, sec. 6).
const PRESET_TOKENS: u64 = 1024;

const KEYS: &[&str] = &["preset", "experts", "top_k", "hidden", "tokens_per_rank"];

impl Layer {
    /// Reads a preset's name or a table.
    pub(crate) fn read(field: &Field<'_>) -> Result<Self> {
        if field.as_string().is_some() {
            return preset(field);
        }
        let table = field.table(KEYS)?;
        let preset = table.get("preset").map(|field| preset(&field)).transpose()?;
        let sizes = Sizes { table: &table };
        let tokens_per_rank = preset.map(|model| model.tokens_per_rank);
        let model = Self {
            experts: sizes.get("experts", "16", preset.map(|model| model.experts), 1..=EXPERT_LIMIT)?,
            top_k: sizes.get("top_k", "2", preset.map(|model| model.top_k), 1..=EXPERT_LIMIT)?,
            hidden: sizes.get("hidden", "4096", preset.map(|model| model.hidden), 1..=HIDDEN_LIMIT)?,
            tokens_per_rank: sizes.get("tokens_per_rank", "1024", tokens_per_rank, 1..=TOKEN_LIMIT)?,
        };
        model.check(field, &table)?;
        Ok(model)
    }

    /// What [`read`](Self::read) reads.
    pub(crate) fn schema() -> Schema {
        let preset = || names(presets(true));
        #[rustfmt::skip]
        let keys = [
            optional("preset", "published sizes, for the keys that are left out", preset()),
            optional("experts", "routed experts of the layer", integer(1..=EXPERT_LIMIT)),
            optional("top_k", "experts that each token goes to, at most all", integer(1..=EXPERT_LIMIT)),
            optional("hidden", "values per token", integer(1..=HIDDEN_LIMIT)),
            optional("tokens_per_rank", "tokens of each rank", integer(1..=TOKEN_LIMIT)),
        ];
        let sizes = Rule::Needs(&["experts", "top_k", "hidden", "tokens_per_rank"]);
        one_of([preset(), table(KEYS, keys).when(Condition::Lacks("preset"), sizes)])
    }

    /// Copies of tokens that each rank sends, its own experts included.
    pub(crate) fn copies_per_rank(&self) -> u64 {
        self.tokens_per_rank * u64::from(self.top_k)
    }

    /// Bytes of one token.
    pub(crate) fn token_bytes(&self) -> u64 {
        u64::from(self.hidden) * VALUE_BYTES
    }

    fn check(&self, field: &Field<'_>, table: &Reader<'_>) -> Result<()> {
        if self.top_k > self.experts {
            let blamed = table.get("top_k").or_else(|| table.get("experts"));
            let problem = Problem::TopK { top_k: self.top_k.into(), experts: self.experts.into() };
            return Err(blamed.as_ref().unwrap_or(field).error(problem));
        }
        let bytes = self.copies_per_rank().saturating_mul(self.token_bytes());
        if bytes > BYTES_LIMIT {
            let path = "bytes per rank and All-to-All".to_owned();
            let limits = "at most 1 TiB: tokens_per_rank x top_k x hidden x 2 bytes".to_owned();
            return Err(field.error(Problem::OutOfRange { path, value: bytes.to_string(), limits }));
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
