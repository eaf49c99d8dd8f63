//! Arguments of a call of a collective, as PyTorch records them.

use super::event::{string, whole};
use crate::dtype::dtype_bytes;
use crate::scan::members;

/// Ranks or splits of one call at the most.
const MOST_PARTS: usize = 1 << 20;

/// Arguments of one call; those that are not there are none or empty.
#[derive(Clone, Debug, Default)]
pub(super) struct CallArgs {
    pub(super) name: Option<String>,
    pub(super) elements_in: Option<u64>,
    pub(super) elements_out: Option<u64>,
    pub(super) dtype: String,
    pub(super) splits_in: Vec<u64>,
    pub(super) splits_out: Vec<u64>,
    pub(super) group: String,
    pub(super) description: String,
    pub(super) group_size: Option<u32>,
    /// All ranks of the group, or none: long lists are cut short in traces.
    pub(super) ranks: Vec<u32>,
    pub(super) src: Option<u32>,
    pub(super) dst: Option<u32>,
    pub(super) seq: Option<u64>,
    pub(super) rank: Option<u32>,
    pub(super) device: Option<u64>,
    pub(super) stream: Option<u64>,
    pub(super) external_id: Option<u64>,
}

impl CallArgs {
    /// Reads what is known of the arguments; what has another form than it should is as if it were not there.
    pub(super) fn of(text: &[u8]) -> Result<Self, ()> {
        let mut args = Self::default();
        let owned = |value| string(value).0.into_owned();
        let small = |value| whole(value).and_then(|value| u32::try_from(value).ok());
        for member in members(text) {
            let (key, value) = member?;
            match key {
                b"Collective name" => args.name = Some(owned(value)),
                b"In msg nelems" => args.elements_in = whole(value),
                b"Out msg nelems" => args.elements_out = whole(value),
                b"dtype" => args.dtype = owned(value),
                b"In split size" => args.splits_in = numbers(&owned(value)),
                b"Out split size" => args.splits_out = numbers(&owned(value)),
                b"Process Group Name" => args.group = owned(value),
                b"Process Group Description" => args.description = owned(value),
                b"Process Group Ranks" => {
                    let ranks = numbers(&owned(value)).into_iter().map(u32::try_from);
                    args.ranks = ranks.collect::<Result<_, _>>().unwrap_or_default();
                }
                b"Group size" => args.group_size = small(value).filter(|ranks| *ranks > 0),
                b"Src Rank" => args.src = small(value),
                b"Dst Rank" => args.dst = small(value),
                b"Seq" => args.seq = whole(value),
                b"Rank" => args.rank = small(value),
                b"device" => args.device = whole(value),
                b"stream" => args.stream = whole(value),
                b"External id" | b"external id" => args.external_id = whole(value),
                _ => {}
            }
        }
        Ok(args)
    }

    /// Bytes of so many values, if the type is known.
    pub(super) fn bytes(&self, elements: Option<u64>) -> Option<u64> {
        elements?.checked_mul(dtype_bytes(&self.dtype)?)
    }
}

/// Numbers of `[1, 2]`; none if it is cut short, as `[1, 2, ...]`.
fn numbers(text: &str) -> Vec<u64> {
    let Some(inner) = text.trim().strip_prefix('[').and_then(|text| text.strip_suffix(']')) else {
        return Vec::new();
    };
    let numbers = inner.split(',').take(MOST_PARTS).map(|number| number.trim().parse());
    numbers.collect::<Result<_, _>>().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_whole_or_nothing() {
        assert_eq!(numbers("[0, 1]"), [0, 1]);
        assert_eq!(numbers("[7]"), [7]);
        for text in ["[]", "[0, 1, ...]", "", "0, 1", "[a]"] {
            assert!(numbers(text).is_empty(), "{text}");
        }
    }

    #[test]
    fn arguments_that_are_no_json_number_do_no_harm() {
        let args =
            CallArgs::of(br#"{"blocks per SM": inf, "Seq": 12, "In msg nelems": -1, "dtype": "Half"}"#);
        let args = args.unwrap();
        assert_eq!((args.seq, args.elements_in, args.bytes(Some(3))), (Some(12), None, Some(6)));
    }
}
