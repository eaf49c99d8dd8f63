//! A process's part in MPI: messages that are sent and received while it does other things.

#![allow(unsafe_code, reason = "functions of a C library are called")]

use std::collections::HashMap;
use std::ffi::{CStr, c_char, c_int};
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::abi::{Handle, LONGEST_ERROR, LONGEST_HOST, LONGEST_VERSION, THREAD_LEVELS, UNDEFINED};
use crate::{Library, MpiError};

/// The longest message that MPI is given, in bytes: counts are C integers, so longer ones go in parts.
const LONGEST: usize = 1 << 30;
/// The longest one to another host. MPI asks the receiver before it sends a long message, and over TCP the answer waits until what goes the
/// other way has left: with long messages links would be half duplex. Shared memory moves whole messages faster.
const LONGEST_BETWEEN_HOSTS: usize = 2 << 20;

/// Which of the communicators a message goes through. Messages of one are not received on another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Channel {
    /// Transfers of a plan.
    Data,
    /// Transfers of calls of a library.
    Calls,
    /// Control messages between ranks.
    Control,
}

/// A message under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Ticket(u64);

impl Ticket {
    /// The ticket with this number, for what carries messages in place of MPI.
    pub const fn new(number: u64) -> Self {
        Self(number)
    }
}

/// A message that has been sent, or received.
#[derive(Debug)]
pub struct Done {
    /// The message.
    pub ticket: Ticket,
    /// Memory that it was sent from or received into.
    pub bytes: Bytes,
    /// Bytes that came; of a message that was sent, all.
    pub len: usize,
    /// The other process: sender of a received message, receiver of a sent one.
    pub peer: u32,
    /// Error of the message, if it failed.
    pub error: Option<MpiError>,
}

/// This process in its MPI job; one per process.
///
/// It may move to another thread, and every call takes it as `&mut`, so threads take turns, as `MPI_THREAD_SERIALIZED` wants it.
#[derive(Debug)]
pub struct Endpoint {
    pub(crate) library: &'static Library,
    pub(crate) communicators: [Handle; 3],
    rank: u32,
    size: u32,
    largest_tag: u32,
    /// Processes on this host, by rank; all, until it is said.
    is_near: Vec<bool>,
    next: u64,
    /// Active MPI requests; `parts` names the message that each belongs to.
    requests: Vec<Handle>,
    parts: Vec<Ticket>,
    messages: HashMap<Ticket, Message>,
    /// Scratch for what MPI says is done.
    indices: Vec<c_int>,
    statuses: Vec<u64>,
}

/// A message that is not done. It has its bytes until all of its parts are.
#[derive(Debug)]
struct Message {
    bytes: Bytes,
    left: usize,
    len: usize,
    peer: Option<u32>,
    is_sent: bool,
    error: Option<MpiError>,
}

// SAFETY: handles and requests are MPI's, which lets threads take turns: at least MPI_THREAD_SERIALIZED is made sure of at the start, and
// no method takes `&self` and calls MPI. What is lent is `Send`.
unsafe impl Send for Endpoint {}

static IS_BEGUN: AtomicBool = AtomicBool::new(false);

impl Endpoint {
    /// Initialises MPI. All processes of the job must do so. To be called on the main thread.
    ///
    /// # Errors
    /// If MPI fails, was initialised before, or does not let threads take turns.
    pub fn begin(library: &'static Library) -> Result<Self, MpiError> {
        if IS_BEGUN.swap(true, Ordering::AcqRel) {
            return Err(MpiError::Twice);
        }
        let (calls, constants) = (&library.calls, &library.constants);
        let (mut is_initialised, mut provided) = (0, 0);
        // SAFETY: MPI_Initialized may be called at any time.
        check(library, "MPI_Initialized", unsafe { (calls.initialized)(&raw mut is_initialised) })?;
        if is_initialised != 0 {
            return Err(MpiError::Twice);
        }
        let [_, _, wanted, _] = constants.thread_levels;
        // SAFETY: it is the first call of this process, and MPI takes null for the arguments of the program.
        let code = unsafe {
            (calls.init_thread)(std::ptr::null_mut(), std::ptr::null_mut(), wanted, &raw mut provided)
        };
        check(library, "MPI_Init_thread", code)?;
        if provided < wanted {
            let level = constants.thread_levels.iter().position(|level| *level == provided).unwrap_or(0);
            return Err(MpiError::ThreadLevel(THREAD_LEVELS[level]));
        }
        let mut communicators = [std::ptr::null_mut(); 3];
        // Errors of calls that concern no communicator, or several, are those of the world or of this process alone. The communicators that
        // are made from the world take after it.
        for own in [constants.world, constants.own] {
            // SAFETY: MPI is initialised, and these are its own handles.
            let code = unsafe { (calls.comm_set_errhandler)(own, constants.errors_return) };
            check(library, "MPI_Comm_set_errhandler", code)?;
        }
        for own in &mut communicators {
            // SAFETY: as above, and the pointer is to a live handle.
            check(library, "MPI_Comm_dup", unsafe { (calls.comm_dup)(constants.world, own) })?;
        }
        let (mut rank, mut size, mut found) = (0, 0, 0);
        let mut largest: *mut c_int = std::ptr::null_mut();
        // SAFETY: as above; the attribute is a pointer to an integer of MPI's own.
        let largest_tag = unsafe {
            check(library, "MPI_Comm_rank", (calls.comm_rank)(constants.world, &raw mut rank))?;
            check(library, "MPI_Comm_size", (calls.comm_size)(constants.world, &raw mut size))?;
            let code =
                (calls.comm_get_attr)(constants.world, constants.tag_ub, &raw mut largest, &raw mut found);
            check(library, "MPI_Comm_get_attr", code)?;
            if found != 0 && !largest.is_null() { *largest } else { 32_767 }
        };
        let natural = |number: c_int| u32::try_from(number).unwrap_or(0);
        Ok(Self {
            library,
            communicators,
            rank: natural(rank),
            size: natural(size),
            largest_tag: natural(largest_tag),
            is_near: vec![true; natural(size) as usize],
            next: 0,
            requests: Vec::new(),
            parts: Vec::new(),
            messages: HashMap::new(),
            indices: Vec::new(),
            statuses: Vec::new(),
        })
    }

    /// The number of this process.
    pub fn rank(&self) -> u32 {
        self.rank
    }

    /// The number of processes.
    pub fn size(&self) -> u32 {
        self.size
    }

    /// The largest tag that a message can have.
    pub fn largest_tag(&self) -> u32 {
        self.largest_tag
    }

    /// Says which processes are on the host of this one. All must have said so, each of its own host, before messages of more than 2 MiB are
    /// sent: both ends cut them into the same parts.
    pub fn set_near(&mut self, ranks: &[u32]) {
        self.is_near = (0..self.size).map(|rank| ranks.contains(&rank)).collect();
    }

    /// Name and version of the library: the first line of its own description.
    ///
    /// # Errors
    /// If MPI fails.
    pub fn version(&mut self) -> Result<String, MpiError> {
        let text =
            self.text("MPI_Get_library_version", LONGEST_VERSION, self.library.calls.get_library_version)?;
        Ok(text.lines().next().unwrap_or_default().trim().to_owned())
    }

    /// Name of the host that this process runs on.
    ///
    /// # Errors
    /// If MPI fails.
    pub fn host(&mut self) -> Result<String, MpiError> {
        self.text("MPI_Get_processor_name", LONGEST_HOST, self.library.calls.get_processor_name)
    }

    fn text(
        &mut self,
        function: &'static str,
        longest: usize,
        call: unsafe extern "C" fn(*mut c_char, *mut c_int) -> c_int,
    ) -> Result<String, MpiError> {
        let (mut text, mut len) = (vec![0_u8; longest + 1], 0);
        // SAFETY: the buffer is longer than what MPI writes at the most, and zeros are behind that.
        check(self.library, function, unsafe { call(text.as_mut_ptr().cast(), &raw mut len) })?;
        Ok(of_c(&text))
    }

    /// Begins to send a message. Messages between two processes with the same tag arrive in the order in which they were sent.
    ///
    /// # Errors
    /// If MPI fails. Then nothing is sent.
    pub fn send(&mut self, channel: Channel, bytes: Bytes, to: u32, tag: u32) -> Result<Ticket, MpiError> {
        self.start(channel, bytes, Some(to), tag, true)
    }

    /// Begins to receive a message from a process, or from any.
    ///
    /// # Errors
    /// If MPI fails. Then nothing is received.
    pub fn receive(
        &mut self,
        channel: Channel,
        bytes: Bytes,
        from: Option<u32>,
        tag: u32,
    ) -> Result<Ticket, MpiError> {
        self.start(channel, bytes, from, tag, false)
    }

    fn start(
        &mut self,
        channel: Channel,
        mut bytes: Bytes,
        peer: Option<u32>,
        tag: u32,
        is_sent: bool,
    ) -> Result<Ticket, MpiError> {
        let Library { calls, constants, .. } = self.library;
        let (len, base) = (bytes.len(), bytes.pointer());
        let communicator = self.communicators[channel as usize];
        let c = |number: u32| c_int::try_from(number).expect("ranks and tags are those that MPI has named");
        let (peer_c, tag_c) = (peer.map_or(constants.any_source, c), c(tag));
        let ticket = Ticket(self.next);
        self.next += 1;
        let is_near = peer.is_none_or(|peer| self.is_near[peer as usize]);
        let longest = if is_near { LONGEST } else { LONGEST_BETWEEN_HOSTS };
        let (mut left, mut begin) = (0, 0);
        let mut failed = None;
        // A message of no bytes is one part.
        while failed.is_none() && (begin < len || left == 0) {
            let count = c_int::try_from((len - begin).min(longest)).expect("parts are short");
            let mut request = constants.no_request;
            // SAFETY: the part lies within the bytes, which the message owns or has on loan, and which stay where they are until all of
            // its parts are done: `messages` keeps them, and if they are never done they are never freed (see `Drop`).
            let code = unsafe {
                let pointer = base.add(begin);
                if is_sent {
                    let (byte, out) = (constants.byte, &raw mut request);
                    (calls.isend)(pointer.cast_const().cast(), count, byte, peer_c, tag_c, communicator, out)
                } else {
                    let (byte, out) = (constants.byte, &raw mut request);
                    (calls.irecv)(pointer.cast(), count, byte, peer_c, tag_c, communicator, out)
                }
            };
            match check(self.library, if is_sent { "MPI_Isend" } else { "MPI_Irecv" }, code) {
                Ok(()) => {
                    self.requests.push(request);
                    self.parts.push(ticket);
                    left += 1;
                    begin += count as usize;
                }
                Err(error) => failed = Some(error),
            }
        }
        match failed {
            // Parts that have begun keep the bytes.
            Some(error) if left == 0 => Err(error),
            error => {
                self.messages.insert(ticket, Message { bytes, left, len: 0, peer, is_sent, error });
                Ok(ticket)
            }
        }
    }

    /// Messages under way.
    pub fn under_way(&self) -> usize {
        self.messages.len()
    }

    /// Adds to `done` what has been sent and received since the last time. Lets MPI move what is under way.
    ///
    /// # Errors
    /// If MPI fails as a whole; what is wrong with a message is said with it.
    pub fn test(&mut self, done: &mut Vec<Done>) -> Result<(), MpiError> {
        if self.requests.is_empty() {
            return Ok(());
        }
        let Library { calls, constants, .. } = self.library;
        let count = self.requests.len();
        let words = constants.status_bytes / size_of::<u64>();
        self.indices.resize(count, 0);
        self.statuses.resize(count * words, 0);
        let mut completed = 0;
        let total = c_int::try_from(count).expect("what is under way is counted in a C integer");
        // SAFETY: both arrays have room for all requests, statuses in the size of the dialect, aligned for what they hold.
        let code = unsafe {
            (calls.testsome)(
                total,
                self.requests.as_mut_ptr(),
                &raw mut completed,
                self.indices.as_mut_ptr(),
                self.statuses.as_mut_ptr().cast(),
            )
        };
        let failed = check(self.library, "MPI_Testsome", code).err();
        if completed == UNDEFINED || completed == 0 {
            return failed.map_or(Ok(()), Err);
        }
        let completed = usize::try_from(completed).unwrap_or(0);
        for place in 0..completed {
            let status = &self.statuses[place * words..][..words];
            let index = usize::try_from(self.indices[place]).expect("MPI names requests that it was given");
            let ticket = self.parts[index];
            let message = self.messages.get_mut(&ticket).expect("parts belong to messages under way");
            message.left -= 1;
            let [source, error] = fields(status);
            // The field is set only if the call says that some message has failed.
            if failed.is_some() && error != 0 {
                let function = if message.is_sent { "MPI_Isend" } else { "MPI_Irecv" };
                message.error = check(self.library, function, error).err();
            } else if !message.is_sent {
                let mut bytes = 0;
                // SAFETY: the status is one that MPI has just written.
                let code =
                    unsafe { (calls.get_count)(status.as_ptr().cast(), constants.byte, &raw mut bytes) };
                check(self.library, "MPI_Get_count", code)?;
                message.len += usize::try_from(bytes).unwrap_or(0);
                message.peer = u32::try_from(source).ok();
            }
        }
        let (requests, none) = (&self.requests, constants.no_request);
        let is_left: Vec<bool> = requests.iter().map(|request| *request != none).collect();
        let mut is_left_of = is_left.iter();
        self.requests.retain(|_| *is_left_of.next().expect("one for each"));
        let mut is_left_of = is_left.iter();
        let mut ended = Vec::new();
        let messages = &self.messages;
        self.parts.retain(|ticket| {
            let stays = *is_left_of.next().expect("one for each");
            if !stays && messages[ticket].left == 0 {
                ended.push(*ticket);
            }
            stays
        });
        ended.dedup();
        for ticket in ended {
            let Some(message) = self.messages.remove(&ticket) else { continue };
            let Message { bytes, len, peer, is_sent, error, .. } = message;
            let len = if is_sent { bytes.len() } else { len };
            done.push(Done { ticket, bytes, len, peer: peer.unwrap_or(u32::MAX), error });
        }
        Ok(())
    }

    /// Ends MPI, when all processes do. What is under way must be done.
    ///
    /// # Errors
    /// If MPI fails.
    pub fn finish(self) -> Result<(), MpiError> {
        // SAFETY: MPI was initialised by this value, which ends here.
        check(self.library, "MPI_Finalize", unsafe { (self.library.calls.finalize)() })
    }

    /// Carries a collective out, together with all processes.
    ///
    /// # Errors
    /// If MPI fails.
    pub fn collective(&mut self, buffers: &mut CollectiveBuffers) -> Result<(), MpiError> {
        let (library, communicator) = (self.library, self.communicators[Channel::Calls as usize]);
        let Library { calls, constants, .. } = library;
        let CollectiveBuffers { collective, sent, received, count } = buffers;
        let (count, float, sum) = (*count, constants.float, constants.sum);
        let (from, to) = (sent.as_mut_ptr(), received.as_mut_ptr());
        // SAFETY: `CollectiveBuffers::new` has made both buffers as long as the collective takes with this count and the number of processes of
        // the only job that this process has, and MPI is done with them when the call returns.
        let code = unsafe {
            match collective {
                Collective::AllToAll => {
                    (calls.alltoall)(from.cast(), count, float, to.cast(), count, float, communicator)
                }
                Collective::AllGather => {
                    (calls.allgather)(from.cast(), count, float, to.cast(), count, float, communicator)
                }
                Collective::Broadcast => (calls.bcast)(from.cast(), count, float, 0, communicator),
                Collective::AllReduce => {
                    (calls.allreduce)(from.cast(), to.cast(), count, float, sum, communicator)
                }
                Collective::ReduceScatter => {
                    (calls.reduce_scatter_block)(from.cast(), to.cast(), count, float, sum, communicator)
                }
            }
        };
        check(library, collective.function(), code)
    }
}

impl Drop for Endpoint {
    /// MPI still knows of messages that are not done: their bytes stay for good.
    fn drop(&mut self) {
        self.messages.drain().for_each(|(_, message)| std::mem::forget(message));
    }
}

/// Source and error of a status: in both dialects the first and the third C integer.
fn fields(status: &[u64]) -> [c_int; 2] {
    let integer = |index: usize| {
        let bytes = status[index / 2].to_ne_bytes();
        let at = 4 * (index % 2);
        c_int::from_ne_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
    };
    [integer(0), integer(2)]
}

/// Turns the return code of an MPI call into a result.
pub(crate) fn check(library: &Library, function: &'static str, code: c_int) -> Result<(), MpiError> {
    if code == 0 {
        return Ok(());
    }
    let (mut class, mut text, mut len) = (code, vec![0_u8; LONGEST_ERROR + 1], 0);
    // SAFETY: both may be called with any code that MPI has returned; the buffer is longer than what MPI writes at the most.
    let is_told = unsafe {
        (library.calls.error_class)(code, &raw mut class);
        (library.calls.error_string)(code, text.as_mut_ptr().cast(), &raw mut len) == 0
    };
    let text = if is_told { of_c(&text) } else { format!("error {code}") };
    Err(MpiError::Call { function, class, text })
}

fn of_c(bytes: &[u8]) -> String {
    CStr::from_bytes_until_nul(bytes)
        .map_or_else(|_| String::new(), |text| text.to_string_lossy().into_owned())
}

/// Memory that its owner lends until a message has been sent or received.
///
/// # Safety
/// From the first call of [`pointer`](Self::pointer) until the value is dropped, the pointer stays the same and is valid for as many
/// bytes as [`len`](Self::len) says, whichever thread holds the value; nobody else writes these bytes, nor reads them while a message is
/// received into them.
pub unsafe trait Lent: Send {
    /// Its first byte.
    fn pointer(&mut self) -> *mut u8;

    /// Bytes.
    fn len(&self) -> usize;

    /// Whether there are none.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// The bytes of a message, which the message has for as long as it is under way.
pub enum Bytes {
    /// Owned by the message.
    Owned(Vec<u8>),
    /// Lent by another owner.
    Lent(Box<dyn Lent>),
}

impl Bytes {
    pub(crate) fn pointer(&mut self) -> *mut u8 {
        match self {
            Self::Owned(bytes) => bytes.as_mut_ptr(),
            Self::Lent(lent) => lent.pointer(),
        }
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        match self {
            Self::Owned(bytes) => bytes.len(),
            Self::Lent(lent) => lent.len(),
        }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl fmt::Debug for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = if matches!(self, Self::Owned(_)) { "Owned" } else { "Lent" };
        f.debug_tuple(name).field(&self.len()).finish()
    }
}

/// A collective of MPI, in which all processes take part and wait for one another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Collective {
    /// Every process has a part for each.
    AllToAll,
    /// Every process gets the part of each.
    AllGather,
    /// Every process gets what the first one has.
    Broadcast,
    /// Every process gets the sums of 32-bit floats.
    AllReduce,
    /// Every process gets its part of the sums of 32-bit floats.
    ReduceScatter,
}

/// The buffers of a collective on one process, of whole 32-bit floats.
#[derive(Clone, Debug)]
pub struct CollectiveBuffers {
    collective: Collective,
    sent: Vec<f32>,
    received: Vec<f32>,
    /// Values of a part, or of all where there are no parts.
    count: c_int,
}

impl CollectiveBuffers {
    /// For `values` in all: those that a process has where it sends parts or contributes, and those that it gets where it gathers. `None` if
    /// they are not equal parts, or too many for MPI. There is one job in a process, so these are for its number of processes.
    pub fn new(endpoint: &Endpoint, collective: Collective, values: usize) -> Option<Self> {
        let processes = usize::try_from(endpoint.size()).ok().filter(|processes| *processes > 0)?;
        let part = values / processes;
        let (sent, received, count) = match collective {
            Collective::AllToAll => (values, values, part),
            Collective::AllGather => (part, values, part),
            Collective::Broadcast => (values, 0, values),
            Collective::AllReduce => (values, values, values),
            Collective::ReduceScatter => (values, part, part),
        };
        let count = c_int::try_from(count).ok()?;
        let is_whole =
            part * processes == values || matches!(collective, Collective::Broadcast | Collective::AllReduce);
        let value = |index: usize| (index % 251) as f32;
        is_whole.then(|| Self {
            collective,
            sent: (0..sent).map(value).collect(),
            received: vec![0.0; received],
            count,
        })
    }

    /// Values received by the last call.
    pub fn received(&self) -> &[f32] {
        &self.received
    }
}

impl Collective {
    /// All of them.
    pub const ALL: [Self; 5] =
        [Self::AllToAll, Self::AllGather, Self::Broadcast, Self::AllReduce, Self::ReduceScatter];

    /// The function, as MPI calls it.
    pub fn function(self) -> &'static str {
        match self {
            Self::AllToAll => "MPI_Alltoall",
            Self::AllGather => "MPI_Allgather",
            Self::Broadcast => "MPI_Bcast",
            Self::AllReduce => "MPI_Allreduce",
            Self::ReduceScatter => "MPI_Reduce_scatter_block",
        }
    }
}
