//! Plans of compressed collectives, the planners that make them and the machine that drives them.
//!
//! A [`Job`] says what an iteration does; [`plan()`] chooses how it travels and yields a [`Plan`], one
//! [`Program`](plan::Program) per rank; a [`Machine`] per rank decides what is issued next; an executor does it.
//!
//! Nothing here knows a clock, a thread or a file: time is an argument, and executors carry out what the
//! machine decides.

mod algorithm;
mod builder;
mod cost;
mod diagnosis;
pub mod estimate;
mod fault;
mod hazards;
mod ids;
mod job;
pub mod machine;
mod merge;
pub mod plan;
mod planner;
mod policy;
mod rank_order;
pub mod sum;
pub mod switcher;
mod symmetry;
mod text;
mod tokens;
mod validate;

pub use algorithm::Algorithm;
pub use builder::ProgramBuilder;
pub use cost::{CostModel, OpCost};
pub use diagnosis::{Deadlines, Failure, FailureKind, RankEnd, RootCause, RunFailure, Slack};
pub use fault::{Fate, Fault, FaultKind, FaultPlan, FiredFaults, TransferSite};
pub use ids::{BufferId, Channel, FlowChannel, Lane, OpId, SegmentId, SizeId, Stage};
pub use job::{CallKind, Durations, Flow, Job, Pace, Segment, Slot, Work};
pub use machine::{Capabilities, Machine, Readiness, TransferOrder};
pub use plan::{Plan, PlanError, PlanSize};
pub use planner::{Choice, Selection, SumType, folding, part_count, plan, plan_each, plan_folded};
pub use policy::{Order, Protocol, Window};
pub use rank_order::RankRange;
pub use sum::Sum;
pub use tokens::TokenMap;
pub use validate::{Checked, WHOLE_PLAN_RANKS};
pub use zipwire_cluster::{Collective, Dimension, Group, Groups, Layout, Rank, Symmetry};
pub use zipwire_codec::DType;
