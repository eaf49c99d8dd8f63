//! Timelines: spans of ops and transfers, and the numbers computed from them.
//!
//! An executor writes [`Span`]s into a [`Timeline`]; [`Metrics::of`] makes of it the numbers that variants are compared by,
//! [`ByRank`] those of each rank, [`Bandwidths::of`] those of a collective call, [`Updates::of`] how old weights are that travel; [`Deviation::largest`] says where two timelines of
//! one plan differ most.
//!
//! Values only: files of timelines are the business of `zipwire-traces`.

mod bandwidth;
mod deviation;
mod imbalance;
mod metrics;
mod series;
mod span;
mod updates;

pub use bandwidth::Bandwidths;
pub use deviation::Deviation;
pub use imbalance::Imbalance;
pub use metrics::{BusiestLink, ByRank, CriticalPath, Imbalances, Metrics, Spread, Union, waits_s};
pub use series::{Link, LinkUsage, Series};
pub use span::{Bounds, IterationTime, Note, Span, Timeline};
pub use updates::{Age, UpdateCycle, Updates};
