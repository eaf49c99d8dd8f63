//! Remarks of a run beside its spans: what was decided, and why.

/// Something that happened at one moment and concerns no rank.
#[derive(Clone, Debug, PartialEq)]
pub struct Note {
    /// Seconds from the start of the run.
    pub at_s: f64,
    /// Few different words: `dispatch: native`.
    pub name: String,
    /// Everything else, as JSON.
    pub args: serde_json::Value,
}

/// Most notes that are drawn; of more, the first ones are.
pub(crate) const MOST_DRAWN: usize = 4096;
