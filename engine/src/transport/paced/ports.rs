//! Paced links: every port serves one quantum of bytes at a time, taking turns among the transfers that wait for it.
//!
//! This is a model of its own, not the simulator's: no rates are computed anywhere. A transfer keeps a few quanta
//! under way over the ports of its route; each port hands them on at its bandwidth, first come first served among
//! transfers, one quantum a turn. Fair shares come out of that, and so agreement with the simulator's max-min rates
//! means something.
//!
//! A call of a library crosses many ports at once: it puts a part of each quantum on every one of them, and a quantum is over when
//! all ports have served their parts.

use std::collections::VecDeque;

use crate::event_queue::EventQueue;

/// Quanta of a transfer under way at a time, at the least and for each port of its route: enough to keep all of them busy and
/// as many turns in hand.
const UNDER_WAY: u32 = 8;
const UNDER_WAY_PER_PORT: u32 = 2;

/// A transfer, by position in [`Ports::transfers`]; used again when it has ended.
pub(super) type Id = usize;

#[derive(Debug)]
struct Port {
    seconds_per_byte: f64,
    /// Transfers that wait for a turn, and which port of their route this is; each at most once.
    turns: VecDeque<(Id, usize)>,
    is_busy: bool,
}

#[derive(Debug)]
struct Transfer {
    ports: Vec<usize>,
    /// Bytes that have not entered the first port's queue.
    unsent: u64,
    /// Bytes that have not left the last port.
    left: u64,
    under_way: u32,
    most_under_way: u32,
    /// Quanta that wait in front of each port of the route.
    waiting: Vec<VecDeque<u64>>,
    /// State of a call, which crosses all its ports at once instead of one after the other, and counts quanta instead of bytes.
    spread: Option<Spread>,
}

#[derive(Debug)]
struct Spread {
    /// Bytes of a quantum on each port.
    parts: Vec<f64>,
    /// Quanta that each port has served.
    served: Vec<u64>,
    /// Quanta that all ports have served.
    over: u64,
    /// Parts that are still to be served of the quanta under way.
    open: VecDeque<usize>,
}

impl Spread {
    /// A port has served its part of a quantum; how many quanta are over by that.
    fn serve(&mut self, hop: usize) -> u32 {
        let quantum = (self.served[hop] - self.over) as usize;
        self.served[hop] += 1;
        self.open[quantum] -= 1;
        let mut count = 0;
        while self.open.front() == Some(&0) {
            self.open.pop_front();
            count += 1;
        }
        self.over += u64::from(count);
        count
    }
}

#[derive(Debug)]
struct Quantum {
    port: usize,
    transfer: Id,
    hop: usize,
    bytes: u64,
}

/// All ports of a cluster. Time is an argument: seconds of whatever clock the caller keeps.
#[derive(Debug)]
pub(super) struct Ports {
    /// Bytes that a port serves in one turn.
    quantum: u64,
    ports: Vec<Port>,
    transfers: Vec<Transfer>,
    /// Ids of transfers that have ended.
    free: Vec<Id>,
    /// Ports of their own of what has ended.
    own: Vec<usize>,
    /// Quanta at ports, by when they will have been served.
    served: EventQueue<Quantum>,
}

impl Ports {
    /// Ports of these bandwidths, in bytes per second, that serve `quantum` bytes in a turn.
    pub(super) fn new(bandwidths: impl IntoIterator<Item = f64>, quantum: u64) -> Self {
        let port = |bandwidth: f64| Port {
            seconds_per_byte: bandwidth.recip(),
            turns: VecDeque::new(),
            is_busy: false,
        };
        let ports = bandwidths.into_iter().map(port).collect();
        let (transfers, free, own) = (Vec::new(), Vec::new(), Vec::new());
        Self { quantum, ports, transfers, free, own, served: EventQueue::new() }
    }

    /// A transfer of `bytes`, at least one, over `ports` begins at `now_s`.
    pub(super) fn begin(&mut self, ports: Vec<usize>, bytes: u64, now_s: f64) -> Id {
        assert!(bytes > 0 && !ports.is_empty(), "an empty transfer has no use for ports");
        self.launch(ports, bytes, None, now_s)
    }

    /// Something begins that puts so many bytes on each of several ports, and takes `moving_s` where none of them holds it back.
    pub(super) fn begin_spread(&mut self, demand: &[(usize, f64)], moving_s: f64, now_s: f64) -> Id {
        let seconds = |&(port, bytes): &(usize, f64)| bytes * self.ports[port].seconds_per_byte;
        let fullest = demand.iter().max_by(|a, b| seconds(a).total_cmp(&seconds(b)));
        let fullest = fullest.expect("it crosses a port").1;
        let count = (fullest / self.quantum as f64).ceil().max(1.0);
        // A port of its own is what else holds it back.
        let own = self.own.pop().unwrap_or(self.ports.len());
        if own == self.ports.len() {
            self.ports.push(Port { seconds_per_byte: 0.0, turns: VecDeque::new(), is_busy: false });
        }
        self.ports[own].seconds_per_byte = moving_s / count;
        let (mut ports, mut parts): (Vec<usize>, Vec<f64>) =
            demand.iter().map(|&(port, bytes)| (port, bytes / count)).unzip();
        ports.push(own);
        parts.push(1.0);
        let served = vec![0; ports.len()];
        let spread = Spread { parts, served, over: 0, open: VecDeque::new() };
        self.launch(ports, count as u64, Some(spread), now_s)
    }

    fn launch(&mut self, ports: Vec<usize>, bytes: u64, spread: Option<Spread>, now_s: f64) -> Id {
        let waiting = vec![VecDeque::new(); ports.len()];
        let per_port = if spread.is_some() { 0 } else { UNDER_WAY_PER_PORT * ports.len() as u32 };
        let most_under_way = UNDER_WAY.max(per_port);
        let (unsent, left, under_way) = (bytes, bytes, 0);
        let transfer = Transfer { ports, unsent, left, under_way, most_under_way, waiting, spread };
        let id = self.free.pop().unwrap_or(self.transfers.len());
        if id == self.transfers.len() {
            self.transfers.push(transfer);
        } else {
            self.transfers[id] = transfer;
        }
        for _ in 0..most_under_way {
            self.send_next(id, now_s);
        }
        id
    }

    /// When the next quantum has been served; infinite if nothing is under way.
    pub(super) fn next_s(&self) -> f64 {
        self.served.next_s()
    }

    /// Serves the next quantum. Returns the transfer if that was its last one, and the time.
    pub(super) fn serve(&mut self) -> Option<(Id, f64)> {
        let (time_s, Quantum { port, transfer: id, hop, bytes }) = self.served.pop(f64::INFINITY)?;
        self.ports[port].is_busy = false;
        let transfer = &mut self.transfers[id];
        let (count, over) = match &mut transfer.spread {
            Some(spread) => {
                let count = spread.serve(hop);
                (count, u64::from(count))
            }
            None if hop + 1 < transfer.ports.len() => {
                self.queue(id, hop + 1, bytes, time_s);
                (0, 0)
            }
            None => (1, bytes),
        };
        let transfer = &mut self.transfers[id];
        transfer.left -= over;
        transfer.under_way -= count;
        let ended = (count > 0 && transfer.left == 0).then_some((id, time_s));
        if ended.is_some() {
            self.free.push(id);
            self.own.extend(transfer.spread.as_ref().and(transfer.ports.last()));
        }
        (0..count).for_each(|_| self.send_next(id, time_s));
        self.turn(port, time_s);
        ended
    }

    /// Puts the next quantum of a transfer on its way, if there is one and its turn has come.
    fn send_next(&mut self, id: Id, now_s: f64) {
        let transfer = &mut self.transfers[id];
        let (quantum, hops) = match &mut transfer.spread {
            Some(_) => (1, 0..transfer.ports.len()),
            None => (self.quantum, 0..1),
        };
        let bytes = transfer.unsent.min(quantum);
        if bytes > 0 && transfer.under_way < transfer.most_under_way {
            transfer.unsent -= bytes;
            transfer.under_way += 1;
            if let Some(spread) = &mut transfer.spread {
                spread.open.push_back(hops.len());
            }
            hops.for_each(|hop| self.queue(id, hop, bytes, now_s));
        }
    }

    fn queue(&mut self, id: Id, hop: usize, bytes: u64, now_s: f64) {
        let transfer = &mut self.transfers[id];
        let port = transfer.ports[hop];
        transfer.waiting[hop].push_back(bytes);
        if transfer.waiting[hop].len() == 1 {
            self.ports[port].turns.push_back((id, hop));
        }
        self.turn(port, now_s);
    }

    /// Gives a port that is free to the transfer whose turn it is.
    fn turn(&mut self, port: usize, now_s: f64) {
        let index = port;
        let port = &mut self.ports[index];
        if port.is_busy {
            return;
        }
        let Some((id, hop)) = port.turns.pop_front() else { return };
        let transfer = &mut self.transfers[id];
        let waiting = &mut transfer.waiting[hop];
        let bytes = waiting.pop_front().expect("a transfer has its turn only while a quantum waits");
        if !waiting.is_empty() {
            port.turns.push_back((id, hop));
        }
        port.is_busy = true;
        let part = transfer.spread.as_ref().map_or(bytes as f64, |spread| spread.parts[hop]);
        let time_s = now_s + part * port.seconds_per_byte;
        self.served.push(time_s, Quantum { port: index, transfer: id, hop, bytes });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Ends of transfers that all begin at the given times.
    fn play(bandwidths: &[f64], transfers: &[(&[usize], u64, f64)]) -> Vec<f64> {
        let mut ports = Ports::new(bandwidths.iter().copied(), 16 * 1024);
        let mut order: Vec<usize> = (0..transfers.len()).collect();
        order.sort_by(|&a, &b| transfers[a].2.total_cmp(&transfers[b].2));
        let mut starts = order.into_iter().peekable();
        let (mut ids, mut ends) = (vec![usize::MAX; transfers.len()], vec![f64::NAN; transfers.len()]);
        loop {
            let start_s = starts.peek().map_or(f64::INFINITY, |&index| transfers[index].2);
            if start_s.is_infinite() && ports.next_s().is_infinite() {
                return ends;
            }
            if start_s <= ports.next_s() {
                let index = starts.next().expect("just seen");
                ids[index] = ports.begin(transfers[index].0.to_vec(), transfers[index].1, start_s);
            } else if let Some((id, time_s)) = ports.serve() {
                let index = ids.iter().position(|&other| other == id).expect("every transfer has begun");
                (ids[index], ends[index]) = (usize::MAX, time_s);
            }
        }
    }

    #[track_caller]
    fn assert_near(got: f64, expected: f64) {
        assert!((got / expected - 1.0).abs() < 0.02, "got {got}, expected {expected}");
    }

    const MB: u64 = 1 << 20;

    #[test]
    fn a_transfer_alone_has_the_slowest_port_of_its_route() {
        let [end] = play(&[4e9, 1e9, 2e9, 4e9], &[(&[0, 1, 2, 3], 64 * MB, 0.0)])[..] else { panic!() };
        assert_near(end, (64 * MB) as f64 / 1e9);
    }

    #[test]
    fn a_route_of_eight_ports_is_as_fast_as_its_slowest() {
        // Also when every port of it but the last two is shared with another transfer that turns off there.
        let ports: Vec<usize> = (0..8).collect();
        let [end] = play(&[1e9; 8], &[(&ports, 64 * MB, 0.0)])[..] else { panic!() };
        assert_near(end, (64 * MB) as f64 / 1e9);
        let ends = play(&[1e9; 8], &[(&ports, 32 * MB, 0.0), (&ports[..6], 32 * MB, 0.0)]);
        assert_near(ends[0], (64 * MB) as f64 / 1e9);
        assert_near(ends[1], (64 * MB) as f64 / 1e9);
    }

    #[test]
    fn transfers_share_a_port_evenly() {
        let ends = play(&[1e9], &[(&[0], 10 * MB, 0.0), (&[0], 10 * MB, 0.0), (&[0], 20 * MB, 0.0)]);
        // Thirds until the short ones have ended, then all of it.
        assert_near(ends[0], (30 * MB) as f64 / 1e9);
        assert_near(ends[1], (30 * MB) as f64 / 1e9);
        assert_near(ends[2], (40 * MB) as f64 / 1e9);
    }

    #[test]
    fn what_one_transfer_cannot_use_the_others_get() {
        // The first is held to 0.2 by its own port: the second has 0.8 of the shared one.
        let ends = play(&[0.2e9, 1e9], &[(&[0, 1], 20 * MB, 0.0), (&[1], 80 * MB, 0.0)]);
        assert_near(ends[0], (20 * MB) as f64 / 0.2e9);
        assert_near(ends[1], (80 * MB) as f64 / 0.8e9);
    }

    #[test]
    fn a_late_transfer_takes_its_share_from_then_on() {
        let half_s = (10 * MB) as f64 / 1e9;
        let ends = play(&[1e9], &[(&[0], 20 * MB, 0.0), (&[0], 10 * MB, half_s)]);
        assert_near(ends[0], (30 * MB) as f64 / 1e9);
        assert_near(ends[1], (30 * MB) as f64 / 1e9);
    }

    /// Ends of a transfer over the first port, if it has bytes, and of things that put bytes on several ports and are bound to `moving_s`.
    fn play_spread(bandwidths: &[f64], alone: u64, spread: &[(&[f64], f64)]) -> Vec<f64> {
        let mut ports = Ports::new(bandwidths.iter().copied(), 16 * 1024);
        let mut ids: Vec<Id> = Vec::new();
        if alone > 0 {
            ids.push(ports.begin(vec![0], alone, 0.0));
        }
        for (bytes, moving_s) in spread {
            let demand: Vec<(usize, f64)> = bytes.iter().copied().enumerate().collect();
            ids.push(ports.begin_spread(&demand, *moving_s, 0.0));
        }
        let mut ends = vec![f64::NAN; ids.len()];
        while ports.next_s().is_finite() {
            if let Some((id, time_s)) = ports.serve() {
                ends[ids.iter().position(|&other| other == id).unwrap()] = time_s;
            }
        }
        ends
    }

    #[test]
    fn what_crosses_many_ports_is_as_fast_as_the_fullest_and_shares_it_evenly() {
        let (bandwidths, bytes) = ([1e9, 4e9, 2e9], [64e6, 64e6, 32e6]);
        assert_near(play_spread(&bandwidths, 0, &[(&bytes, 0.01)])[0], 0.064);
        assert_near(play_spread(&bandwidths, 0, &[(&bytes, 0.1)])[0], 0.1);
        for end_s in play_spread(&bandwidths, 0, &[(&bytes, 0.01), (&bytes, 0.01)]) {
            assert_near(end_s, 0.128);
        }
        // A transfer of as many bytes has an equal share; beside one that is bound to half the port it has the other half.
        for end_s in play_spread(&bandwidths, 64_000_000, &[(&bytes, 0.01)]) {
            assert_near(end_s, 0.128);
        }
        let ends = play_spread(&bandwidths, 96_000_000, &[(&bytes, 0.128)]);
        assert_near(ends[0], 0.16);
        assert_near(ends[1], 0.128);
    }

    #[test]
    fn an_all_to_all_takes_as_long_as_its_ports_need() {
        // Eight ranks, up and down ports: seven equal chunks each.
        let routes: Vec<[usize; 2]> = (0..8)
            .flat_map(|src| (0..8).filter(move |&dst| dst != src).map(move |dst| [2 * src, 2 * dst + 1]))
            .collect();
        let transfers: Vec<(&[usize], u64, f64)> = routes.iter().map(|route| (&route[..], MB, 0.0)).collect();
        let ends = play(&[1e9; 16], &transfers);
        assert_near(ends.into_iter().fold(0.0, f64::max), (7 * MB) as f64 / 1e9);
    }
}
