//! Blocks of values and their frames: the operands of split, encode and decode.

use std::fmt;

use zipwire_codec::{DType, Layout};

use super::{Chunk, Effects, Region};
use crate::SizeId;

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
        self.blocks.iter().map(|block| block.values.len).sum()
    }

    pub(super) fn split_effects(&self) -> Effects {
        Effects { writes: self.sign_mantissa().collect(), ..self.sender_effects() }
    }

    pub(super) fn encode_effects(&self) -> Effects {
        let defines = self.blocks.iter().map(|block| block.size).collect();
        Effects { writes: self.frames().collect(), defines, ..self.sender_effects() }
    }

    pub(super) fn decode_effects(&self) -> Effects {
        let values = || self.blocks.iter().map(|block| (block.chunk, block.values));
        Effects {
            reads: self.sign_mantissa().chain(self.frames()).collect(),
            writes: values().map(|(_, region)| region).collect(),
            uses: self.blocks.iter().map(|block| block.size).collect(),
            peers: self.blocks.iter().map(|block| block.chunk.origin).collect(),
            delivers: values().collect(),
            ..Effects::default()
        }
    }

    fn sender_effects(&self) -> Effects {
        Effects {
            reads: self.blocks.iter().map(|block| block.values).collect(),
            peers: self.blocks.iter().filter_map(|block| block.chunk.destination).collect(),
            takes: self.blocks.iter().map(|block| (block.chunk, block.values)).collect(),
            ..Effects::default()
        }
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
            write!(f, "    {}: values {}{}", whose(&block.chunk), block.values, block.chunk.leg_text())?;
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
