//! Ranks as processes: real bytes over MPI.
//!
//! Every process has a [`World`], which connects it with the others; rank 0 says what to do next ([`World::tell`]), and all run it
//! together ([`World::run`]). A transfer is one message from buffer to buffer, without a copy in between, and a short one ahead of it that
//! says what it is.
//!
//! The thread that holds the link's lock drives MPI, with calls that do not block: the rank's own thread while it waits, and a helper
//! thread while the rank codes, as most libraries move nothing unless they are called.

mod clock;
mod link;
mod packet;
mod rank;
mod status;
mod world;

pub use self::status::{Outcome, STATUS_VARIABLE, Status, alive_file, read_statuses};
pub use self::world::{Member, World, WorldError};
