//! `auto`: the codec whose frame is the smallest, the quickest, or the first at the other end of a link.
//!
//! A sample of the values and a table of speeds say what each codec would take; the frame is that of the best one, so it is
//! read like any other. Neither depends on the machine nor on its SIMD level, so the same values give the same frame everywhere.
//!
//! It is no frame of its own, and it makes no codec faster: values that are all alike are better coded by the codec that
//! suits them, without a sample.

mod measured;
mod sample;

use std::sync::Arc;

use crate::blocks::MAX_ROW;
use crate::codec::{self, Checked, EncodeChecked};
use crate::options::{Choice, ROW_KEY, Value, Values};
use crate::raw::Raw;
use crate::sections::Body;
use crate::{Codec, DType, DecodeError, EncodeError, FrameShape, Layout, SpecError};
use measured::{CANDIDATES, Candidate};

const ID: &str = "auto";

/// The codec that is best for given values: all types. The frames are those of the chosen codec.
///
/// In the layout [`Layout::Compact`] the choice follows from a sample of the values; for [`Goal::Size`] all of them are coded by every codec, which takes as
/// long, and `planes` can be chosen, too. In [`Layout::Split`] lengths must be known
/// before the values are, so there it follows from type, goal and costs alone, as for typical values: callers that reserve room for
/// frames need a codec with the same goal and costs.
///
/// The specs are `auto`, `auto:goal=size`, `auto:goal=speed` and `auto:link=25 GB/s`.
///
/// ```
/// use zipwire_codec::{Auto, Codec, DType, FrameInfo, Goal, Layout};
///
/// let values: Vec<u8> = (0..20_000u16).flat_map(|i| (0x3c00 + i % 700).to_le_bytes()).collect();
/// let frame = |goal| Auto::new(goal).encode_to_vec(Layout::Compact, DType::Bf16, &values).unwrap();
/// let chosen = |goal| FrameInfo::peek(&frame(goal)).unwrap().codec;
/// assert_eq!(chosen(Goal::Size), "planes");
/// assert_eq!(chosen(Goal::Link { bytes_per_s: 1_000_000_000_000 }), chosen(Goal::Speed));
/// ```
#[derive(Clone, Debug)]
pub struct Auto {
    goal: Goal,
    /// Values of a row; 0 if that is not known.
    row: u32,
    /// The caller's speeds; none: those that were measured.
    costs: Option<Arc<Costs>>,
}

impl Auto {
    /// Minimises this, with rows of unknown length and measured speeds.
    pub const fn new(goal: Goal) -> Self {
        Self { goal, row: 0, costs: None }
    }

    /// How many values a row has, for codecs that make use of that, as the option `row` of specs. 0, or more than 16 777 216:
    /// that is not known.
    #[must_use]
    pub const fn row(mut self, values: u32) -> Self {
        self.row = if values <= MAX_ROW { values } else { 0 };
        self
    }

    /// Other speeds than those that were measured: of another machine, of a GPU. Codecs without a speed for the type are not
    /// chosen; if there is none at all, values are stored.
    #[must_use]
    pub fn costs(mut self, costs: Costs) -> Self {
        self.costs = Some(Arc::new(costs));
        self
    }

    /// Estimates of all codecs in the compact layout, the chosen one included, in the order in which equal ones are
    /// preferred. Empty if no codec has a speed.
    ///
    /// # Errors
    /// If the values are not whole.
    pub fn estimates(&self, dtype: DType, values: &[u8]) -> Result<Vec<Estimate>, EncodeError> {
        codec::shape_of(self, Layout::Compact, dtype, values)?;
        Ok(self.of_values(dtype, values).into_iter().map(|(_, estimate)| estimate).collect())
    }

    /// Cost that the goal minimises: bytes, or seconds.
    pub fn cost(&self, estimate: &Estimate) -> f64 {
        match self.goal {
            Goal::Size => estimate.bytes as f64,
            Goal::Speed => estimate.encode_s + estimate.decode_s,
            Goal::Link { .. } => estimate.encode_s + estimate.transfer_s + estimate.decode_s,
        }
    }

    /// The one of [`Self::estimates`] that is chosen: the first of the least cost. None of none.
    pub fn best<'a>(&self, estimates: &'a [Estimate]) -> Option<&'a Estimate> {
        estimates.iter().min_by(|a, b| self.cost(a).total_cmp(&self.cost(b)))
    }

    fn of_values(&self, dtype: DType, values: &[u8]) -> Vec<(&'static Candidate, Estimate)> {
        let sizes = match self.goal {
            Goal::Size => sample::all(dtype, values),
            Goal::Speed | Goal::Link { .. } => sample::sizes(dtype, values, self.row),
        };
        let count = values.len() / dtype.width();
        self.priced(FrameShape::new(Layout::Compact, dtype, count), sizes.class, |candidate, codec| {
            sizes.of(candidate, codec, dtype, count)
        })
    }

    /// Estimates of all candidates that have a speed, with these numbers of bytes.
    fn priced(
        &self,
        shape: FrameShape,
        class: Class,
        bytes: impl Fn(&'static Candidate, &dyn Codec) -> u64,
    ) -> Vec<(&'static Candidate, Estimate)> {
        let with_speed = self.candidates(shape).filter_map(|candidate| {
            let speed = match &self.costs {
                None => candidate.speed(shape.dtype, class),
                Some(costs) => costs.speed(candidate.id, shape.dtype, class),
            };
            Some((candidate, speed?))
        });
        let estimate = |(candidate, speed): (&'static Candidate, Speed)| {
            let codec = (candidate.build)(self.row);
            let bytes = bytes(candidate, codec.as_ref());
            let estimate = Estimate::new(candidate.id, bytes, shape.values_len() as u64, speed, self.goal);
            (candidate, estimate)
        };
        with_speed.map(estimate).collect()
    }

    /// Ids of the codecs that it chooses from, in one layout or another.
    pub(crate) fn ids(&self) -> impl Iterator<Item = &'static str> {
        self.all_in(Layout::Compact).map(|candidate| candidate.id)
    }

    /// Codecs that can be chosen for frames of this layout.
    fn all_in(&self, layout: Layout) -> impl Iterator<Item = &'static Candidate> + use<> {
        let is_exact = self.goal == Goal::Size && layout == Layout::Compact;
        CANDIDATES.iter().filter(move |candidate| is_exact || !candidate.for_size)
    }

    /// Codecs that can be chosen for frames of this layout and type.
    fn candidates(&self, shape: FrameShape) -> impl Iterator<Item = &'static Candidate> {
        self.all_in(shape.layout).filter(move |candidate| candidate.known(shape.dtype).is_some())
    }

    fn cheapest(&self, priced: &[(&'static Candidate, Estimate)]) -> Box<dyn Codec> {
        let best = priced.iter().min_by(|(_, a), (_, b)| self.cost(a).total_cmp(&self.cost(b)));
        best.map_or_else(|| Box::new(Raw) as Box<dyn Codec>, |(candidate, _)| (candidate.build)(self.row))
    }

    /// The codec of all frames in the split layout.
    fn in_split(&self, dtype: DType) -> Box<dyn Codec> {
        // So many that headers do not count.
        let shape = FrameShape::new(Layout::Split, dtype, 1 << 20);
        self.cheapest(&self.priced(shape, Class::Dense, |candidate, _| {
            let known = candidate.known(dtype).expect("candidates that do not know the type are left out");
            (known.split * shape.values_len() as f64) as u64
        }))
    }

    /// Lengths that `len` gives for every codec that can be chosen for this shape.
    fn lens(&self, shape: FrameShape, len: impl Fn(&dyn Codec) -> usize) -> Vec<usize> {
        match shape.layout {
            Layout::Split => vec![len(self.in_split(shape.dtype).as_ref())],
            Layout::Compact => {
                self.candidates(shape).map(|candidate| len((candidate.build)(self.row).as_ref())).collect()
            }
        }
    }
}

impl Default for Auto {
    /// The goal of the spec `auto`: a link of 1 GB/s.
    fn default() -> Self {
        Self::new(DEFAULT)
    }
}

/// See [`crate::registry::Of::decode`]. No frame leads here.
pub(crate) fn decode_nothing(_: &Body<'_>, _: &mut [u8]) -> Result<u32, DecodeError> {
    Err(DecodeError::UnknownCodec { tag: u8::MAX })
}

impl EncodeChecked for Auto {
    fn encode_checked(&self, frame: Checked<'_>) -> Result<usize, EncodeError> {
        let Checked { shape, values, static_out, dynamic_out } = frame;
        let FrameShape { layout, dtype, .. } = shape;
        let codec = match layout {
            Layout::Split => self.in_split(dtype),
            Layout::Compact => self.cheapest(&self.of_values(dtype, values)),
        };
        codec.encode(layout, dtype, values, static_out, dynamic_out)
    }
}

impl Codec for Auto {
    fn id(&self) -> &'static str {
        ID
    }

    fn id_in_split(&self, dtype: DType) -> &'static str {
        self.in_split(dtype).id()
    }

    fn supports(&self, _: DType) -> bool {
        // Values can be stored, whatever they are.
        true
    }

    fn static_len(&self, shape: FrameShape) -> usize {
        match shape.layout {
            Layout::Split => self.in_split(shape.dtype).static_len(shape),
            Layout::Compact => 0,
        }
    }

    fn bound(&self, shape: FrameShape) -> usize {
        self.lens(shape, |codec| codec.bound(shape)).into_iter().max().unwrap_or_else(|| Raw.bound(shape))
    }

    fn min_len(&self, shape: FrameShape) -> usize {
        self.lens(shape, |codec| codec.min_len(shape)).into_iter().min().unwrap_or_else(|| Raw.min_len(shape))
    }
}

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
const DEFAULT_LINK: u64 = 1_000_000_000;

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

/// See [`crate::registry::Of::build`].
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
        true => Err(SpecError::Alternatives { codec: ID, key: GOAL, other: LINK }),
        false => Ok(()),
    }
}

/// Share of zeros from which on values are [`Class::Sparse`], in percent.
pub const SPARSE_ZEROS_PCT: f64 = 25.0;

/// Kind of values: speeds are measured for each codec, type and class.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// Fewer than a quarter of the values are +0.
    Dense,
    /// A quarter or more: masks and blocks of zeros.
    Sparse,
}

impl Class {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Dense, Self::Sparse];

    /// The class of values with this percentage of +0.
    pub fn of_zeros_pct(zeros_pct: f64) -> Self {
        if zeros_pct >= SPARSE_ZEROS_PCT { Self::Sparse } else { Self::Dense }
    }

    /// Name in tables.
    pub fn name(self) -> &'static str {
        match self {
            Self::Dense => "dense",
            Self::Sparse => "sparse",
        }
    }
}

/// Speeds of one codec, in GB/s (10^9) of raw bytes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Speed {
    /// Speed of encoding.
    pub encode_gbps: f64,
    /// Speed of decoding.
    pub decode_gbps: f64,
}

/// Speeds that a caller gives instead of those that were measured.
///
/// ```
/// use zipwire_codec::{Auto, Class, Costs, DType, Goal, Speed};
///
/// let mut costs = Costs::default();
/// for (codec, gbps) in [("raw", 10.0), ("tiered", 8.0)] {
///     assert!(costs.set(codec, DType::Bf16, Class::Dense, Speed { encode_gbps: gbps, decode_gbps: gbps }));
/// }
/// let auto = Auto::new(Goal::Link { bytes_per_s: 1_000_000_000 }).costs(costs);
/// let estimates = auto.estimates(DType::Bf16, &[0; 4096])?;
/// assert_eq!(auto.best(&estimates).unwrap().codec, "tiered");
/// # Ok::<(), zipwire_codec::EncodeError>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Costs {
    rows: Vec<(&'static str, DType, Class, Speed)>,
}

impl Costs {
    /// Sets the speed of a codec; returns whether `auto` can choose it for this type at all, and the speed is one: positive and finite.
    pub fn set(&mut self, codec: &str, dtype: DType, class: Class, speed: Speed) -> bool {
        let is_speed = |gbps: f64| gbps.is_finite() && gbps > 0.0;
        let known = CANDIDATES.iter().find(|known| known.id == codec && known.known(dtype).is_some());
        let Some(known) = known.filter(|_| is_speed(speed.encode_gbps) && is_speed(speed.decode_gbps)) else {
            return false;
        };
        self.rows.retain(|row| (row.0, row.1, row.2) != (known.id, dtype, class));
        self.rows.push((known.id, dtype, class, speed));
        true
    }

    /// The speed of a candidate: for values of another class, if that is all that is known.
    fn speed(&self, candidate: &str, dtype: DType, class: Class) -> Option<Speed> {
        let of_type = || self.rows.iter().filter(|row| (row.0, row.1) == (candidate, dtype));
        of_type().find(|row| row.2 == class).or_else(|| of_type().next()).map(|row| row.3)
    }
}

/// Estimated size and times of one codec for given values.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Estimate {
    /// The codec, as in specs.
    pub codec: &'static str,
    /// Bytes of the frame.
    pub bytes: u64,
    /// Seconds of encoding.
    pub encode_s: f64,
    /// Seconds of the frame on the link; 0 if the goal has none.
    pub transfer_s: f64,
    /// Seconds of decoding.
    pub decode_s: f64,
}

impl Estimate {
    fn new(codec: &'static str, bytes: u64, raw_bytes: u64, speed: Speed, goal: Goal) -> Self {
        let at = |gbps: f64| raw_bytes as f64 / (gbps * 1e9);
        let transfer_s = match goal {
            Goal::Link { bytes_per_s } => bytes as f64 / bytes_per_s as f64,
            Goal::Size | Goal::Speed => 0.0,
        };
        let (encode_s, decode_s) = (at(speed.encode_gbps), at(speed.decode_gbps));
        Self { codec, bytes, encode_s, transfer_s, decode_s }
    }
}
