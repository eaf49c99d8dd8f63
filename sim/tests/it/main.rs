//! The simulator against closed forms, an independent solver and hand calculations.

#![allow(clippy::unwrap_used, reason = "in tests a panic is the report")]

mod agreement;
mod algorithms;
mod barriers;
mod churn;
mod closed_forms;
mod coded_flows;
mod common;
mod folded;
mod lateness;
mod library;
mod library_laws;
mod network;
mod oracle;
mod orders;
mod reductions;
mod serving;
mod slowdown;
mod topologies;
mod usage;

fn window7() -> zipwire_codec::Spec {
    zipwire_paper_codecs::register();
    "window7".parse().unwrap()
}
