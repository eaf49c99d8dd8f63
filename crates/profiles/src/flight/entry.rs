//! One entry of a dump, and the groups that it names.

use serde::Deserialize;
use serde_json::Value;

use crate::dtype::dtype_bytes;
use crate::op::CollectiveOp;
use crate::source::LONGEST_NS;
use crate::trace::{TraceGroup, TraceOp};

/// Entry of a dump, as far as it is read.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Entry {
    /// Name and description.
    pub(super) process_group: [String; 2],
    collective_seq_id: u64,
    p2p_seq_id: u64,
    pub(super) profiling_name: String,
    pub(super) time_created_ns: i64,
    pub(super) duration_ms: Option<f64>,
    input_sizes: Vec<Vec<u64>>,
    input_dtypes: Vec<String>,
    output_sizes: Vec<Vec<u64>>,
    output_dtypes: Vec<String>,
    pub(super) state: String,
    is_p2p: bool,
    /// Whether state and duration are those of the coalesced group that it is in.
    #[serde(skip)]
    pub(super) is_coalesced: bool,
}

impl Entry {
    /// Whether it stands for a coalesced group, whose calls have entries of their own in front of it.
    pub(super) fn is_end_of_coalesced(&self) -> bool {
        self.profiling_name.ends_with(":coalesced")
    }

    /// Number within the group, which all calls of a coalesced group have.
    pub(super) fn number(&self) -> ([String; 2], bool, u64) {
        let number = if self.is_p2p { self.p2p_seq_id } else { self.collective_seq_id };
        (self.process_group.clone(), self.is_p2p, number)
    }

    /// Duration of its kernel, if it was measured.
    pub(super) fn duration_ns(&self) -> Option<i64> {
        let ns = (self.duration_ms? * 1e6).round();
        (1.0..=LONGEST_NS as f64).contains(&ns).then_some(ns as i64)
    }

    /// The entry as a row, which begins when the CPU made the call and ends at once.
    pub(super) fn op(&self, op: CollectiveOp, group: usize, known: &TraceGroup) -> TraceOp {
        let bytes_in = bytes(&self.input_sizes, &self.input_dtypes);
        let bytes_out = bytes(&self.output_sizes, &self.output_dtypes);
        let (src, dst) = ends(&self.profiling_name).unzip();
        let named = |seat: Option<usize>| known.ranks.get(seat?).copied();
        let dtype = self.input_dtypes.first().or(self.output_dtypes.first());
        TraceOp {
            group,
            seq: (!op.is_between_two()).then_some(self.collective_seq_id),
            op,
            bytes_in,
            bytes_out,
            splits_in: Vec::new(),
            splits_out: Vec::new(),
            dtype: dtype.map(String::as_str).unwrap_or_default().into(),
            src: named(src),
            dst: named(dst),
            begin_ns: self.time_created_ns,
            end_ns: self.time_created_ns,
            // PyTorch has a stream for each group.
            stream: group as u64,
            coded_share: None,
        }
    }
}

/// Bytes of tensors of these sizes and types; none if there is no tensor, or a type is not known.
fn bytes(sizes: &[Vec<u64>], dtypes: &[String]) -> Option<u64> {
    if sizes.is_empty() || sizes.len() != dtypes.len() {
        return None;
    }
    sizes.iter().zip(dtypes).try_fold(0_u64, |sum, (size, dtype)| {
        let bytes = size.iter().try_fold(dtype_bytes(dtype)?, |bytes, extent| bytes.checked_mul(*extent))?;
        sum.checked_add(bytes)
    })
}

/// Sender and receiver, as ranks of the group, of `nccl:send 0->1` or `nccl:recv 1<-0`.
fn ends(name: &str) -> Option<(usize, usize)> {
    let (_, ends) = name.rsplit_once(' ')?;
    let parsed = |text: &str| text.trim().parse().ok();
    if let Some((src, dst)) = ends.split_once("->") {
        return Some((parsed(src)?, parsed(dst)?));
    }
    let (dst, src) = ends.split_once("<-")?;
    Some((parsed(src)?, parsed(dst)?))
}

/// Group of ranks, as `pg_config` has it.
#[derive(Debug)]
pub(super) struct GroupConfig {
    pub(super) name: String,
    pub(super) desc: String,
    pub(super) ranks: Vec<u32>,
}

/// Groups of `pg_config`, by name; ranks are a list in a text, or a list.
pub(super) fn group_configs(configs: &Value) -> Vec<GroupConfig> {
    let config = |(name, config): (&String, &Value)| {
        let ranks = match &config["ranks"] {
            Value::String(text) => serde_json::from_str(text).unwrap_or_default(),
            list => Vec::<u32>::deserialize(list).unwrap_or_default(),
        };
        let desc = config["desc"].as_str().unwrap_or_default().to_owned();
        GroupConfig { name: name.clone(), desc, ranks }
    };
    configs.as_object().into_iter().flatten().map(config).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_have_sender_and_receiver() {
        for (name, found) in [
            ("nccl:send 0->1", Some((0, 1))),
            ("nccl:recv 3<-0", Some((0, 3))),
            ("nccl:send 0->", None),
            ("nccl:all_reduce", None),
            ("", None),
        ] {
            assert_eq!(ends(name), found, "{name}");
        }
    }

    #[test]
    fn bytes_are_those_of_all_tensors() {
        let dtypes = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        assert_eq!(bytes(&[vec![3, 4], vec![]], &dtypes(&["Float", "Long"])), Some(56));
        assert_eq!(bytes(&[vec![3]], &dtypes(&["Int3"])), None);
        assert_eq!(bytes(&[vec![u64::MAX, 3]], &dtypes(&["Float"])), None);
        assert_eq!((bytes(&[], &[]), bytes(&[vec![1]], &[])), (None, None));
    }
}
