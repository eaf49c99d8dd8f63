//! Remarks of a run beside its spans: what was decided, and why.

/// Something that happened at one moment and concerns no rank.
#[derive(Clone, Debug, PartialEq)]
pub struct Note {
    /// Seconds from the start of the run.
    pub at_s: f64,
    /// Few different words: `dispatch: native`.
    pub name: String,
    /// Everything else, as the text of a JSON object.
    pub args: String,
}
