//! Decisions of a switcher in a run, for summaries.

/// The results of a switcher.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct SwitcherSummary {
    /// Bytes before coding of an iteration, to the nearest byte of the mean: arms may send different types.
    #[serde(skip)]
    pub bytes_raw: u64,
    /// The ways between which it chose.
    pub arms: Vec<String>,
    /// The classes of calls for which it chose, and how many calls an iteration has of each.
    pub classes: Vec<SwitcherClass>,
    /// Iterations at the start that measured every arm. What follows is about the others.
    pub warm_up_iterations: u32,
    /// Seconds of these iterations.
    pub warm_up_s: f64,
    /// Seconds of all iterations after them.
    pub elapsed_s: f64,
    /// Share of the time that probes cost: with each probe, less without it. `None` where that was not simulated.
    pub probing_share: Option<f64>,
    /// Share of the time that exchanges of statistics took.
    pub statistics_share: f64,
    /// Time over that of the best fixed choice for each iteration, by class of calls, less 1. `None` if no iteration follows the
    /// warm-up, or other choices were not simulated.
    pub regret: Option<f64>,
    /// Time over that of the best single arm for all iterations and calls, less 1.
    pub over_best_arm: Option<f64>,
    /// Time over that of the uncompressed arm in every iteration, less 1; `None` if there is no such arm.
    pub over_native: Option<f64>,
    /// Decisions that changed something, and all probes.
    pub decisions: Vec<SwitcherDecision>,
    /// Tables that took the place of stale ones.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tables: Vec<SwitcherTable>,
}

/// A table that frames share from an iteration on.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct SwitcherTable {
    /// The first iteration whose frames name it.
    pub iteration: u32,
    /// Its id, as in specs.
    pub id: String,
    /// The rank from whose values it was calibrated.
    pub rank: u32,
    /// The share of that rank's values that the table before it did not serve.
    pub missed: f64,
    /// The share that the table before it promised not to serve.
    pub promised: f64,
}

/// Calls that are alike.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct SwitcherClass {
    /// Name of the calls, without numbers.
    pub name: String,
    /// Calls in an iteration.
    pub calls: usize,
}

/// A decision of a switcher.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct SwitcherDecision {
    /// The first iteration that it holds for; `probe` and `calibrate` hold for this one alone.
    pub iteration: u32,
    /// The class, by position.
    pub class: usize,
    /// The call, if it holds for one only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub segment: Option<String>,
    /// The arm.
    pub arm: String,
    /// `calibrate`, `best`, `probe`.
    pub reason: &'static str,
    /// Seconds that a call of the class was expected to take, by arm.
    pub costs_s: Vec<f64>,
}
