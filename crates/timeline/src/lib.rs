//! What happened when: spans of ops and transfers, and what is computed of them.
//!
//! An executor writes [`Span`]s into a [`Timeline`]; [`Metrics::of`] makes of it the numbers that variants are compared by,
//! [`ByRank`] those of each rank, [`Bandwidths::of`] those of a collective call, [`Updates::of`] how old weights are that travel; [`Deviation::largest`] says where two timelines of
//! one plan differ most.
//!
//! Values only: files of timelines are the business of `zipwire-traces`.

mod bandwidth;
mod by_rank;
mod critical_path;
mod deviation;
mod imbalance;
mod interval;
mod link_usage;
mod metrics;
mod note;
mod record;
mod series;
mod span;
mod updates;

pub use bandwidth::Bandwidths;
pub use by_rank::{ByRank, Imbalances};
pub use critical_path::{BusiestLink, CriticalPath};
pub use deviation::Deviation;
pub use imbalance::Imbalance;
pub use interval::Union;
pub use link_usage::{Link, LinkUsage};
pub use metrics::{Metrics, Spread, waits_s};
pub use note::Note;
pub use series::Series;
pub use span::{IterationTime, Span, Timeline};
pub use updates::{Age, UpdateCycle, Updates};
