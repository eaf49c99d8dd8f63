//! Memory of one rank in the host's: a lock per buffer, so that a worker and a transport can hold different ones.

use std::collections::TryReserveError;
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use zipwire_schedule::BufferId;
use zipwire_schedule::plan::{OpKind, Program, Region};

use crate::chunks::POISON;

/// Buffers of one rank, by [`BufferId`]. Its worker writes them, and its transport where something arrives.
#[derive(Debug)]
pub struct Memory {
    buffers: Vec<RwLock<Box<[u8]>>>,
    /// What a library adds up comes here first.
    spare: Region,
}

/// A buffer to read from and one to write to.
pub(crate) type Locked<'a> = (RwLockReadGuard<'a, Box<[u8]>>, RwLockWriteGuard<'a, Box<[u8]>>);

impl Memory {
    /// The buffers of a program, and one more for what is added up in calls of a library.
    ///
    /// # Errors
    /// If the system refuses that much memory.
    pub fn of(program: &Program) -> Result<Self, TryReserveError> {
        let spare = Region { buffer: spare_buffer(program), offset: 0, len: spare_bytes(program) };
        let capacities = program.buffers.iter().map(|buffer| buffer.capacity).chain([spare.len]);
        let buffers = capacities.map(|bytes| poisoned(bytes).map(RwLock::new)).collect::<Result<_, _>>()?;
        Ok(Self { buffers, spare })
    }

    /// Locks a buffer for reading.
    pub fn read(&self, buffer: BufferId) -> RwLockReadGuard<'_, Box<[u8]>> {
        self.buffers[buffer.index()].read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Locks a buffer for writing.
    pub fn write(&self, buffer: BufferId) -> RwLockWriteGuard<'_, Box<[u8]>> {
        self.buffers[buffer.index()].write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Where contributions to a sum of so many bytes come before they are added.
    pub(crate) fn spare(&self, len: u64) -> Region {
        assert!(len <= self.spare.len, "the spare buffer holds every sum of the program");
        Region { len, ..self.spare }
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

fn spare_buffer(program: &Program) -> BufferId {
    BufferId(u32::try_from(program.buffers.len()).expect("buffers are counted in 32 bits"))
}

/// The longest contribution to the shard of this rank in a call of a library.
fn spare_bytes(program: &Program) -> u64 {
    let own = |op: &OpKind| {
        let library = op.library().filter(|library| library.collective.is_reduction())?;
        let mut given = library.inputs.iter().filter(|share| share.chunk.shard() == program.rank);
        Some(given.next()?.content.values()?.len)
    };
    program.ops.iter().filter_map(|op| own(&op.kind)).max().unwrap_or(0)
}
