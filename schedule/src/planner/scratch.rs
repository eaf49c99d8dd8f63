//! Memory of a rank beside that of the model: frames, contributions to reductions, rows at gateways.
//!
//! Each kind is a *ring* of buffers per channel, its arenas, which calls take in turns ([`Choice::arenas`](super::Choice)):
//! with two, a call is coded while the one before still travels or is decoded. What a call overwrites is ordered by
//! hazards, as everywhere, so any number of arenas is correct; with one, every call waits for the one before.

use std::borrow::Cow;

use super::dedup::GatewayBuffers;
use super::frames::FrameBuffers;
use crate::BufferId;
use crate::builder::ProgramBuilder;

/// Rings of the calls of one channel. A buffer is made when a call takes it for the first time.
pub(super) struct Scratch {
    frames_out: Ring,
    frames_in: Ring,
    summands: Ring,
    gateway_out: Ring,
    gateway_in: Ring,
}

impl Scratch {
    pub(super) fn new(is_background: bool) -> Self {
        let ring = |name: &'static str| Ring {
            name: if is_background { format!("background-{name}").into() } else { name.into() },
            buffers: Vec::new(),
            taken: 0,
        };
        Self {
            frames_out: ring("frames-out"),
            frames_in: ring("frames-in"),
            summands: ring("summands"),
            gateway_out: ring("gateway-out"),
            gateway_in: ring("gateway-in"),
        }
    }

    /// For the frames of the next coded call.
    pub(super) fn frames(&mut self, builder: &mut ProgramBuilder, arenas: u32) -> FrameBuffers {
        FrameBuffers {
            outgoing: self.frames_out.take(builder, arenas),
            incoming: self.frames_in.take(builder, arenas),
        }
    }

    /// For what others contribute to the next reduction.
    pub(super) fn summands(&mut self, builder: &mut ProgramBuilder, arenas: u32) -> BufferId {
        self.summands.take(builder, arenas)
    }

    /// For what the rank gets as a gateway in the next call, and hands on.
    pub(super) fn gateway(&mut self, builder: &mut ProgramBuilder, arenas: u32) -> GatewayBuffers {
        GatewayBuffers {
            outgoing: self.gateway_out.take(builder, arenas),
            incoming: self.gateway_in.take(builder, arenas),
        }
    }

    /// All buffers that calls have taken.
    pub(super) fn buffers(&self) -> impl Iterator<Item = BufferId> + '_ {
        let Self { frames_out, frames_in, summands, gateway_out, gateway_in } = self;
        [frames_out, frames_in, summands, gateway_out, gateway_in]
            .into_iter()
            .flat_map(|ring| &ring.buffers)
            .copied()
    }
}

struct Ring {
    name: Cow<'static, str>,
    buffers: Vec<BufferId>,
    /// How often one was taken.
    taken: u32,
}

impl Ring {
    /// The next of so many buffers; all ranks take them in the same order.
    fn take(&mut self, builder: &mut ProgramBuilder, arenas: u32) -> BufferId {
        assert!(arenas > 0, "calls have an arena at least");
        let index = (self.taken % arenas) as usize;
        self.taken += 1;
        while self.buffers.len() <= index {
            self.buffers.push(builder.buffer(format!("{}-{}", self.name, self.buffers.len())));
        }
        self.buffers[index]
    }
}
