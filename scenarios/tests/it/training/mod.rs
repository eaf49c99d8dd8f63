//! Whole training iterations: which segments there are, what they move, and how long they compute.

mod experts;
mod iteration;
mod sharded;
mod sums;
mod times;
