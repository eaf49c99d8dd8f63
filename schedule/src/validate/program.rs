//! Checks of a single program, without the others.

use std::collections::HashMap;

use crate::hazards::Hazards;
use crate::plan::{
    Chunk, Content, Effects, Exchange, Local, Maximum, Op, OpKind, PlanError, Program, Transfer,
};
use crate::validate::deliveries::Deliveries;
use crate::validate::library::is_collective;
use crate::validate::transfers;
use crate::{SegmentId, SizeId, Stage};

pub(super) fn check(
    position: usize,
    program: &Program,
    rank_count: u32,
    deliveries: Option<&Deliveries<'_>>,
) -> Result<(), PlanError> {
    let rank = program.rank;
    let in_order = program.ops.iter().enumerate().all(|(index, op)| op.id.index() == index);
    if rank.index() != position || !in_order {
        return Err(PlanError::Misplaced { position, rank });
    }
    let effects: Vec<Effects> = program.ops.iter().map(|op| op.kind.effects()).collect();
    for (op, effects) in program.ops.iter().zip(&effects) {
        check_op(program, op, effects, rank_count)?;
        if let OpKind::Exchange(Exchange { window, .. }) = &op.kind
            && (window.sends == 0 || window.receives == 0)
        {
            return Err(PlanError::EmptyWindow { rank, op: op.id });
        }
    }
    check_sizes(program, &effects)?;
    check_forwards(program)?;
    if let Some(deliveries) = deliveries {
        deliveries.check(program, &effects)?;
    }
    check_dependencies(program, effects)?;
    transfers::check_numbers(program)
}

fn check_op(program: &Program, op: &Op, effects: &Effects, rank_count: u32) -> Result<(), PlanError> {
    let (rank, op_id) = (program.rank, op.id);
    let Effects { reads, writes, peers, .. } = effects;
    if let Some(&peer) = peers.iter().find(|&&peer| peer == rank || peer.0 >= rank_count) {
        return Err(PlanError::BadPeer { rank, op: op_id, peer });
    }
    for region in reads.iter().chain(writes) {
        let inside = program.buffers.get(region.buffer.index()).is_some_and(|b| region.end() <= b.capacity);
        if !inside {
            return Err(PlanError::OutOfBuffer { rank, op: op_id, region: region.to_string() });
        }
    }
    let mut writes: Vec<_> = writes.iter().filter(|region| region.len > 0).collect();
    writes.sort_unstable_by_key(|region| (region.buffer, region.offset));
    if let Some(pair) = writes.windows(2).find(|pair| pair[0].overlaps(pair[1])) {
        return Err(PlanError::WrittenTwice { rank, op: op_id, region: pair[1].to_string() });
    }
    let error = match &op.kind {
        OpKind::Local(local) => local.defect().map(|defect| PlanError::BadLocal { rank, op: op_id, defect }),
        OpKind::Library(library) => {
            (!is_collective(rank, library)).then_some(PlanError::BadCall { rank, op: op_id })
        }
        OpKind::Compute(_) | OpKind::Exchange(_) => None,
    };
    error.map_or(Ok(()), Err)
}

/// Sizes are single-assignment variables, defined before they are read.
fn check_sizes(program: &Program, effects: &[Effects]) -> Result<(), PlanError> {
    let rank = program.rank;
    let mut definitions = vec![0; program.size_count as usize];
    for Maximum { size, of } in &program.maxima {
        // What comes before a maximum is no maximum that depends on it.
        let is_plain = |operand: &SizeId| operand < size && program.operands(operand) == [*operand];
        match definitions.get_mut(size.index()) {
            Some(count) if !of.is_empty() && of.iter().all(is_plain) => *count += 1,
            Some(_) | None => return Err(PlanError::BadMaximum { rank, size: *size }),
        }
    }
    let mut defined = vec![false; program.size_count as usize];
    for (op, Effects { uses, defines, .. }) in program.ops.iter().zip(effects) {
        let is_known = |size: &SizeId| {
            program.operands(size).iter().all(|operand| defined.get(operand.index()) == Some(&true))
        };
        if let Some(&size) = uses.iter().find(|size| !is_known(size)) {
            return Err(PlanError::SizeNotDefined { rank, op: op.id, size });
        }
        for &size in defines {
            match definitions.get_mut(size.index()) {
                Some(count) => *count += 1,
                None => return Err(PlanError::SizeNotDefinedOnce { rank, size, definitions: 0 }),
            }
            defined[size.index()] = true;
        }
    }
    match (0..).map(SizeId).zip(&definitions).find(|&(_, &count)| count != 1) {
        None => Ok(()),
        Some((size, &definitions)) => Err(PlanError::SizeNotDefinedOnce { rank, size, definitions }),
    }
}

/// A rank sends what is its own, or hands on what it received in the same stage, as it received it, or what it has put
/// together as a gateway.
fn check_forwards(program: &Program) -> Result<(), PlanError> {
    let exchanges = program.ops.iter().filter_map(|op| op.kind.exchange());
    if exchanges.flat_map(|exchange| &exchange.sends).all(|t| t.chunk.origin == program.rank) {
        return Ok(());
    }
    let mut received: HashMap<(SegmentId, Stage, Chunk), Content> = HashMap::new();
    for op in &program.ops {
        if let OpKind::Local(Local::GatherRows(copy)) = &op.kind {
            let made = copy.gathers.iter();
            received.extend(
                made.map(|made| ((op.segment, Stage::Forward, made.chunk), Content::Values(made.to))),
            );
        }
        let OpKind::Exchange(exchange) = &op.kind else { continue };
        let key = |t: &Transfer| (op.segment, exchange.stage, t.chunk);
        let is_missing = |t: &&Transfer| {
            t.chunk.origin != program.rank
                && received.get(&key(t)).is_none_or(|content| *content != t.content)
        };
        if let Some(t) = exchange.sends.iter().find(is_missing) {
            return Err(PlanError::NotReceived { rank: program.rank, op: op.id, origin: t.chunk.origin });
        }
        received.extend(exchange.receives.iter().map(|t| (key(t), t.content)));
    }
    Ok(())
}

/// Derives the dependencies once more and compares.
fn check_dependencies(program: &Program, effects: Vec<Effects>) -> Result<(), PlanError> {
    let mut hazards = Hazards::of_sizes(program.size_count);
    for (op, effects) in program.ops.iter().zip(effects) {
        let expected = hazards.depend(op.id, &op.kind, effects, &program.maxima);
        if expected != op.deps {
            let (rank, op, found) = (program.rank, op.id, op.deps.clone());
            return Err(PlanError::Dependencies { rank, op, found, expected });
        }
    }
    Ok(())
}
