//! Communicator: a rank's part in transfers and collectives between GPUs.

#![allow(unsafe_code, reason = "functions of a C library are called")]

use std::cell::{Cell, RefCell};
use std::ffi::{CString, c_int, c_void};
use std::thread;
use std::time::{Duration, Instant};

use zipwire_kernels::{Device, DeviceRegion, Stream};

use crate::abi::{BYTES, Handle, SUM, Settings};
use crate::library::is_in_group;
use crate::{Element, Library, NcclError, UniqueId, Version};

/// Time between two looks at a communicator that is not ready.
const PAUSE: Duration = Duration::from_micros(50);

/// Settings of a communicator.
#[derive(Clone, Debug, Default)]
pub struct Config {
    /// Blocks of a kernel of NCCL at the most, which bounds the part of the GPU that it takes; NCCL's choice if `None`.
    pub max_ctas: Option<u32>,
    /// Name in NCCL's messages, which versions before 2.27 do not have; none if it is empty.
    pub name: String,
}

/// Progress of a communicator's last call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// It is in its stream: the next call can be made.
    Ready,
    /// It is not yet in its stream.
    InProgress,
}

/// A rank among those that have begun with the same [`UniqueId`].
///
/// **Every call, and the beginning itself, may leave it in progress**: another thread, of NCCL's, still connects to peers or puts work into the
/// stream. Until [`Communicator::state`] says [`State::Ready`], nothing else may be called on it (such a call is refused), no event that is
/// to stand for the call may be recorded in the stream, and the thread that made the call must not end. Ready means that the work is in the
/// stream, in order with what else is put there; whether it is done is known by events, as with all work of streams.
///
/// Regions and streams of calls are held until the communicator is ready. After that it is as with a [`Stream`]: regions must live until the
/// work is done, and dropping one waits for the device. Regions that overlap are NCCL's to explain, but for those that a call allows.
///
/// It can be moved to another thread, but calls must come one after another, so it is not `Sync`. **Dropping it neither aborts nor ends it**:
/// both can fail or wait, and a drop hides it. NCCL's part, and what is held, then stay until the process ends. End it by
/// [`Communicator::finish`], or by [`Communicator::abort`] when something went wrong.
#[derive(Debug)]
pub struct Communicator {
    library: &'static Library,
    /// Null when it is no more.
    handle: Handle,
    device: Device,
    rank: u32,
    ranks: u32,
    /// NCCL reads it for as long as the communicator lives.
    name: Option<CString>,
    /// Function of NCCL that was called last.
    function: Cell<&'static str>,
    /// Memory and queues that NCCL may still look at.
    held: RefCell<Vec<(DeviceRegion, Stream)>>,
}

// SAFETY: NCCL lets any thread call, one after another; no method can be called by two threads, as it is not `Sync`.
unsafe impl Send for Communicator {}

impl Communicator {
    /// Begins as rank `rank` of `ranks` on a device. Ranks meet by the id, which one of them has drawn ([`Library::unique_id`]). It returns
    /// at once, in progress; a rank that never comes leaves it so.
    ///
    /// # Errors
    /// If the device or NCCL refuses it at once.
    ///
    /// # Panics
    /// If `rank` is not below `ranks`, or the name has a zero byte.
    pub fn begin(
        library: &'static Library,
        device: &Device,
        id: &UniqueId,
        rank: u32,
        ranks: u32,
        config: &Config,
    ) -> Result<Self, NcclError> {
        const FUNCTION: &str = "ncclCommInitRankConfig";
        assert!(rank < ranks, "rank {rank} of {ranks}");
        let name = (!config.name.is_empty())
            .then(|| CString::new(config.name.as_str()).expect("names have no zero bytes"));
        let mut settings = Settings::new(library.version(), config.max_ctas, name.as_deref());
        device.bind()?;
        let mut handle: Handle = std::ptr::null_mut();
        // SAFETY: the pointers are to live values, of which NCCL copies the settings; their name lives with the communicator.
        let result = unsafe {
            (library.calls.comm_init_rank_config)(
                &raw mut handle,
                number(ranks),
                *id,
                number(rank),
                &raw mut settings,
            )
        };
        let device = device.clone();
        let held = RefCell::default();
        let begun = Self { library, handle, device, rank, ranks, name, function: Cell::new(FUNCTION), held };
        if let Err(error) = library.check(FUNCTION, result) {
            // What NCCL has begun is of no use, and the first error says more than one of ending it.
            _ = begun.abort();
            return Err(error);
        }
        Ok(begun)
    }

    /// The rank.
    pub fn rank(&self) -> u32 {
        self.rank
    }

    /// Number of ranks.
    pub fn ranks(&self) -> u32 {
        self.ranks
    }

    /// The device.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// The library.
    pub fn library(&self) -> &'static Library {
        self.library
    }

    /// Whether the last call is in its stream. It may be called at any time, and also shows errors that come later, such as a connection
    /// that was lost.
    ///
    /// # Errors
    /// If the last call, or the communicator since, has failed. Then it can only be aborted.
    pub fn state(&self) -> Result<State, NcclError> {
        const FUNCTION: &str = "ncclCommGetAsyncError";
        let mut result = 0;
        // SAFETY: the communicator is alive, and the pointer is to a live integer.
        let asked = unsafe { (self.library.calls.comm_get_async_error)(self.handle, &raw mut result) };
        self.library.check(FUNCTION, asked)?;
        let state = self.library.check(self.function.get(), result)?;
        if state == State::Ready && !is_in_group() {
            self.held.borrow_mut().clear();
        }
        Ok(state)
    }

    /// Waits until the last call is in its stream.
    ///
    /// # Errors
    /// Same as [`Communicator::state`], and [`NcclError::Late`] if it is not by then; it can be waited for again, or aborted.
    pub fn ready_by(&self, deadline: Instant) -> Result<(), NcclError> {
        while self.state()? == State::InProgress {
            if Instant::now() >= deadline {
                return Err(NcclError::Late { function: self.function.get() });
            }
            thread::sleep(PAUSE);
        }
        Ok(())
    }

    /// Sends the bytes of a region to a rank, which may be this one. The receiver must take as many.
    ///
    /// # Errors
    /// If the communicator is still in progress, or NCCL refuses it.
    ///
    /// # Panics
    /// If there is no such rank, or the region or the stream is another device's.
    pub fn send(&self, from: &DeviceRegion, peer: u32, stream: &Stream) -> Result<(), NcclError> {
        assert!(peer < self.ranks, "rank {peer} of {}", self.ranks);
        self.call("ncclSend", &[from], stream, |handle, stream| {
            // SAFETY: the communicator is alive; region and stream are held until NCCL has queued the work.
            unsafe {
                (self.library.calls.send)(pointer(from), length(from), BYTES, number(peer), handle, stream)
            }
        })
    }

    /// Receives the bytes of a region from a rank, which may be this one. The sender must send as many.
    ///
    /// # Errors
    /// Same as [`Communicator::send`].
    ///
    /// # Panics
    /// Same as [`Communicator::send`].
    pub fn receive(&self, to: &DeviceRegion, peer: u32, stream: &Stream) -> Result<(), NcclError> {
        assert!(peer < self.ranks, "rank {peer} of {}", self.ranks);
        self.call("ncclRecv", &[to], stream, |handle, stream| {
            // SAFETY: as in `send`.
            unsafe {
                (self.library.calls.receive)(pointer(to), length(to), BYTES, number(peer), handle, stream)
            }
        })
    }

    /// Sends the bytes of `from` on the rank `root` to all ranks, into `to`. The regions may be the same one.
    ///
    /// # Errors
    /// Same as [`Communicator::send`].
    ///
    /// # Panics
    /// Same as [`Communicator::send`], or if the regions differ in length.
    pub fn broadcast(
        &self,
        from: &DeviceRegion,
        to: &DeviceRegion,
        root: u32,
        stream: &Stream,
    ) -> Result<(), NcclError> {
        assert!(root < self.ranks, "rank {root} of {}", self.ranks);
        assert_eq!(from.len(), to.len(), "as many bytes are sent as are received");
        self.call("ncclBroadcast", &[from, to], stream, |handle, stream| {
            let call = self.library.calls.broadcast;
            // SAFETY: as in `send`.
            unsafe { call(pointer(from), pointer(to), length(to), BYTES, number(root), handle, stream) }
        })
    }

    /// Sends the bytes of `from` to all ranks, into `to`, which has room for those of every rank, in the order of ranks. `from` may be this
    /// rank's part of `to`.
    ///
    /// # Errors
    /// Same as [`Communicator::send`].
    ///
    /// # Panics
    /// If `to` is not `ranks` times as long as `from`, or one of them or the stream is another device's.
    pub fn all_gather(
        &self,
        from: &DeviceRegion,
        to: &DeviceRegion,
        stream: &Stream,
    ) -> Result<(), NcclError> {
        assert_eq!(from.len() * u64::from(self.ranks), to.len(), "every rank has a part of the result");
        self.call("ncclAllGather", &[from, to], stream, |handle, stream| {
            // SAFETY: as in `send`.
            unsafe {
                (self.library.calls.all_gather)(
                    pointer(from),
                    pointer(to),
                    length(from),
                    BYTES,
                    handle,
                    stream,
                )
            }
        })
    }

    /// Sends each rank its part of `from`, and receives as much from each into `to`; parts are equal, in the order of ranks. Libraries before
    /// 2.28 have no such call, and get a group of sends and receives.
    ///
    /// # Errors
    /// Same as [`Communicator::send`].
    ///
    /// # Panics
    /// If the regions differ in length or cannot be cut into equal parts, or one of them or the stream is another device's.
    pub fn all_to_all(
        &self,
        from: &DeviceRegion,
        to: &DeviceRegion,
        stream: &Stream,
    ) -> Result<(), NcclError> {
        let ranks = u64::from(self.ranks);
        assert_eq!(from.len(), to.len(), "as many bytes are sent as are received");
        assert_eq!(from.len() % ranks, 0, "{} bytes are cut into {ranks} parts", from.len());
        let part = from.len() / ranks;
        let call = self.library.calls.all_to_all;
        if let Some(call) = call.filter(|_| self.library.version() >= Version::ALL_TO_ALL) {
            let part = usize::try_from(part).expect("lengths have as many bits as addresses");
            return self.call("ncclAlltoAll", &[from, to], stream, |handle, stream| {
                // SAFETY: as in `send`.
                unsafe { call(pointer(from), pointer(to), part, BYTES, handle, stream) }
            });
        }
        self.library.group(|| {
            (0..self.ranks).try_for_each(|peer| {
                let range = u64::from(peer) * part..(u64::from(peer) + 1) * part;
                self.send(&from.part(range.clone()), peer, stream)?;
                self.receive(&to.part(range), peer, stream)
            })
        })
    }

    /// Adds up the values of all ranks' `from`, into `to` of every rank. The regions may be the same one. The order of additions is NCCL's.
    ///
    /// # Errors
    /// Same as [`Communicator::send`].
    ///
    /// # Panics
    /// If the regions differ in length or have no whole values, or one of them or the stream is another device's.
    pub fn all_reduce(
        &self,
        from: &DeviceRegion,
        to: &DeviceRegion,
        element: Element,
        stream: &Stream,
    ) -> Result<(), NcclError> {
        assert_eq!(from.len(), to.len(), "as many values are added up as there are sums");
        let count = count(to, element);
        self.call("ncclAllReduce", &[from, to], stream, |handle, stream| {
            let call = self.library.calls.all_reduce;
            // SAFETY: as in `send`.
            unsafe { call(pointer(from), pointer(to), count, element.number(), SUM, handle, stream) }
        })
    }

    /// Adds up the values of all ranks' `from`, and gives each rank its part of the sums; parts are equal, in the order of ranks. `to` may be
    /// this rank's part of `from`. The order of additions is NCCL's.
    ///
    /// # Errors
    /// Same as [`Communicator::send`].
    ///
    /// # Panics
    /// If `from` is not `ranks` times as long as `to`, they have no whole values, or one of them or the stream is another device's.
    pub fn reduce_scatter(
        &self,
        from: &DeviceRegion,
        to: &DeviceRegion,
        element: Element,
        stream: &Stream,
    ) -> Result<(), NcclError> {
        assert_eq!(from.len(), to.len() * u64::from(self.ranks), "every rank has a part of the sums");
        let count = count(to, element);
        self.call("ncclReduceScatter", &[from, to], stream, |handle, stream| {
            let call = self.library.calls.reduce_scatter;
            // SAFETY: as in `send`.
            unsafe { call(pointer(from), pointer(to), count, element.number(), SUM, handle, stream) }
        })
    }

    /// Ends whatever it does, also what kernels on the device wait for, and gives it up. Peers notice it as an error or not at all.
    ///
    /// # Errors
    /// If NCCL fails; the communicator is gone all the same.
    pub fn abort(mut self) -> Result<(), NcclError> {
        self.give_up("ncclCommAbort", self.library.calls.comm_abort)
    }

    /// Waits until all ranks have finished what they have called, and gives it up. All ranks must do so.
    ///
    /// # Errors
    /// If it has failed, or is not finished by then. It is aborted then.
    pub fn finish(mut self, deadline: Instant) -> Result<(), NcclError> {
        let finished = self.ready_by(deadline).and_then(|()| {
            self.device.bind()?;
            // SAFETY: the communicator is alive and ready.
            self.check("ncclCommFinalize", unsafe { (self.library.calls.comm_finalize)(self.handle) })?;
            self.ready_by(deadline)
        });
        match finished {
            Ok(()) => self.give_up("ncclCommDestroy", self.library.calls.comm_destroy),
            Err(error) => {
                // The first error says more than one of ending it.
                _ = self.abort();
                Err(error)
            }
        }
    }

    /// Calls the function that frees the communicator, and forgets it.
    fn give_up(
        &mut self,
        function: &'static str,
        call: unsafe extern "C" fn(Handle) -> c_int,
    ) -> Result<(), NcclError> {
        let handle = std::mem::replace(&mut self.handle, std::ptr::null_mut());
        if handle.is_null() {
            return Ok(());
        }
        // A device that has failed lets nobody make its context current, and the communicator is still to be freed.
        let bound = self.device.bind();
        // SAFETY: the communicator was alive, and nobody can use it from here on.
        self.library.check(function, unsafe { call(handle) })?;
        Ok(bound?)
    }

    /// Makes a call that puts work on these regions into the stream.
    fn call(
        &self,
        function: &'static str,
        regions: &[&DeviceRegion],
        stream: &Stream,
        call: impl FnOnce(Handle, *mut c_void) -> c_int,
    ) -> Result<(), NcclError> {
        let devices = regions.iter().map(|region| region.buffer().device()).chain([stream.device()]);
        for device in devices {
            assert_eq!(
                device.ordinal(),
                self.device.ordinal(),
                "regions and streams are the communicator's device's"
            );
        }
        if self.state()? == State::InProgress {
            return Err(NcclError::InProgress { function });
        }
        self.device.bind()?;
        self.held.borrow_mut().extend(regions.iter().map(|&region| (region.clone(), stream.clone())));
        self.check(function, call(self.handle, stream.handle()))
    }

    fn check(&self, function: &'static str, result: c_int) -> Result<(), NcclError> {
        self.function.set(function);
        self.library.check(function, result).map(drop)
    }
}

impl Drop for Communicator {
    fn drop(&mut self) {
        if !self.handle.is_null() {
            // NCCL may still read these.
            std::mem::forget((self.name.take(), self.held.take()));
        }
    }
}

/// A number of NCCL's, for ranks.
fn number(rank: u32) -> c_int {
    c_int::try_from(rank).expect("ranks are few")
}

fn pointer(region: &DeviceRegion) -> *mut c_void {
    let address = usize::try_from(region.address()).expect("addresses of devices have as many bits");
    std::ptr::without_provenance_mut(address)
}

fn length(region: &DeviceRegion) -> usize {
    usize::try_from(region.len()).expect("lengths have as many bits as addresses")
}

/// Values of a region.
fn count(region: &DeviceRegion, element: Element) -> usize {
    assert_eq!(region.len() % element.width(), 0, "{} bytes of `{element}`", region.len());
    length(region) / usize::try_from(element.width()).expect("values are short")
}
