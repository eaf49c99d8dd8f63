//! Mode `sync`: messages of BF16 values are compressed on the GPU, and calls wait until they have arrived.
//!
//! - `handshake`: the ranks of a new communicator make sure that they will decide alike.
//! - `wire`: lengths, which follow from the number of values.
//! - `message`: a call as what is coded and what NCCL is asked to move.
//! - `group`: all messages between `ncclGroupStart` and `ncclGroupEnd`: NCCL's own calls go on in their order, with staging memory in the place of
//!   the values. Before the group ends, encoders are queued; behind it decoders, and the thread waits for them. Messages that did not fit
//!   come once more, as they are, in a second group: both ends have seen the same lengths.
//! - `gpu`: memory and kernels; `wait`: waits that tell when they take long.
//!
//! Nothing is decided by what only one end knows. An end that has no memory for a message says so by the length that goes ahead (a sender), or
//! receives the wire in the place of the values and decodes it on the CPU (a receiver).

mod gpu;
mod group;
mod handshake;
mod message;
mod wait;
mod wire;

pub(crate) use gpu::Gpus;
pub(crate) use group::{Group, Outcome};
pub(crate) use handshake::{Link, ask};

use std::ffi::{c_int, c_void};
use std::sync::Arc;

use zipwire_codec::DType;

use crate::abi::{CUDA_ERROR, SUCCESS, coded_type};
use crate::communicators::Communicator;
use crate::driver::{Context, Driver};
use crate::exports::{Call, Op};
use crate::process::tell;
use crate::settings::settings;

pub(crate) use wire::Wire;

/// Version of what goes over the wire.
const WIRE_VERSION: u8 = 1;

/// Lengths of the messages of a call, if they are compressed: by its arguments and the communicator alone, so alike on all ranks; but for a stream that
/// is captured, which has to be so on all.
pub(crate) fn wire_of(call: &Call, communicator: &Communicator) -> Option<Wire> {
    let is_coded = coded_type(call.dtype, settings().assume) == Some(DType::Bf16);
    if !call.is_eligible() || !is_coded || communicator.link.get().is_none() || communicator.rank_count() < 2
    {
        return None;
    }
    // A message to itself moves over no wire.
    let is_own = matches!(call.op, Op::Send | Op::Recv) && call.peer == communicator.rank();
    let is_known = call.peer < communicator.rank_count();
    let count = usize::try_from(call.bytes() / DType::Bf16.width() as u64).ok()?;
    let is_whole = call.bytes().is_multiple_of(DType::Bf16.width() as u64);
    if is_own || !is_known || !is_whole {
        return None;
    }
    Wire::of(&*settings().spec.codec(), DType::Bf16, count)
}

/// Whether the stream of a call is captured.
///
/// # Errors
/// `ncclUnhandledCudaError` if the driver cannot say: other ranks may be told, and would then wait for what this one does not send. The group that
/// is open does nothing then.
pub(crate) fn is_capturing(call: &Call, communicator: &Communicator) -> Result<bool, c_int> {
    let _contexts = Contexts::keep();
    let link = communicator.link.get().expect("messages of others are not compressed");
    // The default stream is that of the communicator's device.
    let driver = link.gpu.device.bind().ok().and_then(|()| Driver::get());
    driver.and_then(|driver| driver.is_capturing(call.stream as *mut c_void)).ok_or_else(|| {
        tell(&format!("{}: the driver cannot say whether its stream is captured", call.op.name()));
        group::spoil(call);
        CUDA_ERROR
    })
}

/// Adds the messages of a call to the group of this thread, and asks NCCL for them. The group of NCCL must be open.
pub(crate) fn add(group: &mut Group, call: Call, communicator: &Arc<Communicator>, wire: Wire) -> c_int {
    if call.op != Op::AlltoAll {
        return group.add(call, communicator, wire);
    }
    let len = call.bytes() as usize;
    for peer in 0..communicator.rank_count() {
        let at = len * peer as usize;
        let send = Call { op: Op::Send, send: call.send + at, recv: 0, peer, ..call };
        let recv = Call { op: Op::Recv, send: 0, recv: call.recv + at, peer, ..call };
        for part in [send, recv] {
            let result =
                if peer == communicator.rank() { part.made() } else { group.add(part, communicator, wire) };
            if result != SUCCESS {
                return result;
            }
        }
    }
    SUCCESS
}

/// Context and mode of capturing of the calling thread, which are put back when it ends: whatever works on a GPU makes a context of its own current,
/// and allocates and asks for events while this or another thread may capture. NCCL is called without it.
struct Contexts(Option<(&'static Driver, Context, c_int)>);

impl Contexts {
    fn keep() -> Self {
        let kept = |driver: &'static Driver| Some((driver, driver.context()?, driver.relax()));
        Self(Driver::get().and_then(kept))
    }
}

impl Drop for Contexts {
    fn drop(&mut self) {
        if let Some((driver, context, mode)) = self.0 {
            driver.set_context(context);
            driver.exchange_mode(mode);
        }
    }
}
