//! Problems with explicit flows and their coding.

use crate::document::Place;
use crate::error::ScenarioError;
use crate::problem::Problem;

/// Why flows cannot start, or not travel so.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FlowProblem {
    /// A flow from a rank to itself.
    #[error("a flow from rank `{rank}` to itself")]
    SelfFlow { rank: u32 },
    /// `start = "rank-ready"` with two start times for one rank.
    #[error("rank `{rank}` is ready at `{second_s}` s here and at `{first_s}` s before")]
    TwoStarts { rank: u32, first_s: f64, second_s: f64 },
    /// A variant that chooses for each call.
    #[error("protocol `{protocol}` chooses anew for each collective call, and explicit flows are none")]
    Adaptive { protocol: &'static str },
    /// A flow that is to be coded and does not end with a value.
    #[error(
        "protocol `{protocol}` codes whole values, and flow {number} of `workload`, from rank {src} to rank {dst}, has {bytes} \
         bytes: {dtype} has {width} bytes per value"
    )]
    Broken {
        protocol: &'static str,
        number: usize,
        src: u32,
        dst: u32,
        bytes: u64,
        dtype: &'static str,
        width: usize,
    },
}

impl FlowProblem {
    /// The remedy, where the message does not name it already.
    pub fn help(&self) -> Option<String> {
        match self {
            Self::SelfFlow { .. } | Self::TwoStarts { .. } => None,
            Self::Adaptive { .. } => {
                Some("leave `protocol` out, or name one of those that a run is to compare".to_owned())
            }
            Self::Broken { width, .. } => Some(format!(
                "make its `bytes` a multiple of {width}, set `workload.dtype` to a type of one byte, `F8_E4M3` or `F8_E5M2`, or let the \
                 variant be `native`"
            )),
        }
    }

    /// The error of this problem at a place.
    pub(crate) fn at(self, place: Place) -> ScenarioError {
        Problem::Flow(self).at(place)
    }
}
