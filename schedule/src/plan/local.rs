//! Ops that a rank carries out by itself, on bytes of its own memory.

use std::fmt;
use std::sync::Arc;

use zipwire_cluster::Group;
use zipwire_codec::{DType, Layout};

use super::{Chunk, Effects, Region, Values};
use crate::{SizeId, Sum};

/// Work of a rank on its own bytes. All of it is on the codec's lane.
#[derive(Clone, Debug, PartialEq)]
pub enum Local {
    /// Writes the signs and mantissas of blocks that travel apart from their frames.
    Split(Batch),
    /// Encodes blocks into frames and defines the sizes of their dynamic sections.
    Encode(Batch),
    /// Decodes frames into blocks.
    Decode(Batch),
    /// Puts rows of received chunks together to others.
    GatherRows(GatherRows),
    /// Adds up values.
    Reduce(Reduce),
}

/// A [`Local`] without what it works on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
pub enum LocalKind {
    /// [`Local::Split`].
    Split,
    /// [`Local::Encode`].
    Encode,
    /// [`Local::Decode`].
    Decode,
    /// [`Local::GatherRows`].
    GatherRows,
    /// [`Local::Reduce`].
    Reduce,
}

impl Local {
    /// Which one it is.
    pub fn kind(&self) -> LocalKind {
        match self {
            Self::Split(_) => LocalKind::Split,
            Self::Encode(_) => LocalKind::Encode,
            Self::Decode(_) => LocalKind::Decode,
            Self::GatherRows(_) => LocalKind::GatherRows,
            Self::Reduce(_) => LocalKind::Reduce,
        }
    }

    /// Bytes that its duration is proportional to: of values that are coded, of rows that are written, of terms that are read.
    pub fn bytes(&self) -> u64 {
        match self {
            Self::Split(batch) | Self::Encode(batch) | Self::Decode(batch) => batch.bytes_raw(),
            Self::GatherRows(rows) => rows.bytes(),
            Self::Reduce(reduce) => reduce.bytes_read(),
        }
    }

    /// The same by ranks of a group, whose positions its ranks are.
    pub(super) fn within(mut self, group: &Group) -> Self {
        match &mut self {
            Self::Split(batch) | Self::Encode(batch) | Self::Decode(batch) => {
                batch.blocks.iter_mut().for_each(|block| block.chunk = block.chunk.within(group));
            }
            Self::GatherRows(rows) => {
                rows.gathers.iter_mut().for_each(|gather| gather.chunk = gather.chunk.within(group));
            }
            Self::Reduce(reduce) => {
                for addition in &mut reduce.additions {
                    addition.chunk = addition.chunk.within(group);
                    addition.terms.iter_mut().for_each(|term| term.chunk = term.chunk.within(group));
                }
            }
        }
        self
    }

    /// The blocks, if it codes some.
    pub fn batch(&self) -> Option<&Batch> {
        match self {
            Self::Split(batch) | Self::Encode(batch) | Self::Decode(batch) => Some(batch),
            Self::GatherRows(_) | Self::Reduce(_) => None,
        }
    }

    /// The blocks, if their frames are whole before or after it: if it encodes or decodes them.
    pub fn framed(&self) -> Option<&Batch> {
        match self {
            Self::Encode(batch) | Self::Decode(batch) => Some(batch),
            Self::Split(_) | Self::GatherRows(_) | Self::Reduce(_) => None,
        }
    }

    /// Whether it has a launch of its own: sums that the kernel of an exchange adds up have none.
    pub fn is_launched(&self) -> bool {
        !matches!(self, Self::Reduce(Reduce { fused: true, .. }))
    }

    pub(super) fn is_idle(&self) -> bool {
        match self {
            Self::Split(batch) | Self::Encode(batch) | Self::Decode(batch) => batch.blocks.is_empty(),
            Self::GatherRows(rows) => rows.gathers.is_empty(),
            Self::Reduce(reduce) => reduce.additions.is_empty(),
        }
    }

    /// Defect of the op by itself, whatever else is in its plan: the end of "op `%3` of rank 1 ..".
    pub(crate) fn defect(&self) -> Option<&'static str> {
        let (is_fine, defect) = match self {
            Self::Split(batch) | Self::Encode(batch) | Self::Decode(batch) => (
                batch.is_in_order(),
                "has a frame whose signs and mantissas, static and dynamic section are not in this order",
            ),
            Self::GatherRows(rows) => (
                rows.gathers.iter().all(Gather::has_its_rows),
                "gathers rows that its source does not have, or has no room for them",
            ),
            Self::Reduce(reduce) => (
                reduce.additions.iter().all(Addition::is_sum),
                "does not add up what its sum says, in that order and of that length",
            ),
        };
        (!is_fine).then_some(defect)
    }

    /// Writes the words that follow the op's name in a plan's text.
    pub(crate) fn write_head(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Split(batch) | Self::Encode(batch) | Self::Decode(batch) => {
                write!(f, " {} {}", batch.layout.name(), batch.dtype.name())
            }
            Self::Reduce(reduce) if reduce.fused => write!(f, ", fused"),
            Self::Reduce(_) | Self::GatherRows(_) => Ok(()),
        }
    }

    /// Writes the lines below the op in a plan's text.
    pub(crate) fn write_body(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Split(batch) => batch.write_split(f),
            Self::Encode(batch) => batch.write_encode(f),
            Self::Decode(batch) => batch.write_decode(f),
            Self::GatherRows(rows) => rows.gathers.iter().try_for_each(|gather| gather.write_body(f)),
            Self::Reduce(reduce) => reduce.write_body(f),
        }
    }

    pub(super) fn effects(&self) -> Effects {
        match self {
            Self::Split(batch) => batch.split_effects(),
            Self::Encode(batch) => batch.encode_effects(),
            Self::Decode(batch) => batch.decode_effects(),
            Self::GatherRows(rows) => rows.effects(),
            Self::Reduce(reduce) => reduce.effects(),
        }
    }

    pub(super) fn values(&self) -> Values {
        match self {
            Self::Split(batch) | Self::Encode(batch) => Values { takes: batch.values(), ..Values::default() },
            Self::Decode(batch) => Values { delivers: batch.values(), ..Values::default() },
            Self::GatherRows(rows) => {
                let made = rows.gathers.iter().map(|gather| (gather.chunk, gather.to));
                Values { delivers: made.collect(), ..Values::default() }
            }
            Self::Reduce(reduce) => reduce.values(),
        }
    }
}

impl LocalKind {
    /// Low-cardinality name, for timelines and texts.
    pub fn name(self) -> &'static str {
        match self {
            Self::Split => "split",
            Self::Encode => "encode",
            Self::Decode => "decode",
            Self::GatherRows => "gather-rows",
            Self::Reduce => "reduce",
        }
    }
}

/// One gather of rows: a kernel of the device that the codec runs on.
#[derive(Clone, Debug, PartialEq)]
pub struct GatherRows {
    /// Chunks that it makes.
    pub gathers: Vec<Gather>,
}

/// A chunk that is made of rows of another.
#[derive(Clone, Debug, PartialEq)]
pub struct Gather {
    /// Chunk that is made.
    pub chunk: Chunk,
    /// The rows to choose from.
    pub from: Region,
    /// The rows that are chosen.
    pub to: Region,
    /// For each row of [`Self::to`] its position in [`Self::from`].
    pub rows: Arc<[u32]>,
    /// Bytes of a row.
    pub row_bytes: u64,
}

impl GatherRows {
    /// Bytes that it writes.
    pub fn bytes(&self) -> u64 {
        self.gathers.iter().map(|gather| gather.to.len).sum()
    }

    pub(super) fn effects(&self) -> Effects {
        Effects {
            reads: self.gathers.iter().map(|gather| gather.from).collect(),
            writes: self.gathers.iter().map(|gather| gather.to).collect(),
            ..Effects::default()
        }
    }
}

impl Gather {
    /// Rows as runs of consecutive ones.
    pub(super) fn write_body(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { chunk, from, to, rows, row_bytes } = self;
        let destination = chunk.destination.map_or_else(|| "all".to_owned(), |rank| rank.to_string());
        write!(f, "    of {} for {destination} to {to}: rows of {row_bytes} bytes of {from}", chunk.origin)?;
        let mut left = &rows[..];
        while let Some(&first) = left.first() {
            let run = (0..).zip(left).take_while(|&(step, &row)| row == first + step).count();
            left = &left[run..];
            match run {
                1 => write!(f, " {first}")?,
                _ => write!(f, " {first}+{run}")?,
            }
        }
        chunk.write_part(f)?;
        writeln!(f)
    }

    /// Whether it reads rows of its source, and as many as there is room for.
    pub(super) fn has_its_rows(&self) -> bool {
        let Self { from, to, rows, row_bytes, .. } = self;
        let is_inside = |&row: &u32| (u64::from(row) + 1) * row_bytes <= from.len;
        *row_bytes > 0 && to.len == rows.len() as u64 * row_bytes && rows.iter().all(is_inside)
    }
}

/// The sums of one call, each added up in FP32 and in the order of its terms.
#[derive(Clone, Debug, PartialEq)]
pub struct Reduce {
    /// Sums; none reads a region that another one writes.
    pub additions: Vec<Addition>,
    /// Whether the kernel adds up that moves the terms: then it has no launch of its own.
    pub fused: bool,
}

/// One sum.
#[derive(Clone, Debug, PartialEq)]
pub struct Addition {
    /// Terms, in order; at least one.
    pub terms: Vec<Term>,
    /// Chunk that the sum is.
    pub chunk: Chunk,
    /// Where it goes: as many values as each term has, of the type that the chunk's sum says.
    pub values: Region,
}

/// Values that are added to others. Their type is in the chunk's sum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Term {
    /// Chunk that the values are.
    pub chunk: Chunk,
    /// The values.
    pub values: Region,
}

impl Reduce {
    /// Bytes that are read: what the cost of a sum is proportional to.
    pub fn bytes_read(&self) -> u64 {
        self.terms().map(|term| term.values.len).sum()
    }

    pub(super) fn effects(&self) -> Effects {
        Effects {
            reads: self.terms().map(|term| term.values).collect(),
            writes: self.additions.iter().map(|addition| addition.values).collect(),
            ..Effects::default()
        }
    }

    fn values(&self) -> Values {
        Values {
            takes: self.terms().map(|term| (term.chunk, term.values)).collect(),
            sums: self.additions.iter().map(|addition| (addition.chunk, addition.values)).collect(),
            ..Values::default()
        }
    }

    fn terms(&self) -> impl Iterator<Item = &Term> {
        self.additions.iter().flat_map(|addition| &addition.terms)
    }

    pub(super) fn write_body(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for Addition { terms, chunk, values } in &self.additions {
            write!(f, "    {values}")?;
            for (index, term) in terms.iter().enumerate() {
                write!(f, " {} {}", if index == 0 { '=' } else { '+' }, term.values)?;
            }
            chunk.write_part(f)?;
            chunk.write_sum(f)?;
            writeln!(f)?;
        }
        Ok(())
    }
}

impl Addition {
    pub(crate) fn as_term(&self) -> Term {
        Term { chunk: self.chunk, values: self.values }
    }

    /// Whether the terms are what the sum says, for the same shard, and as many values each.
    pub(super) fn is_sum(&self) -> bool {
        let Self { terms, chunk, values } = self;
        let count = |chunk: &Chunk, values: &Region| Some(values.len / chunk.sum?.dtype().width() as u64);
        let fits = |term: &Term| {
            (term.chunk.shard(), term.chunk.part, term.chunk.flow) == (chunk.shard(), chunk.part, chunk.flow)
                && count(&term.chunk, &term.values) == count(chunk, values)
        };
        let sums: Option<Vec<Sum>> = terms.iter().map(|term| term.chunk.sum).collect();
        let is_of = chunk.sum.zip(sums).is_some_and(|(sum, terms)| sum.is_of(&terms));
        is_of && terms.iter().all(fits)
    }
}

/// The blocks of one split, encode or decode call.
#[derive(Clone, Debug, PartialEq)]
pub struct Batch {
    /// Layout of the frames.
    pub layout: Layout,
    /// Type of the values.
    pub dtype: DType,
    /// One block per chunk: an encode's own, a decode's from others.
    pub blocks: Vec<Block>,
}

/// A chunk of values and its frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Block {
    /// The chunk.
    pub chunk: Chunk,
    /// The values, in full.
    pub values: Region,
    /// Region of the signs and mantissas when they are sent apart from the frame, a byte per value; empty otherwise.
    pub sign_mantissa: Region,
    /// The static section of the frame, in full but for signs and mantissas that travel by themselves; empty in the `compact` layout.
    pub static_section: Region,
    /// Capacity of the dynamic section.
    pub dynamic_section: Region,
    /// Live bytes of the dynamic section: defined by encode, read by decode.
    pub size: SizeId,
    /// Blocks like it that it stands for, itself among them: 1, but where ranks stand for others.
    pub times: u32,
}

impl Block {
    /// Bytes whose number is known before anything is coded: signs and mantissas that travel by themselves, and the static section.
    /// Together they are the static section of a whole frame.
    pub fn known_len(&self) -> u64 {
        self.sign_mantissa.len + self.static_section.len
    }
}

impl Batch {
    /// Raw bytes of all blocks.
    pub fn bytes_raw(&self) -> u64 {
        self.blocks.iter().map(|block| block.values.len * u64::from(block.times)).sum()
    }

    /// Whether signs and mantissas are apart from its frames: from all or from none, because codec and type say so.
    pub fn is_apart(&self) -> bool {
        self.blocks.iter().any(|block| block.sign_mantissa.len > 0)
    }

    pub(super) fn split_effects(&self) -> Effects {
        Effects { writes: self.sign_mantissa().collect(), ..self.sender_effects() }
    }

    pub(super) fn encode_effects(&self) -> Effects {
        let defines = self.blocks.iter().map(|block| block.size).collect();
        Effects { writes: self.frames().collect(), defines, ..self.sender_effects() }
    }

    pub(super) fn decode_effects(&self) -> Effects {
        Effects {
            reads: self.sign_mantissa().chain(self.frames()).collect(),
            writes: self.blocks.iter().map(|block| block.values).collect(),
            uses: self.blocks.iter().map(|block| block.size).collect(),
            peers: self.blocks.iter().map(|block| block.chunk.origin).collect(),
            ..Effects::default()
        }
    }

    fn sender_effects(&self) -> Effects {
        Effects {
            reads: self.blocks.iter().map(|block| block.values).collect(),
            peers: self.blocks.iter().filter_map(|block| block.chunk.destination).collect(),
            ..Effects::default()
        }
    }

    fn values(&self) -> Vec<(Chunk, Region)> {
        self.blocks.iter().map(|block| (block.chunk, block.values)).collect()
    }

    /// Whether the sections of all frames, and the signs and mantissas in front of them, follow one another in their buffer.
    pub(super) fn is_in_order(&self) -> bool {
        let in_front =
            |first: &Region, second: &Region| first.buffer == second.buffer && first.end() <= second.offset;
        self.blocks.iter().all(|Block { sign_mantissa, static_section, dynamic_section, .. }| {
            in_front(sign_mantissa, static_section) && in_front(static_section, dynamic_section)
        })
    }

    fn sign_mantissa(&self) -> impl Iterator<Item = Region> + '_ {
        self.blocks.iter().map(|block| block.sign_mantissa)
    }

    fn frames(&self) -> impl Iterator<Item = Region> + '_ {
        self.blocks.iter().flat_map(|block| [block.static_section, block.dynamic_section])
    }

    /// Writes each block that is split into a plan's text.
    pub(super) fn write_split(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.blocks.iter().try_for_each(|block| {
            write!(
                f,
                "    {}: values {} sign-mantissa {}",
                receiver(&block.chunk),
                block.values,
                block.sign_mantissa
            )?;
            block.chunk.write_part(f)?;
            writeln!(f)
        })
    }

    pub(super) fn write_encode(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.write_frames(f, receiver)
    }

    pub(super) fn write_decode(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.write_frames(f, |chunk| format!("from {}", chunk.origin))
    }

    fn write_frames(&self, f: &mut fmt::Formatter<'_>, whose: impl Fn(&Chunk) -> String) -> fmt::Result {
        for block in &self.blocks {
            write!(f, "    {}: ", whose(&block.chunk))?;
            if block.times > 1 {
                write!(f, "{} x ", block.times)?;
            }
            write!(f, "values {}{}", block.values, block.chunk.leg_text())?;
            block.chunk.write_part(f)?;
            if block.sign_mantissa.len > 0 {
                write!(f, " sign-mantissa {}", block.sign_mantissa)?;
            }
            if block.static_section.len > 0 {
                write!(f, " static {}", block.static_section)?;
            }
            write!(f, " dynamic {} {}", block.dynamic_section, block.size)?;
            block.chunk.write_sum(f)?;
            writeln!(f)?;
        }
        Ok(())
    }
}

fn receiver(chunk: &Chunk) -> String {
    chunk.destination.map_or_else(|| "to all".to_owned(), |destination| format!("to {destination}"))
}
