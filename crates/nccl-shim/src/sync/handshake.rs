//! The question that all ranks of a new communicator answer before it compresses anything: whether their settings are the same, and their GPUs
//! ready. A rank without this library, or with it in another mode, does not answer, and the others wait for it.

#![allow(unsafe_code, reason = "NCCL is called")]

use std::ffi::c_int;
use std::sync::{Arc, Mutex, PoisonError};

use zipwire_kernels::{Device, DeviceRegion, Event, GpuError, Stream};

use super::gpu::{Gpu, Places};
use super::wait::wait_for;
use crate::abi::{Comm, INTERNAL_ERROR, SUCCESS, SYSTEM_ERROR};
use crate::communicators::{Communicator, id_of};
use crate::exports::{Call, NONE, Op};
use crate::process::{Process, tell};
use crate::real::real;
use crate::settings::settings;

/// Bytes of an answer: a hash of the settings, and whether the rank is ready.
const ANSWER_BYTES: u64 = 16;
/// `ncclUint8`.
pub(super) const BYTES: c_int = 1;

/// A communicator that compresses.
#[derive(Debug)]
pub(crate) struct Link {
    pub(super) gpu: Arc<Gpu>,
    /// Taken by the group that uses it: NCCL allows one thread at a time.
    pub(super) places: Mutex<Option<Places>>,
}

impl Link {
    /// Keeps the memory of a communicator that ends for others: freeing it would wait for all streams of the device.
    pub(crate) fn retire(&self) {
        if let Some(places) = self.places.lock().unwrap_or_else(PoisonError::into_inner).take() {
            self.gpu.keep(places);
        }
    }
}

/// Answers of a communicator on their way.
struct Question<'a> {
    comm: Comm,
    communicator: &'a Communicator,
    link: Result<Link, GpuError>,
    stream: Stream,
    event: Event,
    answers: DeviceRegion,
}

/// Asks the ranks of new communicators, all at once: ranks of several may be in this process. Waits for all of them.
pub(crate) fn ask(comms: &[(Comm, Arc<Communicator>)]) -> c_int {
    let questions = comms.iter().map(|(comm, communicator)| question(*comm, communicator));
    let questions = match questions.collect::<Result<Vec<Question<'_>>, GpuError>>() {
        Ok(questions) => questions,
        Err(why) => {
            tell(&format!("a new communicator cannot be used: {}", one_line(&why)));
            return SYSTEM_ERROR;
        }
    };
    let result = exchange(&questions);
    if result != SUCCESS {
        return result;
    }
    for question in questions {
        if let Err(why) = question.conclude() {
            tell(&format!("the ranks of a new communicator cannot be asked: {}", one_line(&why)));
            return INTERNAL_ERROR;
        }
    }
    SUCCESS
}

fn question(comm: Comm, communicator: &Communicator) -> Result<Question<'_>, GpuError> {
    let ordinal = device_of(comm);
    let device = Device::open(usize::try_from(ordinal).unwrap_or(0))?;
    let ranks = u64::try_from(communicator.rank_count()).unwrap_or(0);
    let rank = u64::try_from(communicator.rank()).unwrap_or(0);
    let answers = DeviceRegion::allocate(&device, ANSWER_BYTES * ranks)?;
    let link = link(&device, ranks);
    let answer = [settings_hash(), u64::from(link.is_ok())].map(u64::to_le_bytes).concat();
    answers.part(ANSWER_BYTES * rank..ANSWER_BYTES * (rank + 1)).write(&answer)?;
    let (stream, event) = (Stream::new(&device)?, Event::new(&device)?);
    Ok(Question { comm, communicator, link, stream, event, answers })
}

/// GPU and memory that a communicator needs to compress.
fn link(device: &Device, ranks: u64) -> Result<Link, GpuError> {
    let gpu = Process::get().gpus.get(device.ordinal(), &settings().spec)?;
    let places = Mutex::new(Some(gpu.places(ranks)?));
    Ok(Link { gpu, places })
}

fn exchange(questions: &[Question<'_>]) -> c_int {
    let start = real!(c"ncclGroupStart", fn());
    let end = real!(c"ncclGroupEnd", fn());
    // SAFETY: buffers and streams are those of the questions, which live until all is done.
    unsafe {
        let mut result = start();
        for Question { comm, communicator, stream, answers, .. } in questions {
            let rank = u64::try_from(communicator.rank()).unwrap_or(0);
            let call = Call {
                op: Op::AllGather,
                send: (answers.address() + ANSWER_BYTES * rank) as usize,
                recv: answers.address() as usize,
                count: ANSWER_BYTES as usize,
                dtype: BYTES,
                comm: *comm as usize,
                stream: stream.handle() as usize,
                ..NONE
            };
            result = if result == SUCCESS { call.issue() } else { result };
        }
        let ended = end();
        if result == SUCCESS { ended } else { result }
    }
}

impl Question<'_> {
    /// Waits for the answers. The communicator compresses if they are all as this rank's.
    fn conclude(self) -> Result<(), GpuError> {
        let Self { communicator, link, stream, event, answers, .. } = self;
        stream.record(&event)?;
        wait_for(&event, || {
            format!(
                "the other ranks of communicator {:016x} to say that ZIPWIRE_NCCL=sync is set there as well",
                communicator.id
            )
        })?;
        // Kept: memory is freed only when all streams of the device are done, and ranks may wait for one another in these.
        let answers = std::mem::ManuallyDrop::new(answers).read()?;
        let (first, others) =
            answers.as_chunks::<{ ANSWER_BYTES as usize }>().0.split_first().expect("there is a rank");
        let differs = others.iter().position(|answer| answer[..8] != first[..8]);
        let is_unready = |answer: &[u8; ANSWER_BYTES as usize]| answer[8..] == [0; 8];
        let unready = answers.as_chunks().0.iter().position(is_unready);
        let own = link.as_ref().err().map(one_line);
        match (differs, unready, link) {
            (None, None, Ok(link)) => _ = communicator.link.set(link),
            (Some(other), _, _) if communicator.rank() == 0 => tell(&format!(
                "communicator {:016x} is not compressed: ranks 0 and {} have different ZIPWIRE_NCCL_* or different versions of this library",
                communicator.id,
                other + 1
            )),
            (None, Some(rank), _) if communicator.rank() as usize == rank => tell(&format!(
                "communicator {:016x} is not compressed: rank {rank} cannot: {}",
                communicator.id,
                own.unwrap_or_default()
            )),
            _ => {}
        }
        Ok(())
    }
}

/// Hash of all that the ends of a message must have in common.
fn settings_hash() -> u64 {
    let settings = settings();
    let ops: Vec<u8> = Op::ALL.iter().map(|op| u8::from(settings.ops.contains(op))).collect();
    let spec = settings.spec.to_string();
    let version = (super::WIRE_VERSION, settings.spec.frame_version());
    id_of(&[
        &[version.0, version.1, u8::from(settings.assume.is_some())],
        &settings.min_bytes.to_le_bytes(),
        &ops,
        spec.as_bytes(),
    ])
}

fn device_of(comm: Comm) -> c_int {
    let ask = |number: *mut c_int| {
        let function = real!(c"ncclCommCuDevice", fn(Comm, *mut c_int));
        // SAFETY: NCCL has just made the communicator, and there is room for the result.
        unsafe { function(comm, number) }
    };
    let mut number = 0;
    if ask(&raw mut number) == SUCCESS { number } else { 0 }
}

/// Whether a communicator can be asked now: one that does not block is made while the program goes on, and is not compressed.
pub(crate) fn is_ready(comm: Comm) -> bool {
    let ask = |state: *mut c_int| {
        let function = real!(c"ncclCommGetAsyncError", fn(Comm, *mut c_int));
        // SAFETY: NCCL has just made the communicator, and there is room for the result.
        unsafe { function(comm, state) }
    };
    let mut state = SUCCESS;
    ask(&raw mut state) == SUCCESS && state == SUCCESS
}

pub(super) fn one_line(error: &GpuError) -> String {
    error.to_string().replace('\n', "; ")
}
