//! Timelines out, recordings in.
//!
//! Out: an executor writes [`Span`]s into a [`Timeline`]; [`write_chrome`] makes it a trace for Perfetto,
//! [`Metrics::of`] the numbers that variants are compared by, [`ByRank`] those of each rank, [`Bandwidths::of`] those of a collective call, [`Summary`] the
//! file that holds them side by side. [`read_chrome`] reads a trace back; [`Diff::of`] holds two of them against each other,
//! span by span; [`Deviation::largest`] says where two timelines of one plan differ most.
//!
//! In: [`read_routing_matrices`] and [`read_routing_trace`] read where tokens went, [`read_bf16`] what transfers
//! carried; [`Payload`] fills chunks with it and checks what arrives. All random numbers come from [`stream`].
//!
//! Nothing here schedules, simulates or sends: it is what simulated and real runs have in common at their edges.

mod bandwidth;
mod by_collective;
mod by_rank;
mod chrome;
mod deviation;
mod diff;
mod duplicate_keys;
mod error;
mod fp8;
mod imbalance;
mod input;
mod interval;
mod link_usage;
mod metrics;
mod note;
mod payload;
mod printable;
mod record;
mod routing_matrix;
mod routing_trace;
mod rows;
mod series;
mod span;
mod stream;
mod summary;
mod switcher;
mod tensor;
mod transfers;

pub use bandwidth::Bandwidths;
pub use by_collective::by_collective;
pub use by_rank::{ByRank, Imbalances};
pub use chrome::{Limit, Sampling, Trace, TraceMeta, TracedSpan, read_chrome, write_chrome};
pub use deviation::Deviation;
pub use diff::{Comparison, Diff, Group, Pair, Total};
pub use error::TraceError;
pub use fp8::{FP8_BLOCK, fp8_row_bytes};
pub use imbalance::Imbalance;
pub use input::{open_bounded, open_input, read_input};
pub use link_usage::{Link, LinkUsage};
pub use metrics::{Metrics, Spread};
pub use note::Note;
pub use payload::{ChunkId, Payload};
pub use printable::{escaped, printable};
pub use routing_matrix::{RoutingMatrix, read_routing_matrices};
pub use routing_trace::{RoutingStep, read_routing_trace};
pub use rows::Rows;
pub use span::{IterationTime, Span, Timeline};
pub use stream::stream;
pub use summary::{Executors, Split, Summary, VariantSummary};
pub use switcher::{SwitcherClass, SwitcherDecision, SwitcherSummary};
pub use tensor::{TensorFile, TensorInfo, read_bf16};
pub use transfers::{TransferRow, write_transfers};
