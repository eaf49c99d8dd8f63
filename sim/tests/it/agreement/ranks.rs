//! A simulator for a dozen ranks: slow, obvious, and without a line in common with the real one.
//!
//! Ranks go through phases. In an exchange they choose ends of transfers, as many as a window admits, and put them on offer
//! once the exchange has been launched; a transfer starts when both of its ends are on offer, waits its latency, and moves at its max-min fair rate, which is computed
//! afresh at every event. Nothing merges ties.

use zipwire_cluster::LinkId;

use crate::oracle::rates;

#[derive(Clone, Debug)]
pub(crate) struct Transfer {
    pub(crate) src: usize,
    pub(crate) dst: usize,
    /// At least 1.
    pub(crate) bytes: u64,
    pub(crate) links: Vec<LinkId>,
    pub(crate) latency_s: f64,
    /// Neither end is on offer before.
    pub(crate) not_before_s: f64,
}

/// Occupation of a rank until the next phase.
#[derive(Clone, Debug)]
pub(crate) enum Phase {
    /// It is busy for these seconds.
    Busy(f64),
    /// It takes part in transfers, until all of them have ended.
    Exchange(Exchange),
}

/// Transfers of one rank, by number, in the order in which it puts them on offer.
#[derive(Clone, Debug)]
pub(crate) struct Exchange {
    /// Seconds until anything is announced or on offer; choices are made before.
    pub(crate) launch_s: f64,
    pub(crate) sends: Vec<usize>,
    pub(crate) receives: Vec<usize>,
    /// Sends, and receives, that are on offer or under way at a time.
    pub(crate) windows: [usize; 2],
    /// Receives are taken out of turn as their senders have launched the exchange, and sends as their receivers offer them.
    pub(crate) any_ready: bool,
}

#[derive(Clone)]
struct Progress {
    /// Since when the send, and the receive, are on offer; infinite before they are chosen.
    offered_s: [f64; 2],
    begin_s: f64,
    left: f64,
    end_s: Option<f64>,
}

const SEND: usize = 0;
const RECEIVE: usize = 1;

/// Start and end of each transfer, in seconds; `None` if ranks wait for one another for ever.
pub(crate) fn play(
    capacities: &[f64],
    transfers: &[Transfer],
    programs: &[Vec<Phase>],
) -> Option<Vec<(f64, f64)>> {
    let progress = |transfer: &Transfer| Progress {
        offered_s: [f64::INFINITY; 2],
        begin_s: f64::INFINITY,
        left: transfer.bytes as f64,
        end_s: None,
    };
    let mut state = State {
        transfers,
        programs,
        now_s: 0.0,
        phases: vec![0; programs.len()],
        entered_s: vec![0.0; programs.len()],
        progress: transfers.iter().map(progress).collect(),
    };
    loop {
        state.settle();
        let moving: Vec<usize> = (0..transfers.len()).filter(|&i| state.is_moving(i)).collect();
        let routes: Vec<&[LinkId]> = moving.iter().map(|&i| &transfers[i].links[..]).collect();
        let rates = rates(capacities, &routes);
        let ends = moving.iter().zip(&rates).map(|(&i, rate)| state.now_s + state.progress[i].left / rate);
        let ends: Vec<f64> = ends.collect();
        let next_s = ends.iter().copied().chain(state.times()).fold(f64::INFINITY, f64::min);
        if next_s.is_infinite() {
            let is_over = state.progress.iter().all(|progress| progress.end_s.is_some());
            let times =
                state.progress.iter().filter_map(|progress| Some((progress.begin_s, progress.end_s?)));
            return is_over.then(|| times.collect());
        }
        for ((&i, rate), &end_s) in moving.iter().zip(&rates).zip(&ends) {
            if end_s <= next_s {
                state.progress[i].end_s = Some(next_s);
            } else {
                state.progress[i].left -= rate * (next_s - state.now_s);
            }
        }
        state.now_s = next_s;
    }
}

struct State<'a> {
    transfers: &'a [Transfer],
    programs: &'a [Vec<Phase>],
    now_s: f64,
    /// Where each rank is in its program, and since when.
    phases: Vec<usize>,
    entered_s: Vec<f64>,
    progress: Vec<Progress>,
}

impl State<'_> {
    fn is_moving(&self, transfer: usize) -> bool {
        let progress = &self.progress[transfer];
        progress.end_s.is_none() && progress.begin_s + self.transfers[transfer].latency_s <= self.now_s
    }

    /// All that happens by itself at a time that is known: latencies and phases end, transfers may be offered.
    fn times(&self) -> Vec<f64> {
        let latencies =
            (0..self.transfers.len()).map(|i| self.progress[i].begin_s + self.transfers[i].latency_s);
        let given = self.transfers.iter().map(|transfer| transfer.not_before_s);
        let phases = (0..self.programs.len()).filter_map(|rank| match self.phase(rank)? {
            Phase::Busy(seconds) => Some(self.entered_s[rank] + seconds),
            Phase::Exchange(exchange) => Some(self.entered_s[rank] + exchange.launch_s),
        });
        latencies
            .chain(given)
            .chain(phases)
            .filter(|&time_s| time_s.is_finite() && time_s > self.now_s)
            .collect()
    }

    fn phase(&self, rank: usize) -> Option<&Phase> {
        self.programs[rank].get(self.phases[rank])
    }

    /// Everything that happens at this moment. Ranks come to their exchanges before anybody chooses, and receivers choose
    /// before senders, who follow them.
    fn settle(&mut self) {
        let ranks = 0..self.programs.len();
        for rank in ranks.clone() {
            while self.phase(rank).is_some_and(|phase| self.is_over(rank, phase)) {
                self.phases[rank] += 1;
                self.entered_s[rank] = self.now_s;
            }
        }
        for end in [RECEIVE, SEND] {
            for rank in ranks.clone() {
                let Some(Phase::Exchange(exchange)) = self.phase(rank).cloned() else { continue };
                while let Some(transfer) = self.next_choice(&exchange, end) {
                    let launched_s = self.entered_s[rank] + exchange.launch_s;
                    self.progress[transfer].offered_s[end] = launched_s.max(self.now_s);
                }
            }
        }
        for progress in self.progress.iter_mut().filter(|progress| progress.begin_s.is_infinite()) {
            if progress.offered_s.iter().all(|&offered_s| offered_s <= self.now_s) {
                progress.begin_s = self.now_s;
            }
        }
    }

    fn is_over(&self, rank: usize, phase: &Phase) -> bool {
        match phase {
            Phase::Busy(seconds) => self.entered_s[rank] + seconds <= self.now_s,
            Phase::Exchange(exchange) => {
                let mut all = exchange.sends.iter().chain(&exchange.receives);
                all.all(|&transfer| self.progress[transfer].end_s.is_some())
            }
        }
    }

    /// The transfer whose send or receive comes next, if the window has room for it and its time has come.
    fn next_choice(&self, exchange: &Exchange, end: usize) -> Option<usize> {
        let list = if end == SEND { &exchange.sends } else { &exchange.receives };
        let is_chosen = |i: usize| self.progress[i].offered_s[end].is_finite();
        let is_open = |&&i: &&usize| is_chosen(i) && self.progress[i].end_s.is_none();
        if list.iter().filter(is_open).count() >= exchange.windows[end] {
            return None;
        }
        let mut left = list.iter().copied().filter(|&i| !is_chosen(i));
        let next = match (exchange.any_ready, end) {
            (false, _) => left.next(),
            (true, SEND) => left.find(|&i| self.progress[i].offered_s[RECEIVE] <= self.now_s),
            (true, _) => left.find(|&i| self.is_announced(i)),
        };
        next.filter(|&i| self.transfers[i].not_before_s <= self.now_s)
    }

    /// Whether the sender has launched the exchange that holds the transfer.
    fn is_announced(&self, transfer: usize) -> bool {
        let src = self.transfers[transfer].src;
        match self.phase(src) {
            Some(Phase::Exchange(exchange)) => {
                exchange.sends.contains(&transfer) && self.entered_s[src] + exchange.launch_s <= self.now_s
            }
            Some(Phase::Busy(_)) | None => false,
        }
    }
}
