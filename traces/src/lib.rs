//! Files: timelines out, recordings in.
//!
//! Out: [`write_chrome`] makes a [`Timeline`](zipwire_timeline::Timeline) a trace for Perfetto, [`Summary`] is the file that holds the
//! numbers of variants side by side. [`read_chrome`] reads a trace back; [`Diff::of`] holds two of them against each other,
//! span by span.
//!
//! In: [`read_routing_matrices`] and [`read_routing_trace`] read where tokens went, [`read_rows`] what transfers carried, [`read_table`] what their
//! frames share.

mod by_collective;
mod chrome;
mod diff;
mod error;
mod input;
mod printable;
mod request_tracks;
mod requests;
mod routing_matrix;
mod routing_trace;
mod summary;
mod switcher;
mod table_file;
mod tensor;
mod transfers;
mod verdict;

pub use by_collective::by_collective;
pub use chrome::{Limit, Sampling, Trace, TraceMeta, TracedSpan, read_chrome, write_chrome};
pub use diff::{Comparison, Diff, Group, Pair, Total};
pub use error::TraceError;
pub use input::{open_bounded, read_input};
pub use printable::{escaped, printable};
pub use request_tracks::write_request_tracks;
pub use requests::write_requests;
pub use routing_matrix::{RoutingMatrix, parse_routing_matrices, read_routing_matrices};
pub use routing_trace::{RoutingStep, parse_routing_trace, read_routing_trace};
pub use summary::{Executors, Split, Summary, VariantSummary};
pub use switcher::{SwitcherClass, SwitcherDecision, SwitcherSummary, SwitcherTable};
pub use table_file::{TableFile, TableFileError, parse_table, read_table};
pub use tensor::{TensorFile, read_rows};
pub use transfers::{TransferRow, write_transfers};
pub use verdict::{Binds, BreakEven, Sensitivity, Verdict};
pub use zipwire_models::file::{TensorInfo, nearest, open_input};
