//! Memory of one rank in the host's: a lock per buffer, so that a worker and a transport can hold different ones.

use std::collections::TryReserveError;

use zipwire_schedule::plan::{Library, OpKind, Program, Region};
use zipwire_schedule::{BufferId, Channel};

use crate::chunks::POISON;
use crate::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

/// Buffers of one rank, by [`BufferId`]. Its worker writes them, and its transport where something arrives.
#[derive(Debug)]
pub struct Memory {
    buffers: Vec<RwLock<Box<[u8]>>>,
    /// What a library adds up comes here first: a region for each channel, whose calls follow one another.
    spares: [Region; Channel::ALL.len()],
}

/// A buffer to read from and one to write to.
pub(crate) type Locked<'a> = (RwLockReadGuard<'a, Box<[u8]>>, RwLockWriteGuard<'a, Box<[u8]>>);

impl Memory {
    /// The buffers of a program, and for each channel one more for what is added up in calls of a library.
    ///
    /// # Errors
    /// If the system refuses that much memory.
    pub fn of(program: &Program) -> Result<Self, TryReserveError> {
        let mut ids = (program.buffers.len()..).map(|index| u32::try_from(index).map(BufferId));
        let spares = Channel::ALL.map(|channel| {
            let buffer = ids.next().and_then(Result::ok).expect("buffers are counted in 32 bits");
            Region { buffer, offset: 0, len: spare_bytes(program, channel) }
        });
        let capacities = program.buffers.iter().map(|buffer| buffer.capacity);
        let capacities = capacities.chain(spares.map(|spare| spare.len));
        let buffers = capacities.map(|bytes| poisoned(bytes).map(RwLock::new)).collect::<Result<_, _>>()?;
        Ok(Self { buffers, spares })
    }

    /// Locks a buffer for reading.
    pub fn read(&self, buffer: BufferId) -> RwLockReadGuard<'_, Box<[u8]>> {
        self.buffers[buffer.index()].read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Locks a buffer for writing.
    pub fn write(&self, buffer: BufferId) -> RwLockWriteGuard<'_, Box<[u8]>> {
        self.buffers[buffer.index()].write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Where contributions to a sum of so many bytes come before they are added, in a call on this channel.
    pub(crate) fn spare(&self, channel: Channel, len: u64) -> Region {
        let spare = self.spares[channel as usize];
        assert!(len <= spare.len, "the spare buffer holds every sum of the program");
        Region { len, ..spare }
    }

    /// Overwrites a region, so that stale bytes cannot pass for new ones.
    pub(crate) fn poison(&self, region: &Region) {
        self.write(region.buffer)[range(region)].fill(POISON);
    }

    /// Locks two buffers, the second one for writing.
    ///
    /// # Panics
    /// If both are the same.
    pub(crate) fn lock(&self, from: BufferId, to: BufferId) -> Locked<'_> {
        assert_ne!(from, to, "an op reads and writes different buffers");
        // Always in the same order, as everywhere: otherwise two threads could each hold what the other one waits for.
        if from < to {
            let source = self.read(from);
            (source, self.write(to))
        } else {
            let target = self.write(to);
            (self.read(from), target)
        }
    }
}

/// Byte range of a region in its buffer.
pub fn range(region: &Region) -> std::ops::Range<usize> {
    index(region.offset)..index(region.end())
}

fn index(bytes: u64) -> usize {
    usize::try_from(bytes).expect("planned regions fit into memory")
}

/// So many bytes that nobody has written yet.
fn poisoned(bytes: u64) -> Result<Box<[u8]>, TryReserveError> {
    let mut buffer = Vec::new();
    buffer.try_reserve_exact(index(bytes))?;
    buffer.resize(index(bytes), POISON);
    Ok(buffer.into_boxed_slice())
}

/// The longest contribution to the shard of this rank in a call of a library on a channel.
fn spare_bytes(program: &Program, channel: Channel) -> u64 {
    let own = |op: &OpKind| {
        let is_meant = |library: &&Library| library.channel == channel && library.collective.is_reduction();
        let library = op.library().filter(is_meant)?;
        let mut given = library.inputs.iter().filter(|share| share.chunk.shard() == program.rank);
        Some(given.next()?.content.values()?.len)
    };
    program.ops.iter().filter_map(|op| own(&op.kind)).max().unwrap_or(0)
}
