//! How much memory a run takes, and how much there is.

use zipwire_schedule::plan::{OpKind, Plan};

use crate::Executor;

/// Bytes that a span takes until it is written: itself, and what the timeline's writer keeps of it.
const SPAN_BYTES: u64 = 400;

/// Bytes that running `plan` takes at the least: the buffers of all ranks where they are here, and all spans.
pub(crate) fn needed(plan: &Plan, iterations: u32, executor: Executor) -> u64 {
    let spans = |kind: &OpKind| match kind {
        OpKind::Exchange(exchange) => 1 + exchange.sends.len() as u64 + exchange.receives.len() as u64,
        OpKind::Compute(_) | OpKind::Encode(_) | OpKind::Decode(_) => 1,
    };
    let ops = plan.programs.iter().flat_map(|program| &program.ops);
    let timeline = ops.map(|op| spans(&op.kind)).sum::<u64>() * u64::from(iterations) * SPAN_BYTES;
    match executor {
        // Those of GPUs are in memory of their own.
        Executor::Sim | Executor::Cuda | Executor::Nccl => timeline,
        Executor::Threads | Executor::Mpi => timeline + plan.buffer_bytes(),
    }
}

/// Bytes that the system could give, if it says so.
pub(crate) fn available() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find(|line| line.starts_with("MemAvailable:"))?;
    let kibibytes: u64 = line.split_whitespace().nth(1)?.parse().ok()?;
    Some(kibibytes * 1024)
}
