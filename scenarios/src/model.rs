//! `model`: the sizes of one mixture-of-experts layer.

use crate::error::Result;
use crate::problem::Problem;
use crate::reader::{BYTES_LIMIT, Field, Reader};
use crate::schema::{Condition, Rule, Schema, integer, names, one_of, optional, table};

/// One mixture-of-experts layer, as far as its All-to-Alls are concerned. Values are BF16.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Model {
    pub(crate) experts: u32,
    /// Experts that each token goes to.
    pub(crate) top_k: u32,
    /// Values per token.
    pub(crate) hidden: u32,
    pub(crate) tokens_per_rank: u64,
}

/// Bytes of a BF16 value.
const VALUE_BYTES: u64 = 2;
/// Most experts: counts are kept for each pair of rank and expert, 512 MiB at this size and the most ranks.
const EXPERT_LIMIT: u32 = 4096;
/// Most values per token.
const HIDDEN_LIMIT: u32 = 1 << 20;
/// Most tokens per rank.
const TOKEN_LIMIT: u64 = 1 << 24;
/// Tokens per rank of a preset: sequence length 1024, micro-batch 1 (ZipCCL, sec. 6).
const PRESET_TOKENS: u64 = 1024;

/// Published sizes: experts (routed ones), top-k, hidden.
const PRESETS: [(&str, u32, u32, u32); 3] =
    [("deepseek-v3", 256, 8, 7168), ("qwen3-235b-a22b", 128, 8, 4096), ("mixtral-8x7b", 8, 2, 4096)];

const KEYS: &[&str] = &["preset", "experts", "top_k", "hidden", "tokens_per_rank"];

impl Model {
    /// Reads a preset's name or a table.
    pub(crate) fn read(field: &Field<'_>) -> Result<Self> {
        if field.as_string().is_some() {
            return preset(field);
        }
        let table = field.table(KEYS)?;
        let preset = table.get("preset").map(|field| preset(&field)).transpose()?;
        let integer = |key, example: &str, default: Option<u64>, limit| match (table.get(key), default) {
            (None, Some(default)) => Ok(default),
            _ => table.need(key, example)?.integer(1..=limit),
        };
        let small = |key, example, default: Option<u32>, limit: u32| {
            let value = integer(key, example, default.map(u64::from), u64::from(limit))?;
            Ok(u32::try_from(value).expect("the limit fits"))
        };
        let model = Self {
            experts: small("experts", "16", preset.map(|model| model.experts), EXPERT_LIMIT)?,
            top_k: small("top_k", "2", preset.map(|model| model.top_k), EXPERT_LIMIT)?,
            hidden: small("hidden", "4096", preset.map(|model| model.hidden), HIDDEN_LIMIT)?,
            tokens_per_rank: integer(
                "tokens_per_rank",
                "1024",
                preset.map(|model| model.tokens_per_rank),
                TOKEN_LIMIT,
            )?,
        };
        model.check(field, &table)?;
        Ok(model)
    }

    /// What [`read`](Self::read) reads.
    pub(crate) fn schema() -> Schema {
        let preset = || names(PRESETS.map(|preset| preset.0));
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

fn preset(field: &Field<'_>) -> Result<Model> {
    let (_, experts, top_k, hidden) = field.choice("model", &PRESETS, |preset| preset.0)?;
    Ok(Model { experts, top_k, hidden, tokens_per_rank: PRESET_TOKENS })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn presets_send_what_zipccl_reports() {
        let megabytes = |name: &str| {
            let &(_, experts, top_k, hidden) = PRESETS.iter().find(|preset| preset.0 == name).unwrap();
            let model = Model { experts, top_k, hidden, tokens_per_rank: PRESET_TOKENS };
            model.copies_per_rank() as f64 * model.token_bytes() as f64 / 1e6
        };
        assert!((megabytes("deepseek-v3") - 117.4).abs() < 0.05);
        assert!((megabytes("qwen3-235b-a22b") - 67.1).abs() < 0.05);
    }
}
