//! Problems with the values that are sent, and with their base.

use zipwire_traces::TraceError;

use crate::document::Place;
use crate::error::ScenarioError;
use crate::problem::Problem;

/// Why values cannot be sent, or differ from nothing.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PayloadProblem {
    /// Drawn values where another type is sent.
    #[error("values are drawn as BF16, and the workload sends {dtype}")]
    DrawnType { dtype: &'static str },
    /// The base cannot be read.
    #[error("the base: {0}")]
    Base(#[source] TraceError),
    /// The base is no earlier state of the tensor.
    #[error(
        "tensor `{tensor}` of the base has {} rows of {} values, and the one that is sent {} of {}",
        .found[0], .found[1], .needed[0], .needed[1]
    )]
    BaseShape { tensor: String, found: [usize; 2], needed: [usize; 2] },
    /// A base for a workload that carries nothing but gradients.
    #[error("the workload carries gradients only, of which no rank has an earlier state")]
    GradientBase,
    /// The codec takes differences, and the payload does not say from what.
    #[error("codec `{codec}` takes differences from a base, and the payload has none")]
    NoBase { codec: String, is_recorded: bool },
    /// A token that is no whole number of blocks with a scale each.
    #[error("FP8 values have a scale for every {block}, and a token has {hidden} values")]
    PartialBlock { hidden: u32, block: usize },
    /// The codec takes differences, of sums among others.
    #[error("codec `{codec}` takes differences from a base, and no rank has one of what is added up")]
    SumBase { codec: String, has_others: bool },
}

impl PayloadProblem {
    /// The remedy, where the message does not name it already.
    pub fn help(&self) -> Option<String> {
        match self {
            Self::DrawnType { dtype } => Some(format!(
                "name a recorded tensor of {dtype} by `file` and `tensor`, leave `payload` out, or send `dtype = \"BF16\"`"
            )),
            Self::Base(error) => error.help(),
            Self::BaseShape { .. } => {
                Some("name a checkpoint of the same model: its tensors have the same shapes".to_owned())
            }
            Self::PartialBlock { block, .. } => {
                Some(format!("leave `dispatch_dtype` out, or take a model whose `hidden` is a multiple of {block}"))
            }
            Self::GradientBase => Some("leave `base` out".to_owned()),
            Self::NoBase { is_recorded: true, .. } => Some(
                "name the file of the tensors as all ranks have them already, `base = \"OLD.safetensors\"`, beside `file`"
                    .to_owned(),
            ),
            Self::NoBase { codec, .. } => Some(format!(
                "name a recorded tensor, and the file of it as all ranks have it already, `payload = {{ file = \"NEW.safetensors\", \
                 tensor = \"NAME\", base = \"OLD.safetensors\" }}`, or take the codec `{}`",
                behind(codec)
            )),
            Self::SumBase { codec, has_others: true } => Some(format!(
                "let sums travel uncompressed, `reductions = \"native\"`, or take the codec `{}`",
                behind(codec)
            )),
            Self::SumBase { codec, .. } => Some(format!("take the codec `{}`", behind(codec))),
        }
    }

    /// The error of this problem at a place.
    pub(crate) fn at(self, place: Place) -> ScenarioError {
        Problem::Payload(self).at(place)
    }
}

/// The codec without what stands in front of it.
fn behind(codec: &str) -> &str {
    codec.rsplit('+').next().unwrap_or(codec)
}
