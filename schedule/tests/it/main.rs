//! Plans, planners and the machine.

#![allow(clippy::unwrap_used, reason = "in tests a panic is the report")]

mod arenas;
mod blame;
mod coded_flows;
mod common;
mod dedup;
mod deliveries;
mod gather;
mod library;
mod library_model;
mod machine;
mod numbers;
mod orders;
mod plans;
mod random_schedules;
mod reduction;
mod switcher;
mod topology;
