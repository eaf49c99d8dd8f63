//! A backend that applies the faults of a scenario to a rank: lost and late transfers, slow ops, a dead rank. The wrapped backend does not
//! know of them. Bytes that are flipped on the way are up to [`Flips`](crate::transport::filter::Flips).

use zipwire_schedule::machine::{Capabilities, Machine};
use zipwire_schedule::{Failure, FailureKind, FaultPlan, FiredFaults, Lane};

use crate::run_program::{Action, Backend, Completion, Event, Outcome};

/// Wraps the backend of one rank for one iteration.
pub(crate) struct Faulty<'a, B> {
    inner: B,
    faults: &'a FaultPlan,
    fired: &'a FiredFaults,
    /// Completions of the wrapped backend that are delayed for the rank.
    held: Vec<Completion>,
    is_dead: bool,
}

impl<'a, B: Backend> Faulty<'a, B> {
    pub(crate) fn new(inner: B, faults: &'a FaultPlan, fired: &'a FiredFaults) -> Self {
        Self { inner, faults, fired, held: Vec::new(), is_dead: false }
    }

    pub(crate) fn inner(&mut self) -> &mut B {
        &mut self.inner
    }

    pub(crate) fn is_dead(&self) -> bool {
        self.is_dead
    }

    /// When the rank dies, in the backend's time; infinite if it does not.
    fn death_s(&self, machine: &Machine) -> f64 {
        let death_s = self.faults.death_s(machine.program().rank);
        death_s.map_or(f64::INFINITY, |death_s| machine.start_s() + death_s)
    }

    /// Plays a dead rank: does nothing until the run is over or all deadlines have passed.
    fn stay_dead(&mut self, machine: &Machine) -> Failure {
        self.is_dead = true;
        self.faults.died(machine.program().rank, self.fired);
        let end_s = machine.last_deadline_s();
        loop {
            let waited = self.inner.wait(machine, end_s.is_finite().then_some(end_s));
            // Whatever else it might have to report, it does not.
            let is_over = waited.as_ref().is_err_and(|failure| {
                use FailureKind::{Cancelled, PeerLost, Transport};
                matches!(failure.kind, Cancelled | PeerLost | Transport)
            });
            if is_over || waited.is_err() && end_s.is_infinite() || self.inner.now_s() >= end_s {
                return Failure::died(machine.program().rank);
            }
        }
    }

    /// Applies faults to a completion: it is delayed, or dropped (`None`).
    fn suffer(&self, machine: &Machine, completion: Completion) -> Option<Completion> {
        let late_s = match &completion.outcome {
            Outcome::Op(op, _) => match machine.op(*op).kind.lane() {
                Lane::Compute | Lane::Codec => {
                    let rank = machine.program().rank;
                    let late_s = (self.faults.slowness(rank) - 1.0) * (completion.end_s - completion.begin_s);
                    if late_s > 0.0 {
                        self.faults.worked(rank, self.fired);
                    }
                    late_s
                }
                _ => 0.0,
            },
            // Slow ranks are late for a call, and what a library moves is out of reach.
            Outcome::Call(_) => 0.0,
            Outcome::Transfer(id, _) => match self.faults.fate(&machine.key(*id)) {
                Some(fate) => {
                    fate.moved(machine.transfer_bytes(machine.transfer(*id).0), self.fired);
                    if fate.is_dropped {
                        return None;
                    }
                    fate.late_s
                }
                None => 0.0,
            },
        };
        Some(Completion { end_s: completion.end_s + late_s, ..completion })
    }

    /// Earliest delayed completion that is due by `now_s`.
    fn release(&mut self, now_s: f64) -> Option<Completion> {
        let ends = self.held.iter().enumerate().map(|(index, held)| (held.end_s, index));
        let (end_s, index) = ends.min_by(|a, b| a.0.total_cmp(&b.0))?;
        (end_s <= now_s).then(|| self.held.remove(index))
    }
}

impl<B: Backend> Backend for Faulty<'_, B> {
    fn capabilities(&self) -> Capabilities {
        self.inner.capabilities()
    }

    fn now_s(&self) -> f64 {
        self.inner.now_s()
    }

    fn submit(&mut self, machine: &Machine, action: Action) -> Result<(), Failure> {
        if self.now_s() >= self.death_s(machine) {
            return Err(self.stay_dead(machine));
        }
        self.inner.submit(machine, action)
    }

    fn wait(&mut self, machine: &Machine, until_s: Option<f64>) -> Result<Option<Event>, Failure> {
        loop {
            let now_s = self.now_s();
            let death_s = self.death_s(machine);
            if now_s >= death_s {
                return Err(self.stay_dead(machine));
            }
            if let Some(completion) = self.release(now_s) {
                return Ok(Some(Event::Ended(completion)));
            }
            let held_s = self.held.iter().map(|held| held.end_s);
            let next_s = held_s.chain(until_s).fold(death_s, f64::min);
            match self.inner.wait(machine, next_s.is_finite().then_some(next_s))? {
                Some(Event::Ended(completion)) => match self.suffer(machine, completion) {
                    Some(completion) if completion.end_s > self.now_s() => self.held.push(completion),
                    Some(completion) => return Ok(Some(Event::Ended(completion))),
                    None => {}
                },
                Some(event @ Event::PeerReady(_)) => return Ok(Some(event)),
                None if until_s.is_some_and(|until_s| self.now_s() >= until_s) => return Ok(None),
                None => {}
            }
        }
    }

    fn abort(&mut self, failure: &Failure) {
        self.inner.abort(failure);
    }
}
