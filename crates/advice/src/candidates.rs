//! Ways of compression that are tried for each class of calls.

use std::collections::BTreeMap;

use toml::{Table, Value};
use zipwire_codec::{DType, FrameShape, Layout, Spec};

/// Way of compression: how values travel, and what codes them.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Candidate {
    /// Name for people: `size-first tiered`.
    pub(crate) name: String,
    pub(crate) protocol: &'static str,
    /// Codec, as scenarios have it.
    pub(crate) codec: Table,
    /// Whether its ratio follows from the values; otherwise the scenario says it.
    pub(crate) takes_share: bool,
}

/// Protocols in the order in which ties are settled: ZipCCL's two designs, and one message in place of two stages.
const PROTOCOLS: [&str; 3] = ["static-first", "size-first", "in-band"];

/// Codec near the speed of memory, for links that are faster than others can code.
const CODEC: &str = "tiered";

/// Bytes after compression over those before, where nobody has measured them: trained weights and gradients, by the tables of
/// docs/benchmarks/codec.md.
const TYPICAL_SHARES: [(DType, f64); 5] = [
    (DType::Bf16, 0.67),
    (DType::F16, 0.87),
    (DType::F32, 0.84),
    (DType::F8E4M3, 0.90),
    (DType::F8E5M2, 0.85),
];

/// All candidates; of a scenario with its codec, if it has one.
pub(crate) fn candidates(own: Option<&Table>) -> Vec<Candidate> {
    let of = |protocol: &&'static str| match own {
        Some(codec) => {
            Candidate { name: (*protocol).to_owned(), protocol, codec: codec.clone(), takes_share: false }
        }
        None => Candidate {
            name: format!("{protocol} {CODEC}"),
            protocol,
            codec: Table::from_iter([("id".to_owned(), CODEC.into())]),
            takes_share: true,
        },
    };
    PROTOCOLS.iter().map(of).collect()
}

impl Candidate {
    /// Codec, as specs spell it.
    pub(crate) fn id(&self) -> &str {
        self.codec.get("id").and_then(Value::as_str).unwrap_or(CODEC)
    }

    /// Variant of a scenario, with so many bytes after compression over those before, and at least so many.
    pub(crate) fn variant(&self, name: &str, share: f64, least: f64) -> Value {
        let mut codec = self.codec.clone();
        let stated = codec
            .get("ratio")
            .and_then(|ratio| ratio.as_float().or(ratio.as_integer().map(|own| own as f64)));
        // A ratio that a scenario states is for its values as a whole: single types may not reach it.
        let ratio =
            if self.takes_share { Some(1.0 / share) } else { stated.map(|ratio| ratio.min(1.0 / least)) };
        if let Some(ratio) = ratio {
            codec.insert("ratio".into(), Value::Float(ratio));
        }
        Table::from_iter([
            ("name".to_owned(), name.into()),
            ("protocol".to_owned(), self.protocol.into()),
            ("codec".to_owned(), codec.into()),
        ])
        .into()
    }
}

/// Bytes after compression over those before, of values of some types by their bytes: as measured, or else typical. And the types of which it is
/// assumed.
pub(crate) fn share_of(bytes: &BTreeMap<DType, u64>, measured: &BTreeMap<DType, f64>) -> (f64, Vec<DType>) {
    let mut assumed = Vec::new();
    let (mut before, mut after) = (0.0, 0.0);
    for (dtype, bytes) in bytes {
        let typical =
            || TYPICAL_SHARES.iter().find(|(known, _)| known == dtype).map_or(1.0, |(_, share)| *share);
        let share = measured.get(dtype).copied().unwrap_or_else(|| {
            assumed.push(*dtype);
            typical()
        });
        before += *bytes as f64;
        after += *bytes as f64 * share.max(least_share(CODEC, *dtype));
    }
    (if before > 0.0 { after / before } else { 1.0 }, assumed)
}

/// Part of a frame that no values make shorter.
pub(crate) fn least_share(codec: &str, dtype: DType) -> f64 {
    const VALUES: usize = 1 << 20;
    let codec = codec.parse::<Spec>().map(|spec| spec.codec());
    let codec = codec.ok().filter(|codec| codec.supports(dtype));
    let fixed = codec.map_or(0, |codec| codec.static_len(FrameShape::new(Layout::Split, dtype, VALUES)));
    fixed as f64 / (VALUES * dtype.width()) as f64 + 1e-3
}
