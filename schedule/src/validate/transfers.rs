//! Every send has its receive.

use std::collections::BTreeMap;

use crate::plan::{Content, Exchange, Op, OpKind, Plan, Transfer, TransferKey};
use crate::validate::PlanError;
use crate::{OpId, Rank};

/// The exchanges that hold the two ends of a transfer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pair {
    pub(crate) send: OpId,
    pub(crate) receive: OpId,
}

/// What both ends must plan alike: the kind of content and its capacity.
type Shape = (u8, u64);

/// The ends of one transfer found so far.
#[derive(Default)]
struct Ends {
    sends: Vec<(OpId, Shape)>,
    receives: Vec<(OpId, Shape)>,
}

pub(crate) fn pair(plan: &Plan) -> Result<BTreeMap<TransferKey, Pair>, PlanError> {
    let mut found: BTreeMap<TransferKey, Ends> = BTreeMap::new();
    for (rank, op, exchange) in exchanges(plan) {
        let key = |src, dst, tag| TransferKey { segment: op.segment, stage: exchange.stage, src, dst, tag };
        for t in &exchange.sends {
            found.entry(key(rank, t.peer, t.tag)).or_default().sends.push((op.id, shape(t)));
        }
        for t in &exchange.receives {
            found.entry(key(t.peer, rank, t.tag)).or_default().receives.push((op.id, shape(t)));
        }
    }
    let pair = |(key, ends): (TransferKey, Ends)| match (&ends.sends[..], &ends.receives[..]) {
        (&[(send, sent)], &[(receive, received)]) if sent == received => Ok((key, Pair { send, receive })),
        (sends, receives) => Err(PlanError::Unmatched { key, sends: sends.len(), receives: receives.len() }),
    };
    found.into_iter().map(pair).collect()
}

fn shape(transfer: &Transfer) -> Shape {
    match transfer.content {
        Content::Whole(region) => (0, region.len),
        Content::Prefix(region, _) => (1, region.len),
        Content::Size(_) => (2, Content::SIZE_BYTES),
    }
}

fn exchanges(plan: &Plan) -> impl Iterator<Item = (Rank, &Op, &Exchange)> {
    plan.programs.iter().flat_map(|program| {
        program.ops.iter().filter_map(|op| match &op.kind {
            OpKind::Exchange(exchange) => Some((program.rank, op, exchange)),
            OpKind::Compute(_) | OpKind::Encode(_) | OpKind::Decode(_) => None,
        })
    })
}
