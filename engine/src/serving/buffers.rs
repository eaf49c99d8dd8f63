//! Buffers in which groups are sent and received: each has room for any group, is made when none is free, and is used again.

use std::sync::Arc;

use zipwire_schedule::BufferId;
use zipwire_schedule::plan::Region;

use crate::memory::Memory;

/// The buffers of one rank.
pub(super) struct Buffers {
    memory: Arc<Memory>,
    bytes: u64,
    room: usize,
    made: u32,
    free: Vec<BufferId>,
}

impl Buffers {
    /// A pool for buffers of `bytes` bytes each; none is allocated yet.
    pub(super) fn new(memory: Arc<Memory>, bytes: u64, room: usize) -> Self {
        Self { memory, bytes, room, made: 0, free: Vec::new() }
    }

    pub(super) fn memory(&self) -> &Memory {
        &self.memory
    }

    /// Takes a free buffer, or allocates one.
    ///
    /// # Errors
    /// A message, if the system refuses the memory.
    pub(super) fn take(&mut self) -> Result<BufferId, String> {
        if let Some(buffer) = self.free.pop() {
            return Ok(buffer);
        }
        let buffer = BufferId(self.made);
        if buffer.index() >= self.room {
            return Err(format!("it has {} buffers under way, which are all", self.made));
        }
        let made = self.memory.make(buffer, self.bytes);
        made.map_err(|error| format!("the system refuses {} bytes for a buffer: {error}", self.bytes))?;
        self.made += 1;
        Ok(buffer)
    }

    pub(super) fn give(&mut self, buffer: BufferId) {
        debug_assert!(!self.free.contains(&buffer), "a buffer is given back once");
        self.free.push(buffer);
    }

    pub(super) fn in_use(&self) -> u32 {
        self.made - self.free.len() as u32
    }

    /// Peak bytes of all buffers.
    pub(super) fn most_bytes(&self) -> u64 {
        u64::from(self.made) * self.bytes
    }
}

/// The front of a buffer.
pub(super) fn region(buffer: BufferId, len: u64) -> Region {
    Region { buffer, offset: 0, len }
}
