//! Compute work of instances at the coordinator: a part is done when all ranks of the instance say so.

use zipwire_schedule::{Failure, Rank};
use zipwire_serving::{DecodeStep, Input, PrefillStep};

use super::Coordinator;
use crate::serving::job::Job;
use crate::serving::message::Command;
use crate::serving::{Instance, Lost};

/// Work of one instance.
#[derive(Debug)]
pub(super) struct Working {
    pub(super) instance: Instance,
    pub(super) is_busy: bool,
    pub(super) is_lost: bool,
    /// Its first rank.
    first: u32,
    /// Number of the work.
    work: u32,
    /// Parts of it, and those that the machine was told.
    parts: u32,
    told: u32,
    /// Parts that each rank has done, and when the last of them was.
    done: Vec<u32>,
    at_s: f64,
}

/// All instances of a job, those that prefill first.
pub(super) fn all(job: &Job<'_>) -> Vec<Working> {
    let config = &job.setup.config;
    let prefill = (0..config.prefill.instances).map(Instance::Prefill);
    let working = |instance| {
        let ranks = job.ranks_of(instance);
        let done = vec![0; ranks.len()];
        let (is_busy, is_lost, first) = (false, false, ranks.start);
        Working { instance, is_busy, is_lost, first, work: 0, parts: 0, told: 0, done, at_s: 0.0 }
    };
    prefill.chain((0..config.decode.instances).map(Instance::Decode)).map(working).collect()
}

impl Working {
    /// Begins work of `parts` parts; returns its start and its number.
    fn begin(&mut self, at_s: f64, parts: u32) -> (f64, u32) {
        self.work += 1;
        (self.parts, self.told, self.is_busy) = (parts, 0, true);
        self.done.fill(0);
        self.at_s = self.at_s.max(at_s);
        (self.at_s, self.work)
    }

    fn ranks(&self) -> impl Iterator<Item = Rank> + use<> {
        (self.first..self.first + self.done.len() as u32).map(Rank)
    }
}

impl Coordinator<'_> {
    pub(super) fn begin_prefill(&mut self, step: &PrefillStep, at_s: f64) -> Result<(), Failure> {
        let parts = self.job.setup.config.layer_groups;
        let working = &mut self.instances[step.instance as usize];
        let (at_s, work) = working.begin(at_s, parts);
        let tokens = [step.tokens.start, step.tokens.end];
        let command = Command::Prefill { at_s, work, request: step.request, tokens };
        working.ranks().try_for_each(|rank| self.tell(rank, command))
    }

    pub(super) fn begin_step(&mut self, step: DecodeStep, at_s: f64) -> Result<(), Failure> {
        let DecodeStep { instance, sequences, context_tokens } = step;
        let index = self.job.setup.config.prefill.instances + instance;
        let working = &mut self.instances[index as usize];
        let (at_s, work) = working.begin(at_s, 1);
        let command = Command::Decode { at_s, work, sequences, context_tokens };
        working.ranks().try_for_each(|rank| self.tell(rank, command))
    }

    /// A rank has computed a part.
    pub(super) fn computed(&mut self, rank: Rank, work: u32, part: u32, at_s: f64) -> Result<(), Failure> {
        let index = self.index_of(rank);
        let working = &mut self.instances[index];
        if working.is_lost || working.work != work {
            return Ok(());
        }
        working.done[(rank.0 - working.first) as usize] = part + 1;
        working.at_s = working.at_s.max(at_s);
        loop {
            let working = &mut self.instances[index];
            let done = working.done.iter().copied().min().unwrap_or(0);
            if working.work != work || working.told >= done {
                return Ok(());
            }
            working.told += 1;
            working.is_busy = working.told < working.parts;
            let at_s = working.at_s;
            self.machine.handle(match working.instance {
                Instance::Prefill(instance) => Input::Computed { instance },
                Instance::Decode(instance) => Input::Stepped { instance },
            });
            self.decide(at_s)?;
        }
    }

    /// A rank is declared lost, and its instance with it.
    pub(super) fn lose(&mut self, rank: Rank) -> Result<(), Failure> {
        self.gone[rank.index()] = true;
        self.tell_all(Command::Lost(rank))?;
        let index = self.index_of(rank);
        let working = &mut self.instances[index];
        if std::mem::replace(&mut working.is_lost, true) {
            return Ok(());
        }
        working.is_busy = false;
        let instance = working.instance;
        let at_s = self.now_s();
        self.decided.lost.push(Lost { instance, rank, noticed_s: at_s });
        self.machine.handle(match instance {
            Instance::Prefill(instance) => Input::PrefillLost { instance },
            Instance::Decode(instance) => Input::DecodeLost { instance },
        });
        self.decide(at_s)
    }

    fn index_of(&self, rank: Rank) -> usize {
        // Ranks of instances follow one another.
        self.instances.partition_point(|working| working.first <= rank.0) - 1
    }
}
