//! Workloads that are a whole training iteration: forward and backward pass of every layer of a model, and the collective
//! calls of one way to train it in parallel.
//!
//! Kinds differ in what ranks share: experts (`moe`), parameters (`fsdp`), nothing but gradients (`dp`), or every layer
//! (`tp`); `training` has several of these together, and pipelines. All are sequences of segments that [`Builder`](builder::Builder) collects; what waits for what follows from the
//! slots that segments use. There is no recomputation of activations and no optimizer step.

mod builder;
mod dp;
mod fsdp;
mod gradients;
mod moe;
mod parallel;
mod tp;

use super::{Context, Kind, Workload};

pub(crate) use self::parallel::DIMENSIONS;
use crate::error::Result;
use crate::language::{Field, Schema};

/// Reads the table of a kind that trains.
pub(super) fn read(kind: Kind, field: &Field<'_>, context: &Context<'_>) -> Result<Workload> {
    match kind {
        Kind::MoeTraining => moe::read(field, context),
        Kind::Fsdp => fsdp::read(field, context),
        Kind::Dp => dp::read(field, context),
        Kind::Tp => tp::read(field, context),
        Kind::Training => parallel::read(field, context),
        _ => unreachable!("`{}` does not train", kind.name()),
    }
}

/// Schema of the table that [`read`] accepts for `kind`.
pub(super) fn schema(kind: Kind) -> Schema {
    match kind {
        Kind::MoeTraining => kind.table(&moe::keys()),
        Kind::Fsdp => fsdp::schema(),
        Kind::Dp => kind.table(&dp::keys()),
        Kind::Tp => kind.table(&tp::keys()),
        Kind::Training => kind.table(&parallel::keys()),
        _ => unreachable!("`{}` does not train", kind.name()),
    }
}
