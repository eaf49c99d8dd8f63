//! The network against closed forms, fixed cases with their inequalities, and the oracle.

mod against_oracle;
mod closed_forms;
mod fixed_cases;
mod play;
