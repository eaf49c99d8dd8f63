//! Memory that a message is sent from or received into.
#![allow(unsafe_code, reason = "a C library reads and writes behind pointers")]

use std::fmt;

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
