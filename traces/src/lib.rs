//! Files: timelines out, recordings in.
//!
//! Out: [`write_chrome`] makes a [`Timeline`](zipwire_timeline::Timeline) a trace for Perfetto, [`Summary`] is the file that holds the
//! numbers of variants side by side. [`read_chrome`] reads a trace back; [`Diff::of`] holds two of them against each other,
//! span by span.
//!
//! In: [`read_routing_matrices`] and [`read_routing_trace`] read where tokens went, [`read_rows`] what transfers carried, [`read_table`] what their
//! frames share.

mod chrome;
mod diff;
mod error;
mod printable;
mod requests;
mod routing_trace;
mod summary;
mod table_file;
mod tensor;
mod verdict;

pub use chrome::{Limit, Sampling, Trace, TraceMeta, TracedLink, TracedSpan, read_chrome, write_chrome};
pub use diff::{Comparison, Diff, Group, Pair, Total};
pub use error::TraceError;
pub use printable::{escaped, printable};
pub use requests::{TransferRow, write_request_tracks, write_requests, write_transfers};
pub use routing_trace::{
    RoutingMatrix, RoutingStep, parse_routing_matrices, parse_routing_trace, read_routing_matrices,
    read_routing_trace,
};
pub use summary::{
    Executors, Split, Summary, SwitcherClass, SwitcherDecision, SwitcherSummary, SwitcherTable,
    VariantSummary, by_collective,
};
pub use table_file::{TableFile, TableFileError, parse_table, read_table};
pub use tensor::{TensorFile, open_bounded, read_input, read_rows, read_text};
pub use verdict::{Binds, BreakEven, Sensitivity, Verdict};
pub use zipwire_models::file::{TensorInfo, nearest, open_input};
