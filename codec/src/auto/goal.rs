//! Goals that the choice of a codec minimises, and their text in specs.

use crate::options::{Choice, ROW_KEY, Value, Values};
use crate::{Auto, Codec, SpecError};

/// Quantity that the choice of a codec minimises.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Goal {
    /// Bytes of the frame.
    Size,
    /// Encoding and decoding, whatever the size.
    Speed,
    /// Encoding, then sending the frame over a link of this speed, then decoding, one after the other.
    ///
    /// A single frame takes this sum, and so do the first and the last one of many. Where chunks are in flight that
    /// hide the codec behind the link, the longest of the three counts: there, [`Self::Size`] is the goal as long as the
    /// codec is faster than the link.
    Link {
        /// Speed of the link for one thread that encodes and one that decodes: of a link that several share, their part.
        bytes_per_s: u64,
    },
}

/// One core's part of a fast host: 400 Gb/s, or 50 GB/s, for 48 cores.
pub(crate) const DEFAULT_LINK: u64 = 1_000_000_000;

/// The goal of `auto`.
///
/// A link of [`DEFAULT_LINK`]: codecs are there to let values arrive early, and for that neither the smallest frame nor the
/// quickest one is right at every speed of a link.
pub(crate) const DEFAULT: Goal = Goal::Link { bytes_per_s: DEFAULT_LINK };

const GOAL: &str = "goal";
const LINK: &str = "link";

/// See [`crate::registry::Entry::options`].
#[rustfmt::skip]
pub(crate) const OPTIONS: &[Choice] = &[
    Choice { key: GOAL, values: Values::Names(&[LINK, "size", "speed"]) },
    Choice { key: LINK, values: Values::Speed(DEFAULT_LINK) },
    Choice { key: ROW_KEY, values: Values::UpTo(crate::blocks::MAX_ROW) },
];

/// See [`crate::registry::Entry::build`].
pub(crate) fn build(chosen: &[Value]) -> Box<dyn Codec> {
    Box::new(of(chosen))
}

/// The codec with these values of [`OPTIONS`].
pub(crate) fn of(chosen: &[Value]) -> Auto {
    let goal = match chosen[0].name() {
        "size" => Goal::Size,
        "speed" => Goal::Speed,
        _ => Goal::Link { bytes_per_s: chosen[1].speed() },
    };
    Auto::new(goal).row(chosen[2].number())
}

/// Refuses options of which one leaves nothing to say to the other.
pub(crate) fn check(options: Option<&str>) -> Result<(), SpecError> {
    let has = |key| {
        options
            .into_iter()
            .flat_map(|text| text.split(','))
            .any(|option| option.split('=').next() == Some(key))
    };
    match has(GOAL) && has(LINK) {
        true => Err(SpecError::Alternatives { codec: super::ID, key: GOAL, other: LINK }),
        false => Ok(()),
    }
}
