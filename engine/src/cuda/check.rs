//! Whether GPUs can run a plan, found before anything runs.

use zipwire_codec::{DType, Layout, Spec};
use zipwire_kernels::{Coder, Device, GpuError, Summer};
use zipwire_schedule::Channel;
use zipwire_schedule::plan::{Batch, Exchange, Library, Local, OpKind, Plan, Program};

use super::device_state::staged;
use crate::chunks::{Chunk, Chunks};
use crate::error::EngineError;

/// Whether the executor can run a plan, wherever there are GPUs.
///
/// # Errors
/// A codec, layout, op, channel or order that it does not have, or a call of a library.
pub fn check(plan: &Plan) -> Result<(), EngineError> {
    check_ops(plan, |_| false)
}

/// [`check`] for GPUs that have a library, which calls what `calls` says.
pub(crate) fn check_ops(plan: &Plan, calls: impl Fn(&Library) -> bool) -> Result<(), EngineError> {
    let exchanges = plan
        .programs
        .iter()
        .flat_map(|program| &program.ops)
        .filter_map(|op| Some((op, op.kind.exchange()?)));
    // Before frames: no layout helps a coded flow.
    for (op, Exchange { channel, stage, .. }) in exchanges {
        if matches!(channel, Channel::Flow(_) | Channel::FlowControl(_)) {
            return Err(EngineError::Flow { segment: op.segment.0, stage: *stage });
        }
    }
    for op in plan.programs.iter().flat_map(|program| &program.ops) {
        match &op.kind {
            OpKind::Local(Local::Split(batch) | Local::Encode(batch) | Local::Decode(batch)) => {
                let spec = plan.codec.as_ref().expect("coded plans name their codec");
                Coder::check(spec, batch.dtype)?;
                if batch.layout == Layout::Compact && Coder::check_compact(spec, batch.dtype).is_err() {
                    let protocol = plan.protocols[op.segment.index()].expect("only collectives code");
                    return Err(EngineError::Layout(protocol.name(), Box::new(spec.clone()), batch.dtype));
                }
            }
            OpKind::Local(local @ Local::GatherRows(_)) => {
                return Err(EngineError::NoKernel { segment: op.segment.0, kind: local.kind() });
            }
            OpKind::Local(Local::Reduce(_)) => {}
            OpKind::Exchange(exchange) if exchange.order.reorders() => {
                return Err(EngineError::Order(exchange.order));
            }
            OpKind::Library(library) if !calls(library) => {
                return Err(EngineError::Library { segment: op.segment.0 });
            }
            OpKind::Library(_) | OpKind::Exchange(_) | OpKind::Compute(_) => {}
        }
    }
    Ok(())
}

/// Whether these GPUs have room for a plan: for its regions and what kernels keep, beside code and streams, and what the driver adds to large
/// allocations.
///
/// # Errors
/// The first one that has not, or a failure of its driver.
///
/// # Panics
/// If [`check`] refuses the plan.
pub fn check_memory(plan: &Plan, devices: &[Device]) -> Result<(), EngineError> {
    let mut needed = vec![0; devices.len()];
    for program in &plan.programs {
        needed[program.rank.index() % devices.len()] += bytes(plan, program)?;
    }
    for (device, needed) in devices.iter().zip(needed) {
        let (free, _) = device.memory()?;
        if needed > free {
            return Err(EngineError::Memory { device: device.ordinal(), needed, free });
        }
    }
    Ok(())
}

/// Bytes that a small allocation takes more than it was asked for, at the most.
const ROUNDING: u64 = 512;

/// Bytes that a rank takes on its GPU.
fn bytes(plan: &Plan, program: &Program) -> Result<u64, EngineError> {
    let chunks = Chunks::of(program);
    let total = |chunks: &mut dyn Iterator<Item = &Chunk>| -> u64 {
        chunks.map(|chunk| chunk.region.len + ROUNDING).sum()
    };
    let filled = total(&mut chunks.filled_by.values().flatten().chain(&chunks.filled_before));
    let kept = total(&mut chunks.checked_before.values().flatten());
    let buffers: u64 = program.buffers.iter().map(|buffer| buffer.capacity + ROUNDING).sum();
    let mut of_kernels = 0;
    for local in program.ops.iter().filter_map(|op| op.kind.local()) {
        of_kernels += match local {
            Local::Encode(batch) => of_frames(plan, batch, Coder::frame_len)? + of_parts(plan, batch)[0],
            Local::Decode(batch) => {
                of_frames(plan, batch, Coder::decoded_frame_len)? + of_parts(plan, batch)[1]
            }
            // It describes as much as a decoder does.
            Local::Split(batch) => of_frames(plan, batch, Coder::decoded_frame_len)?,
            Local::Reduce(reduce) => {
                let terms = reduce.additions.iter().map(|addition| addition.terms.len()).sum();
                Summer::described_len(reduce.additions.len(), terms) + ROUNDING
            }
            Local::GatherRows(_) => unreachable!("refused by the check"),
        };
    }
    let calls = program.ops.iter().filter_map(|op| op.kind.library());
    let staged: u64 = calls.flat_map(staged).map(|len| len + ROUNDING).sum();
    Ok(filled + kept + buffers + of_kernels + staged + 8 * u64::from(program.size_count) + ROUNDING)
}

/// Bytes that kernels take for the frames of an op, beside its regions.
fn of_frames(
    plan: &Plan,
    batch: &Batch,
    frame_len: impl Fn(&Spec, DType, u64) -> Result<u64, GpuError>,
) -> Result<u64, EngineError> {
    let spec = plan.codec.as_ref().expect("coded plans name their codec");
    let lens = batch.blocks.iter().map(|block| {
        let count = block.values.len / batch.dtype.width() as u64;
        Ok(frame_len(spec, batch.dtype, count)?)
    });
    Ok(lens.sum::<Result<u64, EngineError>>()? + 3 * ROUNDING)
}

/// Bytes that kernels take, if signs and mantissas are apart from the frames of an op: if it encodes and if it decodes them.
fn of_parts(plan: &Plan, batch: &Batch) -> [u64; 2] {
    let spec = plan.codec.as_ref().expect("coded plans name their codec");
    if !batch.is_apart() {
        return [0; 2];
    }
    let lens = batch.blocks.iter().map(|block| {
        let count = block.values.len / batch.dtype.width() as u64;
        Coder::apart_lens(spec, batch.dtype, count)
    });
    lens.fold([2 * ROUNDING; 2], |[encode, decode], [more, most]| [encode + more, decode + most])
}
