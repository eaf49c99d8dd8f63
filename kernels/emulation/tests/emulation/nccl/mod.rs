//! The fake NCCL: what it promises, and what it notices.

mod collectives;
mod communicators;
mod faults;
mod graphs;
mod messages;
mod processes;
mod ranks;

use zipwire_emulation::Scene;

use crate::Test;

pub(crate) fn tests() -> Vec<Test> {
    let all = [
        collectives::TESTS,
        communicators::TESTS,
        faults::TESTS,
        graphs::TESTS,
        messages::TESTS,
        processes::TESTS,
    ];
    all.concat()
}

pub(crate) const SCENES: &[Scene] = faults::SCENES;
