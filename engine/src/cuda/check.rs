//! Whether GPUs can run a plan: kernels for its frames, and room for its buffers.

use zipwire_codec::Layout;
use zipwire_kernels::{Coder, Device};
use zipwire_schedule::Channel;
use zipwire_schedule::plan::{Content, Exchange, OpKind, Plan, Program};

use crate::chunks::{Chunk, Chunks};
use crate::error::EngineError;

/// Whether the executor can run a plan, wherever there are GPUs.
///
/// # Errors
/// A codec, layout or order that it does not have.
pub fn check(plan: &Plan) -> Result<(), EngineError> {
    for op in plan.programs.iter().flat_map(|program| &program.ops) {
        match &op.kind {
            OpKind::Local(local) => {
                let batch = local.framed();
                let batch =
                    batch.ok_or(EngineError::NoKernel { segment: op.segment.0, kind: local.kind() })?;
                if batch.layout != Layout::Split {
                    let protocol = plan.protocols[op.segment.index()].expect("only collectives code");
                    return Err(EngineError::Layout(protocol.name()));
                }
                let spec = plan.codec.as_ref().expect("coded plans name their codec");
                Coder::check(spec, batch.dtype)?;
            }
            OpKind::Exchange(exchange) if exchange.order.reorders() => {
                return Err(EngineError::Order(exchange.order));
            }
            OpKind::Exchange(exchange) if exchange.channel != Channel::Main || brings_along(exchange) => {
                return Err(EngineError::Exchange { segment: op.segment.0, stage: exchange.stage });
            }
            OpKind::Library(_) => return Err(EngineError::Library { segment: op.segment.0 }),
            OpKind::Exchange(_) | OpKind::Compute(_) => {}
        }
    }
    Ok(())
}

/// Whether one of its transfers is more than one range of bytes.
fn brings_along(exchange: &Exchange) -> bool {
    let mut transfers = exchange.sends.iter().chain(&exchange.receives);
    transfers.any(|transfer| matches!(transfer.content, Content::Announced(..) | Content::Overflow { .. }))
}

/// Whether these GPUs have room for a plan.
///
/// # Errors
/// The first one that has not, or a failure of its driver.
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

/// Bytes that an allocation takes more than it was asked for, at the most.
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
    let batches = program.ops.iter().filter_map(|op| op.kind.local()?.framed());
    let mut of_codec = 0;
    for batch in batches {
        let spec = plan.codec.as_ref().expect("coded plans name their codec");
        of_codec += 3 * ROUNDING;
        for block in &batch.blocks {
            of_codec += Coder::frame_len(spec, batch.dtype, block.values.len / batch.dtype.width() as u64)?;
        }
    }
    Ok(filled + kept + buffers + of_codec + 8 * u64::from(program.size_count) + ROUNDING)
}
