//! Every send has its receive.

use std::collections::BTreeMap;

use crate::plan::{Chunk, Content, OpKind, Plan, Program, TransferKey};
use crate::validate::PlanError;
use crate::{OpId, SegmentId, SizeId};

/// The exchanges that hold the two ends of a transfer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pair {
    pub(crate) send: OpId,
    pub(crate) receive: OpId,
}

/// What both ends must plan alike: the chunk, the kind of content, its capacity, and whose frames its size measures.
pub(super) type Shape = (Chunk, u8, u64, Option<usize>);

/// The ends of one transfer found so far. Plans have millions, so what is never there twice in a valid one is not in a list.
#[derive(Default)]
struct Ends {
    sends: Side,
    receives: Side,
}

/// One end of a transfer.
#[derive(Default)]
struct Side {
    first: Option<(OpId, Shape)>,
    /// How often it was found.
    count: usize,
}

impl Side {
    fn add(&mut self, op: OpId, shape: Shape) {
        self.first.get_or_insert((op, shape));
        self.count += 1;
    }

    /// The end, if there is one and no other.
    fn only(&self) -> Option<(OpId, Shape)> {
        self.first.filter(|_| self.count == 1)
    }
}

pub(crate) fn pair(plan: &Plan) -> Result<BTreeMap<TransferKey, Pair>, PlanError> {
    let mut found: BTreeMap<TransferKey, Ends> = BTreeMap::new();
    let mut known = Sizes::default();
    for program in &plan.programs {
        let (rank, measured) = (program.rank, known.of(program));
        for op in &program.ops {
            let OpKind::Exchange(exchange) = &op.kind else { continue };
            let key =
                |src, dst, tag| TransferKey { segment: op.segment, stage: exchange.stage, src, dst, tag };
            for t in &exchange.sends {
                let ends = found.entry(key(rank, t.peer, t.tag())).or_default();
                ends.sends.add(op.id, shape(t.chunk, &t.content, &measured));
            }
            for t in &exchange.receives {
                let ends = found.entry(key(t.peer, rank, t.tag())).or_default();
                ends.receives.add(op.id, shape(t.chunk, &t.content, &measured));
            }
        }
    }
    let pair = |(key, Ends { sends, receives }): (TransferKey, Ends)| match (sends.only(), receives.only()) {
        (Some((send, sent)), Some((receive, received))) if sent == received => {
            Ok((key, Pair { send, receive }))
        }
        _ => Err(PlanError::Unmatched { key, sends: sends.count, receives: receives.count }),
    };
    found.into_iter().map(pair).collect()
}

/// `measured` is what [`Sizes::of`] says of the program.
pub(super) fn shape(chunk: Chunk, content: &Content, measured: &[Option<usize>]) -> Shape {
    let (kind, capacity, size) = match *content {
        Content::Whole(region) => (0, region.len, None),
        Content::Prefix(region, size) => (1, region.len, measured[size.index()]),
        Content::Size(size) => (2, Content::SIZE_BYTES, measured[size.index()]),
        Content::Values(region) => (3, region.len, None),
        Content::Announced(region, size) => (4, region.len, measured[size.index()]),
        // Both ends leave out the same bytes if slot and room behind it are equal.
        Content::Overflow { region, size, .. } => (5, region.len, measured[size.index()]),
    };
    (chunk, kind, capacity, size)
}

/// Sets of frames, each with a number: what a size measures is compared many times.
#[derive(Default)]
pub(super) struct Sizes(BTreeMap<Vec<(SegmentId, Chunk)>, usize>);

impl Sizes {
    /// For each size of a program, whose frames it measures: one, or all those that a maximum is of. Equal on both ends of a
    /// transfer, or they would disagree about its length. `None` if no frame has the size.
    pub(super) fn of(&mut self, program: &Program) -> Vec<Option<usize>> {
        let known = &mut self.0;
        let mut frames = vec![None; program.size_count as usize];
        for op in &program.ops {
            let (OpKind::Encode(batch) | OpKind::Decode(batch)) = &op.kind else { continue };
            batch
                .blocks
                .iter()
                .for_each(|block| frames[block.size.index()] = Some((op.segment, block.chunk)));
        }
        let mut number = |size: SizeId| {
            let operands = program.operands(&size).iter();
            let mut set: Vec<_> = operands.map(|size| frames[size.index()]).collect::<Option<_>>()?;
            set.sort_unstable();
            let next = known.len();
            Some(*known.entry(set).or_insert(next))
        };
        (0..program.size_count).map(|size| number(SizeId(size))).collect()
    }
}
