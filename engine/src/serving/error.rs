//! Why serving ends without a result.

use zipwire_kv::KvError;
use zipwire_schedule::{Failure, FailureKind, Rank};
use zipwire_serving::RequestId;

/// Why serving ends without a result.
#[allow(missing_docs, reason = "fields are named by the messages")]
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum ServeError {
    /// Parts of the setup contradict each other.
    #[error("{0}")]
    Setup(String),
    /// The cache cannot be coded so.
    #[error(transparent)]
    Kv(#[from] KvError),
    /// The user wants it to end.
    #[error("stopped by the user")]
    Stopped,
    /// A rank, or the coordinator on its behalf, has failed.
    #[error("rank {rank} {}{}: {detail}", kind.describe(), of(*request))]
    Failed { rank: Rank, request: Option<RequestId>, kind: FailureKind, detail: String },
}

fn of(request: Option<RequestId>) -> String {
    request.map_or_else(String::new, |request| format!(" with the cache of request {request}"))
}

impl From<Failure> for ServeError {
    fn from(failure: Failure) -> Self {
        let request = failure.transfer.and_then(|key| key.segment.0.checked_sub(1)).map(RequestId);
        let Failure { rank, kind, detail, .. } = failure;
        Self::Failed { rank, request, kind, detail }
    }
}
