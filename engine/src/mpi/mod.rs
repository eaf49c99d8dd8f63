//! Ranks as processes: real bytes over MPI.
//!
//! Every process has a [`World`], which connects it with the others; rank 0 says what to do next ([`World::tell`]), and all run it
//! together ([`World::run`]). A transfer is one message from buffer to buffer, without a copy in between, and a short one ahead of it that
//! says what it is.
//!
//! Whoever holds the lock of the link drives MPI, with calls that do not block: the rank's own thread while it waits, and a helper
//! thread while the rank codes, as most libraries move nothing unless somebody calls them.

mod clock;
mod error;
mod link;
mod packet;
mod rank;
mod serve;
mod shared;
mod status;
mod world;

pub use self::error::WorldError;
pub use self::status::{Outcome, STATUS_VARIABLE, Status, alive_file, read_statuses};
pub use self::world::{Member, World};
