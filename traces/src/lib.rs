//! Timelines out, recordings in.

mod chrome;
mod error;
mod payload;
mod record;
mod routing_matrix;
mod routing_trace;
mod rows;
mod span;
mod stream;
mod tensor;

pub use chrome::{TraceMeta, write_chrome};
pub use error::TraceError;
pub use payload::Payload;
pub use routing_matrix::{RoutingMatrix, read_routing_matrices};
pub use routing_trace::{RoutingStep, read_routing_trace};
pub use rows::Rows;
pub use span::{Span, Timeline};
pub use stream::stream;
pub use tensor::read_bf16;
