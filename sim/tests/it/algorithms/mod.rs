//! Algorithms over several NICs, in slices and along trees, in virtual time: against closed forms, and against what a choice between
//! them rests on.

mod call;
mod chains;
mod estimates;
mod levels;
mod rings;
mod trees;
