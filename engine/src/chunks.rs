//! Which regions of a rank hold which chunk of the payload, and when they are filled, checked and poisoned.
//!
//! Derived from the program alone, so that it holds for every protocol: a chunk is filled by the compute op
//! that writes its region, or before the iteration when nothing in the program does; a received chunk is
//! checked before an op overwrites it, or after the iteration when nothing does.

use std::collections::HashMap;

use zipwire_schedule::plan::{Batch, Exchange, OpKind, Program, Region};
use zipwire_schedule::{OpId, Rank, SegmentId, Stage};

/// Values of the payload in a region of this rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Chunk {
    pub(crate) segment: SegmentId,
    pub(crate) src: Rank,
    pub(crate) dst: Rank,
    pub(crate) region: Region,
}

/// What to do with the payload around one program.
#[derive(Debug, Default)]
pub(crate) struct Chunks {
    /// To fill before each iteration.
    pub(crate) filled_before: Vec<Chunk>,
    /// To fill when a compute op runs.
    pub(crate) filled_by: HashMap<OpId, Vec<Chunk>>,
    /// To check before an op overwrites them.
    pub(crate) checked_before: HashMap<OpId, Vec<Chunk>>,
    /// To check after the iteration.
    pub(crate) checked_at_end: Vec<Chunk>,
    /// To poison before each iteration: all that peers or the codec fill.
    pub(crate) poisoned: Vec<Region>,
}

impl Chunks {
    pub(crate) fn of(program: &Program) -> Self {
        let mut chunks = Self::default();
        let writes: Vec<Vec<Region>> = program.ops.iter().map(|op| op.kind.writes()).collect();
        let touches = |op: usize, region: &Region| writes[op].iter().any(|write| write.overlaps(region));
        for op in &program.ops {
            let rank = program.rank;
            for (peer, region) in sent(&op.kind) {
                let chunk = Chunk { segment: op.segment, src: rank, dst: peer, region };
                let producer = (0..op.id.index()).rev().find(|&earlier| touches(earlier, &region));
                match producer {
                    Some(index) => chunks.filled_by.entry(program.ops[index].id).or_default().push(chunk),
                    None => chunks.filled_before.push(chunk),
                }
            }
            for (peer, region) in received(&op.kind) {
                let chunk = Chunk { segment: op.segment, src: peer, dst: rank, region };
                let consumer = (op.id.index() + 1..writes.len()).find(|&later| touches(later, &region));
                match consumer {
                    Some(index) => {
                        chunks.checked_before.entry(program.ops[index].id).or_default().push(chunk);
                    }
                    None => chunks.checked_at_end.push(chunk),
                }
            }
            if !matches!(op.kind, OpKind::Compute(_)) {
                chunks.poisoned.extend(&writes[op.id.index()]);
            }
        }
        chunks
    }
}

/// Values that an op takes from the model.
fn sent(kind: &OpKind) -> Vec<(Rank, Region)> {
    match kind {
        OpKind::Encode(batch) => values(batch),
        OpKind::Exchange(Exchange { stage: Stage::Raw, sends, .. }) => {
            sends.iter().filter_map(|t| Some((t.peer, t.content.region()?))).collect()
        }
        OpKind::Exchange(_) | OpKind::Compute(_) | OpKind::Decode(_) => Vec::new(),
    }
}

/// Values that an op gives to the model.
fn received(kind: &OpKind) -> Vec<(Rank, Region)> {
    match kind {
        OpKind::Decode(batch) => values(batch),
        OpKind::Exchange(Exchange { stage: Stage::Raw, receives, .. }) => {
            receives.iter().filter_map(|t| Some((t.peer, t.content.region()?))).collect()
        }
        OpKind::Exchange(_) | OpKind::Compute(_) | OpKind::Encode(_) => Vec::new(),
    }
}

fn values(batch: &Batch) -> Vec<(Rank, Region)> {
    batch.blocks.iter().map(|block| (block.peer, block.values)).collect()
}
