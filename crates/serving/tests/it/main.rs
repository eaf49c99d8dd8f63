//! The serving machine: placement and random schedules.

#![allow(clippy::unwrap_used, reason = "in tests a panic is the report")]

mod placement;
mod schedules;
