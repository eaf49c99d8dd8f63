//! A virtual clock per link: how many bytes each flow bottlenecked there has moved.
//!
//! A flow joins the clock of its bottleneck with a *finish tag*, the reading at which its last byte has
//! moved. Rounding stays harmless: a link gives its flows at least capacity / users, so a clock never reads
//! far more than the slowest of its flows could have moved in the same time, and an idle clock restarts at 0.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::TIE;
use crate::queue::Ordered;

/// The bottleneck of a flow that is not in the network, and the place of a link without flows.
const NOWHERE: u32 = u32::MAX;
/// Relative rounding of a sum of a few steps.
pub(super) const ROUNDING: f64 = 4.0 * f64::EPSILON;

/// A flow on the clock of its bottleneck.
#[derive(Clone, Copy)]
struct Ticket {
    tag: f64,
    link: u32,
    /// In all, for ties: roughly is enough.
    bytes: f32,
    /// Flows that it stands for.
    times: u32,
}

impl Ticket {
    const NONE: Ticket = Ticket { tag: 0.0, link: NOWHERE, bytes: 0.0, times: 1 };
}

/// A finish tag in the queue of a link, and its flow; stale once the flow has left the link or has another tag. Reversed, because
/// a binary heap yields its greatest item first.
type Finish = Reverse<(Ordered, u32)>;

/// The clocks of all links, and the bottleneck and finish tag of every flow.
///
/// Time passes for links with flows of their own only: their clocks lie side by side, in no order.
pub(super) struct Clocks {
    /// Place of each link among those with flows; [`NOWHERE`] of others.
    places: Vec<u32>,
    /// By place: the link.
    active: Vec<u32>,
    /// By place: bytes per second of each flow bottlenecked there.
    levels: Vec<f64>,
    /// By place.
    readings: Vec<f64>,
    /// By place: lowest tag. The head of the link's queue is never stale.
    first: Vec<f64>,
    queues: Vec<BinaryHeap<Finish>>,
    /// Flows bottlenecked at a link.
    counts: Vec<u32>,
    tickets: Vec<Ticket>,
    most_bytes: f64,
    /// Since the start, at any link.
    highest_level: f64,
    elapsed_s: f64,
}

impl Clocks {
    pub(super) fn new(links: usize) -> Self {
        Self {
            places: vec![NOWHERE; links],
            active: Vec::new(),
            levels: Vec::new(),
            readings: Vec::new(),
            first: Vec::new(),
            queues: vec![BinaryHeap::new(); links],
            counts: vec![0; links],
            tickets: Vec::new(),
            most_bytes: 0.0,
            highest_level: 0.0,
            elapsed_s: 0.0,
        }
    }

    pub(super) fn links(&self) -> u32 {
        self.places.len() as u32
    }

    /// Where the clock of a link is, if it has flows.
    fn place(&self, link: u32) -> Option<usize> {
        let place = self.places[link as usize];
        (place != NOWHERE).then_some(place as usize)
    }

    /// Bytes per second of each flow bottlenecked at a link; 0 while there is none.
    pub(super) fn level(&self, link: u32) -> f64 {
        self.place(link).map_or(0.0, |place| self.levels[place])
    }

    /// Sets the level of a link that has flows.
    pub(super) fn set_level(&mut self, link: u32, level: f64) {
        self.levels[self.places[link as usize] as usize] = level;
        self.highest_level = self.highest_level.max(level);
    }

    /// Flows bottlenecked at a link.
    pub(super) fn count(&self, link: u32) -> u32 {
        self.counts[link as usize]
    }

    pub(super) fn elapsed_s(&self) -> f64 {
        self.elapsed_s
    }

    pub(super) fn is_active(&self, flow: u32) -> bool {
        self.tickets.get(flow as usize).is_some_and(|ticket| ticket.link != NOWHERE)
    }

    pub(super) fn bottleneck(&self, flow: u32) -> u32 {
        self.tickets[flow as usize].link
    }

    /// Seconds until the first tag is reached.
    pub(super) fn next_in_s(&self) -> f64 {
        // A link that has no level yet has its first end never.
        let waits = self.first.iter().zip(&self.readings).zip(&self.levels);
        let waits = waits.map(|((first, reading), level)| (first - reading) / level);
        waits.fold(f64::INFINITY, f64::min).max(0.0)
    }

    pub(super) fn advance(&mut self, seconds: f64) {
        for (reading, level) in self.readings.iter_mut().zip(&self.levels) {
            *reading += level * seconds;
        }
        self.elapsed_s += seconds;
    }

    /// Appends the links that may have a flow that is due, in order: those that are far from it are left out.
    pub(super) fn near_due(&self, links: &mut Vec<u32>) {
        let slack = TIE * self.most_bytes + ROUNDING * self.highest_level * self.elapsed_s;
        let begin = links.len();
        for (link, (first, reading)) in self.active.iter().zip(self.first.iter().zip(&self.readings)) {
            // Twice the rounding of the head's tag, which the reading does not exceed by more.
            if first - reading <= slack + 4.0 * ROUNDING * first {
                links.push(*link);
            }
        }
        links[begin..].sort_unstable();
    }

    /// A flow of this link that has moved all its bytes, up to a tie or rounding.
    pub(super) fn due(&self, link: u32) -> Option<u32> {
        let place = self.place(link)?;
        let (first, reading, level) = (self.first[place], self.readings[place], self.levels[place]);
        let rounding = ROUNDING * (reading + first + level * self.elapsed_s);
        if level == 0.0 || first - reading > TIE * self.most_bytes + rounding {
            return None;
        }
        let &Reverse((_, flow)) = self.queues[link as usize].peek()?;
        (first - reading <= TIE * f64::from(self.tickets[flow as usize].bytes) + rounding).then_some(flow)
    }

    /// Puts a new flow, which stands for so many, on the clock of `link`.
    pub(super) fn enter(&mut self, flow: u32, link: u32, bytes: f64, times: u32) {
        if self.tickets.len() <= flow as usize {
            self.tickets.resize(flow as usize + 1, Ticket::NONE);
        }
        self.most_bytes = self.most_bytes.max(bytes);
        let ticket = &mut self.tickets[flow as usize];
        (ticket.bytes, ticket.times) = (bytes as f32, times);
        self.join(flow, link, bytes);
    }

    /// Moves a flow to the clock of `link` with the bytes that it has left.
    pub(super) fn switch(&mut self, flow: u32, link: u32) {
        let Ticket { link: old, tag, .. } = self.tickets[flow as usize];
        let left = (tag - self.readings[self.places[old as usize] as usize]).max(0.0);
        self.leave(flow);
        self.join(flow, link, left);
    }

    fn join(&mut self, flow: u32, link: u32, left: f64) {
        let l = link as usize;
        let place = self.place(link).unwrap_or_else(|| self.begin(link));
        let tag = self.readings[place] + left;
        let ticket = &mut self.tickets[flow as usize];
        (ticket.link, ticket.tag) = (link, tag);
        self.counts[l] += ticket.times;
        self.first[place] = self.first[place].min(tag);
        let queue = &mut self.queues[l];
        if queue.len() > 32 + 2 * self.counts[l] as usize {
            let tickets = &self.tickets;
            queue.retain(|finish| is_live(tickets, finish, link));
        }
        queue.push(Reverse((Ordered(tag), flow)));
    }

    /// Gives a link without flows a clock; returns its place.
    fn begin(&mut self, link: u32) -> usize {
        let place = self.active.len();
        self.places[link as usize] = place as u32;
        self.active.push(link);
        self.levels.push(0.0);
        self.readings.push(0.0);
        self.first.push(f64::INFINITY);
        place
    }

    /// Takes the clock of a link whose last flow has gone.
    fn end(&mut self, link: u32) {
        let place = std::mem::replace(&mut self.places[link as usize], NOWHERE) as usize;
        self.active.swap_remove(place);
        self.levels.swap_remove(place);
        self.readings.swap_remove(place);
        self.first.swap_remove(place);
        if let Some(&moved) = self.active.get(place) {
            self.places[moved as usize] = place as u32;
        }
    }

    /// Takes a flow off the clock of its bottleneck.
    pub(super) fn leave(&mut self, flow: u32) {
        let ticket = &mut self.tickets[flow as usize];
        let (link, tag) = (std::mem::replace(&mut ticket.link, NOWHERE), ticket.tag);
        let l = link as usize;
        self.counts[l] -= ticket.times;
        if self.counts[l] == 0 {
            self.queues[l].clear();
            self.end(link);
        } else if tag == self.first[self.places[l] as usize] {
            let (queue, tickets) = (&mut self.queues[l], &self.tickets);
            while queue.peek().is_some_and(|finish| !is_live(tickets, finish, link)) {
                queue.pop();
            }
            let Reverse((tag, _)) = queue.peek().expect("a flow is left on this link");
            self.first[self.places[l] as usize] = tag.0;
        }
    }
}

fn is_live(tickets: &[Ticket], &Reverse((tag, flow)): &Finish, link: u32) -> bool {
    let ticket = &tickets[flow as usize];
    ticket.link == link && ticket.tag == tag.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stale_tags_neither_pile_up_nor_hide_the_first_end() {
        let mut clocks = Clocks::new(2);
        clocks.enter(0, 0, 100.0, 1);
        clocks.enter(1, 1, 70.0, 1);
        clocks.enter(2, 0, 50.0, 1);
        clocks.set_level(0, 1.0);
        clocks.set_level(1, 1.0);
        for _ in 0..1000 {
            clocks.switch(2, 1);
            clocks.switch(2, 0);
        }
        assert_eq!(clocks.next_in_s(), 50.0);
        assert!(clocks.queues.iter().all(|queue| queue.len() < 64));
        clocks.switch(2, 1);
        clocks.leave(2);
        assert_eq!(clocks.next_in_s(), 70.0);
    }

    /// At 1e18 a double no longer tells single bytes apart.
    #[test]
    fn an_idle_clock_restarts_at_zero() {
        let mut clocks = Clocks::new(1);
        clocks.enter(0, 0, 1e18, 1);
        clocks.set_level(0, 1e15);
        clocks.advance(1e3);
        assert_eq!(clocks.due(0), Some(0));
        clocks.leave(0);
        clocks.enter(0, 0, 1.0, 1);
        clocks.set_level(0, 1e15);
        assert_eq!(clocks.next_in_s(), 1e-15);
    }
}
