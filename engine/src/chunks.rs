//! Which regions of a rank hold which chunk of the payload, and when they are filled, checked and poisoned.
//!
//! Derived from the program alone: a chunk is filled by the compute op that writes its region, or before the
//! iteration when nothing in the program does; a received chunk is checked before an op overwrites it, or after the
//! iteration when nothing does. A rank fills only what it contributes itself, once, however many peers it goes to; what
//! it hands on is what it received, or rows of it, so every receiver checks the whole path back to the origin. What a rank adds
//! up is checked like what it receives, against the contributions of all origins in the order of the sum. So a new protocol or
//! algorithm is verified without new code.

use std::collections::HashMap;

use zipwire_payload::ChunkId;
use zipwire_schedule::OpId;
use zipwire_schedule::plan::{Effects, Local, Op, OpKind, Program, Region, Values};

/// Fills memory that nobody has written yet. Not zero: zeros are valid payload.
pub(crate) const POISON: u8 = 0xA5;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Chunk {
    pub(crate) id: ChunkId,
    pub(crate) region: Region,
    /// Whether it is a sum that a library makes, which need not keep to the order that the plan states.
    pub(crate) is_librarys: bool,
}

/// Chunks of the payload that one program fills and checks, and when.
#[derive(Debug, Default)]
pub(crate) struct Chunks {
    pub(crate) filled_before: Vec<Chunk>,
    pub(crate) filled_by: HashMap<OpId, Vec<Chunk>>,
    /// To check before an op overwrites them: what was received, and sums.
    pub(crate) checked_before: HashMap<OpId, Vec<Chunk>>,
    pub(crate) checked_at_end: Vec<Chunk>,
    /// To poison before each iteration: all that peers, the codec or sums fill.
    pub(crate) poisoned: Vec<Region>,
}

impl Chunks {
    /// # Panics
    /// If the program sends as its own what an op fills that is no compute phase, or the same bytes as two chunks: such
    /// a chunk has no content of its own.
    pub(crate) fn of(program: &Program) -> Self {
        let mut chunks = Self::default();
        let effects: Vec<Effects> = program.ops.iter().map(|op| op.kind.effects()).collect();
        let touches =
            |op: usize, region: &Region| effects[op].writes.iter().any(|write| write.overlaps(region));
        let rank = program.rank;
        for op in &program.ops {
            let Values { takes, sums, .. } = &op.kind.values();
            for &(chunk, region) in takes.iter().filter(|(chunk, _)| chunk.origin == rank) {
                let id = ChunkId { segment: op.segment, chunk };
                let chunk = Chunk { id, region, is_librarys: false };
                let producer = (0..op.id.index()).rev().find(|&earlier| touches(earlier, &region));
                let filled = match producer.map(|index| &program.ops[index]) {
                    None => &mut chunks.filled_before,
                    // A sum of this rank, checked as one; so is its value.
                    Some(Op { kind: OpKind::Local(Local::Reduce(_)), .. })
                        if chunk.id.chunk.sum.is_some() =>
                    {
                        continue;
                    }
                    Some(producer) => {
                        let computed = matches!(producer.kind, OpKind::Compute(_));
                        assert!(
                            computed,
                            "rank {rank} contributes `{region}`, which `{}` fills",
                            producer.id
                        );
                        chunks.filled_by.entry(producer.id).or_default()
                    }
                };
                filled.push(chunk);
            }
            for (chunk, region) in op.kind.delivered(rank).into_iter().chain(sums.iter().copied()) {
                let is_librarys = op.kind.library().is_some_and(|library| library.collective.is_reduction());
                let chunk = Chunk { id: ChunkId { segment: op.segment, chunk }, region, is_librarys };
                let consumer = (op.id.index() + 1..effects.len()).find(|&later| touches(later, &region));
                match consumer {
                    Some(index) => {
                        chunks.checked_before.entry(program.ops[index].id).or_default().push(chunk);
                    }
                    None => chunks.checked_at_end.push(chunk),
                }
            }
            if !matches!(op.kind, OpKind::Compute(_)) {
                chunks.poisoned.extend(&effects[op.id.index()].writes);
            }
        }
        for filled in chunks.filled_by.values_mut().chain([&mut chunks.filled_before]) {
            filled.sort_unstable_by_key(|chunk| (chunk.region.buffer, chunk.region.offset));
            // What goes to several peers is sent several times.
            filled.dedup();
            let shared = filled.windows(2).find(|pair| pair[0].region.overlaps(&pair[1].region));
            assert!(shared.is_none(), "rank {rank} sends the same bytes as two chunks: {shared:?}");
        }
        chunks
    }
}
