//! Executors that run zipwire plans for real: real bytes, real codec.
//!
//! One loop ([`drive`]) and one trait ([`Backend`]) serve all of them; [`threads`] runs the ranks as threads of
//! this process, [`cuda`] on the streams of GPUs.

mod chunks;
mod complaints;
pub mod cuda;
mod drive;
mod error;
mod faulty;
mod hello;
mod meeting;
mod ranks;
pub mod threads;

pub use drive::{Action, Backend, Completion, Event, Outcome, drive};
pub use error::EngineError;
pub use hello::Hello;
