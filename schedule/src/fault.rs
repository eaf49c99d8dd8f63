//! Faults that a run is made to suffer, so that what happens then is known beforehand. Executors carry them out.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::plan::{OpKind, Plan, TransferKey};
use crate::{Rank, SegmentId, Stage};

/// One fault of a scenario.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Fault {
    /// The iteration that it hits, from 0; slow ranks stay slow.
    pub iteration: u32,
    /// Effect.
    pub kind: FaultKind,
}

/// Effect of a fault.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum FaultKind {
    /// The bytes of a transfer move and never arrive, at either end.
    Drop(TransferSite),
    /// A transfer ends this many seconds late, at both ends; its links are free meanwhile.
    Delay(TransferSite, f64),
    /// A bit of this byte of a transfer, modulo its length, arrives flipped.
    FlippedByte(TransferSite, u64),
    /// Compute and codec ops of a rank take this many times as long, in this iteration and all later ones.
    SlowRank(Rank, f64),
    /// A rank does nothing any more from this many seconds after the start of the iteration on. What it had on offer
    /// still moves.
    DeadRank(Rank, f64),
}

/// A transfer, named without knowledge of the plan: the first one, in the order of the sender's program, that fits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TransferSite {
    /// Sender.
    pub src: Rank,
    /// Receiver.
    pub dst: Rank,
    /// The collective call; `None` for any.
    pub segment: Option<SegmentId>,
    /// Stage of the exchange; `None` for any.
    pub stage: Option<Stage>,
}

/// Fate of a transfer: the effects of all faults that hit it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Fate {
    /// It never ends.
    pub is_dropped: bool,
    /// It ends this many seconds late.
    pub late_s: f64,
    /// Bytes of which a bit is flipped.
    pub flipped: Vec<u64>,
    /// The faults that do this, by their positions: those that flip bytes, and all others.
    flips: Vec<usize>,
    others: Vec<usize>,
}

/// The faults of one iteration of one plan.
#[derive(Clone, Debug, Default)]
pub struct FaultPlan {
    fates: HashMap<TransferKey, Fate>,
    slow: HashMap<Rank, f64>,
    dead_s: HashMap<Rank, f64>,
    /// The faults that slow a rank down, and that end it, by their positions.
    slowing: HashMap<Rank, Vec<usize>>,
    ending: HashMap<Rank, Vec<usize>>,
}

/// Which faults of a run have had an effect. One for all ranks and iterations; executors mark it through the methods of [`Fate`] and
/// [`FaultPlan`] that say what has happened, from any thread.
#[derive(Debug)]
pub struct FiredFaults(Box<[AtomicBool]>);

impl FiredFaults {
    /// None of so many yet.
    pub fn new(count: usize) -> Self {
        Self((0..count).map(|_| AtomicBool::new(false)).collect())
    }

    /// Faults that have had no effect, by their positions in the scenario, in order.
    pub fn missing(&self) -> Vec<usize> {
        (0..self.0.len()).filter(|&fault| !self.0[fault].load(Ordering::Relaxed)).collect()
    }

    fn mark(&self, faults: &[usize]) {
        faults.iter().for_each(|&fault| self.0[fault].store(true, Ordering::Relaxed));
    }
}

impl Fate {
    /// Notes that the transfer has moved so many bytes: one without any has none to flip.
    pub fn moved(&self, bytes: u64, fired: &FiredFaults) {
        fired.mark(&self.others);
        if bytes > 0 {
            fired.mark(&self.flips);
        }
    }
}

impl TransferSite {
    /// The transfer of `plan`; `None` if no transfer fits.
    pub fn find(&self, plan: &Plan) -> Option<TransferKey> {
        let &Self { src, dst, segment, stage } = self;
        plan.programs.get(src.index())?.ops.iter().find_map(|op| {
            let OpKind::Exchange(exchange) = &op.kind else { return None };
            if segment.is_some_and(|segment| segment != op.segment)
                || stage.is_some_and(|s| s != exchange.stage)
            {
                return None;
            }
            let send = exchange.sends.iter().find(|transfer| transfer.peer == dst)?;
            Some(exchange.key_of_send(src, op.segment, send))
        })
    }
}

impl Fault {
    /// Whether it finds something to hit in `plan`.
    pub fn hits(&self, plan: &Plan) -> bool {
        match self.kind {
            FaultKind::Drop(site) | FaultKind::Delay(site, _) | FaultKind::FlippedByte(site, _) => {
                site.find(plan).is_some()
            }
            FaultKind::SlowRank(rank, _) | FaultKind::DeadRank(rank, _) => rank.0 < plan.rank_count(),
        }
    }
}

impl FaultPlan {
    /// Effects of `faults` on `plan` in an iteration.
    pub fn new(plan: &Plan, faults: &[Fault], iteration: u32) -> Self {
        let mut this = Self::default();
        for (index, fault) in faults.iter().enumerate() {
            let now = fault.iteration == iteration;
            let mut hit = |site: &TransferSite, add: &dyn Fn(&mut Fate)| {
                if let Some(key) = site.find(plan).filter(|_| now) {
                    add(this.fates.entry(key).or_default());
                }
            };
            match &fault.kind {
                FaultKind::Drop(site) => hit(site, &|fate| {
                    fate.is_dropped = true;
                    fate.others.push(index);
                }),
                FaultKind::Delay(site, seconds) => hit(site, &|fate| {
                    fate.late_s += seconds;
                    fate.others.push(index);
                }),
                FaultKind::FlippedByte(site, byte) => hit(site, &|fate| {
                    fate.flipped.push(*byte);
                    fate.flips.push(index);
                }),
                FaultKind::SlowRank(rank, factor) if fault.iteration <= iteration => {
                    *this.slow.entry(*rank).or_insert(1.0) *= factor;
                    this.slowing.entry(*rank).or_default().push(index);
                }
                FaultKind::DeadRank(rank, at_s) if now => {
                    let at = this.dead_s.entry(*rank).or_insert(f64::INFINITY);
                    *at = at.min(*at_s);
                    this.ending.entry(*rank).or_default().push(index);
                }
                FaultKind::SlowRank(..) | FaultKind::DeadRank(..) => {}
            }
        }
        this
    }

    /// Fate of a transfer, if a fault hits it.
    pub fn fate(&self, key: &TransferKey) -> Option<&Fate> {
        self.fates.get(key)
    }

    /// How many times as long compute and codec ops of a rank take.
    pub fn slowness(&self, rank: Rank) -> f64 {
        self.slow.get(&rank).copied().unwrap_or(1.0)
    }

    /// Notes that a compute or codec op of a rank that takes any time has begun.
    pub fn worked(&self, rank: Rank, fired: &FiredFaults) {
        fired.mark(self.slowing.get(&rank).map_or(&[], Vec::as_slice));
    }

    /// Notes that a rank has died before it had ended.
    pub fn died(&self, rank: Rank, fired: &FiredFaults) {
        fired.mark(self.ending.get(&rank).map_or(&[], Vec::as_slice));
    }

    /// When a rank dies, in seconds since the start of the iteration.
    pub fn death_s(&self, rank: Rank) -> Option<f64> {
        self.dead_s.get(&rank).copied()
    }
}
