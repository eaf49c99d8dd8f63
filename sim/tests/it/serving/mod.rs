//! Simulated serving against closed forms, queueing theory and plain simulations of the same.

mod alone;
mod batch;
mod case;
mod conserved;
mod ends;
mod pieces;
mod queues;
mod scale;
mod shared;
mod slowdown;
