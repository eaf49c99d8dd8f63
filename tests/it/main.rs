//! The program and its facade library, as users have them.
#![allow(clippy::unwrap_used, reason = "in tests a panic is the report")]

mod anywhere;
mod bench;
mod bench_collective;
mod bench_held;
mod bench_sim;
mod book;
mod calibrate;
mod can_fail;
mod circles;
mod cli;
mod common;
mod diff;
mod doctor;
#[cfg(unix)]
mod examples;
mod executors;
mod faults;
mod files;
mod folded;
mod inspect;
mod layouts;
mod order;
mod pipes;
#[cfg(unix)]
mod places;
mod plot;
mod presets;
mod readme;
mod refusals;
mod release;
mod report;
mod reproduce;
mod routes;
mod serving;
mod serving_paced;
mod store;
mod structure;
mod sweep;
mod switcher;
mod tables;
mod topologies;
mod training;
mod verdict;
