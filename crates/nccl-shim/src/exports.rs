//! The calls of NCCL that this library defines: each is noted, then goes on to the real one as it came.

#![allow(unsafe_code, reason = "functions of C are defined and called")]
#![allow(non_snake_case, reason = "the names are NCCL's")]
#![allow(clippy::too_many_arguments, reason = "so does NCCL")]

use std::cell::{Cell, RefCell};
use std::ffi::{c_int, c_void};
use std::ptr::null;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::SystemTime;

use crate::abi::{
    Comm, Config, CudaStream, IN_PROGRESS, INTERNAL_ERROR, SUCCESS, UniqueId, coded_type, type_of,
};
use crate::communicators::{Communicator, id_of};
use crate::driver::Driver;
use crate::journal::{Entry, Life, Record};
use crate::process::{Process, guarded};
use crate::real::real;
use crate::settings::{Mode, settings};
use crate::sync::{self, Group, Outcome};

/// Calls that move data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Op {
    AllGather,
    AllReduce,
    ReduceScatter,
    Reduce,
    Broadcast,
    Bcast,
    AlltoAll,
    Gather,
    Scatter,
    Send,
    Recv,
}

impl Op {
    pub(crate) const COUNT: usize = 11;
    /// All calls, by their numbers.
    pub(crate) const ALL: [Self; Self::COUNT] = [
        Self::AllGather,
        Self::AllReduce,
        Self::ReduceScatter,
        Self::Reduce,
        Self::Broadcast,
        Self::Bcast,
        Self::AlltoAll,
        Self::Gather,
        Self::Scatter,
        Self::Send,
        Self::Recv,
    ];

    /// Name in the journal.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::AllGather => "all_gather",
            Self::AllReduce => "all_reduce",
            Self::ReduceScatter => "reduce_scatter",
            Self::Reduce => "reduce",
            Self::Broadcast => "broadcast",
            Self::Bcast => "bcast",
            Self::AlltoAll => "all_to_all",
            Self::Gather => "gather",
            Self::Scatter => "scatter",
            Self::Send => "send",
            Self::Recv => "recv",
        }
    }

    /// Name of the other rank in the journal, if the call names one.
    pub(crate) fn peer_name(self) -> Option<&'static str> {
        match self {
            Self::Send | Self::Recv => Some("peer"),
            Self::Reduce | Self::Broadcast | Self::Bcast | Self::Gather | Self::Scatter => Some("root"),
            Self::AllGather | Self::AllReduce | Self::ReduceScatter | Self::AlltoAll => None,
        }
    }

    /// Whether it computes.
    pub(crate) fn is_reduction(self) -> bool {
        matches!(self, Self::AllReduce | Self::ReduceScatter | Self::Reduce)
    }
}

/// A call with its arguments. Those that it does not have are 0 or -1.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Call {
    pub(crate) op: Op,
    pub(crate) send: usize,
    pub(crate) recv: usize,
    /// Values, as the call counts them: those of a message between two ranks, or of a rank's part.
    pub(crate) count: usize,
    pub(crate) dtype: c_int,
    pub(crate) redop: c_int,
    /// The peer or the root.
    pub(crate) peer: c_int,
    pub(crate) comm: usize,
    pub(crate) stream: usize,
}

impl Call {
    /// Bytes of the values that the call counts; 0 for unknown types.
    pub(crate) fn bytes(&self) -> u64 {
        let width = type_of(self.dtype).map_or(0, |(_, width)| width);
        (self.count as u64).saturating_mul(width as u64)
    }

    /// Whether the settings have messages of such calls compressed: the same on all ranks that make it.
    pub(crate) fn is_eligible(&self) -> bool {
        let settings = settings();
        let coded = coded_type(self.dtype, settings.assume);
        settings.ops.contains(&self.op)
            && self.bytes() >= settings.min_bytes.max(1)
            && coded.is_some_and(|dtype| settings.spec.codec().supports(dtype))
    }

    /// Makes a call whose buffers are those of a program's call or staging memory, for a communicator and a stream of the program.
    pub(crate) fn made(&self) -> c_int {
        // SAFETY: as the caller promises; NCCL checks the rest.
        unsafe { self.issue() }
    }
}

/// A communicator that is made: if by a group, its handle is there when the group has ended.
struct Birth {
    name: &'static str,
    handle: *const Comm,
    origin: Origin,
}

/// Names of a communicator that is made and of its parent, 0 where there is none, and whether its calls block.
#[derive(Clone, Copy, Default)]
struct Origin {
    id: u64,
    parent: u64,
    is_blocking: bool,
}

impl Origin {
    /// Origin of a communicator without a parent.
    fn root(id: u64) -> Self {
        Self { id, parent: 0, is_blocking: true }
    }

    /// The same with what a configuration and NCCL's environment say of blocking, which all ranks must have alike. What NCCL's call returns says
    /// nothing of it: one that does not block can be done when it returns.
    ///
    /// # Safety
    /// The configuration is null or one that NCCL has accepted.
    unsafe fn configured(mut self, config: *const c_void) -> Self {
        if settings().mode == Mode::Sync {
            // SAFETY: as the caller promises; all versions begin alike.
            let asked = unsafe { config.cast::<Config>().as_ref() }.and_then(Config::blocking);
            let forced = std::env::var("NCCL_COMM_BLOCKING").ok().and_then(|value| value.parse::<i64>().ok());
            let forced = forced.filter(|value| [0, 1].contains(value)).map(|value| value == 1);
            self.is_blocking = forced.or(asked).unwrap_or(self.is_blocking);
        }
        self
    }
}

/// State of a thread: groups are a thread's own.
struct Thread {
    depth: Cell<u32>,
    group: Cell<u64>,
    births: RefCell<Vec<Birth>>,
    /// Messages of the group that are compressed.
    messages: RefCell<Group>,
}

thread_local! {
    static THREAD: Thread = Thread {
        depth: Cell::new(0),
        group: Cell::new(0),
        births: RefCell::default(),
        messages: RefCell::default(),
    };
}

/// Number of the outermost group that this thread is in; 0 outside of groups.
fn group() -> u64 {
    THREAD.try_with(|thread| thread.group.get()).unwrap_or(0)
}

/// Looks at a call, and makes it.
fn pass(mut call: Call) -> c_int {
    // The root sends from where the others receive.
    if call.op == Op::Bcast {
        call.send = call.recv;
    }
    match settings().mode {
        Mode::Off => call.made(),
        Mode::Stats => {
            guarded(|| note(call));
            call.made()
        }
        Mode::Sync => guarded(|| compress(call)).flatten().unwrap_or_else(|| {
            guarded(|| note(call));
            call.made()
        }),
    }
}

/// Makes a call with compressed messages; `None` if it is to be made as it is.
fn compress(call: Call) -> Option<c_int> {
    let process = Process::get();
    let communicator = process.communicators.get(call.comm as Comm);
    let wire = sync::wire_of(&call, &communicator)?;
    match sync::is_capturing(&call, &communicator) {
        Ok(false) => {}
        Ok(true) => return None,
        Err(failed) => return Some(failed),
    }
    let add =
        || THREAD.with(|thread| sync::add(&mut thread.messages.borrow_mut(), call, &communicator, wire));
    if group() != 0 {
        return Some(add());
    }
    let started = group_start();
    if started != SUCCESS {
        return Some(started);
    }
    let added = add();
    let ended = group_end();
    Some(if added == SUCCESS { ended } else { added })
}

/// Queues a line for a call, and perhaps a sample of its message.
fn note(call: Call) {
    let process = Process::get();
    if settings().log.is_none() {
        return;
    }
    let stream = call.stream as CudaStream;
    // Where the driver cannot say, nothing may be put into it either.
    let is_capturing = Driver::get().is_some_and(|driver| driver.is_capturing(stream).unwrap_or(true));
    let is_eligible = call.is_eligible();
    let communicator = process.communicators.get(call.comm as Comm);
    // Ranks that are not the root send nothing, whatever they give.
    let sends =
        !matches!(call.op, Op::Broadcast | Op::Bcast | Op::Scatter) || call.peer == communicator.rank();
    let sample = if is_eligible && !is_capturing && sends && call.send != 0 {
        let dtype = coded_type(call.dtype, settings().assume).expect("eligible calls have such a type");
        process.sampler.take(call.send as u64, call.bytes(), dtype, stream)
    } else {
        None
    };
    process.journal.push(Entry::Call(Record {
        time: SystemTime::now(),
        call,
        communicator,
        group: group(),
        is_capturing,
        is_eligible,
        sample,
        wire: None,
    }));
}

/// Queues lines for messages that were compressed.
fn note_outcomes(group: u64, outcomes: Vec<Outcome>) {
    for Outcome { call, communicator, wire_bytes, is_resent } in outcomes {
        Process::get().journal.push(Entry::Call(Record {
            time: SystemTime::now(),
            call,
            communicator,
            group,
            is_capturing: false,
            is_eligible: true,
            sample: None,
            wire: Some((wire_bytes, is_resent)),
        }));
    }
}

/// Notes a communicator that a call is making, unless `result` says that it has failed. [`settle`] goes on with it.
fn born(result: c_int, name: &'static str, handle: *const Comm, origin: Origin) {
    if settings().mode != Mode::Off && !handle.is_null() && matches!(result, SUCCESS | IN_PROGRESS) {
        let birth = Birth { name, handle, origin };
        _ = THREAD.try_with(|thread| thread.births.borrow_mut().push(birth));
    }
}

/// Registers the communicators that calls have made, unless a group has still to make them, and asks their ranks whether they compress. Returns
/// `result`, which is that of the call, or why the ranks cannot be asked.
///
/// # Safety
/// NCCL has written the handles of all communicators that it has made.
unsafe fn settle(result: c_int) -> c_int {
    if settings().mode == Mode::Off || group() != 0 {
        return result;
    }
    let births = THREAD.try_with(|thread| thread.births.take()).unwrap_or_default();
    if !matches!(result, SUCCESS | IN_PROGRESS) {
        return result;
    }
    let asked = guarded(|| {
        // SAFETY: as the caller promises.
        let made = births.iter().filter_map(|birth| unsafe { register(birth, result == SUCCESS) });
        let mut made: Vec<(Comm, Arc<Communicator>)> = made.collect();
        made.retain(|(_, communicator)| communicator.is_blocking && communicator.rank_count() > 1);
        let is_asked = settings().mode == Mode::Sync && result == SUCCESS && !made.is_empty();
        if is_asked { sync::ask(&made) } else { SUCCESS }
    });
    match asked {
        Some(SUCCESS) | None => result,
        Some(failed) => failed,
    }
}

/// Notes a communicator of a group that has ended. Its ranks are asked for if it is ready, and else when it is first used.
///
/// # Safety
/// The handle can be read.
unsafe fn register(birth: &Birth, is_ready: bool) -> Option<(Comm, Arc<Communicator>)> {
    // SAFETY: as the caller promises.
    let comm = unsafe { birth.handle.read_volatile() };
    // A rank of no part in a split gets none.
    if comm.is_null() {
        return None;
    }
    let process = Process::get();
    let communicator = process.communicators.insert(comm, birth.origin.id, birth.origin.is_blocking);
    if is_ready {
        communicator.ask(comm);
    }
    let (time, name, parent) = (SystemTime::now(), birth.name, birth.origin.parent);
    process.journal.push(Entry::Life(Life { time, name, communicator: communicator.clone(), parent }));
    Some((comm, communicator))
}

/// Notes that a communicator ends.
fn dies(name: &'static str, comm: Comm) {
    if settings().mode == Mode::Off || comm.is_null() {
        return;
    }
    guarded(|| {
        let process = Process::get();
        let time = SystemTime::now();
        let communicator = process.communicators.remove(comm).unwrap_or_default();
        communicator.end();
        if let Some(link) = communicator.link.get() {
            link.retire();
        }
        process.journal.push(Entry::Life(Life { time, name, communicator, parent: 0 }));
    });
}

/// Origin of the next communicator of a parent.
fn child_of(parent: Comm, distinction: &[u8]) -> Origin {
    if settings().mode == Mode::Off || parent.is_null() {
        return Origin::default();
    }
    guarded(|| {
        let parent = Process::get().communicators.get(parent);
        Origin { id: parent.child(distinction), parent: parent.id, is_blocking: parent.is_blocking }
    })
    .unwrap_or_default()
}

/// Name for a communicator of these ids.
///
/// # Safety
/// There are so many.
unsafe fn id_of_ids(ids: *const UniqueId, count: c_int) -> u64 {
    let Ok(count) = usize::try_from(count) else { return 0 };
    if ids.is_null() {
        return 0;
    }
    // SAFETY: as the caller promises; every byte is a byte.
    id_of(&[unsafe { std::slice::from_raw_parts(ids.cast(), count * size_of::<UniqueId>()) }])
}

/// A call without arguments.
pub(crate) const NONE: Call =
    Call { op: Op::Send, send: 0, recv: 0, count: 0, dtype: 0, redop: 0, peer: -1, comm: 0, stream: 0 };

/// Type of an argument, by its name.
macro_rules! argument {
    (send) => { *const c_void };
    (recv) => { *mut c_void };
    (count) => { usize };
    (comm) => { Comm };
    (stream) => { CudaStream };
    // The type of the values, the operation of a reduction, the peer or the root.
    ($number:ident) => { c_int };
}

/// Defines the calls that move data, and what makes the real ones, from the arguments of each in their order.
macro_rules! calls {
    ($($op:ident $name:ident $real:literal($($argument:ident),*);)*) => {
        $(
            #[doc = concat!("`", stringify!($name), "`.")]
            #[unsafe(no_mangle)]
            #[allow(clippy::needless_update, reason = "one of them has all arguments")]
            pub(crate) unsafe extern "C" fn $name($($argument: argument!($argument)),*) -> c_int {
                pass(Call { op: Op::$op, $($argument: $argument as _,)* ..NONE })
            }
        )*

        impl Call {
            /// Makes the call.
            ///
            /// # Safety
            /// NCCL's for this call.
            pub(crate) unsafe fn issue(&self) -> c_int {
                match self.op {
                    $(Op::$op => {
                        let function = real!($real, fn($(argument!($argument)),*));
                        // SAFETY: the arguments are those of the program, or of messages that the library has made.
                        unsafe { function($(self.$argument as _),*) }
                    })*
                }
            }
        }
    };
}

calls! {
    AllGather ncclAllGather c"ncclAllGather"(send, recv, count, dtype, comm, stream);
    AllReduce ncclAllReduce c"ncclAllReduce"(send, recv, count, dtype, redop, comm, stream);
    ReduceScatter ncclReduceScatter c"ncclReduceScatter"(send, recv, count, dtype, redop, comm, stream);
    Reduce ncclReduce c"ncclReduce"(send, recv, count, dtype, redop, peer, comm, stream);
    Broadcast ncclBroadcast c"ncclBroadcast"(send, recv, count, dtype, peer, comm, stream);
    Bcast ncclBcast c"ncclBcast"(recv, count, dtype, peer, comm, stream);
    AlltoAll ncclAlltoAll c"ncclAlltoAll"(send, recv, count, dtype, comm, stream);
    Gather ncclGather c"ncclGather"(send, recv, count, dtype, peer, comm, stream);
    Scatter ncclScatter c"ncclScatter"(send, recv, count, dtype, peer, comm, stream);
    Send ncclSend c"ncclSend"(send, count, dtype, peer, comm, stream);
    Recv ncclRecv c"ncclRecv"(recv, count, dtype, peer, comm, stream);
}

/// `ncclGroupStart`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn ncclGroupStart() -> c_int {
    group_start()
}

/// `ncclGroupEnd`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn ncclGroupEnd() -> c_int {
    group_end()
}

/// `ncclGroupSimulateEnd`: a group ends, and nothing of it is done.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn ncclGroupSimulateEnd(info: *mut c_void) -> c_int {
    let function = real!(c"ncclGroupSimulateEnd", fn(*mut c_void));
    if let Some((_, messages)) = leave_group() {
        messages.give_back();
        _ = THREAD.try_with(|thread| thread.births.take());
    }
    // SAFETY: NCCL's for this call.
    unsafe { function(info) }
}

fn group_start() -> c_int {
    static GROUPS: AtomicU64 = AtomicU64::new(0);
    let function = real!(c"ncclGroupStart", fn());
    // SAFETY: it takes nothing.
    let result = unsafe { function() };
    if result == SUCCESS && settings().mode != Mode::Off {
        _ = THREAD.try_with(|thread| {
            if thread.depth.replace(thread.depth.get() + 1) == 0 {
                thread.group.set(GROUPS.fetch_add(1, Ordering::Relaxed) + 1);
            }
        });
    }
    result
}

/// Leaves a group. Returns the number and the messages of the outermost one.
fn leave_group() -> Option<(u64, Group)> {
    let left = THREAD.try_with(|thread| {
        let depth = thread.depth.get();
        thread.depth.set(depth.saturating_sub(1));
        (depth == 1).then(|| (thread.group.replace(0), thread.messages.take()))
    });
    left.ok().flatten()
}

fn group_end() -> c_int {
    let function = real!(c"ncclGroupEnd", fn());
    // SAFETY: it takes nothing.
    let end = || unsafe { function() };
    if settings().mode == Mode::Off {
        return end();
    }
    let Some((number, mut messages)) = leave_group() else { return end() };
    if messages.is_empty() {
        let result = end();
        // SAFETY: NCCL has just written the handles.
        return unsafe { settle(result) };
    }
    let is_encoded = guarded(|| messages.encode()).unwrap_or(false);
    if !is_encoded {
        messages.spoil();
    }
    let result = match end() {
        SUCCESS if !is_encoded => INTERNAL_ERROR,
        result => result,
    };
    // SAFETY: as above.
    let result = unsafe { settle(result) };
    let completed = guarded(|| messages.complete(result));
    let (result, outcomes) = completed.unwrap_or((INTERNAL_ERROR, Vec::new()));
    guarded(|| note_outcomes(number, outcomes));
    result
}

/// `ncclCommInitRank`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn ncclCommInitRank(
    made: *mut Comm,
    ranks: c_int,
    id: UniqueId,
    rank: c_int,
) -> c_int {
    let function = real!(c"ncclCommInitRank", fn(*mut Comm, c_int, UniqueId, c_int));
    // SAFETY: NCCL's for this call.
    unsafe {
        let result = function(made, ranks, id, rank);
        born(result, "comm_init_rank", made, Origin::root(id_of_ids(&raw const id, 1)).configured(null()));
        settle(result)
    }
}

/// `ncclCommInitRankConfig`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn ncclCommInitRankConfig(
    made: *mut Comm,
    ranks: c_int,
    id: UniqueId,
    rank: c_int,
    config: *mut c_void,
) -> c_int {
    let function = real!(c"ncclCommInitRankConfig", fn(*mut Comm, c_int, UniqueId, c_int, *mut c_void));
    // SAFETY: NCCL's for this call.
    unsafe {
        let result = function(made, ranks, id, rank, config);
        born(
            result,
            "comm_init_rank_config",
            made,
            Origin::root(id_of_ids(&raw const id, 1)).configured(config),
        );
        settle(result)
    }
}

/// `ncclCommInitRankScalable`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn ncclCommInitRankScalable(
    made: *mut Comm,
    ranks: c_int,
    rank: c_int,
    id_count: c_int,
    ids: *mut UniqueId,
    config: *mut c_void,
) -> c_int {
    let function =
        real!(c"ncclCommInitRankScalable", fn(*mut Comm, c_int, c_int, c_int, *mut UniqueId, *mut c_void));
    // SAFETY: NCCL's for this call.
    unsafe {
        let result = function(made, ranks, rank, id_count, ids, config);
        born(
            result,
            "comm_init_rank_scalable",
            made,
            Origin::root(id_of_ids(ids, id_count)).configured(config),
        );
        settle(result)
    }
}

/// `ncclCommInitAll`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn ncclCommInitAll(
    made: *mut Comm,
    count: c_int,
    devices: *const c_int,
) -> c_int {
    static ALL: AtomicU64 = AtomicU64::new(0);
    let function = real!(c"ncclCommInitAll", fn(*mut Comm, c_int, *const c_int));
    // SAFETY: NCCL's for this call, which has written so many handles.
    unsafe {
        let result = function(made, count, devices);
        // All ranks are in this process.
        let number = ALL.fetch_add(1, Ordering::Relaxed);
        let id = id_of(&[&std::process::id().to_le_bytes(), &number.to_le_bytes()]);
        for index in 0..usize::try_from(count).unwrap_or(0) {
            born(result, "comm_init_all", made.wrapping_add(index), Origin::root(id).configured(null()));
        }
        settle(result)
    }
}

/// `ncclCommSplit`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn ncclCommSplit(
    comm: Comm,
    color: c_int,
    key: c_int,
    made: *mut Comm,
    config: *mut c_void,
) -> c_int {
    let function = real!(c"ncclCommSplit", fn(Comm, c_int, c_int, *mut Comm, *mut c_void));
    let origin = child_of(comm, &color.to_le_bytes());
    // SAFETY: NCCL's for this call.
    unsafe {
        let result = function(comm, color, key, made, config);
        born(result, "comm_split", made, origin.configured(config));
        settle(result)
    }
}

/// `ncclCommShrink`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn ncclCommShrink(
    comm: Comm,
    excluded: *mut c_int,
    excluded_count: c_int,
    made: *mut Comm,
    config: *mut c_void,
    flags: c_int,
) -> c_int {
    let function = real!(c"ncclCommShrink", fn(Comm, *mut c_int, c_int, *mut Comm, *mut c_void, c_int));
    let origin = child_of(comm, b"shrink");
    // SAFETY: NCCL's for this call.
    unsafe {
        let result = function(comm, excluded, excluded_count, made, config, flags);
        born(result, "comm_shrink", made, origin.configured(config));
        settle(result)
    }
}

/// `ncclCommGrow`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn ncclCommGrow(
    comm: Comm,
    ranks: c_int,
    ids: *const UniqueId,
    rank: c_int,
    made: *mut Comm,
    config: *mut c_void,
) -> c_int {
    let function = real!(c"ncclCommGrow", fn(Comm, c_int, *const UniqueId, c_int, *mut Comm, *mut c_void));
    // SAFETY: NCCL's for this call. New ranks have no parent, so nothing but the number of ranks is known to all, and none of
    // them compresses.
    unsafe {
        let parent = child_of(comm, b"grow").parent;
        let result = function(comm, ranks, ids, rank, made, config);
        born(result, "comm_grow", made, Origin { id: 0, parent, is_blocking: false });
        settle(result)
    }
}

/// `ncclCommDestroy`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn ncclCommDestroy(comm: Comm) -> c_int {
    let function = real!(c"ncclCommDestroy", fn(Comm));
    dies("comm_destroy", comm);
    // SAFETY: NCCL's for this call.
    unsafe { function(comm) }
}

/// `ncclCommAbort`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn ncclCommAbort(comm: Comm) -> c_int {
    let function = real!(c"ncclCommAbort", fn(Comm));
    dies("comm_abort", comm);
    // SAFETY: NCCL's for this call.
    unsafe { function(comm) }
}
