//! Every send has its receive.

use std::collections::BTreeMap;

use crate::plan::{
    Chunk, Content, Local, Misnumbered, Numbers, OpKind, Plan, PlanError, Program, TransferKey,
};
use crate::{OpId, Rank, SegmentId, SizeId};

/// The exchanges that hold the two ends of a transfer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pair {
    pub(crate) send: OpId,
    pub(crate) receive: OpId,
}

/// Properties that both ends must plan alike: the chunk, the kind of content, its capacity, and the frames that its size measures.
pub(super) type Shape = (Chunk, Kind, u64, Option<usize>);

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Kind {
    Whole,
    Prefix,
    Size,
    Values,
    Announced,
    Overflow,
}

#[derive(Clone, Copy)]
struct End {
    op: OpId,
    key: TransferKey,
    shape: Shape,
}

/// The ends of one transfer found so far. Plans have millions, so what is never there twice in a valid one is not in a list.
#[derive(Default)]
struct Ends {
    sends: Side,
    receives: Side,
}

/// One end of a transfer, as often as it was found.
#[derive(Default)]
struct Side {
    first: Option<End>,
    count: usize,
}

impl Side {
    fn add(&mut self, end: End) {
        self.first.get_or_insert(end);
        self.count += 1;
    }

    fn only(&self) -> Option<End> {
        self.first.filter(|_| self.count == 1)
    }
}

/// Checks that transfers have the numbers that follow from the order of the program, and that no two of an exchange could
/// take one another's.
pub(super) fn check_numbers(program: &Program) -> Result<(), PlanError> {
    let rank = program.rank;
    let mut numbers = Numbers::default();
    for op in &program.ops {
        let OpKind::Exchange(exchange) = &op.kind else { continue };
        numbers.check(exchange).map_err(|wrong| match wrong {
            Misnumbered::Twice(peer) => PlanError::ListedTwice { rank, op: op.id, peer },
            Misnumbered::Number { peer, found, expected } => {
                PlanError::Misnumbered { rank, op: op.id, peer, found, expected }
            }
        })?;
    }
    Ok(())
}

/// The two ends of each transfer, found by sender, receiver and number alone.
///
/// # Errors
/// If an end is missing, or both mean something else.
pub(crate) fn pair(plan: &Plan) -> Result<BTreeMap<TransferKey, Pair>, PlanError> {
    let mut found: BTreeMap<(Rank, Rank, u32), Ends> = BTreeMap::new();
    let mut known = Sizes::default();
    for program in &plan.programs {
        let (rank, measured) = (program.rank, known.of(program));
        for op in &program.ops {
            let OpKind::Exchange(exchange) = &op.kind else { continue };
            for t in &exchange.sends {
                let (key, shape) =
                    (exchange.key_of_send(rank, op.segment, t), shape(t.chunk, &t.content, &measured));
                let ends = found.entry((key.src, key.dst, key.number)).or_default();
                ends.sends.add(End { op: op.id, key, shape });
            }
            for t in &exchange.receives {
                let (key, shape) =
                    (exchange.key_of_receive(rank, op.segment, t), shape(t.chunk, &t.content, &measured));
                let ends = found.entry((key.src, key.dst, key.number)).or_default();
                ends.receives.add(End { op: op.id, key, shape });
            }
        }
    }
    let pair = |Ends { sends, receives }: Ends| match (sends.only(), receives.only()) {
        (Some(send), Some(receive)) if (send.key, send.shape) == (receive.key, receive.shape) => {
            Ok((send.key, Pair { send: send.op, receive: receive.op }))
        }
        (Some(send), Some(receive)) => Err(disagreement(plan, send, receive)),
        _ => {
            let first = sends.first.or(receives.first).expect("a transfer is entered with its first end");
            Err(PlanError::Unmatched { key: first.key, sends: sends.count, receives: receives.count })
        }
    };
    found.into_values().map(pair).collect()
}

fn disagreement(plan: &Plan, send: End, receive: End) -> PlanError {
    let TransferKey { src, dst, number, .. } = send.key;
    let parts = |End { key, shape: (chunk, kind, capacity, _), .. }: End| {
        (key.segment, key.stage, chunk, kind, capacity)
    };
    let (sent, received) = (parts(send), parts(receive));
    let about = match () {
        () if sent.0 != received.0 => "its segment",
        () if sent.1 != received.1 => "its stage",
        () if sent.2 != received.2 => "its chunk",
        () if sent.3 != received.3 => "the kind of its content",
        () if sent.4 != received.4 => "its capacity",
        () => "the frames that its length follows from",
    };
    PlanError::Disagreement {
        src,
        dst,
        number,
        about,
        sent: describe(plan, send),
        received: describe(plan, receive),
    }
}

fn describe(plan: &Plan, End { key, shape: (chunk, kind, capacity, _), .. }: End) -> String {
    let content = match kind {
        Kind::Values | Kind::Whole => format!("{capacity} bytes"),
        Kind::Prefix | Kind::Overflow => format!("up to {capacity} bytes"),
        Kind::Size => "the size".to_owned(),
        Kind::Announced => format!("{capacity} bytes and the size"),
    };
    let destination = chunk.destination.map_or_else(|| "all".to_owned(), |rank| format!("rank {rank}"));
    let part = if chunk.part > 0 { format!(", part {}", chunk.part) } else { String::new() };
    let flow = if chunk.flow > 0 { format!(", flow {}", chunk.flow) } else { String::new() };
    let segment = plan.segments.get(key.segment.index()).map_or("a segment without a name", |name| &**name);
    let stage = key.stage.name();
    format!("{content} of what rank {} has for {destination}{part}{flow}: {stage} of {segment}", chunk.origin)
}

/// `measured` is what [`Sizes::of`] says of the program.
pub(super) fn shape(chunk: Chunk, content: &Content, measured: &[Option<usize>]) -> Shape {
    let (kind, capacity, size) = match *content {
        Content::Whole(region) => (Kind::Whole, region.len, None),
        Content::Prefix(region, size) => (Kind::Prefix, region.len, measured[size.index()]),
        Content::Size(size) => (Kind::Size, Content::SIZE_BYTES, measured[size.index()]),
        Content::Values(region) => (Kind::Values, region.len, None),
        Content::Announced(region, size) => (Kind::Announced, region.len, measured[size.index()]),
        // Both ends leave out the same bytes if slot and room behind it are equal.
        Content::Overflow { region, size, .. } => (Kind::Overflow, region.len, measured[size.index()]),
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
            let (OpKind::Local(Local::Encode(batch)) | OpKind::Local(Local::Decode(batch))) = &op.kind else {
                continue;
            };
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
