//! Executors that run zipwire plans for real: real bytes, real codec.
//!
//! One loop ([`drive`]) and one trait ([`Backend`]) serve all of them; [`threads`] runs the ranks as threads of
//! this process.

mod chunks;
mod drive;
mod faulty;
mod hello;
mod meeting;
mod ranks;
pub mod threads;

pub use drive::{Action, Backend, Completion, Event, Outcome, drive};
pub use hello::Hello;
