//! Host memory of one rank: a lock per buffer, so that a worker and a transport can hold different ones, and regions on loan
//! to a message library, which reads or writes them without a lock.
#![allow(unsafe_code, reason = "regions of one buffer are lent, read and written apart")]

use std::collections::TryReserveError;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;
use std::sync::{Arc, OnceLock};

use zipwire_mpi::Lent;
use zipwire_schedule::plan::{Library, OpKind, Program, Region};
use zipwire_schedule::{BufferId, Channel};

use crate::chunks::POISON;
use crate::sync::{Mutex, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

/// Buffers of one rank, by [`BufferId`]. Its worker writes them, and its transport where something arrives.
///
/// A region is read or written through a guard, which holds the lock of its buffer, or it is on loan to a transport. Asking for a
/// guard or another loan of a region on loan is a defect and panics.
#[derive(Debug)]
pub struct Memory {
    /// Some are made when they are first needed.
    buffers: Vec<OnceLock<Buffer>>,
    /// Receive regions of contributions to a library's sums, one for each channel of calls.
    spares: [Region; Channel::OF_CALLS.len()],
}

#[derive(Debug)]
struct Buffer {
    bytes: RwLock<Bytes>,
    /// Regions on loan. Changed when a lock is held that keeps guards away, or when a loan ends.
    loans: Mutex<Vec<Loan>>,
}

/// Bytes of a buffer, behind a pointer: guards and loans refer to parts of them, and nothing to the whole.
#[derive(Debug)]
struct Bytes {
    first: NonNull<u8>,
    len: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Loan {
    region: Region,
    is_written: bool,
}

// SAFETY: it owns what it points to, as a box does.
unsafe impl Send for Bytes {}
// SAFETY: what is shared of it is a pointer and a length; how they are used is up to `Memory`.
unsafe impl Sync for Bytes {}

impl Bytes {
    /// Allocates `bytes` bytes and fills them with [`POISON`].
    fn poisoned(bytes: u64) -> Result<Self, TryReserveError> {
        let mut buffer = Vec::new();
        buffer.try_reserve_exact(index(bytes))?;
        buffer.resize(index(bytes), POISON);
        let bytes: Box<[u8]> = buffer.into_boxed_slice();
        let len = bytes.len();
        let first = NonNull::new(Box::into_raw(bytes).cast::<u8>()).expect("boxes are somewhere");
        Ok(Self { first, len })
    }

    fn at(&self, region: &Region) -> NonNull<u8> {
        let range = range(region);
        assert!(range.start <= range.end && range.end <= self.len, "regions lie in their buffers");
        // SAFETY: it is within the allocation, or just behind it.
        unsafe { self.first.add(range.start) }
    }
}

impl Drop for Bytes {
    fn drop(&mut self) {
        let whole = std::ptr::slice_from_raw_parts_mut(self.first.as_ptr(), self.len);
        // SAFETY: this is what the box was taken apart to, once; loans keep the memory, so there are none.
        drop(unsafe { Box::from_raw(whole) });
    }
}

impl Memory {
    /// The buffers of a program, and for each channel one more for what is added up in calls of a library.
    ///
    /// # Errors
    /// If the system refuses that much memory.
    pub fn of(program: &Program) -> Result<Self, TryReserveError> {
        let mut ids = (program.buffers.len()..).map(|index| u32::try_from(index).map(BufferId));
        let spares = Channel::OF_CALLS.map(|channel| {
            let buffer = ids.next().and_then(Result::ok).expect("buffers are counted in 32 bits");
            Region { buffer, offset: 0, len: spare_bytes(program, channel) }
        });
        let capacities = program.buffers.iter().map(|buffer| buffer.capacity);
        let capacities = capacities.chain(spares.map(|spare| spare.len));
        let buffers = capacities.map(|bytes| Buffer::new(bytes).map(OnceLock::from));
        Ok(Self { buffers: buffers.collect::<Result<_, _>>()?, spares })
    }

    /// Room for so many buffers, of which none is there before it is [made](Self::make).
    pub(crate) fn with_room(buffers: usize) -> Self {
        Self { buffers: (0..buffers).map(|_| OnceLock::new()).collect(), ..Self::empty() }
    }

    /// Allocates a buffer, unless there is one.
    ///
    /// # Errors
    /// If the system refuses that much memory.
    pub(crate) fn make(&self, buffer: BufferId, bytes: u64) -> Result<(), TryReserveError> {
        let place = &self.buffers[buffer.index()];
        if place.get().is_none() {
            // Of two that make the same one, one is dropped.
            let _ = place.set(Buffer::new(bytes)?);
        }
        Ok(())
    }

    pub(crate) fn empty() -> Self {
        let none = Region { buffer: BufferId(0), offset: 0, len: 0 };
        Self { buffers: Vec::new(), spares: [none; Channel::OF_CALLS.len()] }
    }

    /// Locks a region for reading.
    ///
    /// # Panics
    /// If something is received into it.
    pub fn read(&self, region: &Region) -> Reading<'_> {
        self.read_all([*region])
    }

    /// Locks a region for writing.
    ///
    /// # Panics
    /// If it is on loan.
    pub fn write(&self, region: &Region) -> Writing<'_> {
        self.write_all([*region])
    }

    /// Locks regions of one buffer for reading.
    pub(crate) fn read_all<const N: usize>(&self, regions: [Region; N]) -> Reading<'_, N> {
        let buffer = self.buffer(&regions);
        let guard = buffer.bytes.read().unwrap_or_else(PoisonError::into_inner);
        regions.iter().for_each(|region| _ = guard.at(region));
        let is_free = regions.iter().all(|region| buffer.is_free(region, false));
        assert!(is_free, "nobody reads what is being received: {regions:?}");
        Reading { guard, regions }
    }

    /// Locks regions of one buffer for writing, of which no two overlap.
    pub(crate) fn write_all<const N: usize>(&self, regions: [Region; N]) -> Writing<'_, N> {
        let buffer = self.buffer(&regions);
        let guard = buffer.bytes.write().unwrap_or_else(PoisonError::into_inner);
        regions.iter().for_each(|region| _ = guard.at(region));
        let pairs = regions.iter().enumerate().flat_map(|(i, a)| regions[..i].iter().map(move |b| (a, b)));
        assert!(pairs.into_iter().all(|(a, b)| !a.overlaps(b)), "regions to write are apart: {regions:?}");
        let is_free = regions.iter().all(|region| buffer.is_free(region, true));
        assert!(is_free, "nobody writes what is being sent or received: {regions:?}");
        Writing { guard, regions }
    }

    /// Locks regions of two buffers, those of the second one for writing.
    ///
    /// # Panics
    /// If both are the same.
    pub(crate) fn lock<const M: usize, const N: usize>(
        &self,
        from: [Region; M],
        to: [Region; N],
    ) -> (Reading<'_, M>, Writing<'_, N>) {
        assert_ne!(from[0].buffer, to[0].buffer, "an op reads and writes different buffers");
        // Always in the same order, as everywhere: otherwise two threads could each hold what the other one waits for.
        if from[0].buffer < to[0].buffer {
            let source = self.read_all(from);
            (source, self.write_all(to))
        } else {
            let target = self.write_all(to);
            (self.read_all(from), target)
        }
    }

    /// Lends a region until the loan is dropped: for reading, or exclusively for writing.
    ///
    /// # Panics
    /// If it is on loan already, unless both loans are for reading.
    pub(crate) fn lend(self: &Arc<Self>, region: Region, is_written: bool) -> Loaned {
        let buffer = self.at(region.buffer);
        let bytes = buffer.bytes.write().unwrap_or_else(PoisonError::into_inner);
        let first = bytes.at(&region);
        assert!(buffer.is_free(&region, is_written), "a region is lent once: {region:?}");
        let loan = Loan { region, is_written };
        buffer.loans().push(loan);
        Loaned { memory: Arc::clone(self), loan, first }
    }

    /// Where contributions to a sum of so many bytes come before they are added, in a call on this channel.
    pub(crate) fn spare(&self, channel: Channel, len: u64) -> Region {
        let place = Channel::OF_CALLS.iter().position(|of_calls| *of_calls == channel);
        let spare = self.spares[place.expect("calls of a library have the channels of collectives")];
        assert!(len <= spare.len, "the spare buffer holds every sum of the program");
        Region { len, ..spare }
    }

    /// Overwrites a region, so that stale bytes cannot pass for new ones.
    pub(crate) fn poison(&self, region: &Region) {
        self.write(region).fill(POISON);
    }

    fn buffer(&self, regions: &[Region]) -> &Buffer {
        let id = regions[0].buffer;
        assert!(regions.iter().all(|region| region.buffer == id), "they are regions of one buffer");
        self.at(id)
    }

    fn at(&self, buffer: BufferId) -> &Buffer {
        self.buffers[buffer.index()].get().expect("buffers are made before they are used")
    }
}

impl Buffer {
    fn new(bytes: u64) -> Result<Self, TryReserveError> {
        Ok(Self { bytes: RwLock::new(Bytes::poisoned(bytes)?), loans: Mutex::new(Vec::new()) })
    }

    fn loans(&self) -> crate::sync::MutexGuard<'_, Vec<Loan>> {
        // A list is never half-changed.
        self.loans.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether no loan is in the way of reading or writing a region.
    fn is_free(&self, region: &Region, is_written: bool) -> bool {
        let is_in_the_way = |loan: &Loan| (is_written || loan.is_written) && loan.region.overlaps(region);
        !self.loans().iter().any(is_in_the_way)
    }
}

/// Regions of one buffer, to be read.
#[derive(Debug)]
pub struct Reading<'a, const N: usize = 1> {
    guard: RwLockReadGuard<'a, Bytes>,
    regions: [Region; N],
}

impl<const N: usize> Reading<'_, N> {
    /// Their bytes.
    pub(crate) fn slices(&self) -> [&[u8]; N] {
        // SAFETY: the regions lie in the buffer, which was checked when this was made. Whoever writes holds the lock for writing, or has a
        // loan for that, of which there is none that overlaps these, and none begins while this lock is held.
        self.regions.each_ref().map(|region| unsafe {
            std::slice::from_raw_parts(self.guard.at(region).as_ptr(), index(region.len))
        })
    }
}

impl Deref for Reading<'_> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        let [bytes] = self.slices();
        bytes
    }
}

/// Regions of one buffer, to be written.
#[derive(Debug)]
pub struct Writing<'a, const N: usize = 1> {
    guard: RwLockWriteGuard<'a, Bytes>,
    regions: [Region; N],
}

impl<const N: usize> Writing<'_, N> {
    /// Their bytes.
    pub(crate) fn slices(&mut self) -> [&mut [u8]; N] {
        // SAFETY: the regions lie in the buffer and are apart, which was checked when this was made. It holds the lock for writing, and no
        // loan overlaps them, nor begins while the lock is held.
        self.regions.each_ref().map(|region| unsafe {
            std::slice::from_raw_parts_mut(self.guard.at(region).as_ptr(), index(region.len))
        })
    }
}

impl Deref for Writing<'_> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        let [region] = &self.regions;
        // SAFETY: as in `slices`; nobody writes while this is borrowed.
        unsafe { std::slice::from_raw_parts(self.guard.at(region).as_ptr(), index(region.len)) }
    }
}

impl DerefMut for Writing<'_> {
    fn deref_mut(&mut self) -> &mut [u8] {
        let [bytes] = self.slices();
        bytes
    }
}

/// A region on loan. It ends when this is dropped.
#[derive(Debug)]
pub(crate) struct Loaned {
    memory: Arc<Memory>,
    loan: Loan,
    first: NonNull<u8>,
}

// SAFETY: it has a part of the memory, which is shared between threads, and for which all others look at the list of loans.
unsafe impl Send for Loaned {}

// SAFETY: the pointer was made once, from the memory that this keeps. From then on nobody has a guard of the region but to read what is lent
// for reading, nor another loan for writing: the list of loans, which guards look at, has it until this is dropped.
unsafe impl Lent for Loaned {
    fn pointer(&mut self) -> *mut u8 {
        self.first.as_ptr()
    }

    fn len(&self) -> usize {
        index(self.loan.region.len)
    }
}

impl Drop for Loaned {
    fn drop(&mut self) {
        let mut loans = self.memory.at(self.loan.region.buffer).loans();
        let own = loans.iter().position(|loan| *loan == self.loan);
        loans.swap_remove(own.expect("it was listed when it began"));
    }
}

fn range(region: &Region) -> std::ops::Range<usize> {
    index(region.offset)..index(region.end())
}

fn index(bytes: u64) -> usize {
    usize::try_from(bytes).expect("planned regions fit into memory")
}

/// The longest contribution to the shard of this rank in a call of a library on a channel.
fn spare_bytes(program: &Program, channel: Channel) -> u64 {
    let own = |op: &OpKind| {
        let is_meant = |library: &&Library| library.channel == channel && library.collective.is_reduction();
        let library = op.library().filter(is_meant)?;
        Some(library.inputs.of(program.rank)?.content.values()?.len)
    };
    program.ops.iter().filter_map(|op| own(&op.kind)).max().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use super::*;

    fn memory() -> Arc<Memory> {
        let memory = Memory::with_room(2);
        (0..2).for_each(|buffer| memory.make(BufferId(buffer), 8).unwrap());
        Arc::new(memory)
    }

    fn region(buffer: u32, offset: u64, len: u64) -> Region {
        Region { buffer: BufferId(buffer), offset, len }
    }

    fn panics<R>(what: impl FnOnce() -> R) -> bool {
        catch_unwind(AssertUnwindSafe(what)).is_err()
    }

    #[test]
    fn regions_of_one_buffer_are_written_apart() {
        let memory = memory();
        let (from, mut to) = memory.lock([region(0, 0, 2)], [region(1, 4, 2), region(1, 0, 2)]);
        let [a, b] = to.slices();
        a.copy_from_slice(&from);
        b.fill(7);
        drop((from, to));
        assert_eq!(&memory.read(&region(1, 0, 6))[..], [7, 7, POISON, POISON, POISON, POISON]);
        assert!(panics(|| memory.write_all([region(0, 0, 4), region(0, 3, 2)])), "they overlap");
        assert!(panics(|| memory.read(&region(0, 6, 3))), "it ends behind the buffer");
    }

    #[test]
    fn what_is_on_loan_is_left_alone_and_all_else_is_not() {
        let memory = memory();
        let mut loan = memory.lend(region(0, 2, 4), true);
        assert!(panics(|| memory.read(&region(0, 5, 2))) && panics(|| memory.write(&region(0, 0, 3))));
        assert!(panics(|| memory.lend(region(0, 3, 1), false)));
        // While a guard of another part is held, whoever has the loan writes.
        let mut guard = memory.write(&region(0, 6, 2));
        // SAFETY: the loan is for writing four bytes.
        unsafe { std::slice::from_raw_parts_mut(loan.pointer(), loan.len()) }.fill(9);
        guard.fill(1);
        drop(guard);
        drop(loan);
        assert_eq!(&memory.read(&region(0, 0, 8))[..], [POISON, POISON, 9, 9, 9, 9, 1, 1]);
    }

    #[test]
    fn what_is_lent_for_reading_is_read_by_many() {
        let memory = memory();
        memory.write(&region(0, 0, 8)).fill(3);
        let mut loans = [memory.lend(region(0, 0, 8), false), memory.lend(region(0, 0, 8), false)];
        let guard = memory.read(&region(0, 0, 8));
        // SAFETY: the loan is for reading eight bytes.
        let lent = unsafe { std::slice::from_raw_parts(loans[0].pointer().cast_const(), 8) };
        assert_eq!(lent, &guard[..]);
        drop(guard);
        assert!(panics(|| memory.write(&region(0, 7, 1))));
        drop(loans);
        memory.write(&region(0, 7, 1)).fill(4);
    }
}
