//! The question that all ranks of a new communicator answer before it compresses anything: whether their settings are the same, and their GPUs
//! ready. A rank without this library, or with it in another mode, does not answer, and the others wait for it.

#![allow(unsafe_code, reason = "NCCL is called")]

use std::ffi::c_int;
use std::sync::{Arc, Mutex, PoisonError};

use zipwire_kernels::{Event, GpuError, Stream};

use super::Contexts;
use super::gpu::{Gpu, Places};
use super::wait::{Failure, wait_for};
use crate::abi::{Comm, SUCCESS, SYSTEM_ERROR};
use crate::communicators::{Communicator, id_of};
use crate::driver::Driver;
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
    gpu: Arc<Gpu>,
    /// Memory of the answers, and later of the communicator's messages.
    places: Places,
    /// Reason for which this rank cannot compress.
    lack: Option<String>,
    stream: Stream,
    event: Event,
}

/// Asks the ranks of new communicators, all at once: ranks of several may be in this process. Waits for all of them.
pub(crate) fn ask(comms: &[(Comm, Arc<Communicator>)]) -> c_int {
    let contexts = Contexts::keep();
    let mut questions = Vec::new();
    for (comm, communicator) in comms {
        match Question::new(*comm, communicator) {
            Ok(question) => questions.push(question),
            Err(why) => {
                tell(&format!("a new communicator cannot be used: {}", one_line(&why)));
                // The answers of others are still on their way to the GPU.
                std::mem::forget(questions);
                return SYSTEM_ERROR;
            }
        }
    }
    drop(contexts);
    let result = exchange(&questions);
    if result != SUCCESS {
        // NCCL may still use the memory.
        std::mem::forget(questions);
        return result;
    }
    let _contexts = Contexts::keep();
    let mut result = SUCCESS;
    for question in questions {
        match question.wait() {
            Ok(()) => question.conclude(),
            Err(Failure { result: failed, why }) => {
                tell(&format!("the ranks of a new communicator cannot be asked: {why}"));
                std::mem::forget(question);
                result = failed;
            }
        }
    }
    result
}

fn exchange(questions: &[Question<'_>]) -> c_int {
    let start = real!(c"ncclGroupStart", fn());
    let end = real!(c"ncclGroupEnd", fn());
    // SAFETY: buffers and streams are those of the questions, which live until all is done.
    unsafe {
        let mut result = start();
        for Question { comm, communicator, stream, places, .. } in questions {
            let answers = &places.region;
            let call = Call {
                op: Op::AllGather,
                send: (answers.address() + ANSWER_BYTES * communicator.rank() as u64) as usize,
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

impl<'a> Question<'a> {
    /// Queues this rank's answer in a stream of its own: nothing that other streams do is waited for.
    fn new(comm: Comm, communicator: &'a Communicator) -> Result<Self, GpuError> {
        let gpu = Process::get().gpus.get(device_of(comm), &settings().spec)?;
        let (stream, event) = (Stream::new(&gpu.device)?, Event::new(&gpu.device)?);
        let driver = || Driver::find_now().is_none().then(|| "the driver lacks functions".to_owned());
        let lack = gpu.coder.as_ref().err().cloned().or_else(driver);
        let (ranks, rank) = (communicator.rank_count() as u64, communicator.rank() as u64);
        let places = gpu.places(ranks)?;
        let question = Self { comm, communicator, gpu, places, lack, stream, event };
        let answer = [settings_hash(), u64::from(question.lack.is_none())].map(u64::to_le_bytes).concat();
        let Places { region, host } = &question.places;
        let own = ANSWER_BYTES * rank..ANSWER_BYTES * (rank + 1);
        host.write(own.start, &answer);
        match question.stream.upload(host, own.start, &region.part(own)) {
            Ok(()) => Ok(question),
            Err(why) => {
                question.gpu.keep(question.places);
                Err(why)
            }
        }
    }

    /// Waits for the answers.
    fn wait(&self) -> Result<(), Failure> {
        let Self { comm, communicator, places: Places { region, host }, stream, event, .. } = self;
        let all = region.part(0..ANSWER_BYTES * communicator.rank_count() as u64);
        stream.download(&all, host, 0)?;
        stream.record(event)?;
        wait_for(event, &[(*comm, *communicator)], || {
            format!(
                "the other ranks of communicator {:016x} to say that ZIPWIRE_NCCL=sync is set there as well",
                communicator.id
            )
        })
    }

    /// Looks at the answers. The communicator compresses if they are all as this rank's.
    fn conclude(self) {
        let Self { communicator, gpu, places, lack, .. } = self;
        let mut answers = vec![[0_u8; ANSWER_BYTES as usize]; communicator.rank_count() as usize];
        places.host.read(0, answers.as_flattened_mut());
        let differs = answers.iter().position(|answer| answer[..8] != answers[0][..8]);
        let unready = answers.iter().position(|answer| answer[8..] == [0; 8]);
        match (differs, unready) {
            (None, None) => {
                _ = communicator.link.set(Link { gpu, places: Mutex::new(Some(places)) });
                return;
            }
            (Some(other), _) if communicator.rank() == 0 => tell(&format!(
                "communicator {:016x} is not compressed: ranks 0 and {other} have different ZIPWIRE_NCCL_* or different versions of this library",
                communicator.id
            )),
            (None, Some(rank)) if communicator.rank() as usize == rank => tell(&format!(
                "communicator {:016x} is not compressed: rank {rank} cannot: {}",
                communicator.id,
                lack.unwrap_or_default()
            )),
            _ => {}
        }
        gpu.keep(places);
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

fn device_of(comm: Comm) -> usize {
    let ask = |number: *mut c_int| {
        let function = real!(c"ncclCommCuDevice", fn(Comm, *mut c_int));
        // SAFETY: NCCL has just made the communicator, and there is room for the result.
        unsafe { function(comm, number) }
    };
    let mut number = 0;
    if ask(&raw mut number) == SUCCESS { usize::try_from(number).unwrap_or(0) } else { 0 }
}

pub(super) fn one_line(error: &GpuError) -> String {
    error.to_string().replace('\n', "; ")
}
