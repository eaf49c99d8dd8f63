//! Schedules of pipelines: in which order each stage carries out its passes over micro-batches.
//!
//! Bubbles, the time of an iteration over that of a rank's own passes, where nothing is sent: `p` stages, a forward pass of a stage takes `F`, a backward pass
//! `B = I + W`, of which `I` makes the gradients of inputs and `W` those of weights.
//!
//! | schedule | bubble | source |
//! |---|---|---|
//! | `1f1b` | (p - 1) (F + B) | PipeDream-flush, arXiv:2006.09503 |
//! | `interleaved`, v chunks | (p - 1) (F + B) / v | Megatron-LM, arXiv:2104.04473, sec. 2.2 |
//! | `zero-bubble` | (p - 1) (F + I - W) | ZB-H1, arXiv:2401.10241 |
//! | `dualpipe` | (p/2 - 1) (F&B + B - 3W) | DeepSeek-V3, arXiv:2412.19437, sec. 3.2.1 |
//!
//! F&B is the time of a forward and a backward pass together. A stage computes one thing at a time, so here it is F + B: what overlaps is what one moves and the
//! other computes.

use crate::language::named;

named! {
    /// Schedule of a pipeline.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub(super) enum Schedule {
        /// One forward pass, one backward pass.
        OneForwardOneBackward = "1f1b",
        /// The same over several chunks of layers of each stage.
        Interleaved = "interleaved",
        /// Gradients of weights where a stage would wait: ZB-H1, with the memory of `1f1b`.
        ZeroBubble = "zero-bubble",
        /// Micro-batches from both ends, each stage with the layers of two.
        DualPipe = "dualpipe",
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum PassKind {
    Forward,
    /// Gradients of inputs and of weights.
    Backward,
    /// Gradients of inputs alone.
    Inputs,
    /// Gradients of weights, behind those of inputs.
    Weights,
}

/// A pass of a stage over one of its chunks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Pass {
    pub(super) kind: PassKind,
    pub(super) micro_batch: u32,
    /// Which of the chunks of the stage; of `dualpipe`, the direction.
    pub(super) chunk: u32,
}

/// Passes that a stage carries out together: one, or a forward and a backward pass, of which one computes while the other moves something.
pub(super) type Block = Vec<Pass>;

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Pipeline {
    pub(super) schedule: Schedule,
    pub(super) stages: u32,
    /// Micro-batches of a replica; of `dualpipe`, of both directions together.
    pub(super) micro_batches: u32,
    /// Chunks of layers of each stage.
    pub(super) chunks: u32,
}

impl Pipeline {
    /// Parts into which the layers are cut: a micro-batch passes one after the other.
    pub(super) fn parts(&self) -> u32 {
        if self.schedule == Schedule::DualPipe { self.stages } else { self.stages * self.chunks }
    }

    /// The part of the layers that a chunk of a stage is.
    pub(super) fn part(&self, stage: u32, chunk: u32) -> u32 {
        match self.schedule {
            Schedule::DualPipe if chunk == 1 => self.stages - 1 - stage,
            Schedule::DualPipe => stage,
            _ => chunk * self.stages + stage,
        }
    }

    /// Stage and chunk that have a part, for micro-batches that come to it by some chunk of theirs.
    pub(super) fn holder(&self, part: u32, chunk: u32) -> (u32, u32) {
        match self.schedule {
            Schedule::DualPipe if chunk == 1 => (self.stages - 1 - part, chunk),
            Schedule::DualPipe => (part, chunk),
            _ => (part % self.stages, part / self.stages),
        }
    }

    /// Micro-batches that pass each chunk.
    pub(super) fn micro_batches_of_chunk(&self) -> u32 {
        if self.schedule == Schedule::DualPipe { self.micro_batches / 2 } else { self.micro_batches }
    }

    /// Blocks of all stages, each behind those that it waits for, and those of a stage in its order.
    pub(super) fn order(&self) -> Vec<(u32, Block)> {
        let orders: Vec<Vec<Block>> = (0..self.stages).map(|stage| self.blocks(stage)).collect();
        let mut left = orders.iter().map(Vec::len).sum::<usize>();
        let mut next = vec![0; orders.len()];
        let (mut done, mut all) = (std::collections::HashSet::new(), Vec::with_capacity(left));
        while left > 0 {
            let before = left;
            for (stage, blocks) in (0..).zip(&orders) {
                // One block of each stage in turn, as they would run.
                let Some(block) = blocks.get(next[stage as usize]) else { continue };
                let mut made = Vec::new();
                let is_ready = block.iter().all(|pass| {
                    let needs = self.needs(stage, *pass);
                    made.push((pass.kind_of_output(), pass.micro_batch, self.way(stage, pass.chunk)));
                    needs.is_none_or(|needs| done.contains(&needs) || made.contains(&needs))
                });
                if is_ready {
                    done.extend(made);
                    next[stage as usize] += 1;
                    left -= 1;
                    all.push((stage, block.clone()));
                }
            }
            assert!(left < before, "the schedule `{}` waits for itself", self.schedule.name());
        }
        all
    }

    /// Part and direction of a chunk.
    fn way(&self, stage: u32, chunk: u32) -> (u32, u32) {
        (self.part(stage, chunk), if self.schedule == Schedule::DualPipe { chunk } else { 0 })
    }

    /// Output that must be there before a pass, if any.
    fn needs(&self, stage: u32, pass: Pass) -> Option<(PassKind, u32, (u32, u32))> {
        let (part, direction) = self.way(stage, pass.chunk);
        let (kind, part) = match pass.kind {
            PassKind::Forward => (PassKind::Forward, part.checked_sub(1)?),
            PassKind::Weights => (PassKind::Backward, part),
            PassKind::Backward | PassKind::Inputs if part + 1 == self.parts() => (PassKind::Forward, part),
            PassKind::Backward | PassKind::Inputs => (PassKind::Backward, part + 1),
        };
        Some((kind, pass.micro_batch, (part, direction)))
    }

    fn blocks(&self, stage: u32) -> Vec<Block> {
        match self.schedule {
            Schedule::OneForwardOneBackward => self.one_forward_one_backward(stage),
            Schedule::Interleaved => self.interleaved(stage),
            Schedule::ZeroBubble => self.zero_bubble(stage),
            Schedule::DualPipe => DualPipe::new(self, stage).blocks(),
        }
    }

    fn one_forward_one_backward(&self, stage: u32) -> Vec<Block> {
        let first = (self.stages - 1 - stage).min(self.micro_batches);
        let mut blocks: Vec<Block> = (0..first).map(|index| vec![forward(index, 0)]).collect();
        for index in 0..self.micro_batches {
            blocks.extend((first + index < self.micro_batches).then(|| vec![forward(first + index, 0)]));
            blocks.push(vec![backward(index, 0)]);
        }
        blocks
    }

    /// Rounds of as many micro-batches as there are stages through all chunks.
    fn interleaved(&self, stage: u32) -> Vec<Block> {
        let round = self.stages * self.chunks;
        let all = self.micro_batches * self.chunks;
        let of =
            |index: u32| (index / round * self.stages + index % self.stages, index % round / self.stages);
        let first = ((self.stages - 1 - stage) * 2 + (self.chunks - 1) * self.stages).min(all);
        let ahead = |index| {
            let (micro_batch, chunk) = of(index);
            vec![forward(micro_batch, chunk)]
        };
        let mut blocks: Vec<Block> = (0..first).map(ahead).collect();
        for index in 0..all {
            blocks.extend((first + index < all).then(|| ahead(first + index)));
            let (micro_batch, chunk) = of(index);
            blocks.push(vec![backward(micro_batch, self.chunks - 1 - chunk)]);
        }
        blocks
    }

    /// A stage is as many gradients of weights behind as it has stages before it, which then fill the end.
    fn zero_bubble(&self, stage: u32) -> Vec<Block> {
        let first = (self.stages - 1 - stage).min(self.micro_batches);
        let mut blocks: Vec<Block> = (0..first).map(|index| vec![forward(index, 0)]).collect();
        for index in 0..self.micro_batches {
            blocks.extend((first + index < self.micro_batches).then(|| vec![forward(first + index, 0)]));
            blocks.push(vec![inputs(index, 0)]);
            blocks.extend(index.checked_sub(stage).map(|behind| vec![weights(behind, 0)]));
        }
        let behind = self.micro_batches.saturating_sub(stage)..self.micro_batches;
        blocks.extend(behind.map(|index| vec![weights(index, 0)]));
        blocks
    }
}

impl Pass {
    /// The kind under which others wait for it.
    fn kind_of_output(self) -> PassKind {
        if self.kind == PassKind::Inputs { PassKind::Backward } else { self.kind }
    }
}

fn forward(micro_batch: u32, chunk: u32) -> Pass {
    Pass { kind: PassKind::Forward, micro_batch, chunk }
}

fn backward(micro_batch: u32, chunk: u32) -> Pass {
    Pass { kind: PassKind::Backward, micro_batch, chunk }
}

fn inputs(micro_batch: u32, chunk: u32) -> Pass {
    Pass { kind: PassKind::Inputs, micro_batch, chunk }
}

fn weights(micro_batch: u32, chunk: u32) -> Pass {
    Pass { kind: PassKind::Weights, micro_batch, chunk }
}

/// The eight steps of DualPipe on one stage. In the second half of the stages directions are exchanged.
struct DualPipe {
    /// Stages of a half, and the distance of this one from its end of the pipeline.
    half: u32,
    distance: u32,
    is_second_half: bool,
    stages: u32,
    of_direction: u32,
    blocks: Vec<Block>,
    /// Passes so far, forward and backward, by direction.
    counts: [[u32; 2]; 2],
    /// Passes whose gradients of weights are still to be made.
    behind: std::collections::VecDeque<Pass>,
}

impl DualPipe {
    fn new(pipeline: &Pipeline, stage: u32) -> Self {
        let (stages, half) = (pipeline.stages, pipeline.stages / 2);
        Self {
            half,
            distance: stage.min(stages - 1 - stage),
            is_second_half: stage >= half,
            stages,
            of_direction: pipeline.micro_batches / 2,
            blocks: Vec::new(),
            counts: [[0; 2]; 2],
            behind: std::collections::VecDeque::new(),
        }
    }

    fn blocks(mut self) -> Vec<Block> {
        let Self { half, distance, stages, of_direction, .. } = self;
        let inner = half - 1 - distance;
        (0..2 * inner).for_each(|_| self.forward(0));
        for _ in 0..=distance {
            self.forward(0);
            self.forward(1);
        }
        for _ in 0..inner {
            self.inputs(1);
            self.weights();
            self.forward(1);
        }
        for index in 0..of_direction + distance + 1 - stages {
            if index == 0 && inner == 0 {
                self.forward(0);
                self.backward(1);
            } else {
                self.both(0, 1);
            }
            self.both(1, 0);
        }
        for _ in 0..inner {
            self.backward(1);
            self.both(1, 0);
        }
        let count = distance + 1;
        for index in 0..count {
            // Gradients of weights wait from the middle on, in turn for either direction.
            let is_late =
                |turn: u32| 2 * index + turn >= 2 * (count / 2) + u32::from(distance.is_multiple_of(2));
            if is_late(0) {
                self.inputs(1);
            } else {
                self.backward(1);
            }
            if is_late(1) { self.inputs(0) } else { self.backward(0) }
        }
        for _ in 0..inner {
            self.weights();
            self.inputs(0);
        }
        (0..count).for_each(|_| self.weights());
        self.blocks
    }

    /// The next pass of a kind in a direction, as the first half of the stages numbers it.
    fn next(&mut self, kind: PassKind, direction: u32) -> Pass {
        let chunk = if self.is_second_half { 1 - direction } else { direction };
        let count = &mut self.counts[usize::from(kind != PassKind::Forward)][chunk as usize];
        *count += 1;
        Pass { kind, micro_batch: *count - 1, chunk }
    }

    fn forward(&mut self, direction: u32) {
        let pass = self.next(PassKind::Forward, direction);
        self.blocks.push(vec![pass]);
    }

    fn backward(&mut self, direction: u32) {
        let pass = self.next(PassKind::Backward, direction);
        self.blocks.push(vec![pass]);
    }

    fn inputs(&mut self, direction: u32) {
        let pass = self.next(PassKind::Inputs, direction);
        self.behind.push_back(Pass { kind: PassKind::Weights, ..pass });
        self.blocks.push(vec![pass]);
    }

    fn weights(&mut self) {
        let pass = self.behind.pop_front().expect("gradients of inputs come before those of weights");
        self.blocks.push(vec![pass]);
    }

    fn both(&mut self, forward: u32, backward: u32) {
        let block = vec![self.next(PassKind::Forward, forward), self.next(PassKind::Backward, backward)];
        self.blocks.push(block);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    /// Every chunk sees every micro-batch once in each direction, and in the order that others need.
    #[test]
    fn all_passes_come_once() {
        let of =
            |schedule, stages, micro_batches, chunks| Pipeline { schedule, stages, micro_batches, chunks };
        let all = [
            of(Schedule::OneForwardOneBackward, 4, 6, 1),
            of(Schedule::OneForwardOneBackward, 8, 3, 1),
            of(Schedule::Interleaved, 4, 8, 3),
            of(Schedule::ZeroBubble, 4, 6, 1),
            of(Schedule::ZeroBubble, 8, 3, 1),
            of(Schedule::DualPipe, 2, 4, 2),
            of(Schedule::DualPipe, 8, 20, 2),
        ];
        for pipeline in all {
            let mut seen = HashSet::new();
            for (stage, block) in pipeline.order() {
                for pass in block {
                    let kinds = match pass.kind {
                        PassKind::Backward => vec![PassKind::Inputs, PassKind::Weights],
                        kind => vec![kind],
                    };
                    for kind in kinds {
                        assert!(seen.insert((stage, Pass { kind, ..pass })), "{pipeline:?} {stage} {pass:?}");
                    }
                }
            }
            let passes = pipeline.stages * pipeline.chunks * pipeline.micro_batches_of_chunk() * 3;
            assert_eq!(seen.len() as u32, passes, "{pipeline:?}");
            for part in 0..pipeline.parts() {
                for chunk in 0..if pipeline.schedule == Schedule::DualPipe { 2 } else { 1 } {
                    let (stage, chunk) = pipeline.holder(part, chunk);
                    assert_eq!(pipeline.part(stage, chunk), part);
                }
            }
        }
    }
}
