//! Adaptive variants: a switcher chooses the way of each call before each iteration and learns from what it took.
//!
//! Each iteration is a plan of its own: choose, plan, run, exchange statistics, observe. The exchange is a call of the
//! plan, so its time is part of the result.

mod adaptive_loop;
mod arms;
mod measured;
mod oracle;
mod plans;
mod recalibration;
mod runs;
mod simulated;
mod statistics;

pub(crate) use arms::Arms;
pub(crate) use plans::{Key, Plans};
